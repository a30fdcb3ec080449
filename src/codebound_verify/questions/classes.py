"""Errors on every class, with limits that hold at once (C-17)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath
import numpy as np
from numpy.typing import NDArray

from ..claim import limit_of
from ..counting import MOST_PARTS, Scores, recount
from ..formulas import DIGITS
from ..header import Header, Limit
from ..losses import EACH_CLASS, OF_CLUSTERS, Question
from ..order import Arranged
from ..sample import Data


@dataclass(frozen=True)
class ClassRow:
    """Errors on the rows of one class, picks among them, and their limit. None without rows."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


def class_table(
    header: Header, data: Data, arranged: Arranged, scores: Scores, picked: NDArray[np.int64] | None
) -> tuple[ClassRow, ...]:
    """The errors on every class. Their limits, at delta over the classes, hold at once (C-17).

    There are none of clusters, whose rows are not draws of their own, and none of too many classes.
    """
    if header.claim.on in OF_CLUSTERS or len(scores.classes) > MOST_PARTS:
        return ()
    tallies = recount(Question(on=EACH_CLASS), header, data, arranged, scores, picked)
    with mpmath.workdps(DIGITS):
        share = mpmath.mpf(header.claim.delta) / len(tallies)
    rows = []
    for label, tally in zip(scores.classes.tolist(), tallies, strict=True):
        bound = None
        if tally.n:
            limit = Limit(bound=1.0, errors=tally.errors, n=tally.n, of=tally.of, picks=tally.picks)
            exact = limit_of(header, limit, share)
            bound = min(1.0, math.nextafter(float(exact), math.inf))
        rows.append(ClassRow(label, tally.errors, tally.n, bound, tally.picks or 0))
    return tuple(rows)
