"""Dictionaries: literal filters and the features that they make (docs/format.md, section 5.5)."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from .images import in_parts, normalised
from .refusal import Refused
from .rounding import Layer, Rounded, Whole, exact, filter_layer, gamma, local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from .tensors import Doubles

FILE = Path(__file__).with_name("dictionaries.json")
SHA256 = "1a3375e1242968b4599e4f84121724a3e2b93b5a0a5914d00679b4dfaacf28ea"
BYTE = 255
EXACT = 1 << 24  # integers below it are exact in float32
SLICES = 4  # the largest window whose means are sums of slices
UNIT = 4096  # the integers of the file are multiples of 1/4096


@dataclass(frozen=True, eq=False)
class Table:
    """Complex filters of one size: ``filters[f]`` is the real and the imaginary part of filter f."""

    size: int
    filters: Doubles  # (filters, 2, size, size)


def tables(number: int) -> tuple[Table, ...]:
    """The tables of a dictionary, in their order; none if there is no dictionary of that number.

    Example:
        >>> [(table.size, table.filters.shape[0]) for table in tables(3)]
        [(7, 8), (13, 8)]
        >>> tables(2)
        ()
    """
    return _read().get(number, ())


@lru_cache(maxsize=1)
def _read() -> dict[int, tuple[Table, ...]]:
    """All dictionaries; their file is part of this program, and must be the one that the page names."""
    data = FILE.read_bytes()
    if (found := hashlib.sha256(data).hexdigest()) != SHA256:
        raise Refused(
            f"Dictionary: {FILE} has SHA-256 {found} instead of {SHA256}. "
            "This program is damaged: install it again."
        )
    return {
        int(number): tuple(
            Table(size, np.array(entry["filters"], np.float64).reshape(-1, 2, size, size) / UNIT)
            for entry in entries
            for size in [entry["size"]]
        )
        for number, entries in json.loads(data).items()
    }


def features(dictionary: int, pool: int, x: Rounded) -> Rounded:
    """The fixed features of images (5.5)."""
    dtype = x.values.dtype
    if x.whole is not None and _fits(dictionary, pool, x.whole):
        values = _whole_features(dictionary, pool, x.whole, dtype)
        found = exact(values.contiguous(memory_format=torch.channels_last))
        return normalised(replace(found, error=local(found.lengths(), gamma(pool**2 + 12, dtype), dtype)))
    if x.values.shape[1] == 3:
        error = math.sqrt(2) * x.error + local(x.lengths(), 2 * gamma(4, dtype), dtype)
        x = Rounded(torch.stack(_opponent(x.values), 1), error)
    error = torch.zeros_like(x.error)
    for table in tables(dictionary):
        # The roundings of moduli and means are no more than those of so many more products.
        layer = _layer(table, x.values.shape[2:])
        error = torch.hypot(error, 2 * layer.error(x, terms=table.size**2 + pool**2 + 8))
    error = torch.hypot(error, x.error + local(x.lengths(), gamma(pool**2 + 1, dtype), dtype)) / pool
    banks = [(bank / UNIT).to(dtype) for bank in _banks(dictionary)]
    maps = [_maps(banks, pool, plane, dtype) for plane in torch.split(x.values, 1, 1)]
    values = torch.cat([*(2 * each for each in maps), _means(x.values, pool)], 1)
    return normalised(Rounded(values.contiguous(memory_format=torch.channels_last), error))


@lru_cache(maxsize=16)
def _banks(dictionary: int) -> tuple[Tensor, ...]:
    """The integers of the filters of each size: real parts, then imaginary parts."""
    tensors = (torch.from_numpy(table.filters * UNIT) for table in tables(dictionary))
    return tuple(torch.cat([filters[:, 0], filters[:, 1]])[:, None] for filters in tensors)


def _fits(dictionary: int, pool: int, whole: Whole) -> bool:
    """Whether float32 holds all sums of integers exactly."""
    reach = max(abs(value) for plane in _planes(whole.values.shape[1]) for value in plane.reach)
    heaviest = max(float(bank.abs().sum((1, 2, 3)).max()) for bank in _banks(dictionary))
    return max(pool**2, heaviest) * reach < EXACT


class _Plane(NamedTuple):
    """A plane of an image of bytes, as whole numbers of a unit, less a centre that keeps them small."""

    channels: tuple[int, ...]  # what it is made of: so many times each
    unit: float
    centre: int

    @property
    def reach(self) -> tuple[int, int]:
        low, high = (BYTE * sum(n for n in self.channels if n * sign > 0) for sign in (-1, 1))
        return low - self.centre, high - self.centre


def _planes(channels: int) -> list[_Plane]:
    """What an image is replaced by (5.5)."""
    if channels != 3:
        return [_Plane(tuple(int(at == own) for at in range(channels)), 1, 0) for own in range(channels)]
    return [_Plane((1, 1, 1), 1 / 3, 3 * BYTE // 2), _Plane((1, -1, 0), 1, 0), _Plane((1, 1, -2), 1 / 2, 0)]


def _whole_features(dictionary: int, pool: int, whole: Whole, dtype: torch.dtype) -> Tensor:
    """The features of integers: what is summed is exact, and every number is rounded a few times."""
    banks, maps, own = _banks(dictionary), [], []
    narrow = [bank.float() for bank in banks]
    for plane in _planes(whole.values.shape[1]):
        times = torch.tensor(plane.channels, dtype=torch.float32)[:, None, None]
        values = (whole.values * times).sum(1, keepdim=True)
        ones = torch.full((1, 1, *values.shape[2:]), plane.centre, dtype=torch.float64)
        everywhere = [_correlated(ones, bank).to(dtype) if plane.centre else None for bank in banks]
        unit = whole.unit * plane.unit
        found = _maps(narrow, pool, values - plane.centre, dtype, added=everywhere)
        maps.append(found * (2 * unit / UNIT))
        own.append(_means(values.to(dtype), pool) * unit)
    return torch.cat([*maps, *own], 1)


def _opponent(x: Tensor) -> list[Tensor]:
    r, g, b = x.unbind(1)
    return [(r + g + b) / 3, r - g, (r + g) / 2 - b]


@lru_cache(maxsize=64)
def _layer(table: Table, sides: tuple[int, ...]) -> Layer:
    """The filters of a table as a convolution of one plane."""
    filters = torch.from_numpy(table.filters).flatten(0, 1)[:, None]
    height, width = (side + table.size - 1 for side in sides)
    return filter_layer(filters, None, grid=(height, width))


def _correlated(plane: Tensor, bank: Tensor) -> Tensor:
    """Sums around every pixel; what is outside of the plane is 0."""
    return functional.conv2d(plane, bank, padding=bank.shape[2] // 2)


def _maps(
    banks: Sequence[Tensor],
    pool: int,
    plane: Tensor,
    dtype: torch.dtype,
    *,
    added: Sequence[Tensor | None] | None = None,
) -> Tensor:
    """The pooled maps of a plane, (batch, filters, rows, columns).

    Args:
        banks: The filters of each size, real parts first.
        pool: The window.
        plane: The plane, in the precision of its sums.
        dtype: The precision of everything behind them.
        added: What is added to all sums of each bank.
    """
    pixels = plane[0].numel()
    both = list(zip(banks, added or [None] * len(banks), strict=True))

    def moduli(some: Tensor, bank: Tensor, more: Tensor | None) -> Tensor:
        sums = _correlated(some, bank).to(dtype)
        real, imaginary = (sums if more is None else sums + more).square_().tensor_split(2, dim=1)
        return _means(real.add_(imaginary).sqrt_(), pool)

    def pooled(some: Tensor) -> Tensor:
        return torch.cat([moduli(some, bank, more) for bank, more in both], 1)

    patches = max(bank[0].numel() for bank in banks) * pixels
    return in_parts(pooled, plane, patches=patches, results=max(map(len, banks)) * pixels)


def _means(x: Tensor, pool: int) -> Tensor:
    """Means over windows; sums of slices are faster than windows."""
    if pool > SLICES:
        return functional.avg_pool2d(x, pool, stride=pool)
    rows, columns = (side // pool * pool for side in x.shape[2:])
    x = sum((x[:, :, at:rows:pool] for at in range(1, pool)), x[:, :, :rows:pool])
    x = sum((x[..., at:columns:pool] for at in range(1, pool)), x[..., :columns:pool])
    return x / pool**2
