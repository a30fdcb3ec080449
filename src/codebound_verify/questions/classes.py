"""Errors on every class, with limits that hold at once (C-17)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mpmath
import numpy as np

from ..checks import limit_of, set_apart
from ..formulas import DIGITS
from ..sample import Labels, permutation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..header import Header


@dataclass(frozen=True)
class ClassRow:
    """Errors on the examples of one class, picks among them, and their limit; None without examples."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


def class_table(
    header: Header, y: Labels, count: Callable[[NDArray[np.int64]], tuple[int, int]]
) -> tuple[ClassRow, ...]:
    """The errors on every class; their limits, at delta over the classes, hold at once (C-17).

    ``count`` has the picks among some places of the sample, and the errors on the others there.
    """
    places = permutation(len(y))[set_apart(header) :] if set_apart(header) else np.arange(len(y))
    rows = []
    with mpmath.workdps(DIGITS):
        share = mpmath.mpf(header.delta) / header.classes
    for label in range(header.classes):
        own = places[y[places] == label]
        if not len(own):
            rows.append(ClassRow(label, 0, 0, None))
            continue
        picks, errors = count(own)
        exact = limit_of(header, picks + errors, len(own), share)
        bound = min(1.0, math.nextafter(float(exact), math.inf))
        rows.append(ClassRow(label, errors, len(own), bound, picks))
    return tuple(rows)
