"""Pruning with quantisation: trained on the sample, or f as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from codebound.methods.guesses import consider
from codebound_networks.chains.message import Message
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.quantization import quantize, step_for_levels
from codebound_networks.codes.tensors import Zero
from codebound_networks.methods.hidden_units import narrowed, rescaled, without_biases, without_dead_units
from codebound_networks.train.pruning import PruneSettings, prune

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from codebound.methods.search import Search
    from codebound.request import Task
    from codebound.run.progress import Progress
    from codebound_networks.codes.tensors import AbstractTensorCode

VECTOR_LEVELS = 31
SMALLEST_SHARE = 4
"""A search from one message may end at one of so many times fewer bits, with no fewer errors."""


def propose_pruned(search: Search) -> None:
    """Pruning and quantisation. It trains on the sample, unless the effort is quick or g must stay near f."""
    if search.effort == "quick" or search.task.stays_near_f or search.task.base:
        _quantise_as_it_is(search)
    else:
        _prune_and_train(search)


_DENSITIES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0)
_LEVELS = (3, 7, 15, 31)
_CLOSE_LEVELS = (63, 255, 1023, 4095)


def _quantise_as_it_is(search: Search) -> None:
    """Prunes and quantises the weights of f without training. A part of the sample picks the finalists."""
    densities, counts = ((1.0,), _CLOSE_LEVELS) if search.task.stays_near_f else (_DENSITIES, _LEVELS)
    makers = [partial(_quantise, search, density, levels) for density in densities for levels in counts]
    consider(search, makers)


def _quantise(search: Search, density: float, levels: int) -> Message:
    task = search.task
    codes = {name: quantise_tensor(name, task, density=density, levels=levels) for name in task.coded}
    return Message(task.options, task.chain, codes)


@dataclass(frozen=True, slots=True)
class PruneBudget:
    """Training that an effort spends: runs, steps, and pairs of rate and levels."""

    steps: int
    runs: int
    styles: tuple[tuple[float, int], ...]


SHORT = PruneBudget(steps=3000, runs=7, styles=((3e-3, 2), (1e-2, 2), (1e-2, 3)))
_LONG = PruneBudget(
    steps=10_000, runs=20, styles=((3e-3, 1), (3e-3, 2), (3e-3, 3), (1e-2, 2), (1e-2, 3), (2e-2, 3))
)
_BUDGETS = {"standard": (SHORT,), "max": (SHORT, _LONG)}


def _prune_and_train(search: Search) -> None:
    """Looks for the number of weights with the smallest bound, each candidate trained on the sample.

    The first guess grows with the sample as bounds of equal training error do. There the learning rate and
    the levels are chosen; then the number is halved or doubled while that helps, and refined by a factor of
    the square root of two.
    """
    n = search.sample.n
    size = sum(tensor.numel() for tensor in search.task.f.tensors.values() if tensor.dim() > 1)

    tried = search.tried

    def bound_of(plan: PruneSettings, report: Progress) -> float:
        is_first = search.tried == tried
        found = search.propose(_train_pruned(search, plan, report))
        if found is None:  # the bits do not say what they were made for
            return math.inf
        if is_first:
            search.require_promise(errors=found.tally.errors, code_bits=found.bits.length / SMALLEST_SHARE)
        return found.value

    keep = max(8, round(n**0.6))
    search.require_promise(code_bits=keep)  # an eighth of the weights, eight bits each
    for budget in _BUDGETS[search.effort]:
        keep = best_plan(search, bound_of, budget, size=size, keep=keep, n=n).keep


def best_plan(
    search: Search,
    bound_of: Callable[[PruneSettings, Progress], float],
    budget: PruneBudget,
    *,
    size: int,
    keep: int,
    n: int,
) -> PruneSettings:
    """The plan with the smallest bound that a budget finds, from ``keep`` of ``size`` weights on.

    ``bound_of`` trains by a plan and returns its bound.
    """
    batch_size = min(256, max(32, n // 28))
    epochs = max(1, math.ceil(budget.steps * batch_size / n))
    bounds: dict[PruneSettings, float] = {}

    def report(done: int, total: int | None, note: str = "") -> None:
        each = total or 1
        search.progress(len(bounds) * each + done, budget.runs * each, search.note or note)

    def bound(plan: PruneSettings) -> float:
        if plan not in bounds and len(bounds) < budget.runs and 1 <= plan.keep <= size:
            bounds[plan] = bound_of(plan, report)
        return bounds.get(plan, math.inf)

    centre = min(
        (
            PruneSettings(
                keep=min(size, keep),
                levels=levels,
                learning_rate=rate,
                epochs=epochs,
                batch_size=batch_size,
                seed=search.seed,
            )
            for rate, levels in budget.styles
        ),
        key=bound,
    )
    for factor in (2.0, math.sqrt(2.0)):
        best = None
        while best != centre:
            centre = best or centre
            sizes = (centre.keep, round(centre.keep / factor), round(centre.keep * factor))
            best = min((replace(centre, keep=size) for size in sizes), key=bound)
    return centre


def _train_pruned(search: Search, plan: PruneSettings, progress: Progress) -> Message:
    task = search.task
    narrow, tensors = narrowed(task.chain, task.f.tensors, max(16, 2 * math.isqrt(plan.keep)))
    chain = without_biases(narrow)
    # without biases a ReLU chain classifies alike at every scale of its layers, unless branches are added
    is_scale_free = all(operation.is_scale_free for operation in chain.operations)
    weights = {
        name: rescaled(tensors[name]) if is_scale_free else tensors[name].clone()
        for name in chain.tensor_shapes()
    }
    found = prune(chain.build(weights), list(weights), search.sample, plan, progress)
    steps = {name: 0 if is_scale_free else each.step for name, each in found.items()}
    chain, integers = without_dead_units(chain, {name: each.integers for name, each in found.items()})
    near = image_strides(task)
    return Message(
        task.options,
        chain,
        {
            name: best_tensor_code(value.numpy(), step=steps[name], strides=near)
            for name, value in integers.items()
        },
    )


def quantise_tensor(name: str, task: Task, *, density: float = 1.0, levels: int) -> AbstractTensorCode:
    """A tensor of f, or its difference to the base, at a density and a number of levels.

    Vectors stay dense and finer, because they are few.
    """
    value, strides = task.coded[name], image_strides(task)
    if value.ndim < 2:
        density, levels = 1.0, max(levels, VECTOR_LEVELS)
    kept = _largest(value, density)
    if not kept.any():
        return Zero(value.shape)
    step = step_for_levels(kept, levels)
    return best_tensor_code(quantize(kept, step), step=step, strides=strides)


def _largest(value: NDArray[np.float32], density: float) -> NDArray[np.float32]:
    """The largest entries by magnitude; zero elsewhere."""
    keep = round(density * value.size)
    if keep >= value.size:
        return value
    if keep == 0:
        return np.zeros_like(value)
    threshold = np.partition(np.abs(value), value.size - keep, axis=None)[value.size - keep]
    return np.where(np.abs(value) >= threshold, value, np.float32(0.0))


def image_strides(task: Task) -> tuple[int, ...]:
    """Distances at which inputs are alike: the width of an image."""
    shape = task.sample.input_shape
    return (shape[-1],) if len(shape) == 3 else ()
