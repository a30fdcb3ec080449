"""Errors on every class, with limits that hold at once (C-17)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath

from ..checklist import Checklist
from ..claim import limit_of
from ..counting import MOST_PARTS, recount
from ..formulas import DIGITS
from ..header import Limit
from ..losses import EACH_CLASS, OF_CLUSTERS, Question


@dataclass(frozen=True)
class ClassRow:
    """Errors on the rows of one class, picks among them, and their limit. None without rows."""

    label: int
    errors: int
    n: int
    bound: float | None
    picks: int = 0


def class_table(checks: Checklist) -> tuple[ClassRow, ...]:
    """The errors of g on every class, of a file that is accepted.

    Their limits, at delta over the classes, hold at once (C-17). There are none of clusters, whose rows are
    not draws of their own, none of f by its disagreements with g, and none of too many classes.
    """
    header, data, arranged, scores = checks.container.header, checks.data, checks.arranged, checks.scores
    if data is None or arranged is None or scores is None:
        return ()
    is_of_rows = header.claim.on not in OF_CLUSTERS and header.claim.law != "sum"
    if not is_of_rows or len(scores.classes) > MOST_PARTS:
        return ()
    tallies = recount(Question(on=EACH_CLASS), header, data, arranged, scores, checks.picked)
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
