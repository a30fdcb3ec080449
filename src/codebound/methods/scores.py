"""Declared scores: those that were given, or those of a usual learner of the known share, for two bits.

The second program repeats only the learner of its own, of at most 10,000 rows. Any other makes a table of
scores, which is declared and counted on the rest.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound import __version__
from codebound.bits.plain_code import FIRST_TABLE, TableChoice
from codebound.bounds.risk import count_of
from codebound.certificate.offers import table_outcome
from codebound.known.learners import fit_known, score_all
from codebound.known.score_tables import ScoreTable
from codebound.known.usual_learners import Comparison, has_many_columns
from codebound.learn.features import RoomError, is_picture
from codebound.learn.kernels import most_supports
from codebound.learn.learner import KernelNetwork
from codebound.learn.picking import carry_out, compare_rules
from codebound.methods.search import UnsuitedError
from codebound.run.errors import DataError, ModelError, UsageError
from codebound.sample.dataset import printable
from codebound.sample.order import usual_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.learn.rule import Rule
    from codebound.methods.search import Search

_SECONDS = {"quick": 0.0, "standard": 900.0, "max": math.inf}
_WIDEST = 8192  # numbers of a vector of features, as far as time is reckoned
_SIDE = 1024  # of a product that shows how fast a machine is
_SLOWER = 2.0  # times: all else is slower than a product of large matrices
_PICTURES = 1200  # that features of a kernel are chosen on: a few seconds
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
        search.offer(table_outcome(TableChoice(place), table, task.sample))
        _propose_biases(search, place, table)


def learn_table(search: Search) -> ScoreTable:
    """The scores of the usual learner that suits the known share best.

    Learners are compared by cross-validation inside a half of the sample; a larger share is taken where they
    promise a smaller bound of it. Pictures have the kernel, too, by errors on rows that are left out.

    Raises:
        UnsuitedError: There is no time for one, or none suits.
    """
    task, arranged = search.task, search.task.arranged
    if not search.is_asked and search.effort == "quick" and search.best is not None:
        raise UnsuitedError("learners are compared with more effort than quick.")
    half = max(arranged.units // 2, task.made_of)
    compared = Comparison(arranged, half, search.effort, search.progress)
    kernel = _choose_kernel(search, compared)
    share = compared.choose_share(delta=task.delta, other=kernel[1:] if kernel else None)
    if share is None:
        share = max(_usual_share(search), half)
    table = None
    if kernel is not None:
        table = _learn_kernel(search, share, kernel[0], compared)
    if table is None:
        table = _learn_usual(search, share, compared)
    search.skipped.update((f"learner: {name}", reason) for name, reason in compared.skipped.items())
    if table is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in compared.skipped.items())
        raise UnsuitedError(f"no usual learner suits these examples. {reasons}")
    return table


def _learn_usual(search: Search, share: int, compared: Comparison) -> ScoreTable | None:
    """The scores of the best learner that can be fitted on the whole share, or of the mean of two."""
    arranged = search.task.arranged
    for score in compared.scores:
        name = " and ".join(each.name for each in score.members)
        search.progress(0, None, f"learning: {name}")
        learners = [each.estimator for each in score.members]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what learners say of odd data, their errors show
                fitted = [
                    fit_known(each.estimator, arranged, share, compared.views[each.view])
                    for each in score.members
                ]
                return score_all(fitted, learners, arranged.sample, share)
        except (DataError, UsageError) as error:
            compared.skipped[name] = str(error)
    return None


def _usual_share(search: Search) -> int:
    return max(usual_share(search.task.arranged.units, is_rule=False), search.task.made_of)


def _choose_kernel(search: Search, compared: Comparison) -> tuple[Rule, int, int] | None:
    """The kernel learner with its errors and rows, where inputs are pictures, or wide, and it errs least.

    It is taken, too, where no other learner suits.
    """
    arranged, device = search.task.arranged, search.device
    suits = is_picture(arranged.sample.input_shape) or has_many_columns(arranged.sample)
    if compared.scores and not suits:
        return None
    learned, n = min(arranged.cut(_usual_share(search)), most_supports(_WIDEST)), arranged.sample.n
    needed = _estimate_seconds(learned, n, device)
    if not search.is_asked and needed > _SECONDS[search.effort]:
        minutes = count_of(math.ceil(needed / 60.0), "minute")
        compared.skipped["kernel"] = (
            f"on {learned:,} examples it would take some {minutes} here: give the effort max, or choose the "
            "method scores."
        )
        return None
    try:
        first = min(compared.share, max(1, arranged.units * _PICTURES // n))
        found = compare_rules(arranged, first, device=device, progress=search.progress)
    except (ModelError, RoomError, UsageError) as error:
        compared.skipped["kernel"] = str(error)
        return None
    if compared.scores and found[1] > compared.scores[0].count_errors(found[2]):
        compared.skipped["kernel"] = "it errs more often than another one."
        return None
    return found


def _learn_kernel(search: Search, share: int, rule: Rule, compared: Comparison) -> ScoreTable | None:
    """The scores of the kernel learner of the whole share."""
    arranged = search.task.arranged
    given: dict[str, Any] = {"device": search.device, "progress": search.progress}
    try:
        found = carry_out(rule, arranged, form=FIRST_TABLE, first=share, **given)
    except (ModelError, RoomError, UsageError) as error:
        compared.skipped["kernel"] = str(error)
        return None
    return ScoreTable(
        found.outputs.float().numpy(),
        by=printable(f"codebound {__version__}, kernel ridge regression, {rule}"),
        of="the known share alone",
        rows=share,
        classifier=KernelNetwork.of(found, arranged.sample),
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
    sample, counted = search.task.sample, search.task.arranged.split(table.rows)[1]
    scores, labels = table.scores[counted].astype(np.float64), sample.y[counted]
    fewest = _count_errors(scores, labels)
    for exponent in _EXPONENTS[search.effort]:
        signs = _choose_signs(scores, labels, 2.0 ** (exponent - _BIAS))
        biased = scores + np.array(signs) * 2.0 ** (exponent - _BIAS)
        if any(signs) and _count_errors(biased, labels) < fewest:
            search.offer(table_outcome(TableChoice(place, exponent, signs), table, sample))


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
