"""Integers under a bell-shaped law, that of a logistic density (docs/format.md, section 4.14)."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..arithmetic import Decoder

LARGEST = 255  # absolute value of an integer
ONE = 1 << 30  # U_0
DECAYS = (  # r, one per width
    *(1200, 1673, 2268, 2999, 3874, 4898, 6075, 7401, 8869, 10471, 12192, 14019, 15933, 17917, 19953, 22023),
    *(24109, 26196, 28267, 30311, 32314, 34267, 36162, 37991, 39750, 41434, 43041, 44569, 46019, 47389),
    *(48681, 49898, 51039, 52110, 53111, 54045, 54917, 55729, 56484, 57185, 57835, 58438, 58997, 59514),
    *(59992, 60434, 60842, 61218, 61565, 61886, 62181, 62452, 62703, 62933, 63145, 63340, 63520, 63685),
    *(63836, 63976, 64104, 64221, 64329, 64429),
)


def frequencies(width: int) -> list[int]:
    """W_0 .. W_255.

    Example:
        >>> frequencies(0)[:6]
        [65537, 4629, 88, 2, 1, 1]
    """
    found, u = [], ONE
    for _ in range(LARGEST + 1):
        found.append(1 + (u << 48) // (ONE + u) ** 2)
        u = u * DECAYS[width] >> 16
    return found


@lru_cache(maxsize=len(DECAYS))
def borders(width: int) -> tuple[int, ...]:
    """Starts of the intervals of -255 .. 255, followed by the total."""
    right = frequencies(width)
    return tuple(accumulate([*right[:0:-1], *right], initial=0))


def read_bell(decoder: Decoder, count: int) -> NDArray[np.int16]:
    """The width and the integers."""
    starts = borders(decoder.uniform(len(DECAYS)))
    total = starts[-1]

    def element() -> int:
        place = bisect_right(starts, decoder.slot(total)) - 1
        decoder.take(starts[place], starts[place + 1] - starts[place], total)
        return place - LARGEST

    return np.fromiter((element() for _ in range(count)), np.int16, count)
