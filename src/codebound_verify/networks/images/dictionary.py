"""Features that the literal filters of a dictionary make of images (docs/format.md, section 5.5)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from ...learn.dictionaries import UNIT, Table, tables
from ..operations import in_parts
from ..rounding import Layer, Rounded, Whole, exact, filter_layer, gamma, lengths, local
from .batches import STEPS, normalise, straighten, views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from ..tensors import Doubles

BYTE = 255
EXACT = 1 << 24  # integers below it are exact in float32
SLICES = 4  # the largest window whose means are sums of slices
Steps: TypeAlias = "Sequence[tuple[int, int]]"  # how far down and to the right an image is moved


def features_of_views(dictionary: int, pool: int, kind: int, x: Rounded, dtype: torch.dtype) -> list[Rounded]:
    """The features of all views of images; what views have in common is computed once."""
    if kind in (3, 4):
        x = straighten(x)
    x = x.to(dtype)
    if kind == 3:
        return features(dictionary, pool, x)
    if kind in (2, 4):
        return _features_of_moved(dictionary, pool, x)
    order = mirror_indices(dictionary, pool, x.values.shape)
    if order is None:
        return [own for view in views(kind, x) for own in features(dictionary, pool, view)]
    (found,) = features(dictionary, pool, x)
    return [found, found.move(lambda values: values[:, order].flip(3))]


def _features_of_moved(dictionary: int, pool: int, x: Rounded) -> list[Rounded]:
    """The features of images and of the same moved by a pixel, in the order of ``STEPS``.

    An image whose outermost pixels are 0 loses none when it is moved: all sums are the same, elsewhere.
    """
    image = x.values if x.whole is None else x.whole.values
    loses = torch.cat([image[:, :, [0, -1]].flatten(1), image[..., [0, -1]].flatten(1)], 1).any(1)
    if not loses.any():
        return features(dictionary, pool, x, STEPS)
    moved = [own for view in views(2, x.part(loses)) for own in features(dictionary, pool, view)]
    if loses.all():
        return moved
    kept = features(dictionary, pool, x.part(~loses), STEPS)
    back = loses.long().argsort(stable=True).argsort()
    return [
        Rounded(torch.cat([one.values, other.values])[back], torch.cat([one.error, other.error])[back])
        for one, other in zip(kept, moved, strict=True)
    ]


def mirror_indices(dictionary: int, pool: int, shape: Sequence[int]) -> list[int] | None:
    """Indices of the features that, read from the right, are those of mirror images.

    A filter read from the right is another one, up to the signs of its two parts, which its modulus does not
    see. None if this is not so, or where windows of the mirror image are others.
    """
    return None if shape[3] % pool else _mirror_indices(dictionary, shape[1])


@lru_cache(maxsize=16)
def _mirror_indices(dictionary: int, channels: int) -> list[int] | None:
    order: list[int] = []
    for table in tables(dictionary):
        first = len(order)
        for mirrored in table.filters[..., ::-1]:
            same = [at for at, other in enumerate(table.filters) if _is_same(mirrored, other)]
            if not same:
                return None
            order.append(first + same[0])
    count = len(order)
    planes = [count * plane + at for plane in range(channels) for at in order]
    return [*planes, *range(count * channels, (count + 1) * channels)]


def _is_same(one: Doubles, other: Doubles) -> bool:
    return all(
        np.array_equal(part, others) or np.array_equal(part, -others)
        for part, others in zip(one, other, strict=True)
    )


def features(dictionary: int, pool: int, x: Rounded, steps: Steps = ((0, 0),)) -> list[Rounded]:
    """The fixed features of images (5.5), moved by so many pixels each time; they lose nothing by that."""
    dtype = x.values.dtype
    if x.whole is not None and _fits(dictionary, pool, x.whole.values.shape[1]):
        roundings = pool**2 + 12
        if dtype == torch.float32 and pool <= SLICES:  # sums to roots 2, slices 2 pool - 2, mean 1, factor 2
            roundings = 2 * pool + 3
        return [
            normalise(replace(own, error=local(lengths(own.values), gamma(roundings, dtype), dtype)))
            for own in map(exact, _whole_features(dictionary, pool, x.whole, dtype, steps))
        ]
    if x.values.shape[1] == 3:
        error = math.sqrt(2) * x.error + local(lengths(x.values), 2 * gamma(4, dtype), dtype)
        r, g, b = x.values.unbind(1)
        x = Rounded(torch.stack([(r + g + b) / 3, r - g, (r + g) / 2 - b], 1), error)
    error = torch.zeros_like(x.error)
    for table in tables(dictionary):
        # The roundings of moduli and means are no more than those of so many more products.
        layer = _layer(table, x.values.shape[2:])
        error = torch.hypot(error, 2 * layer.error(x, terms=table.size**2 + pool**2 + 8))
    error = torch.hypot(error, x.error + local(lengths(x.values), gamma(pool**2 + 1, dtype), dtype)) / pool
    banks = [(bank / UNIT).to(dtype) for bank in _banks(dictionary)]
    maps = _maps(banks, pool, x.values, dtype, steps)
    own = _move_means(functional.pad(x.values, (_margin(steps),) * 4), pool, steps)
    ones = torch.ones(x.values.shape[1], dtype=torch.float64)
    return [normalise(Rounded(values, error)) for values in _together(maps, own, 2 * ones, ones)]


def _together(maps: Tensor, own: Tensor, of_maps: Tensor, of_own: Tensor) -> Iterator[Tensor]:
    """The features of each step, channels last: maps and means of planes, times a factor for each plane."""
    batch, planes, steps, filters = maps.shape[:4]
    of_maps, of_own = of_maps.to(maps.dtype)[:, None, None, None], of_own.to(own.dtype)[:, None, None]
    for step in range(steps):
        values = own.new_empty(batch, *own.shape[3:], planes * (filters + 1)).permute(0, 3, 1, 2)
        front, back = values.tensor_split([planes * filters], dim=1)
        torch.mul(maps[:, :, step], of_maps, out=front.view(batch, planes, filters, *own.shape[3:]))
        torch.mul(own[:, step], of_own, out=back)
        yield values


@lru_cache(maxsize=16)
def _banks(dictionary: int) -> tuple[Tensor, ...]:
    """The integers of the filters of each size: real parts, then imaginary parts."""
    tensors = (torch.from_numpy(table.filters * UNIT) for table in tables(dictionary))
    return tuple(torch.cat([filters[:, 0], filters[:, 1]])[:, None] for filters in tensors)


@lru_cache(maxsize=16)
def _fits(dictionary: int, pool: int, channels: int) -> bool:
    """Return True if float32 holds all sums of integers exactly.

    Whatever is summed first lies between the sums of all negative and of all positive products.
    """
    for plane in _planes(channels):
        low, high = (BYTE * sum(n for n in plane.channels if n * sign > 0) for sign in (-1, 1))
        for bank in _banks(dictionary):
            above, below = ((sign * bank).clamp(min=0).sum((1, 2, 3)) for sign in (1, -1))
            most = torch.maximum(above * high - below * low, below * high - above * low).max()
            if max(float(most), pool**2 * (high - low)) >= EXACT:
                return False
    return True


class _Plane(NamedTuple):
    """A plane of an image of bytes, as whole numbers of a unit."""

    channels: tuple[int, ...]  # what it is made of: so many times each
    unit: float


def _planes(channels: int) -> list[_Plane]:
    """Planes that replace an image (5.5)."""
    if channels != 3:
        return [_Plane(tuple(int(at == own) for at in range(channels)), 1) for own in range(channels)]
    return [_Plane((1, 1, 1), 1 / 3), _Plane((1, -1, 0), 1), _Plane((1, 1, -2), 1 / 2)]


def _whole_features(
    dictionary: int, pool: int, whole: Whole, dtype: torch.dtype, steps: Steps
) -> Iterator[Tensor]:
    """The features of integers: what is summed is exact, and every number is rounded a few times."""
    planes = _planes(whole.values.shape[1])
    times = torch.tensor([plane.channels for plane in planes], dtype=torch.float32)
    values = functional.conv2d(whole.values, times[:, :, None, None])
    maps = _maps([bank.float() for bank in _banks(dictionary)], pool, values, dtype, steps)
    own = _move_means(functional.pad(values.to(dtype), (_margin(steps),) * 4), pool, steps)
    units = whole.unit * torch.tensor([plane.unit for plane in planes], dtype=torch.float64)
    return _together(maps, own, 2 / UNIT * units, units)


@lru_cache(maxsize=64)
def _layer(table: Table, sides: tuple[int, ...]) -> Layer:
    """The filters of a table as a convolution of one plane."""
    filters = torch.from_numpy(table.filters).flatten(0, 1)[:, None]
    height, width = (side + table.size - 1 for side in sides)
    return filter_layer(filters, None, grid=(height, width))


def _margin(steps: Steps) -> int:
    """Largest distance of the steps, down or right, in pixels."""
    return max(abs(pixels) for step in steps for pixels in step)


def _maps(banks: Sequence[Tensor], pool: int, planes: Tensor, dtype: torch.dtype, steps: Steps) -> Tensor:
    """The pooled maps of planes that are moved by each step: (batch, planes, steps, filters, rows, columns).

    Args:
        banks: The filters of each size, real parts first.
        pool: The window.
        planes: In the precision of their sums.
        dtype: The precision of everything behind them.
        steps: How far down and to the right.
    """
    margin = _margin(steps)
    pixels = math.prod(side + 2 * margin for side in planes.shape[2:])

    def moduli(some: Tensor, bank: Tensor) -> Tensor:
        # Sums around every pixel and around so many outside of the plane, where it is 0.
        sums = functional.conv2d(some, bank, padding=bank.shape[2] // 2 + margin)
        real, imaginary = sums.to(dtype).square_().tensor_split(2, dim=1)
        return _move_means(real.add_(imaginary).sqrt_(), pool, steps)

    def pooled(some: Tensor) -> Tensor:
        return torch.cat([moduli(some, bank) for bank in banks], 2)

    # Float64 lays out patches, float32 its results alone.
    taps = max(bank[0].numel() if planes.dtype == torch.float64 else len(bank) for bank in banks)
    found = in_parts(pooled, planes.flatten(0, 1)[:, None], numbers=taps * pixels)
    return found.view(*planes.shape[:2], *found.shape[1:])


def _move_means(x: Tensor, pool: int, steps: Steps) -> Tensor:
    """Means of what is moved by each step, (batch, steps, channels, rows, columns); x has a margin."""
    margin = _margin(steps)
    height, width = (side - 2 * margin for side in x.shape[2:])
    starts = ((margin - down, margin - right) for down, right in steps)
    return torch.stack(
        [_means(x[:, :, top : top + height, left : left + width], pool) for top, left in starts], 1
    )


def _means(x: Tensor, pool: int) -> Tensor:
    """Means over windows; sums of slices are faster than windows."""
    if pool > SLICES:
        return functional.avg_pool2d(x, pool, stride=pool)
    rows, columns = (side // pool * pool for side in x.shape[2:])
    x = sum((x[:, :, at:rows:pool] for at in range(1, pool)), x[:, :, :rows:pool])
    x = sum((x[..., at:columns:pool] for at in range(1, pool)), x[..., :columns:pool])
    return x / pool**2
