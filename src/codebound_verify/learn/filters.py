"""Features that are maps of fixed filters (docs/format.md, section 7.4)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..sample import Inputs, parts
from .dictionaries import UNIT, tables
from .exact import Doubles, Singles
from .maps import CentredMap, Pictures, straighten
from .rule import Filters

TOGETHER = 1 << 17  # responses that are made at a time: a core has them at hand


class FilterMap(CentredMap):
    """Lengths of complex responses, summed over windows, less their mean over the first pictures."""

    def __init__(self, choice: Filters, first: Inputs, *, divisor: float) -> None:
        super().__init__(divisor)
        self._choice = choice
        self._tables = [
            _spread((table.filters * UNIT).reshape(-1, table.size, table.size), choice.pool)
            for table in tables(choice.dictionary)
        ]
        self._centre_at(self.prepare(first), choice.dimension(first.shape[1:]))

    def raw(self, prepared: Pictures) -> Doubles:
        """The numbers of pictures, a channel after the other."""
        pictures = straighten(prepared) if self._choice.straight else prepared
        planes, pool = torch.from_numpy(_planes(pictures)), self._choice.pool
        count, _, *sides = planes.shape
        rows, columns = (side // pool for side in sides)
        maps = self._sum(planes.flatten(0, 1), (rows, columns)).mul_(2).reshape(count, -1)
        light = planes[:, :, : rows * pool, : columns * pool].reshape(count, -1, rows, pool, columns, pool)
        found = torch.cat([maps, light.sum(dim=(3, 5)).double().mul_(4).flatten(1)], dim=1)
        return found.div_(pool**2).floor_().numpy()

    def _sum(self, planes: Tensor, windows: tuple[int, int]) -> Tensor:
        """Lengths, summed over windows: (planes, height, width) become (planes, filters, windows)."""
        count, inside, pool = windows[0] * windows[1], self._tables[0].shape[1], self._choice.pool
        together = max(1, TOGETHER // (count * inside))
        # memory that is used again stays at hand
        responses = torch.empty(len(self._tables), together * count, inside)
        squares = torch.empty(2, len(self._tables), together * count, inside // 2, dtype=torch.float64)
        found = torch.empty(
            len(planes), len(self._tables), inside // (2 * pool**2), count, dtype=torch.float64
        )
        for part in parts(len(planes), together):
            size, own = part.stop - part.start, slice((part.stop - part.start) * count)
            for table, out in zip(self._tables, responses[:, own], strict=True):
                torch.mm(_around(planes[part], windows, pool, math.isqrt(len(table))), table, out=out)
            pairs = responses[:, own].reshape(len(responses), own.stop, 2, -1).movedim(2, 0)
            real, imaginary = squares[:, :, own].copy_(pairs).square_()
            lengths = real.add_(imaginary)
            np.sqrt(lengths.numpy(), out=lengths.numpy())  # zeros, of which there are many, slow torch down
            sums = lengths.mul_(1 / 1024).floor_().reshape(len(lengths), size, count, -1, pool**2).sum(dim=4)
            found[part] = sums.permute(1, 0, 3, 2)
        return found.flatten(1, 2)


def _spread(filters: Doubles, pool: int) -> Tensor:
    """A matrix that makes of the pixels around a window all responses inside of it.

    A row for each of the pixels around; columns are real and imaginary parts, then filters, then pixels.
    """
    size = filters.shape[1]
    side = size + pool - 1
    pairs = filters.reshape(-1, 2, size, size).transpose(2, 3, 1, 0)
    found = np.zeros((side, side, *pairs.shape[2:], pool, pool), np.float32)
    for i in range(pool):
        for j in range(pool):
            found[i : i + size, j : j + size, :, :, i, j] = pairs
    return torch.from_numpy(found.reshape(side * side, -1))


def _around(planes: Tensor, windows: tuple[int, int], pool: int, side: int) -> Tensor:
    """The pixels around each window, as rows. Zeros lie around a plane."""
    seen = (
        torch.nn.functional.pad(planes, ((side - pool) // 2,) * 4).unfold(1, side, pool).unfold(2, side, pool)
    )
    return seen[:, : windows[0], : windows[1]].reshape(-1, side * side)


def _planes(pictures: Pictures) -> Singles:
    """One plane of light and two of colour, or the channels as they are."""
    whole = pictures.astype(np.float32)
    if pictures.shape[1] != 3:
        return whole
    r, g, b = whole[:, 0], whole[:, 1], whole[:, 2]
    third = np.floor((r + g + b).astype(np.float64) / 3).astype(np.float32)
    return np.stack([third, r - g, np.floor((r + g) / 2) - b], axis=1)
