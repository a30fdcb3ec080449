"""Features that the literal filters of a dictionary make of images (docs/format.md, section 8.7)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from ...learn.dictionaries import FilterTable, tables
from ..operations import in_parts
from ..rounding import Layer, Rounded, filter_layer, gamma, lengths, local
from .batches import normalise

if TYPE_CHECKING:
    from torch import Tensor


def features(dictionary: int, pool: int, x: Rounded) -> Rounded:
    """The fixed features of images."""
    if x.values.shape[1] == 3:
        error = math.sqrt(2) * x.error + local(2 * gamma(4), lengths(x.values))
        r, g, b = x.values.unbind(1)
        x = Rounded(torch.stack([(r + g + b) / 3, r - g, (r + g) / 2 - b], 1), error)
    error = x.error + local(gamma(pool**2 + 1), lengths(x.values))
    maps = []
    for table in tables(dictionary):
        layer = _layer(table, tuple(x.values.shape[2:]))
        # The roundings of moduli and means are no more than those of so many more products.
        error = torch.hypot(error, 2 * layer.error(x, terms=table.size**2 + pool**2 + 8))
        maps.append(_maps(layer.weight, pool, x.values))
    # Plane by plane, the filters of all tables; then the planes.
    front = 2 * torch.cat(maps, 2).flatten(1, 2)
    back = functional.avg_pool2d(x.values, pool)
    return normalise(Rounded(torch.cat([front, back], 1), error / pool))


@lru_cache(maxsize=64)
def _layer(table: FilterTable, sides: tuple[int, ...]) -> Layer:
    """The filters of a table as a convolution of one plane, each real part before its imaginary one."""
    filters = torch.from_numpy(table.filters).flatten(0, 1)[:, None]
    height, width = (side + table.size - 1 for side in sides)
    return filter_layer(filters, None, grid=(height, width))


def _maps(filters: Tensor, pool: int, planes: Tensor) -> Tensor:
    """The pooled maps of planes: (batch, planes, maps, rows, columns)."""

    def pooled(some: Tensor) -> Tensor:
        sums = functional.conv2d(some, filters, padding=filters.shape[2] // 2)
        real, imaginary = sums.square_()[:, ::2], sums[:, 1::2]
        return functional.avg_pool2d(real.add_(imaginary).sqrt_(), pool)

    numbers = filters[0].numel() * planes[0, 0].numel()
    found = in_parts(pooled, planes.flatten(0, 1)[:, None], numbers=numbers)
    return found.view(*planes.shape[:2], *found.shape[1:])
