"""Weights by how far the classes of the first rows lie apart (docs/format.md, section 7.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..refusal import Refused
from ..sample import parts
from .exact import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..sample import Inputs
    from .exact import Doubles, Integers
    from .maps import FeatureMap

TOGETHER = 1 << 21  # numbers that are made at a time
LARGEST = 8  # weight


def weights_of(number: int, features: FeatureMap, first: Inputs, labels: Integers, dimension: int) -> Doubles:
    """A weight for every number of a vector, by the number of 7.6; ``labels`` are those of the first rows."""
    step = max(1, TOGETHER // dimension)

    def numbers_of(chosen: Integers) -> Iterator[Doubles]:
        for part in parts(len(chosen), step):
            yield features.learned_from(features.prepare(first[chosen[part]]))

    return compute_weights(number, labels, numbers_of)


def compute_weights(
    number: int, labels: Integers, numbers_of: Callable[[Integers], Iterable[Doubles]]
) -> Doubles:
    """The weights, from integers of rows, some at a time; their sums and those of squares are exact.

    One class is looked at after the other, so that one sum is kept for each number, however many classes are.
    """
    total, squares, between, seen = np.zeros(1), np.zeros(1), np.zeros(1), 0
    for label in np.unique(labels):
        own, count = np.zeros(1), 0
        for some in numbers_of(np.flatnonzero(labels == label)):
            own = own + some.sum(axis=0)
            squares = squares + np.einsum("ij,ij->j", some, some)
            count += len(some)
        between = between + own * own / count
        total, seen = total + own, seen + count
    if not np.all(squares < DOUBLE):
        raise Refused("Rule: the numbers that weights are computed from are too large for exact arithmetic.")
    common = total * total / seen
    between = between - common
    within = squares - common
    ratios = np.zeros_like(total)
    np.divide(between, within, out=ratios, where=(between > 0) & (within > 0))
    if not ratios.any():
        return np.ones_like(total)
    ratios /= ratios.max()
    for _ in range(3 - number):
        ratios = np.sqrt(ratios)
    return np.asarray(np.rint(LARGEST * ratios))
