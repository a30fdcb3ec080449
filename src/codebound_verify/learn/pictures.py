"""Pictures as levels from 0 to 255, and their copies (docs/format.md, sections 7.4 and 7.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..sample import Inputs

Pictures: TypeAlias = NDArray[np.uint8]  # (pictures, channels, height, width)

SIDEWAYS = ((0, 1), (0, -1), (1, 0), (-1, 0))
CORNERS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
TURNS = (178, -178)


def levels(x: Inputs, divisor: float) -> Pictures:
    """The levels of stored values.

    Example:
        >>> levels(np.array([-1.0, 0.0, 0.5, 16.0, 99.0]), 16.0).tolist()
        [0, 0, 8, 255, 255]
    """
    with np.errstate(over="ignore"):
        found = np.floor(x.astype(np.float64) * 255 / divisor + 0.5)
    return np.clip(found, 0, 255).astype(np.uint8)


def straighten(pictures: Pictures) -> Pictures:
    """Pictures whose rows are moved so that strokes that lean become upright."""
    count, channels, height, width = pictures.shape
    i, j = np.arange(height)[:, None], np.arange(width)
    weights = np.stack([np.broadcast_to(each, (height, width)) for each in (i**0, i, j, i * j, i * i)])
    p = pictures.sum(axis=1, dtype=np.float64).reshape(count, -1)
    sums = (p @ weights.reshape(5, -1).T.astype(np.float64)).astype(np.int64)  # below 2^53: exact
    total, of_i, of_j, of_ij, of_ii = sums.T
    lean = (total * of_ij - of_i * of_j) / np.maximum(1, total * of_ii - of_i * of_i)
    middle = of_i / np.maximum(1, total)
    t = j + lean[:, None, None] * (i - middle[:, None, None])
    np.clip(t, -1, width, out=t)
    k = np.floor(t)
    t -= k
    f = np.floor(16 * t + 0.5).astype(np.int16)[:, None]
    where = k.astype(np.int64)[:, None] + 1
    padded = np.pad(pictures, ((0, 0), (0, 0), (0, 0), (1, 2)))
    starts = np.arange(count * channels * height).reshape(count, channels, height, 1) * (width + 3)
    here, next_ = (padded.ravel()[starts + where + step].astype(np.int16) for step in (0, 1))
    return np.asarray(((16 - f) * here + f * next_ + 8) >> 4).astype(np.uint8)


def move(pictures: Pictures, u: int, v: int) -> Pictures:
    """Pictures moved down by u and right by v, each -1, 0 or 1, with zeros moving in."""
    _, _, height, width = pictures.shape
    padded = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return padded[:, :, 1 - u : 1 - u + height, 1 - v : 1 - v + width]


def mirror(pictures: Pictures) -> Pictures:
    """Pictures with their columns reversed."""
    return pictures[..., ::-1]


def turn(pictures: Pictures, s: int) -> Pictures:
    """Pictures turned about their middle by about s / 1024."""
    _, _, height, width = pictures.shape
    k = 1024 - s * s // 2048
    i = 2 * np.arange(height)[:, None] - (height - 1)
    j = 2 * np.arange(width) - (width - 1)
    y = (k * i + s * j + 1024 * (height - 1) + 64) // 128
    x = (k * j - s * i + 1024 * (width - 1) + 64) // 128
    top, left = np.clip(y // 16, -1, height) + 1, np.clip(x // 16, -1, width) + 1  # after padding
    v, h = y % 16, x % 16
    padded = np.pad(pictures, ((0, 0), (0, 0), (1, 2), (1, 2))).astype(np.int64)
    found = (
        (16 - v) * (16 - h) * padded[:, :, top, left]
        + (16 - v) * h * padded[:, :, top, left + 1]
        + v * (16 - h) * padded[:, :, top + 1, left]
        + v * h * padded[:, :, top + 1, left + 1]
        + 128
    )
    return np.asarray(found // 256).astype(np.uint8)


def copies_of(pictures: Pictures, number: int) -> list[Pictures]:
    """The copies of pictures, each one support (7.5): all pictures as first copy, then as second, ..."""
    moves: tuple[tuple[int, int], ...] = ()
    if number in (2, 3, 4, 5, 6):
        moves = SIDEWAYS + (CORNERS if number in (3, 5) else ())
    found = [pictures, *(move(pictures, u, v) for u, v in moves)]
    if number in (4, 5, 7):
        found += [turn(pictures, s) for s in TURNS]
    if number == 6:
        found += [mirror(each) for each in found]
    return found
