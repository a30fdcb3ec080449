"""Maps from inputs to vectors; pictures, and copies of them (docs/format.md, sections 7.3 to 7.5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..sample import Inputs, parts
from .exact import Doubles, Vectors, normalise, radius, side_by_side

Pictures: TypeAlias = NDArray[np.uint8]  # (pictures, channels, height, width)

SIDEWAYS = ((0, 1), (0, -1), (1, 0), (-1, 0))
CORNERS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
TURNS = (178, -178)
TOGETHER = 16  # pictures at a time


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


class FeatureMap(ABC):
    """A map from inputs to vectors, learned from the first rows. ``squared_scale`` is s^2 of 7.7."""

    squared_scale: float
    weights: Doubles | None = None
    _centre: Doubles | float = 0.0

    def weigh(self, weights: Doubles) -> None:
        """Give every number of a vector a weight (7.6)."""
        self.weights = weights

    def prepare(self, x: Inputs) -> Inputs:
        """Stored inputs, as copies are made of them."""
        return x

    @abstractmethod
    def raw(self, prepared: Inputs) -> Doubles:
        """Integers that weights are computed from, and vectors made of, in new memory."""

    def learned_from(self, prepared: Inputs) -> Doubles:
        """The same of all that is learned from where these are: for some maps of mirror images too."""
        return self.raw(prepared)

    def vectors(self, prepared: Inputs) -> Vectors:
        """The vectors of prepared inputs."""
        found = self.raw(prepared)
        found -= self._centre
        return normalise(found, self.weights)


class CentredMap(FeatureMap):
    """A map of pictures to integers, whose mean over the first pictures is taken away."""

    def __init__(self, divisor: float) -> None:
        self._divisor = divisor

    def _centre_at(self, pictures: Pictures, dimension: int) -> None:
        """Take the mean over pictures, rounded down, away from now on."""
        total, count = np.zeros(dimension), 0
        blocks = parts(len(pictures), TOGETHER)
        for some in side_by_side(lambda part: self.learned_from(pictures[part]), blocks):
            total += some.sum(axis=0)
            count += len(some)
        self._centre = np.floor(total / count)
        self.squared_scale = float(radius(dimension) ** 2)

    def prepare(self, x: Inputs) -> Pictures:
        """Pictures of which copies can be made."""
        return levels(x, self._divisor)
