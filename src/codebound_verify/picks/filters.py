"""Features that are maps of fixed filters (docs/format.md, section 10.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dictionary import UNIT, tables
from .exact import (
    Doubles,
    Singles,
    Vectors,
    centre_of,
    normalised,
    parts,
    patches_of,
    product,
    radius,
    side_by_side,
    windows,
)
from .pictures import Pictures, levels, straightened

if TYPE_CHECKING:
    from ..sample import Inputs
    from .rule import Filters

TOGETHER = 1 << 19  # numbers in the patches of pictures that are made at a time


class FilterMap:
    """Lengths of complex responses, summed over windows, less their mean over the first examples."""

    def __init__(self, choice: Filters, first: Inputs, *, divisor: float) -> None:
        self._choice, self._divisor = choice, divisor
        self._tables = [
            (table.size, (table.filters * UNIT).reshape(-1, table.size**2).astype(np.float32))
            for table in tables(choice.dictionary)
        ]
        _, _, height, width = first.shape
        pool = choice.pool
        places = [
            [range(start, start + pool) for start in range(0, side - pool + 1, pool)]
            for side in (height, width)
        ]
        self._windows = windows((height, width), (places[0], places[1]))
        self._together = max(1, TOGETHER // (height * width * max(size * size for size, _ in self._tables)))
        pictures = self.prepared(first)
        self._centre = np.zeros(1)
        made = side_by_side(lambda part: self._values(pictures[part]), parts(len(pictures), 64))
        self._centre = centre_of(made, choice.dimension(first.shape[1:]))
        self.squared_scale = float(radius(len(self._centre)) ** 2)

    def prepared(self, x: Inputs) -> Pictures:
        """Pictures of which copies can be made."""
        return levels(x, self._divisor)

    def vectors(self, pictures: Pictures) -> Vectors:
        """The vectors of pictures."""
        return normalised(self._values(pictures) - self._centre)

    def _values(self, pictures: Pictures) -> Doubles:
        if self._choice.straight:
            pictures = straightened(pictures)
        found = [self._some(pictures[part]) for part in parts(len(pictures), self._together)]
        return np.concatenate(found)

    def _some(self, pictures: Pictures) -> Doubles:
        planes = _planes(pictures)
        count, channels, height, width = planes.shape
        single = planes.reshape(-1, 1, height, width).astype(np.float32)
        maps = np.concatenate(
            [_lengths(single, *table) for table in self._tables]
        )  # (filters, planes, pixels)
        sums = product(maps.reshape(-1, height * width), self._windows)
        pooled = sums.reshape(len(maps), count, channels, -1).transpose(1, 2, 0, 3).reshape(count, -1)
        own = product(single.reshape(-1, height * width), self._windows).reshape(count, -1)
        together = np.concatenate([2 * pooled, 4 * own], axis=1).astype(np.float64)
        return np.floor(together / self._choice.pool**2)


def _planes(pictures: Pictures) -> Doubles:
    """One plane of light and two of colour, or the channels as they are."""
    whole = pictures.astype(np.float64)
    if pictures.shape[1] != 3:
        return whole
    r, g, b = whole[:, 0], whole[:, 1], whole[:, 2]
    return np.stack([np.floor((r + g + b) / 3), r - g, np.floor((r + g) / 2) - b], axis=1)


def _lengths(planes: Singles, size: int, filters: Singles) -> Singles:
    """Lengths of the responses to complex filters: (filters, planes, pixels)."""
    half = size // 2
    padded = np.pad(planes, ((0, 0), (0, 0), (half, half), (half, half)))
    responses = product(filters, patches_of(padded, size)).astype(np.float64)
    responses *= responses
    squares = responses[0::2] + responses[1::2]  # real and imaginary parts take turns
    np.sqrt(squares, out=squares)
    squares /= 1024
    return np.floor(squares, out=squares).astype(np.float32).reshape(len(squares), len(planes), -1)
