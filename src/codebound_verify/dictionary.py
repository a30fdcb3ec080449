"""Dictionaries: literal filters and the features that they make (docs/format.md, section 5.5)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from .images import in_parts, normalised
from .refusal import Refused

if TYPE_CHECKING:
    from torch import Tensor

    from .tensors import Doubles

FILE = Path(__file__).with_name("dictionaries.json")
SHA256 = "1a3375e1242968b4599e4f84121724a3e2b93b5a0a5914d00679b4dfaacf28ea"
UNIT = 4096  # the integers of the file are multiples of 1/4096


@dataclass(frozen=True)
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


def features(dictionary: int, pool: int, x: Tensor) -> Tensor:
    """The fixed features of images (5.5)."""
    if x.shape[1] == 3:
        r, g, b = x.unbind(1)
        x = torch.stack([(r + g + b) / 3, r - g, (r + g) / 2 - b], 1)
    planes = x.reshape(-1, 1, *x.shape[2:])
    maps = torch.cat([_maps(table, pool, planes) for table in tables(dictionary)], 1)
    own = functional.avg_pool2d(x, pool, stride=pool)
    return normalised(torch.cat([2 * maps.view(len(x), -1, *maps.shape[2:]), own], 1))


def _maps(table: Table, pool: int, planes: Tensor) -> Tensor:
    """The pooled maps of planes: for each one as many as there are filters."""
    filters = torch.from_numpy(table.filters).flatten(0, 1)[:, None]

    def pooled(some: Tensor) -> Tensor:
        squares = functional.conv2d(some, filters, padding=table.size // 2).square()
        lengths = (squares[:, 0::2] + squares[:, 1::2]).sqrt()  # real and imaginary parts take turns
        return functional.avg_pool2d(lengths, pool, stride=pool)

    return in_parts(pooled, planes, patches=table.size**2 * planes[0].numel())
