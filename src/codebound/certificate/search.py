"""Methods of certification: each proposes messages, all of them are assessed, the best one is kept.

What a search chose is inside the message, so looking further costs nothing but time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from codebound.certificate.build import Assessed, OnDomain, Setting, assess
from codebound.certificate.message import Message
from codebound.coding import Raw, Zero, best_tensor_code, quantize, step_for_levels
from codebound.compress.prune import IntegerNet, PrunePlan, narrowed, prune
from codebound.errors import CertificateError
from codebound.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.coding import AbstractTensorCode
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
    progress: Progress = silent
    best: Assessed | None = field(default=None, init=False)
    tried: int = field(default=0, init=False)

    def propose(self, message: Message) -> float:
        """Assesses a message; returns its bound, and remembers it if it is the best."""
        found = assess(message, self.setting)
        self.tried += 1
        if self.best is None or _rank(found) < _rank(self.best):
            self.best = found
        return found.bound.value

    @property
    def note(self) -> str:
        """The best bound so far, for a progress bar."""
        return "" if self.best is None else f"best bound {100.0 * self.best.bound.value:.2f} %"

    def message(self, chain: Chain | None, codes: dict[str, AbstractTensorCode]) -> Message:
        """A message of this setting."""
        return Message(self.setting.options, chain, codes)


def _rank(found: Assessed) -> tuple[float, float]:
    """Smaller is better; among vacuous bounds the one nearer to saying something."""
    return found.bound.value, found.facts.errors / found.facts.n + found.facts.code_bits / found.facts.n


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
    if search.best is None:
        raise CertificateError("no message could be made of this network.")
    return search.best


@method("prune")
def prune_method(search: Search) -> None:
    """Magnitude pruning and quantisation; fine-tuned on the sample unless the effort is quick."""
    is_free = not isinstance(search.setting.statement, OnDomain) and search.setting.base is None
    if search.effort == "quick" or search.subject.chain is None or not is_free:
        _quantise_as_it_is(search)
    else:
        _prune_and_train(search, search.subject.chain)


_DENSITIES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0)
_LEVELS = (3, 7, 15, 31)
_CLOSE_LEVELS = (63, 255, 1023, 4095)


def _quantise_as_it_is(search: Search) -> None:
    """Prunes and quantises the weights of f without training."""
    close = isinstance(search.setting.statement, OnDomain)
    grid = [
        (density, levels)
        for density in ((1.0,) if close else _DENSITIES)
        for levels in (_CLOSE_LEVELS if close else _LEVELS)
    ]
    for done, (density, levels) in enumerate(grid):
        search.progress(done, len(grid), search.note)
        codes = {
            name: _tensor_code(name, tensor, search, density=density, levels=levels)
            for name, tensor in search.subject.tensors.items()
        }
        search.propose(search.message(search.subject.chain, codes))
    search.progress(len(grid), len(grid), search.note)


def _tensor_code(
    name: str, tensor: Tensor, search: Search, *, density: float, levels: int
) -> AbstractTensorCode:
    """Weights at a density and a number of levels; vectors stay finer, because they are few."""
    value = tensor.detach().cpu().float().numpy()
    if search.setting.base is not None:
        value = (value - search.setting.base[1][name]).astype(np.float32)
    if not value.any():
        return Zero(value.shape)
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
    shape = setting.sample.input_shape
    return (shape[-1],) if len(shape) == 3 else ()


@dataclass(frozen=True, slots=True)
class _Budget:
    """How much training an effort spends."""

    steps: int
    levels: tuple[int, ...]
    runs: int


_BUDGETS = {
    "standard": _Budget(steps=3000, levels=(2,), runs=6),
    "max": _Budget(steps=10_000, levels=(2, 3, 1), runs=18),
}


def _prune_and_train(search: Search, chain: Chain) -> None:
    """Looks for the number of weights with the smallest bound, each candidate trained on the sample.

    The first guess grows with the sample as bounds of equal training error do; from there the number
    is doubled or halved while that helps, then refined.
    """
    budget = _BUDGETS[search.effort]
    sample = search.setting.counted.on("cpu")
    batch_size = min(256, max(32, sample.n // 28))
    epochs = max(1, math.ceil(budget.steps * batch_size / sample.n))
    finished = 0

    def attempt(keep: int, levels: int, seed: int) -> float:
        nonlocal finished
        narrow, tensors = narrowed(chain, search.subject.tensors, max(16, 2 * math.isqrt(keep)))
        plan = PrunePlan(keep=keep, levels=levels, epochs=epochs, batch_size=batch_size, seed=seed)

        def report(done: int, total: int | None, note: str = "") -> None:
            each = total or 1
            search.progress(finished * each + done, budget.runs * each, search.note or note)

        net = prune(narrow, tensors, sample, plan, report)
        finished += 1
        return search.propose(search.message(net.chain, _integer_codes(net, search)))

    size = sum(tensor.numel() for tensor in search.subject.tensors.values())
    first = min(size, max(8, round(sample.n**0.6)))
    for levels in budget.levels:
        tried: dict[int, float] = {}

        def value(keep: int, levels: int = levels, tried: dict[int, float] = tried) -> float:
            keep = min(size, max(4, keep))
            if keep not in tried:
                if finished >= budget.runs:
                    return math.inf
                tried[keep] = attempt(keep, levels, search.seed)
            return tried[keep]

        centre = first
        for factor in (2.0, math.sqrt(2.0)):
            while True:
                neighbours = [round(centre / factor), round(centre * factor)]
                best = min((centre, *neighbours), key=value)
                if best == centre:
                    break
                centre = best
        first = centre


def _integer_codes(net: IntegerNet, search: Search) -> dict[str, AbstractTensorCode]:
    strides = _strides(search.setting)
    return {
        name: best_tensor_code(weight.to(torch.int32).numpy(), step=0, strides=strides)
        for name, weight in net.weights.items()
    }
