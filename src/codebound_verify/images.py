"""What is done to batches of images: parts, norms, and the views that logits are averaged over (5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

AT_ONCE = 1 << 20  # numbers in the images that are straightened at once
EPSILON = 1e-5  # added to the variance that a normalised convolution or a dictionary divides by
CACHED = 1 << 18  # numbers in patches that the cache of a core holds: 2 MiB


def in_parts(convolve: Callable[[Tensor], Tensor], x: Tensor, *, patches: int) -> Tensor:
    """A convolution of few examples at a time: patches that stay in the cache make it several times faster.

    Args:
        convolve: The convolution.
        x: All examples.
        patches: How many numbers the patches of one example have.
    """
    at_once = max(1, torch.get_num_threads() * CACHED // patches)
    return torch.cat([convolve(part) for part in torch.split(x, at_once)])


def normalised(x: Tensor) -> Tensor:
    """Each example less its mean, divided by its standard deviation."""
    centred = x - x.mean(dim=(1, 2, 3), keepdim=True)
    return centred / (centred.square().mean(dim=(1, 2, 3), keepdim=True) + EPSILON).sqrt()


def views(kind: int, x: Tensor) -> Iterator[Tensor]:
    """The views of a batch of images, each of its shape."""
    if kind in (3, 4):
        x = straightened(x)
    yield x
    if kind == 1:
        yield x.flip(3)
    if kind in (2, 4):
        for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            yield functional.pad(x, (right, -right, down, -down))


def straightened(x: Tensor) -> Tensor:
    """Images whose rows are moved so that strokes that lean become upright.

    Example:
        >>> straightened(torch.eye(3, dtype=torch.float64)[None, None]).round(decimals=2).squeeze()
        tensor([[0., 1., 0.],
                [0., 1., 0.],
                [0., 1., 0.]], dtype=torch.float64)
    """
    at_once = max(1, AT_ONCE // x[0].numel())
    return torch.cat([_straightened(part) for part in torch.split(x, at_once)])


def _straightened(x: Tensor) -> Tensor:
    """The rows of images read at the columns j + a (i - r); an image that is not finite is nowhere finite."""
    width = x.shape[3]
    rows, columns = (torch.arange(side, dtype=x.dtype) for side in x.shape[2:])
    lean, centre = _lean(x, rows[:, None], columns)
    t = columns + lean * (rows[:, None] - centre)  # (batch, rows, columns)
    k = t.floor()
    f = (t - k)[:, None]
    padded = functional.pad(x, (1, 1))  # a column of zeros stands for all that are outside

    def read(at: Tensor) -> Tensor:
        # What is not a number has no index, and f, which is none either, spoils whatever is read.
        index = at.nan_to_num().clamp(-1, width).long() + 1
        return padded.gather(3, index[:, None].expand(x.shape))

    return (1 - f) * read(k) + f * read(k + 1)


def _lean(x: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
    """For each image its lean a and its centre r, of shape (batch, 1, 1).

    Everything that a and r divide, and what they divide by, is taken in units of the largest number of the
    image where that is above 1: so the sums cannot overflow.
    """
    unit = x.abs().amax(dim=(1, 2, 3), keepdim=True).clamp(min=1)
    p = (x.abs() / unit).sum(dim=1)
    unit = unit[:, 0]

    def total(values: Tensor) -> Tensor:
        return values.sum(dim=(1, 2), keepdim=True)

    mass = 1e-6 / unit + total(p)
    r, s = total(p * i) / mass, total(p * j) / mass
    return total(p * (i - r) * (j - s)) / (1e-3 / unit + total(p * (i - r).square())), r
