"""Levels under a bell-shaped law of coded width: docs/format.md, section 8.4.

A few hundred trained integers are too few to learn their frequencies: an adaptive code pays for every size it
meets first. Their law is known beforehand but for its width, which costs six bits.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from codebound.run.errors import UsageError
from codebound_networks.codes.numbers import signed, uniform
from codebound_networks.codes.quantization import MAX_STEP
from codebound_networks.codes.tensors import AbstractGridCode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound_networks.codes.arithmetic import AbstractCoder
    from codebound_networks.codes.tensors import Levels, Shape

MAX_BELL_LEVEL = 255
# 2^16 exp(-1/s), rounded, for the widths s = 2^(i/8 - 2): a decoder calls no exponential function
_DECAY = (
    *(1200, 1673, 2268, 2999, 3874, 4898, 6075, 7401, 8869, 10471, 12192, 14019, 15933, 17917, 19953, 22023),
    *(24109, 26196, 28267, 30311, 32314, 34267, 36162, 37991, 39750, 41434, 43041, 44569, 46019, 47389),
    *(48681, 49898, 51039, 52110, 53111, 54045, 54917, 55729, 56484, 57185, 57835, 58438, 58997, 59514),
    *(59992, 60434, 60842, 61218, 61565, 61886, 62181, 62452, 62703, 62933, 63145, 63340, 63520, 63685),
    *(63836, 63976, 64104, 64221, 64329, 64429),
)
BELL_WIDTHS = len(_DECAY)


@dataclass(frozen=True, eq=False)
class Bell(AbstractGridCode):
    """Mode 14: levels under a logistic law."""

    mode = 14
    limit: int = MAX_BELL_LEVEL
    width: int = 0  # index of the width, 2^(width/8 - 2)

    @classmethod
    def blank(cls, shape: Shape) -> Bell:  # noqa: D102
        return cls(np.zeros(shape, dtype=np.int32), 0)

    def code(self, coder: AbstractCoder) -> Bell:  # noqa: D102
        coder.charge(self.levels.size)
        step = signed(coder, self.step)
        coder.require(abs(step) <= MAX_STEP, f"a step lies between -{MAX_STEP} and {MAX_STEP}. Got {step}.")
        width = uniform(coder, self.width, BELL_WIDTHS)
        bounds = _bounds(width)
        levels = []
        for q in self.levels.ravel().tolist():
            slot = coder.locate(bounds[q + MAX_BELL_LEVEL], bounds[-1])
            found = bisect_right(bounds, slot) - 1
            coder.narrow(bounds[found], bounds[found + 1] - bounds[found], bounds[-1])
            levels.append(found - MAX_BELL_LEVEL)
        return Bell(self._shape_levels(levels), step, width=width)

    def lengths(self) -> NDArray[np.float64]:
        """Bits of the sizes 0 .. 255 at this width."""
        return _lengths(self.width)


def best_bell(levels: Levels, step: int) -> tuple[float, Bell]:
    """The width that makes the levels shortest, and their length without step and mode.

    >>> narrow, wide = np.array([0, 1, -1, 0]), np.array([9, -20, 4, -1])
    >>> best_bell(narrow, 0)[0] < best_bell(wide, 0)[0]
    True
    """
    if np.abs(levels).max(initial=0) > MAX_BELL_LEVEL:
        raise UsageError(f"levels of this code lie within {MAX_BELL_LEVEL} of zero.")
    counts = np.bincount(np.abs(levels).ravel(), minlength=MAX_BELL_LEVEL + 1)
    lengths = [float(counts @ _lengths(width)) for width in range(BELL_WIDTHS)]
    width = int(np.argmin(lengths))
    return lengths[width] + math.log2(BELL_WIDTHS), Bell(levels, step, width=width)


@cache
def _weights(width: int) -> list[int]:
    """Weights of the sizes 0 .. 255: those of a logistic density, and at least 1."""
    weights, power = [], 1 << 30
    for _ in range(MAX_BELL_LEVEL + 1):
        weights.append(1 + (power << 48) // ((1 << 30) + power) ** 2)
        power = power * _DECAY[width] >> 16
    return weights


@cache
def _bounds(width: int) -> list[int]:
    """Cumulative weights of -255 .. 255."""
    weights = _weights(width)
    return [0, *accumulate((*reversed(weights), *weights[1:]))]


@cache
def _lengths(width: int) -> NDArray[np.float64]:
    """Bits of the sizes 0 .. 255."""
    return np.log2(_bounds(width)[-1] / np.array(_weights(width), dtype=np.float64))
