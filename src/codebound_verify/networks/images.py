"""Operations on images: normalisation, views, and literal filters (docs/format.md, 8.6, 8.7 and 8.10)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..learn.dictionaries import FilterTable, tables
from .operations import in_parts
from .rounding import Layer, Rounded, filter_layer, gamma, lengths, local

STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))  # down and right: where an image is moved to
SAFE = 1 - 1e-5  # covers the rounding of a standard deviation
EPSILON = 1e-5  # added to the variance that a normalised convolution or a dictionary divides by


def normalise(x: Rounded) -> Rounded:
    """Each example less its mean, divided by its standard deviation."""
    flat = x.values.flatten(1)
    numbers = flat.shape[1]
    mean = flat.mean(1, keepdim=True)
    centred = flat - mean
    variance = centred.square().mean(1, keepdim=True)
    result = (centred / (variance + EPSILON).sqrt()).reshape(x.values.shape)
    mean, variance = mean[:, 0], variance[:, 0]

    root, rounding = math.sqrt(numbers), gamma(4) + gamma(numbers + 4)
    before = x.error + local(rounding, root * (mean.square() + variance).sqrt())
    least = (SAFE * variance.sqrt() - before / root).clamp(min=0)
    error = before / (least.square() + EPSILON).sqrt()
    return Rounded(result, error + local(rounding, root * torch.ones_like(error)))


def views(kind: int, x: Rounded) -> Iterator[Rounded]:
    """The views of a batch of images, each of its shape."""
    if kind in (3, 4):
        x = straighten(x)
    yield x
    if kind == 1:
        yield x.move(lambda image: image.flip(3))
    if kind in (2, 4):
        for down, right in STEPS:
            yield x.move(partial(functional.pad, pad=(right, -right, down, -down)))


def straighten(x: Rounded) -> Rounded:
    """Images whose rows are moved so that strokes that lean become upright.

    Example:
        >>> image = Rounded(torch.eye(3, dtype=torch.float64)[None, None], torch.zeros(1))
        >>> straighten(image).values.round(decimals=2).squeeze()
        tensor([[0., 1., 0.],
                [0., 1., 0.],
                [0., 1., 0.]], dtype=torch.float64)
    """
    image = x.values
    width = image.shape[3]
    rows, columns = (torch.arange(side, dtype=image.dtype) for side in image.shape[2:])
    lean = _lean(x, rows[:, None], columns)
    t = columns + lean.a * (rows[:, None] - lean.r)  # (batch, rows, columns)
    k = t.floor()
    f = (t - k)[:, None]
    padded = functional.pad(image, (1, 1))  # a column of zeros stands for all that are outside

    def read(at: Tensor) -> Tensor:
        # What is not a number has no index, and f, which is none either, spoils whatever is read.
        index = at.nan_to_num().clamp(-1, width).long() + 1
        return padded.gather(3, index[:, None].expand(image.shape))

    values = (1 - f) * read(k) + f * read(k + 1)
    # Where a row is read moves it by at most twice its length for every column.
    sizes = lengths(x.values)
    return Rounded(values, x.error + 2 * sizes * lean.slip + local(gamma(8), sizes))


class _Lean(NamedTuple):
    """The lean and the centre of each image, (batch, 1, 1), and how far off the columns can be, (batch,)."""

    a: Tensor
    r: Tensor
    slip: Tensor


def _lean(x: Rounded, i: Tensor, j: Tensor) -> _Lean:
    """The lean of each image.

    Everything that a and r divide, and what they divide by, is taken in units of the largest number of the
    image where that is above 1: so the sums cannot overflow. Letters are those of 8.10.
    """
    image, (height, width) = x.values, x.values.shape[2:]
    unit = image.abs().amax(dim=(1, 2, 3), keepdim=True).clamp(min=1)
    p = (image.abs() / unit).sum(dim=1)
    unit = unit[:, 0]

    def total(values: Tensor) -> Tensor:
        return values.sum(dim=(1, 2), keepdim=True)

    little = 1e-6 / unit
    P = total(p) + little
    r, s = total(p * i) / P, total(p * j) / P
    up, right = i - r, j - s
    v, w = total(p * up.square()), total(p * right.square())
    q = v + 1e-3 / unit
    a = total(p * up * right) / q

    numbers = image[0].numel()
    g = gamma(numbers + 16)
    o = math.sqrt(numbers) * x.error[:, None, None] / unit  # of all p together, as they came in
    if x.is_relative:  # then it is part of the rounding of each
        o = torch.zeros_like(o)
    R, S = (2 * side * (o / P + g) for side in (height, width))
    # About their true centres, rows and columns add up to next to nothing: errors of centres hardly matter.
    F = g * (v * w).sqrt() + height * width * o + little * (width * R + height * S) + (P + o) * R * S
    Q = g * q + height**2 * o + 2 * little * height * R + (P + o) * R.square()
    t = 2 * height * (F + a.abs() * Q) / q + a.abs() * R + gamma(8) * (width + a.abs() * height)
    return _Lean(a, r, torch.where(q / 2 >= Q, t, math.inf).flatten())


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
