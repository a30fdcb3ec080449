"""A coded layer in front of the kernel: how much each group of features counts (docs/format-3.md, 10.1)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from codebound.coding.numbers import SymbolContext, bit
from codebound.errors import ModelError
from codebound.picks.features import MAX_SIZE, AbstractFeatures, FilterFeatures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

    from codebound.coding.arithmetic import AbstractCoder

WEIGHTS = (0, 1, 2, 4)
USUAL = 2
"""The symbol of the weight to start from: half of the largest."""


@dataclass(frozen=True, slots=True)
class LayerFeatures(AbstractFeatures):
    """Features of another kind, each group of them with a weight that the message codes.

    Attributes:
        below: The features.
        symbols: Which of the weights each group has.
        by_window: Whether filters are grouped by windows, not by channels.
    """

    kind: ClassVar[int] = 3
    below: AbstractFeatures
    symbols: tuple[int, ...]
    by_window: bool = False

    @property
    def plain(self) -> AbstractFeatures:  # noqa: D102
        return self.below

    @classmethod
    def code(cls, coder: AbstractCoder, value: AbstractFeatures) -> AbstractFeatures:  # noqa: D102
        raise NotImplementedError("a layer is coded above features, for inputs of a shape.")

    @classmethod
    def code_above(
        cls, coder: AbstractCoder, below: AbstractFeatures, given: AbstractFeatures, shape: tuple[int, ...]
    ) -> LayerFeatures:
        """Codes what stands above these features, or returns what is read."""
        by_window, symbols = (
            (given.by_window, given.symbols) if isinstance(given, LayerFeatures) else (False, ())
        )
        if isinstance(below, FilterFeatures):
            by_window = bool(bit(coder, int(by_window)))
        count = group_count(below, shape, by_window=by_window)
        coder.require(len(symbols) in (0, count), f"a layer of {count} weights is given {len(symbols)}.")
        is_near = bit(coder, int(_cost(symbols, is_near=True) < _cost(symbols, is_near=False)))
        contexts, last, found = [SymbolContext(len(WEIGHTS)) for _ in WEIGHTS], USUAL, []
        for at in range(count):
            last = contexts[last if is_near else 0].code(coder, symbols[at] if at < len(symbols) else 0)
            found.append(last)
        coder.require(any(found), "the weights of a layer are all 0.")
        return cls(below, tuple(found), by_window)

    def check(self, shape: tuple[int, ...]) -> None:  # noqa: D102
        if group_count(self.below, shape, by_window=self.by_window) != len(self.symbols):
            raise ModelError(f"a layer of {len(self.symbols)} weights does not fit inputs of shape {shape}.")

    def groups(self, shape: tuple[int, ...], *, by_window: bool) -> Tensor:  # noqa: D102
        return self.below.groups(shape, by_window=by_window)

    def read(self, x: Tensor, divisor: float) -> Tensor:  # noqa: D102
        return self.below.read(x, divisor)

    def fit(self, first: Tensor, *, is_mirrored: bool) -> dict[str, Tensor]:  # noqa: D102
        groups = self.below.groups(tuple(first.shape[1:]), by_window=self.by_window)
        values = torch.tensor([WEIGHTS[each] for each in self.symbols], dtype=torch.float64)
        return {
            **self.below.fit(first, is_mirrored=is_mirrored),
            "weights": values[groups].to(first.device),
        }

    def vectors(self, x: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        return self.below.vectors(x, tensors)

    def halves(self, vectors: Tensor) -> tuple[Tensor, Tensor]:  # noqa: D102
        return self.below.halves(vectors)

    def unit(self, size: int, tensors: Mapping[str, Tensor]) -> float:  # noqa: D102
        return self.below.unit(size, tensors)


def group_count(features: AbstractFeatures, shape: tuple[int, ...], *, by_window: bool) -> int:
    """How many weights a layer above these features has; refuses features that do not fit the inputs."""
    features.check(shape)
    groups = features.groups(shape, by_window=by_window)
    if len(groups) > MAX_SIZE:
        raise ModelError(f"a vector of features has at most {MAX_SIZE} numbers. Got {len(groups)}.")
    return int(groups.max()) + 1


def _cost(symbols: Sequence[int], *, is_near: bool) -> float:
    """Nats of the symbols in one context, or in that of the symbol before."""
    return sum(map(_nats, _sequences(symbols))) if is_near else _nats(symbols)


def _sequences(symbols: Sequence[int]) -> Iterator[list[int]]:
    before = (USUAL, *symbols)
    for context in range(len(WEIGHTS)):
        yield [symbol for last, symbol in zip(before, symbols, strict=False) if last == context]


def _nats(symbols: Sequence[int]) -> float:
    """Length of an adaptive code: it depends on how often each symbol occurs, not on their order."""
    size, total = len(WEIGHTS), len(symbols)
    whole = math.lgamma(total + size / 2.0) - math.lgamma(size / 2.0)
    own = sum(math.lgamma(n + 0.5) - math.lgamma(0.5) for n in Counter(symbols).values())
    return whole - own
