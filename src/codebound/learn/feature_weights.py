"""A layer of weights in front of the kernel: how much numbers count (docs/format-3.md, 10.1 and 10.4)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import torch

from codebound.bits.numbers import SymbolContext, bit, uniform
from codebound.learn.features import MAX_SIZE, AbstractFeatures, FeatureMap, FilterFeatures, chunks
from codebound.run.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from codebound.bits.arithmetic import AbstractCoder

_CHUNK = 32  # pictures at a time
WEIGHTS = (0, 1, 2, 4)
USUAL = 2
"""The symbol of the weight to start from: half of the largest."""


@dataclass(frozen=True, slots=True)
class LayerFeatures:
    """Features of another kind, weighted: each group as the message says, or each number by the first labels.

    Attributes:
        below: The features.
        symbols: Which of the weights each group has, where they are coded.
        by_window: Whether filters are grouped by windows, not by channels.
        strength: 0 for coded weights; 1 to 3, the larger the more extreme, for those that are computed from
            how far the classes of the first examples lie apart.
    """

    kind: ClassVar[int] = 3
    below: AbstractFeatures
    symbols: tuple[int, ...]
    by_window: bool = False
    strength: int = 0

    @property
    def plain(self) -> AbstractFeatures:
        """The features below."""
        return self.below

    @property
    def has_pictures(self) -> bool:
        """Return True if the features below are of pictures."""
        return self.below.has_pictures

    @classmethod
    def code_above(
        cls, coder: AbstractCoder, below: AbstractFeatures, given: AnyFeatures, shape: tuple[int, ...]
    ) -> LayerFeatures:
        """Codes what stands above these features, or returns what is read."""
        own = given if isinstance(given, LayerFeatures) else cls(below, ())
        by_window, symbols, strength = own.by_window, own.symbols, uniform(coder, own.strength, 4)
        if strength:
            group_count(below, shape, by_window=False)
            return cls(below, (), strength=strength)
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

    def fit_map(
        self, first: Tensor, divisor: float, *, is_mirrored: bool, labels: Tensor | None = None
    ) -> FeatureMap:
        """The weighted feature map, from the first examples as they are stored, and their labels."""
        shape = tuple(first.shape[1:])
        count = group_count(self.below, shape, by_window=self.by_window)
        if not self.strength and count != len(self.symbols):
            raise ModelError(f"a layer of {len(self.symbols)} weights does not fit inputs of shape {shape}.")
        pictures = self.below.read(first, divisor)
        tensors = self.below.fit(pictures, is_mirrored=is_mirrored)
        if not self.strength:
            values = torch.tensor([WEIGHTS[each] for each in self.symbols], dtype=torch.float64)
            tensors["weights"] = values[self.below.groups(shape, by_window=self.by_window)].to(first.device)
        elif labels is None or len(labels) != len(first):
            raise ModelError("computed weights need the labels of the first examples.")
        else:
            tensors |= {"weights": self._compute(pictures, tensors, labels, is_mirrored), "labels": labels}
        return self.below.map_with(tensors, first, divisor)

    def _compute(
        self, first: Tensor, tensors: Mapping[str, Tensor], labels: Tensor, is_mirrored: bool
    ) -> Tensor:
        """Weights by the share of the spread of each number that lies between the classes of its label."""
        total = squares = between = torch.zeros(1, dtype=torch.float64, device=first.device)
        for label in sorted(set(labels.tolist())):
            chosen, own = first[labels == label], torch.zeros_like(total)
            chosen = torch.cat([chosen, chosen.flip(-1)]) if is_mirrored else chosen
            for part in chunks(chosen, _CHUNK):
                numbers = self.below.numbers(part, tensors)
                own, squares = own + numbers.sum(0), squares + numbers.square().sum(0)
            total, between = total + own, between + own * own / len(chosen)
        apart = total * total / (len(first) * (2 if is_mirrored else 1))
        between, spread = between - apart, squares - apart
        shares = torch.where((between > 0.0) & (spread > 0.0), between / spread, 0.0)
        if not bool(shares.any()):
            return torch.ones_like(shares)
        shares = shares / shares.max()
        for _ in range(3 - self.strength):
            shares = shares.sqrt()
        return (8.0 * shares).round()


AnyFeatures = AbstractFeatures | LayerFeatures
"""Features of a rule."""


def group_count(features: AbstractFeatures, shape: tuple[int, ...], *, by_window: bool) -> int:
    """Count the weights of a layer above these features. Refuses features that do not fit the inputs."""
    features.check(shape)
    groups = features.groups(shape, by_window=by_window)
    if len(groups) > MAX_SIZE:
        raise ModelError(f"a vector of features has at most {MAX_SIZE} numbers. Got {len(groups)}.")
    return int(groups.max()) + 1


def _cost(symbols: Sequence[int], *, is_near: bool) -> float:
    """Nats of the symbols in one context, or in that of the symbol before."""
    if not is_near:
        return _nats(symbols)
    after: dict[int, list[int]] = {}
    for last, symbol in pairwise((USUAL, *symbols)):
        after.setdefault(last, []).append(symbol)
    return sum(_nats(after[context]) for context in sorted(after))


def _nats(symbols: Sequence[int]) -> float:
    """Length of an adaptive code: it depends on how often each symbol occurs, not on their order."""
    size, total = len(WEIGHTS), len(symbols)
    whole = math.lgamma(total + size / 2.0) - math.lgamma(size / 2.0)
    own = sum(math.lgamma(n + 0.5) - math.lgamma(0.5) for n in Counter(symbols).values())
    return whole - own
