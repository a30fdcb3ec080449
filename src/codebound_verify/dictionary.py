"""Dictionaries: literal filters and the features that they make (docs/format.md, section 5.5)."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from .images import STEPS, in_parts, normalised, straightened, views
from .refusal import Refused
from .rounding import Layer, Rounded, Whole, exact, filter_layer, gamma, local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from .tensors import Doubles

FILE = Path(__file__).with_name("dictionaries.json")
SHA256 = "1a3375e1242968b4599e4f84121724a3e2b93b5a0a5914d00679b4dfaacf28ea"
BYTE = 255
EXACT = 1 << 24  # integers below it are exact in float32
SLICES = 4  # the largest window whose means are sums of slices
Steps: TypeAlias = "Sequence[tuple[int, int]]"  # how far down and to the right an image is moved
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


def features_of_views(dictionary: int, pool: int, kind: int, x: Rounded, dtype: torch.dtype) -> list[Rounded]:
    """The features of all views of images; what views have in common is computed once."""
    if kind in (3, 4):
        x = straightened(x)
    x = x.to(dtype)
    if kind == 3:
        return features(dictionary, pool, x)
    if kind in (2, 4):
        return _features_of_moved(dictionary, pool, x)
    order = mirrored(dictionary, pool, x.values.shape)
    if order is None:
        return [own for view in views(kind, x) for own in features(dictionary, pool, view)]
    (found,) = features(dictionary, pool, x)
    return [found, found.moved(lambda values: values[:, order].flip(3))]


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


def mirrored(dictionary: int, pool: int, shape: Sequence[int]) -> list[int] | None:
    """Which feature of images of that shape is, read from the right, each feature of their mirror images.

    A filter read from the right is another one, up to the signs of its two parts, which its modulus does not
    see. None if this is not so, or where windows of the mirror image are others.
    """
    return None if shape[3] % pool else _mirrored(dictionary, shape[1])


@lru_cache(maxsize=16)
def _mirrored(dictionary: int, channels: int) -> list[int] | None:
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
    if x.whole is not None and _fits(dictionary, pool, x.whole):
        found = map(exact, _whole_features(dictionary, pool, x.whole, dtype, steps))
        roundings = pool**2 + 12
        if dtype == torch.float32 and pool <= SLICES:  # sums to roots 3, slices 2 pool - 2, mean 1, factor 2
            roundings = 2 * pool + 4
        return [
            normalised(replace(own, error=local(own.lengths(), gamma(roundings, dtype), dtype)))
            for own in found
        ]
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
    maps = [2 * _maps(banks, pool, plane, dtype, steps) for plane in torch.split(x.values, 1, 1)]
    own = _moved_means(functional.pad(x.values, (_margin(steps),) * 4), pool, steps)
    return [normalised(Rounded(values, error)) for values in _together([*maps, own])]


def _together(parts: Sequence[Tensor]) -> Iterator[Tensor]:
    """The features of each step, from parts of (batch, steps, channels, rows, columns)."""
    for step in zip(*(part.unbind(1) for part in parts), strict=True):
        yield torch.cat(step, 1).contiguous(memory_format=torch.channels_last)


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


def _whole_features(
    dictionary: int, pool: int, whole: Whole, dtype: torch.dtype, steps: Steps
) -> Iterator[Tensor]:
    """The features of integers: what is summed is exact, and every number is rounded a few times."""
    banks, maps, own, margin = _banks(dictionary), [], [], _margin(steps)
    narrow = [bank.float() for bank in banks]
    for plane in _planes(whole.values.shape[1]):
        times = torch.tensor(plane.channels, dtype=torch.float32)[:, None, None]
        values = (whole.values * times).sum(1, keepdim=True)
        ones = torch.full((1, 1, *values.shape[2:]), plane.centre, dtype=torch.float64)
        everywhere = [_correlated(ones, bank, margin).to(dtype) if plane.centre else None for bank in banks]
        unit = whole.unit * plane.unit
        found = _maps(narrow, pool, values - plane.centre, dtype, steps, added=everywhere)
        maps.append(found * (2 * unit / UNIT))
        padded = functional.pad(values.to(dtype), (margin,) * 4)
        own.append(_moved_means(padded, pool, steps) * unit)
    return _together([*maps, *own])


def _opponent(x: Tensor) -> list[Tensor]:
    r, g, b = x.unbind(1)
    return [(r + g + b) / 3, r - g, (r + g) / 2 - b]


@lru_cache(maxsize=64)
def _layer(table: Table, sides: tuple[int, ...]) -> Layer:
    """The filters of a table as a convolution of one plane."""
    filters = torch.from_numpy(table.filters).flatten(0, 1)[:, None]
    height, width = (side + table.size - 1 for side in sides)
    return filter_layer(filters, None, grid=(height, width))


def _correlated(plane: Tensor, bank: Tensor, margin: int = 0) -> Tensor:
    """Sums around every pixel and around so many outside of the plane, where it is 0."""
    return functional.conv2d(plane, bank, padding=bank.shape[2] // 2 + margin)


def _margin(steps: Steps) -> int:
    """How far steps lead to the outside."""
    return max(abs(pixels) for step in steps for pixels in step)


def _maps(
    banks: Sequence[Tensor],
    pool: int,
    plane: Tensor,
    dtype: torch.dtype,
    steps: Steps,
    *,
    added: Sequence[Tensor | None] | None = None,
) -> Tensor:
    """The pooled maps of a plane that is moved by each step, (batch, steps, filters, rows, columns).

    Args:
        banks: The filters of each size, real parts first.
        pool: The window.
        plane: The plane, in the precision of its sums.
        dtype: The precision of everything behind them.
        steps: How far down and to the right.
        added: What is added to all sums of each bank.
    """
    margin = _margin(steps)
    pixels = math.prod(side + 2 * margin for side in plane.shape[2:])
    both = list(zip(banks, added or [None] * len(banks), strict=True))

    def moduli(some: Tensor, bank: Tensor, more: Tensor | None) -> Tensor:
        sums = _correlated(some, bank, margin).to(dtype)
        real, imaginary = (sums if more is None else sums.add_(more)).square_().tensor_split(2, dim=1)
        return _moved_means(real.add_(imaginary).sqrt_(), pool, steps)

    def pooled(some: Tensor) -> Tensor:
        return torch.cat([moduli(some, bank, more) for bank, more in both], 2)

    # Float64 lays out patches, float32 its results alone.
    taps = max(bank[0].numel() if plane.dtype == torch.float64 else len(bank) for bank in banks)
    return in_parts(pooled, plane, numbers=taps * pixels)


def _moved_means(x: Tensor, pool: int, steps: Steps) -> Tensor:
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
