"""Declared scores: those that were given, or those of a usual learner of the known share, for two bits.

The second program repeats only the learner of its own, of at most 10,000 rows. Any other makes a table of
scores, which is declared and counted on the rest.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound import __version__
from codebound.bits.plain_code import FIRST_TABLE, RULES, TableChoice
from codebound.certificate.offers import table_outcome
from codebound.known.learners import learn_scores
from codebound.known.score_tables import ScoreTable, run_on
from codebound.known.usual_learners import Comparison, has_many_columns, is_usual, learn_usual
from codebound.learn.features import RoomError, is_picture
from codebound.learn.kernels import most_supports
from codebound.learn.learner import KernelNetwork
from codebound.learn.picking import carry_out, compare_rules
from codebound.methods.search import UnsuitedError
from codebound.run.errors import CertificateError, DataError, ModelError, UsageError
from codebound.run.extensions import find_extensions, resolve
from codebound.run.progress import Progress, silent
from codebound.sample.dataset import printable
from codebound.sample.order import Design, arrange, usual_share

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from codebound.certificate.file import Certificate
    from codebound.certificate.offers import Outcome
    from codebound.learn.rule import Rule
    from codebound.methods.search import Search
    from codebound.request import Task
    from codebound.sample.dataset import Sample
    from codebound.sample.order import Arranged

_MOST_LEARNED = {"quick": 0, "standard": 15_000, "max": 1 << 40}  # by a kernel that nobody asked for
_WIDEST = 8192  # numbers of a vector of features, as far as memory is reckoned
_MANY_PICTURES = 20_000  # examples from which on a network learns more than other learners have time for
_MOST_WHOLE = 4000  # supports of the kernel learner of a whole sample: a second or two
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

    Learners are compared by cross-validation inside a half of the sample. A larger share is taken where it
    promises nearly as small a bound; the best learners are compared on what it adds, too. Pictures have the
    kernel, by errors on rows that are left out; many pictures have a network, without a comparison.

    Raises:
        UnsuitedError: There is no time for one, or none suits.
    """
    task, arranged = search.task, search.task.arranged
    if not search.is_asked and search.effort == "quick" and search.best is not None:
        raise UnsuitedError("learners are compared with more effort than quick.")
    are_many = is_picture(arranged.sample.input_shape) and arranged.units >= _MANY_PICTURES
    if are_many and (home := find_extensions()["LEARNERS"].get("pictures")):
        if not search.is_asked and search.effort != "max":
            raise UnsuitedError("of so many pictures a network learns, for minutes: give the effort max.")
        return _train_network(home, arranged, _usual_share(search), search.device, search.progress)
    half = max(arranged.units // 2, task.made_of)
    compared = Comparison(arranged, half, search.effort, search.progress)
    kernel = _choose_kernel(search, compared)
    share = compared.choose_share(delta=task.delta, other=kernel[1:] if kernel else None)
    if share is None:
        share = max(_usual_share(search), half)
    table = None
    if kernel is not None:
        table = _learn_kernel(search, share, kernel[0], compared)
    for score in compared.compare_on(share) if table is None else ():
        search.progress(0, None, f"learning: {score.names}")
        try:
            table = learn_usual(score.names, arranged, share)
            break
        except (DataError, UsageError) as error:
            compared.skipped[score.names] = str(error)
    search.skipped.update((f"learner: {name}", reason) for name, reason in compared.skipped.items())
    if table is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in compared.skipped.items())
        raise UnsuitedError(f"no usual learner suits these examples. {reasons}")
    return table


def fit_again(certificate: Certificate, sample: Sample) -> ScoreTable:
    """The scores of the usual learner that a certificate names, of the known share of its sample.

    Raises:
        CertificateError: It names another one.
    """
    facts, declared = certificate.sample, certificate.known.tables[0]
    if not is_usual(declared.by) or facts.clusters is not None:
        raise CertificateError(
            f"this certificate counts declared scores, of {declared.by}: the classifier behind them is not "
            "in the file, and is no usual learner that could be fitted again. Give it."
        )
    arranged = arrange(sample, Design(facts.order, facts.copies, facts.salt, facts.seal))
    if declared.by in find_extensions()["LEARNERS"].values():
        return _train_network(declared.by, arranged, declared.rows, "cpu")
    return learn_usual(declared.by, arranged, declared.rows)


def learn_whole(outcome: Outcome, task: Task, learner: Any) -> nn.Module | None:
    """The learner of an outcome, fitted on the whole sample; None where that is not known, or takes long."""
    arranged, made = task.arranged, outcome.made
    # a comparison, and no part of the certificate
    with suppress(DataError, ModelError, RoomError, UsageError):
        if outcome.form in RULES:
            if made.rule.supports_each * arranged.sample.n <= _MOST_WHOLE:
                found = carry_out(made.rule, arranged, form=FIRST_TABLE, first=arranged.units - 1)
                return KernelNetwork.of(found, arranged.sample)
        elif isinstance(made, ScoreTable) and hasattr(learner, "fit"):
            return learn_scores(learner, arranged, arranged.units).classifier
        elif isinstance(made, ScoreTable) and is_usual(made.by):
            return learn_usual(made.by, arranged, arranged.units).classifier
    return None


def _train_network(
    home: str, arranged: Arranged, share: int, device: Any, progress: Progress = silent
) -> ScoreTable:
    """The scores of a network of pictures as they are stored, which an extension trains."""
    prior = arranged.sample.select(arranged.split(share)[0], role="prior")
    network = resolve(home)(prior, device=device, progress=progress)
    scores = run_on(network, arranged.sample, device=device, progress=progress)
    return ScoreTable(scores, home, of="the known share alone", rows=share, classifier=network)


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
    learned = min(arranged.cut(_usual_share(search)), most_supports(_WIDEST))
    if not search.is_asked and learned > _MOST_LEARNED[search.effort]:
        compared.skipped["kernel"] = (
            f"on {learned:,} examples it takes many minutes: give the effort max, or the method scores."
        )
        return None
    try:
        first = min(compared.share, max(1, arranged.units * _PICTURES // arranged.sample.n))
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
