"""Dictionaries: literal filters and the features that they make (docs/format.md, section 5.5)."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from .images import in_parts, normalised
from .refusal import Refused
from .rounding import Layer, Rounded, Whole, exact, filter_layer, gamma, local

if TYPE_CHECKING:
    from torch import Tensor

    from .tensors import Doubles

FILE = Path(__file__).with_name("dictionaries.json")
SHA256 = "1a3375e1242968b4599e4f84121724a3e2b93b5a0a5914d00679b4dfaacf28ea"
BYTE = 255
EXACT = 1 << 24  # integers below it are exact in float32
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
    maps, error = [], torch.zeros_like(x.error)
    for table in tables(dictionary):
        layer, products = _layer(table, x.values.shape[2:]), table.size**2
        maps.append(_maps(table, pool, x.values, layer.weight.to(dtype), dtype=dtype))
        # The roundings of moduli and means are no more than those of so many more products.
        error = torch.hypot(error, 2 * layer.error(x, terms=products + pool**2 + 8))
    own = functional.avg_pool2d(x.values, pool, stride=pool)
    error = torch.hypot(error, x.error + local(x.lengths(), gamma(pool**2 + 1, dtype), dtype)) / pool
    values = torch.cat([2 * torch.cat(maps, 2).flatten(1, 2), own], 1)
    return normalised(Rounded(values.contiguous(memory_format=torch.channels_last), error))


def _blocks(table: Table, largest: int) -> int:
    """Into how many parts of its rows a table is cut, so that sums of integers up to ``largest`` are exact in
    float32; 0 if two are not enough."""
    filters = np.abs(table.filters * UNIT).sum(3)
    for blocks in (1, 2):
        if max(part.sum(2).max() for part in np.array_split(filters, blocks, axis=2)) * largest < EXACT:
            return blocks
    return 0


def _fits(dictionary: int, pool: int, whole: Whole) -> bool:
    """Whether float32 holds all sums of integers exactly."""
    largest = _largest(whole)
    return pool**2 * largest < EXACT and all(_blocks(table, largest) for table in tables(dictionary))


def _largest(whole: Whole) -> int:
    """The largest number of a plane that is made of bytes."""
    return BYTE if whole.values.shape[1] != 3 else 3 * BYTE


def _whole_features(dictionary: int, pool: int, whole: Whole, dtype: torch.dtype) -> Tensor:
    """The features of integers: what is summed is exact, and every number is rounded a few times."""
    planes, units = whole.values, torch.ones(1, dtype=torch.float64)
    if planes.shape[1] == 3:
        r, g, b = planes.unbind(1)
        planes = torch.stack([r + g + b, r - g, r + g - 2 * b], 1)
        units = torch.tensor([1 / 3, 1, 0.5], dtype=torch.float64)
    units = (whole.unit * units).to(dtype)[:, None, None]
    maps = []
    for table in tables(dictionary):
        filters = torch.from_numpy(table.filters * UNIT).flatten(0, 1)[:, None].float()
        blocks = _blocks(table, _largest(whole))
        maps.append(_maps(table, pool, planes, filters, blocks=blocks, dtype=dtype))
    found = torch.cat(maps, 2) * (units[:, None] * (2 / UNIT))
    own = functional.avg_pool2d(planes.to(dtype), pool, stride=pool) * units
    return torch.cat([found.flatten(1, 2), own], 1)


def _opponent(x: Tensor) -> list[Tensor]:
    r, g, b = x.unbind(1)
    return [(r + g + b) / 3, r - g, (r + g) / 2 - b]


@lru_cache(maxsize=64)
def _layer(table: Table, sides: tuple[int, ...]) -> Layer:
    """The filters of a table as a convolution of one plane."""
    filters = torch.from_numpy(table.filters).flatten(0, 1)[:, None]
    height, width = (side + table.size - 1 for side in sides)
    return filter_layer(filters, None, grid=(height, width))


def _maps(
    table: Table, pool: int, planes: Tensor, filters: Tensor, *, blocks: int = 1, dtype: torch.dtype
) -> Tensor:
    """The pooled maps of planes, (batch, planes, filters, rows, columns); blocks of rows are added last."""
    reach = table.size // 2
    single = functional.pad(planes.reshape(-1, 1, *planes.shape[2:]), (reach,) * 4)
    height = planes.shape[2]

    def pooled(some: Tensor) -> Tensor:
        parts, top = [], 0
        for block in torch.tensor_split(filters, blocks, dim=2):
            rows = block.shape[2]
            parts.append(functional.conv2d(some[:, :, top : top + height + rows - 1], block).to(dtype))
            top += rows
        return functional.avg_pool2d(_moduli(sum(parts[1:], parts[0])), pool, stride=pool)

    found = in_parts(
        pooled,
        single,
        patches=table.size**2 * planes[0, 0].numel(),
        results=len(filters) * planes[0, 0].numel(),
    )
    return found.view(*planes.shape[:2], *found.shape[1:])


def _moduli(parts: Tensor) -> Tensor:
    """Lengths of complex numbers; real and imaginary parts take turns."""
    real, imaginary = parts[:, 0::2], parts[:, 1::2]
    return torch.addcmul(real.square(), imaginary, imaginary).sqrt_()
