"""Weights that are computed from the labels of the first examples (docs/format-3.md, section 10.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..sample import Labels
    from .exact import Doubles

LARGEST = 8


def computed_weights(power: int, numbers: Iterable[tuple[slice, Doubles]], labels: Labels) -> Doubles:
    """A weight for every number of a vector: the larger, the further the classes lie apart in it.

    ``numbers`` are integers of some examples at a time; the sums of them and of their squares are exact.
    """
    classes = int(labels.max()) + 1
    counts, sums, squares = np.zeros(classes), np.zeros((classes, 1)), np.zeros(1)
    for part, some in numbers:
        chosen = (labels[part] == np.arange(classes)[:, None]).astype(np.float64)
        counts += chosen.sum(axis=1)
        sums = sums + chosen @ some
        squares = squares + (some * some).sum(axis=0)
    total = sums.sum(axis=0)
    common = total * total / counts.sum()
    between = np.zeros_like(total)
    for count, own in zip(counts, sums, strict=True):
        if count:
            between += own * own / count
    between -= common
    within = squares - common
    ratios = np.zeros_like(total)
    np.divide(between, within, out=ratios, where=(between > 0) & (within > 0))
    if not ratios.any():
        return np.ones_like(total)
    ratios /= ratios.max()
    for _ in range(3 - power):
        ratios = np.sqrt(ratios)
    return np.asarray(np.rint(LARGEST * ratios))
