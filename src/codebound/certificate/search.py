"""Methods of certification: each proposes messages, all of them are assessed, the best one is kept.

What a search chose is inside the message, so looking further costs nothing but time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from codebound.bounds.certified import occam_binomial
from codebound.certificate.build import Assessed, OnDomain, Setting, assess, guess
from codebound.certificate.message import Message
from codebound.coding import Raw, Zero, best_tensor_code, quantize, step_for_levels
from codebound.compress import PrunePlan, narrowed, prune, rescaled, without_biases, without_dead_units
from codebound.errors import CertificateError
from codebound.nets.chain import Residual
from codebound.nets.rebuild import with_weights
from codebound.progress import Progress, silent

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.coding import AbstractTensorCode
    from codebound.data.dataset import DeviceData
    from codebound.nets.chain import Chain

Effort = Literal["quick", "standard", "max"]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """The network f to certify: a chain with its tensors, or the state of a factory's module."""

    chain: Chain | None
    tensors: dict[str, Tensor]


@dataclass(slots=True, eq=False)
class Search:
    """Keeps the best of the messages that were proposed."""

    setting: Setting
    subject: Subject
    effort: Effort
    seed: int = 0
    device: str | torch.device = "cpu"
    progress: Progress = silent
    best: Assessed | None = field(default=None, init=False)
    tried: int = field(default=0, init=False)
    is_interrupted: bool = field(default=False, init=False)

    def propose(self, message: Message) -> float:
        """Assesses a message; returns the bound it is judged by, and remembers it if it is the best."""
        found = assess(message, self.setting)
        self.tried += 1
        if self.best is None or _rank(found) < _rank(self.best):
            self.best = found
        return _rank(found)[0]

    @property
    def note(self) -> str:
        """The best bound so far, for a progress bar."""
        return "" if self.best is None else f"best bound {100.0 * self.best.bound.value:.2f} %"


def _rank(found: Assessed) -> tuple[float, float]:
    """Smaller is better; among vacuous bounds the one nearer to saying something.

    For C-12b it is the bound of g alone: a choice that looked at the unlabelled inputs would have to be paid.
    """
    facts = found.facts
    return occam_binomial(facts).value, (facts.errors + facts.code_bits) / facts.n


Method = Callable[[Search], None]
METHODS: dict[str, Method] = {}


def method(name: str) -> Callable[[Method], Method]:
    """Registers a method of ``certify``; ``auto`` runs all of them."""

    def register(function: Method) -> Method:
        METHODS[name] = function
        return function

    return register


def run(search: Search, name: str) -> Assessed:
    """Runs a method, or all of them for ``auto``; an interrupted search keeps its best message."""
    try:
        for each in METHODS.values() if name == "auto" else (METHODS[name],):
            each(search)
    except KeyboardInterrupt:
        if search.best is None:
            raise
        search.is_interrupted = True
    if search.best is None:
        raise CertificateError("no message could be made of this network.")
    return search.best


@method("prune")
def prune_method(search: Search) -> None:
    """Pruning and quantisation; trained on the sample, unless the effort is quick or g must stay near f."""
    if search.effort == "quick" or isinstance(search.setting.statement, OnDomain) or search.setting.base:
        _quantise_as_it_is(search)
    else:
        _prune_and_train(search)


_DENSITIES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0)
_LEVELS = (3, 7, 15, 31)
_CLOSE_LEVELS = (63, 255, 1023, 4095)
_FINALISTS = 2


def _quantise_as_it_is(search: Search) -> None:
    """Prunes and quantises the weights of f without training; a part of the sample picks the finalists."""
    is_close = isinstance(search.setting.statement, OnDomain)
    densities, counts = ((1.0,), _CLOSE_LEVELS) if is_close else (_DENSITIES, _LEVELS)
    grid = [(density, levels) for density in densities for levels in counts]
    guesses: list[tuple[float, int, Message]] = []
    for done, (density, levels) in enumerate(grid):
        search.progress(done, len(grid) + _FINALISTS, search.note)
        codes = {
            name: _tensor_code(name, tensor, search, density=density, levels=levels)
            for name, tensor in search.subject.tensors.items()
        }
        message = Message(search.setting.options, search.subject.chain, codes)
        guesses.append((guess(message, search.setting), len(guesses), message))
    for done, (_, _, message) in enumerate(sorted(guesses)[:_FINALISTS], start=len(grid)):
        search.progress(done, len(grid) + _FINALISTS, search.note)
        search.propose(message)


def _tensor_code(
    name: str, tensor: Tensor, search: Search, *, density: float, levels: int
) -> AbstractTensorCode:
    """Weights at a density and a number of levels; vectors stay finer, because they are few."""
    value = tensor.detach().cpu().float().numpy()
    if search.setting.base is not None:
        value = (value - search.setting.base[1][name]).astype(np.float32)
    if value.ndim < 2:
        if search.subject.chain is None:
            return Raw(value)
        density, levels = 1.0, max(levels, 31)
    kept = _largest(value, density)
    if not kept.any():
        return Zero(value.shape)
    step = step_for_levels(kept, levels)
    return best_tensor_code(quantize(kept, step), step=step, strides=_strides(search.setting))


def _largest(value: NDArray[np.float32], density: float) -> NDArray[np.float32]:
    """The largest entries by magnitude; zero elsewhere."""
    keep = round(density * value.size)
    if keep >= value.size:
        return value
    if keep == 0:
        return np.zeros_like(value)
    threshold = np.partition(np.abs(value), value.size - keep, axis=None)[value.size - keep]
    return np.where(np.abs(value) >= threshold, value, np.float32(0.0))


def _strides(setting: Setting) -> tuple[int, ...]:
    """Distances at which inputs are alike: the width of an image."""
    shape = setting.sample.input_shape
    return (shape[-1],) if len(shape) == 3 else ()


@dataclass(frozen=True, slots=True)
class _Budget:
    """How much training an effort spends: runs, steps of each, and the pairs of rate and levels to try."""

    steps: int
    runs: int
    styles: tuple[tuple[float, int], ...]


_SHORT = _Budget(steps=3000, runs=7, styles=((3e-3, 2), (1e-2, 2), (1e-2, 3)))
_LONG = _Budget(
    steps=10_000, runs=20, styles=((3e-3, 1), (3e-3, 2), (3e-3, 3), (1e-2, 2), (1e-2, 3), (2e-2, 3))
)
_BUDGETS = {"standard": (_SHORT,), "max": (_SHORT, _LONG)}


def _prune_and_train(search: Search) -> None:
    """Looks for the number of weights with the smallest bound, each candidate trained on the sample.

    The first guess grows with the sample as bounds of equal training error do. There the learning rate and
    the levels are chosen; then the number is halved or doubled while that helps, and refined by a factor of
    the square root of two.
    """
    sample = search.setting.counted.on(search.device)
    keep = max(8, round(sample.n**0.6))
    for budget in _BUDGETS[search.effort]:
        keep = _spend(search, sample, budget, keep)


def _spend(search: Search, sample: DeviceData, budget: _Budget, keep: int) -> int:
    """Spends a budget around a number of weights; returns the best number found."""
    batch_size = min(256, max(32, sample.n // 28))
    epochs = max(1, math.ceil(budget.steps * batch_size / sample.n))
    size = sum(tensor.numel() for tensor in search.subject.tensors.values() if tensor.dim() > 1)
    bounds: dict[PrunePlan, float] = {}

    def report(done: int, total: int | None, note: str = "") -> None:
        each = total or 1
        search.progress(len(bounds) * each + done, budget.runs * each, search.note or note)

    def bound_of(plan: PrunePlan) -> float:
        if plan not in bounds and len(bounds) < budget.runs and 1 <= plan.keep <= size:
            bounds[plan] = search.propose(_pruned_message(search, sample, plan, report))
        return bounds.get(plan, math.inf)

    keep = min(size, keep)
    centre = min(
        (
            PrunePlan(
                keep=keep,
                levels=levels,
                learning_rate=rate,
                epochs=epochs,
                batch_size=batch_size,
                seed=search.seed,
            )
            for rate, levels in budget.styles
        ),
        key=bound_of,
    )
    for factor in (2.0, math.sqrt(2.0)):
        best = None
        while best != centre:
            centre = best or centre
            sizes = (centre.keep, round(centre.keep / factor), round(centre.keep * factor))
            best = min((replace(centre, keep=size) for size in sizes), key=bound_of)
    return centre.keep


def _pruned_message(search: Search, sample: DeviceData, plan: PrunePlan, progress: Progress) -> Message:
    subject, options, strides = search.subject, search.setting.options, _strides(search.setting)
    if subject.chain is None:
        module = search.setting.module
        assert module is not None  # a subject is a chain or the state of a module
        names = [name for name, tensor in subject.tensors.items() if tensor.dim() > 1]
        pruned = prune(with_weights(module, module.state_dict()), names, sample, plan, progress)
        codes: dict[str, AbstractTensorCode] = {
            name: best_tensor_code(pruned[name].integers.numpy(), step=pruned[name].step)
            if name in pruned
            else Raw(tensor.cpu().float().numpy())
            for name, tensor in subject.tensors.items()
        }
        return Message(options, None, codes)
    narrow, tensors = narrowed(subject.chain, subject.tensors, max(16, 2 * math.isqrt(plan.keep)))
    chain = without_biases(narrow)
    # without biases a ReLU chain classifies alike at every scale of its layers, unless branches are added
    is_scale_free = not any(isinstance(operation, Residual) for operation in chain.operations)
    weights = {
        name: rescaled(tensors[name]) if is_scale_free else tensors[name].clone()
        for name in chain.tensor_shapes()
    }
    found = prune(chain.build(weights), list(weights), sample, plan, progress)
    steps = {name: 0 if is_scale_free else each.step for name, each in found.items()}
    chain, integers = without_dead_units(chain, {name: each.integers for name, each in found.items()})
    return Message(
        options,
        chain,
        {
            name: best_tensor_code(value.numpy(), step=steps[name], strides=strides)
            for name, value in integers.items()
        },
    )
