"""Features that are maps of fixed filters (docs/format.md, section 10.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..dictionary import UNIT, tables
from .exact import Doubles, Vectors, centre_of, normalised, parts, radius, side_by_side
from .pictures import Pictures, levels, straightened

if TYPE_CHECKING:
    from ..sample import Inputs
    from .rule import Filters

TOGETHER = 1 << 17  # numbers in the responses of pictures that are made at a time


class FilterMap:
    """Lengths of complex responses, summed over windows, less their mean over the first examples."""

    def __init__(self, choice: Filters, first: Inputs, *, divisor: float) -> None:
        self._choice, self._divisor = choice, divisor
        self._weights: Doubles | None = None
        self._tables = [
            torch.from_numpy((table.filters * UNIT).reshape(-1, table.size, table.size).astype(np.float32))
            for table in tables(choice.dictionary)
        ]
        _, _, height, width = first.shape
        self._together = max(1, TOGETHER // (height * width * len(self._tables[0])))
        pictures = self.prepared(first)
        self._centre = np.zeros(1)
        made = side_by_side(lambda part: self._values(pictures[part]), parts(len(pictures), 64))
        self._centre = centre_of(made, choice.dimension(first.shape[1:]))
        self.known = {"centre": self._centre}
        self.squared_scale = float(radius(len(self._centre)) ** 2)

    def prepared(self, x: Inputs) -> Pictures:
        """Pictures of which copies can be made."""
        return levels(x, self._divisor)

    def weigh(self, weights: Doubles) -> None:
        """Give every number a weight."""
        self._weights = weights

    def numbers(self, pictures: Pictures) -> Doubles:
        """What weights are computed from: integers."""
        return np.asarray(self._values(pictures) - self._centre)

    def vectors(self, pictures: Pictures) -> Vectors:
        """The vectors of pictures."""
        return normalised(self.numbers(pictures), self._weights)

    def _values(self, pictures: Pictures) -> Doubles:
        if self._choice.straight:
            pictures = straightened(pictures)
        found = [self._some(pictures[part]) for part in parts(len(pictures), self._together)]
        return np.concatenate(found)

    def _some(self, pictures: Pictures) -> Doubles:
        planes = _planes(pictures)
        count, _, height, width = planes.shape
        own = torch.from_numpy(planes.reshape(-1, height, width).astype(np.float32)).transpose(0, 1)
        maps = [self._pooled(_lengths(own, table)) for table in self._tables]
        seen = torch.cat(maps, dim=1).reshape(count, -1), self._pooled(own[None]).reshape(count, -1)
        together = torch.cat([2 * seen[0], 4 * seen[1]], dim=1).double()
        return np.floor(together.numpy() / self._choice.pool**2)

    def _pooled(self, maps: Tensor) -> Tensor:
        """Sums over windows: (filters, rows, planes, columns) become (planes, filters, windows)."""
        pool = self._choice.pool
        count, height, planes, width = maps.shape
        rows = height // pool
        strips = maps[:, : rows * pool].reshape(count, rows, pool, planes * width).sum(dim=2)
        summing = torch.zeros(width, width // pool)
        for i in range(width // pool):
            summing[i * pool : (i + 1) * pool, i] = 1
        found = strips.reshape(-1, width) @ summing
        return found.reshape(count, rows, planes, -1).permute(2, 0, 1, 3).reshape(planes, count, -1)


def _planes(pictures: Pictures) -> Doubles:
    """One plane of light and two of colour, or the channels as they are."""
    whole = pictures.astype(np.float64)
    if pictures.shape[1] != 3:
        return whole
    r, g, b = whole[:, 0], whole[:, 1], whole[:, 2]
    return np.stack([np.floor((r + g + b) / 3), r - g, np.floor((r + g) / 2) - b], axis=1)


def _lengths(planes: Tensor, filters: Tensor) -> Tensor:
    """Lengths of the responses to complex filters; planes and maps are (.., rows, planes, columns)."""
    responses = _correlated(planes, filters).double()
    squares = responses.square_()[0::2] + responses[1::2]  # real and imaginary parts take turns
    return squares.sqrt_().div_(1024).floor_().float()


def _correlated(planes: Tensor, filters: Tensor) -> Tensor:
    """Responses of planes with zeros around them: for every row of a filter, one product of matrices."""
    height, count, width = planes.shape
    size = filters.shape[1]
    half = size // 2
    padded = torch.zeros(height + size - 1, count, width + size - 1)
    padded[half : half + height, :, half : half + width] = planes
    shifted = torch.stack([padded[:, :, j : j + width] for j in range(size)]).reshape(size, -1)
    line = count * width
    found = torch.zeros(len(filters), height * line)
    for i in range(size):
        found.addmm_(filters[:, i], shifted[:, i * line : (i + height) * line])
    return found.reshape(-1, height, count, width)
