"""Images as integers from 0 to 255, straightened, moved, turned or mirrored, and their responses to filters.

Every sum is one of integers, and everything else is one IEEE operation at a time, so that the results are the
same on every machine (docs/format.md, 7.4). The features that a network takes from images are in floats.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound.run.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DICTIONARIES = Path(__file__).with_name("dictionaries.json")
EPSILON = 1e-5
"""Added to a variance before its root is taken."""
_PARTS = 16  # of the distance between two pixels, in which positions are told apart


def levels(x: Tensor, divisor: float) -> Tensor:
    """Stored values as whole numbers from 0 to 255, in float32.

    Example:
        >>> levels(torch.tensor([[[[0, 8, 16, 99]]]]), 16.0).tolist()
        [[[[0.0, 128.0, 255.0, 255.0]]]]
    """
    scaled = x.double().mul(255.0).div_(divisor)
    return scaled.add_(0.5).floor_().clamp_(0.0, 255.0).float()


def straighten(x: Tensor) -> Tensor:
    """Images sheared along their rows until rows and columns are uncorrelated: strokes stand upright.

    Example:
        >>> leaning = 255.0 * torch.eye(5).flip(0).view(1, 1, 5, 5)
        >>> straighten(leaning)[0, 0].sum(0).tolist()
        [0.0, 0.0, 1275.0, 0.0, 0.0]
    """
    height, width = x.shape[-2:]
    mass = x.sum(1).double()
    rows = torch.arange(height, dtype=torch.float64, device=x.device).view(-1, 1)
    columns = torch.arange(width, dtype=torch.float64, device=x.device)
    total, by_row, by_column, mixed, squared = (
        (mass * weight).sum((1, 2))
        for weight in (torch.ones_like(rows), rows, columns, rows * columns, rows * rows)
    )
    lean, spread = total * mixed - by_row * by_column, total * squared - by_row * by_row
    slant, middle = lean / spread.clamp(min=1.0), by_row / total.clamp(min=1.0)
    away = rows - middle.view(-1, 1, 1)
    places = (columns + slant.view(-1, 1, 1) * away).clamp_(-1.0, float(width))
    places = places.unsqueeze(1).expand(-1, x.shape[1], -1, -1)
    left = places.floor()
    share = ((places - left) * _PARTS + 0.5).floor().float()
    # a column of zeros in front and two behind stand for everything outside
    padded, at = functional.pad(x, (1, 2)), left.long() + 1
    mixed = (_PARTS - share) * padded.gather(-1, at) + share * padded.gather(-1, at + 1)
    return ((mixed + _PARTS / 2) / _PARTS).floor_()


def move(x: Tensor, down: int, right: int) -> Tensor:
    """Images moved by whole pixels; zeros move in."""
    return functional.pad(x, (right, -right, down, -down))


def mirror(x: Tensor) -> Tensor:
    """Images with their columns reversed."""
    return x.flip(-1)


def rotate(x: Tensor, sine: int) -> Tensor:
    """Images turned about their middle by a small angle with that sine, in units of 1/1024."""
    height, width = x.shape[-2:]
    cosine = 1024 - sine * sine // 2048
    rows = torch.arange(height, device=x.device).view(-1, 1) * 2 - (height - 1)
    columns = torch.arange(width, device=x.device) * 2 - (width - 1)
    # in units of 1/2048 pixels, from the middle; then from the corner, in sixteenths
    down, right = cosine * rows + sine * columns, cosine * columns - sine * rows
    down, right = (
        (place + 1024 * (side - 1) + 64) // 128 for place, side in ((down, height), (right, width))
    )
    top, low = (down // _PARTS).clamp(-1, height), down % _PARTS
    left, far = (right // _PARTS).clamp(-1, width), right % _PARTS
    padded = functional.pad(x, (1, 2, 1, 2))
    corners = [padded[..., top + 1 + i, left + 1 + j] for i in (0, 1) for j in (0, 1)]
    shares = [v * h for v in (_PARTS - low, low) for h in (_PARTS - far, far)]
    mixed = torch.stack([share.to(x.dtype) * corner for share, corner in zip(shares, corners, strict=True)])
    return ((mixed.sum(0) + _PARTS * _PARTS / 2) / (_PARTS * _PARTS)).floor_()


def _same(x: Tensor) -> Tensor:
    return x


Change = Callable[[Tensor], Tensor]
_TURNS: tuple[Change, ...] = (partial(rotate, sine=178), partial(rotate, sine=-178))
_MOVES: tuple[Change, ...] = (
    _same,
    *(partial(move, down=down, right=right) for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0))),
)
_FAR_MOVES: tuple[Change, ...] = (
    *_MOVES,
    *(partial(move, down=down, right=right) for down, right in ((1, 1), (1, -1), (-1, 1), (-1, -1))),
)
COPIES: tuple[tuple[Change, ...], ...] = (
    (_same,),
    (_same, mirror),
    _MOVES,
    _FAR_MOVES,
    (*_MOVES, *_TURNS),
    (*_FAR_MOVES, *_TURNS),
    (*_MOVES, *(lambda x, each=each: mirror(each(x)) for each in _MOVES)),
    (_same, *_TURNS),
)
"""Maps from a picture to the copies that are learned from, by their number (7.5)."""


def colour_planes(x: Tensor) -> Tensor:
    """Brightness and two differences of colours."""
    red, green, blue = x.unbind(1)
    return torch.stack([(red + green + blue) / 3.0, red - green, (red + green) / 2.0 - blue], dim=1)


def window_sums(x: Tensor, side: int) -> Tensor:
    """Sums over windows of integers, which are exact in either way; ONNX has means alone."""
    if not torch.compiler.is_compiling():
        return functional.avg_pool2d(x, side, divisor_override=1)
    rows, columns = (size // side for size in x.shape[2:])
    cut = x[:, :, : rows * side, : columns * side]
    return cut.reshape(*x.shape[:2], rows, side, columns, side).sum((3, 5))


@cache
def filter_tables(table: int) -> tuple[NDArray[np.float64], ...]:
    """The tables of dictionary ``table``, of filters of one size each (docs/format.md, 8.7).

    Each has the real parts of its F filters, then the imaginary parts, shape (2 F, size, size).

    Example:
        >>> [found.shape for found in filter_tables(1)]
        [(16, 9, 9), (16, 15, 15)]
    """
    known = json.loads(_DICTIONARIES.read_text(encoding="ascii"))
    if str(table) not in known:
        raise ModelError(f"there is no dictionary {table}. The dictionaries are {', '.join(known)}.")
    found = []
    for entry in known[str(table)]:
        size = entry["size"]
        parts = np.array(entry["filters"], dtype=np.float64).reshape(-1, 2, size, size) / 4096
        found.append(np.concatenate([parts[:, 0], parts[:, 1]]))
    return tuple(found)


def dictionary_channels(table: int, channels: int) -> int:
    """Channels of the features of an image with ``channels`` channels.

    Example:
        >>> dictionary_channels(1, 1), dictionary_channels(3, 3)
        (17, 51)
    """
    return channels * (1 + sum(len(found) // 2 for found in filter_tables(table)))


@cache
def spread_filters(table: int, side: int) -> tuple[NDArray[np.float32], ...]:
    """For each table of filters, what turns the pixels around a window into all responses inside of it.

    A row for each pixel around; columns are real and imaginary parts, then filters, then pixels inside.
    """
    found = []
    for each in filter_tables(table):
        whole, last = np.rint(each * 4096.0), side - 1
        places = itertools.product(range(side), repeat=2)
        moved = [np.pad(whole, ((0, 0), (i, last - i), (j, last - j))) for i, j in places]
        rows = np.stack(moved, axis=3).transpose(1, 2, 0, 3).reshape((each.shape[1] + last) ** 2, -1)
        found.append(np.ascontiguousarray(rows, np.float32))
    return tuple(found)


def window_moduli(planes: Tensor, matrix: Tensor, side: int) -> Tensor:
    """Moduli of a table of ``spread_filters``, summed over windows: shape (n, planes, filters, windows)."""
    outer = math.isqrt(len(matrix))
    padded = functional.pad(planes, ((outer - side) // 2,) * 4)
    around = padded.unfold(2, outer, side).unfold(3, outer, side)
    found = (around.reshape(-1, outer**2) @ matrix).double().square_()
    real, imaginary = found.view(-1, 2, found.shape[1] // (2 * side**2), side**2).unbind(1)
    # the root of 1 is as good as that of 0, which takes longer
    moduli = real.add_(imaginary).clamp_(min=1.0).sqrt_().div_(1024.0).floor_().sum(2)
    windows = around.shape[2] * around.shape[3]
    return moduli.view(-1, planes.shape[1], windows, moduli.shape[1]).transpose(2, 3)


@cache
def pooling_windows(height: int, width: int, grid: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return 0/1 masks of windows, (windows, places), and the sizes of the windows."""
    rows, columns = (
        [(i * side // grid, -(-(i + 1) * side // grid)) for i in range(grid)] for side in (height, width)
    )
    found = torch.zeros(grid * grid, height, width, device=device)
    for window, ((top, low), (left, right)) in zip(found, itertools.product(rows, columns), strict=True):
        window[top:low, left:right] = 1.0
    return found.flatten(1), found.sum((1, 2))[:, None]


class DictionaryFeatures(nn.Module):
    """The features of dictionary ``table``, average-pooled with windows of ``pool`` x ``pool``.

    The filters are constants and no part of the state; they follow the inputs in dtype and device.

    Example:
        >>> DictionaryFeatures(1, 4)(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 17, 7, 7])
    """

    def __init__(self, table: int, pool: int) -> None:
        super().__init__()
        self.table, self.pool = table, pool

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.normalise(self.compute(self.planes(x)))

    def planes(self, x: Tensor) -> Tensor:
        """Return the planes of images that the filters see."""
        return colour_planes(x) if x.shape[1] == 3 else x

    def compute(self, planes: Tensor) -> Tensor:
        """The features of planes as they are."""
        each = planes.flatten(0, 1).unsqueeze(1)
        maps = torch.cat([self._maps(each, found) for found in filter_tables(self.table)], dim=1)
        pooled = functional.avg_pool2d(planes, self.pool)
        return torch.cat([2.0 * maps.reshape(len(planes), -1, *pooled.shape[2:]), pooled], dim=1)

    def normalise(self, features: Tensor) -> Tensor:
        """Features of mean 0 and variance 1 in each image."""
        return functional.group_norm(features, 1, eps=EPSILON)

    def _maps(self, planes: Tensor, table: NDArray[np.float64]) -> Tensor:
        filters = torch.from_numpy(table).to(planes).unsqueeze(1)
        real, imaginary = functional.conv2d(planes, filters, padding=table.shape[1] // 2).chunk(2, dim=1)
        return functional.avg_pool2d((real.square() + imaginary.square()).sqrt(), self.pool)
