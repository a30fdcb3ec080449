"""Weights that are computed from the labels of the first examples (docs/format-3.md, section 10.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..sample import Labels
    from .exact import Doubles, Integers

LARGEST = 8


def computed_weights(
    power: int, labels: Labels, numbers_of: Callable[[Integers], Iterable[Doubles]]
) -> Doubles:
    """A weight for every number of a vector: the larger, the further the classes lie apart in it.

    ``numbers_of`` makes integers of examples, some at a time; their sums and those of squares are exact. One
    class is looked at after the other, so that one sum is kept for each number, however many classes are.
    """
    total, squares, between, seen = np.zeros(1), np.zeros(1), np.zeros(1), 0
    for label in np.unique(labels):
        own, count = np.zeros(1), 0
        for some in numbers_of(np.flatnonzero(labels == label)):
            own = own + some.sum(axis=0)
            squares = squares + (some * some).sum(axis=0)
            count += len(some)
        between = between + own * own / count
        total, seen = total + own, seen + count
    common = total * total / seen
    between = between - common
    within = squares - common
    ratios = np.zeros_like(total)
    np.divide(between, within, out=ratios, where=(between > 0) & (within > 0))
    if not ratios.any():
        return np.ones_like(total)
    ratios /= ratios.max()
    for _ in range(3 - power):
        ratios = np.sqrt(ratios)
    return np.asarray(np.rint(LARGEST * ratios))
