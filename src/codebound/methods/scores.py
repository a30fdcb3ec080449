"""Declared scores: those that were given, or those of a kernel learned from a large share of the sample.

The second program repeats a split for at most 10,000 known rows. Where many more examples are known, the same
learner makes a table of scores, which is declared, and counted on the rest for two bits.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound import __version__
from codebound.bits.forms import FIRST_TABLE, TableChoice
from codebound.bounds.risk import count_of
from codebound.certificate.outcome import TableOutcome
from codebound.known.score_tables import ScoreTable
from codebound.learn.kernel_network import KernelNetwork
from codebound.learn.leaving_out import best_rule
from codebound.learn.picking import carry_out
from codebound.learn.ridge import most_supports
from codebound.methods.search import UnsuitedError
from codebound.sample.made import printable
from codebound.sample.order import usual_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.methods.search import Search

_SECONDS = {"quick": 0.0, "standard": 900.0, "max": math.inf}
_WIDEST = 8192  # numbers of a vector of features, as far as time is reckoned
_SIDE = 1024  # of a product that shows how fast a machine is
_SLOWER = 2.0  # times: all else is slower than a product of large matrices
_EXPONENTS = {"quick": (), "standard": range(4, 14, 2), "max": range(16)}
_BIAS = 12


def propose_scores(search: Search) -> None:
    """Count declared tables of scores, as they are and with biases."""
    task = search.task
    if task.is_about_f:
        raise UnsuitedError("a table of scores says nothing about f, which is a network.")
    if not task.tables:
        task.tables = (learn_table(search),)
    for place, table in enumerate(task.tables, start=1):
        search.offer(TableOutcome(TableChoice(place), table))
        _propose_biases(search, place, table)


def learn_table(search: Search) -> ScoreTable:
    """The scores of the kernel learner that suits the known share best, by leaving its examples out.

    Raises:
        UnsuitedError: A split knows as much, or it would take too long.
    """
    arranged = search.task.arranged
    units = arranged.units
    share = max(usual_share(units, is_rule=False), search.task.made_of)
    if not search.is_asked and share <= usual_share(units, is_rule=True):
        raise UnsuitedError("a split learns from as many examples, and is replayed by the second program.")
    learned, n = min(arranged.cut(share), most_supports(_WIDEST)), search.task.sample.n
    needed = _estimate_seconds(learned, n, search.device)
    if not search.is_asked and needed > _SECONDS[search.effort]:
        effort = "standard" if search.effort == "quick" else "max"
        minutes = count_of(math.ceil(needed / 60.0), "minute")
        raise UnsuitedError(
            f"a kernel of {learned:,} examples would take some {minutes} here: give the effort {effort}, or "
            "choose the method scores."
        )
    rule = best_rule(arranged, share, device=search.device, progress=search.progress)
    found = carry_out(
        rule, arranged, form=FIRST_TABLE, first=share, device=search.device, progress=search.progress
    )
    return ScoreTable(
        found.outputs.float().numpy(),
        by=printable(f"codebound {__version__}, kernel ridge regression, {rule}"),
        of="the known share alone",
        rows=share,
        classifier=KernelNetwork.of(found, search.task.sample),
    )


def _estimate_seconds(learned: int, n: int, device: str | torch.device) -> float:
    """Estimate the seconds of a kernel from one timed matrix product."""
    products = learned**2 * (_WIDEST + learned / 3.0) + 2.0 * (n - learned) * learned * _WIDEST
    side = torch.ones(_SIDE, _SIDE, device=device)
    float((side @ side)[0, 0])
    start = time.perf_counter()
    float((side @ side)[0, 0])
    return _SLOWER * products * (time.perf_counter() - start) / (2.0 * _SIDE**3)


def _propose_biases(search: Search, place: int, table: ScoreTable) -> None:
    """Offer the biases of each unit that take away the most errors, one column after the other."""
    arranged = search.task.arranged
    counted = arranged.split(table.rows)[1]
    scores, labels = table.scores[counted].astype(np.float64), search.task.sample.y[counted]
    fewest = _count_errors(scores, labels)
    for exponent in _EXPONENTS[search.effort]:
        signs = _choose_signs(scores, labels, 2.0 ** (exponent - _BIAS))
        biased = scores + np.array(signs) * 2.0 ** (exponent - _BIAS)
        if any(signs) and _count_errors(biased, labels) < fewest:
            search.offer(TableOutcome(TableChoice(place, exponent, signs), table))


def _choose_signs(scores: NDArray[np.float64], labels: NDArray[np.int64], unit: float) -> tuple[int, ...]:
    """Signs of the biases by which errors become fewer, column by column."""
    moved, signs = scores.copy(), []
    for column in range(scores.shape[1]):
        counts = {}
        for sign in (0, 1, -1):
            tried = moved.copy()
            tried[:, column] += sign * unit
            counts[sign] = _count_errors(tried, labels)
        best = min(counts, key=lambda sign: (counts[sign], abs(sign)))
        moved[:, column] += best * unit
        signs.append(best)
    return tuple(signs)


def _count_errors(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> int:
    """Rows whose label has not the largest score; those without a column are wrong."""
    has_column = labels < scores.shape[1]
    own = np.full(len(scores), -np.inf)
    own[has_column] = scores[has_column, labels[has_column]]
    others = scores.copy()
    others[has_column, labels[has_column]] = -np.inf
    return int((own <= others.max(axis=1)).sum())
