"""Normalisation of batches of images, and the views that logits are averaged over (5.1)."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional

from ..operations import CACHED
from ..rounding import Rounded, gamma, lengths, local, rows, unroll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

AT_ONCE = 1 << 20  # numbers in the images that are straightened at once
STEPS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))  # down and right: where an image is moved to
SAFE = 1 - 1e-5  # covers the rounding of a standard deviation
EPSILON = 1e-5  # added to the variance that a normalised convolution or a dictionary divides by


def normalise(x: Rounded) -> Rounded:
    """Each example less its mean, divided by its standard deviation; both are computed in float64."""
    flat, dtype, wide = rows(x.values), x.values.dtype, torch.float64
    numbers = flat.shape[1]
    at_once, result = max(1, CACHED // 2 // numbers), torch.empty_like(flat)
    parts = zip(torch.split(flat, at_once), torch.split(result, at_once), strict=True)
    mean, variance = map(torch.cat, zip(*(_standardise(*part) for part in parts), strict=True))

    # Two roundings before the division and two by it; float64 is given as many as the page gives it.
    root, own = math.sqrt(numbers), gamma(4 if dtype == wide else 2, dtype) + gamma(numbers + 4, wide)
    before = x.error + local(root * (mean.square() + variance).sqrt(), own, dtype)
    least = (SAFE * variance.sqrt() - before / root).clamp(min=0)
    error = before / (least.square() + EPSILON).sqrt()
    return Rounded(unroll(result, x.values), error + local(root * torch.ones_like(error), own, dtype))


def _standardise(flat: Tensor, result: Tensor) -> tuple[Tensor, Tensor]:
    """Means and variances of rows; the result is the rows less the former, divided by the deviations."""
    wide = flat.to(torch.float64, copy=True)
    mean = wide.mean(1, keepdim=True)
    norms = torch.linalg.vector_norm(wide.sub_(mean), dim=1, keepdim=True)
    variance = norms.square() / flat.shape[1]
    torch.sub(flat, mean.to(flat.dtype), out=result).div_((variance + EPSILON).sqrt().to(flat.dtype))
    return mean[:, 0], variance[:, 0]


def views(kind: int, x: Rounded) -> Iterator[Rounded]:
    """The views of a batch of images, each of its shape."""
    if kind in (3, 4):
        x = straighten(x)
    yield x
    if kind == 1:
        yield x.move(lambda image: image.flip(3))
    if kind in (2, 4):
        for down, right in STEPS[1:]:
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
    at_once = max(1, AT_ONCE // x.values[0].numel())
    parts = [
        _straighten_rows(Rounded(*part, is_relative=x.is_relative))
        for part in zip(torch.split(x.values, at_once), torch.split(x.error, at_once), strict=True)
    ]
    return Rounded(torch.cat([part.values for part in parts]), torch.cat([part.error for part in parts]))


def _straighten_rows(x: Rounded) -> Rounded:
    """The rows of images read at the columns j + a (i - r); an image that is not finite is nowhere finite."""
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
    own = local(sizes, gamma(8, image.dtype), image.dtype)
    return Rounded(values, x.error + 2 * sizes * lean.slip + own)


class _Lean(NamedTuple):
    """The lean and the centre of each image, (batch, 1, 1), and how far off the columns can be, (batch,)."""

    a: Tensor
    r: Tensor
    slip: Tensor


def _lean(x: Rounded, i: Tensor, j: Tensor) -> _Lean:
    """The lean of each image.

    Everything that a and r divide, and what they divide by, is taken in units of the largest number of the
    image where that is above 1: so the sums cannot overflow.
    """
    image, (height, width) = x.values, x.values.shape[2:]
    unit = image.abs().amax(dim=(1, 2, 3), keepdim=True).clamp(min=1)
    p = (image.abs() / unit).sum(dim=1)
    unit = unit[:, 0]

    def total(values: Tensor) -> Tensor:
        return values.sum(dim=(1, 2), keepdim=True)

    weight, little = total(p), 1e-6 / unit
    r, s = total(p * i) / (weight + little), total(p * j) / (weight + little)
    up, right = i - r, j - s
    rows, columns = total(p * up.square()), total(p * right.square())
    spread = 1e-3 / unit + rows
    a = total(p * up * right) / spread

    numbers = image[0].numel()
    rounding = gamma(numbers + 16, image.dtype)
    off = math.sqrt(numbers) * x.error[:, None, None] / unit  # of all p together, as they came in
    if x.is_relative:  # then it is part of the rounding of each
        off = torch.zeros_like(off)
    off_r, off_s = (2 * side * (off / (weight + little) + rounding) for side in (height, width))
    # About their true centres, rows and columns add up to next to nothing: errors of centres hardly matter.
    off_both = rounding * (rows * columns).sqrt() + height * width * off
    off_both += little * (width * off_r + height * off_s) + (weight + off) * off_r * off_s
    off_spread = rounding * spread + height**2 * off
    off_spread += 2 * little * height * off_r + (weight + off) * off_r.square()
    off_a = 2 * (off_both + a.abs() * off_spread) / spread
    off_a = torch.where(off_spread <= spread / 2, off_a, math.inf)
    slip = height * off_a + a.abs() * off_r + gamma(8, image.dtype) * (width + a.abs() * height)
    return _Lean(a, r, slip.flatten())
