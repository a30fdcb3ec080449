"""``CertifiedClassifier``: any classifier of scikit-learn, and a certified error on new data."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_regressor
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from codebound.bounds.risk import check_delta, count_of
from codebound.certification import certify
from codebound.known.learners import describe_learner, score_classes
from codebound.known.score_tables import ScoreTable
from codebound.learn.any_picks import NO_ROUNDS, THE_END, PickingRule, UndecidedError, rounds
from codebound.request import ERROR, Known, Run
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.progress import open_bar
from codebound.sample.caveats import STANDARDISED
from codebound.sample.columns import as_cells
from codebound.sample.dataset import printable
from codebound.sample.load import load_sample
from codebound.sample.order import arrange, usual_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from codebound.learn.any_picks import Positions, Round
    from codebound.report.folder import Result
    from codebound.request import Claim
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Sample
    from codebound.sample.order import Arranged

F = TypeVar("F")

METHODS = ("share", "picks")
_SCORE_BITS = 16
"""Margins are rounded to so many bits of the largest score of an example: rounding errors become ties."""
_DOUBTFUL = 100  # one example in so many may be predicted differently beside others: it counts as wrong
_TRIED = 1000  # examples that a learner is asked to explain
_MOST_DENSE = 1 << 28  # numbers of a sparse matrix
_PATIENCE = 30  # picks without a smaller count, at least, after which the rounds end
_NONE = np.zeros(0, np.int64)


class LearnerError(UsageError, TypeError):
    """A learner failed, or its sample cannot be stored; the error behind it is the cause."""


def _has(name: str) -> Callable[[F], F]:
    """For methods that are there where the learner has them."""

    def check(self: CertifiedClassifier) -> bool:
        getattr(getattr(self, "estimator_", self.learner), name)
        return True

    return cast("Callable[[F], F]", available_if(check))


class CertifiedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that says how often it is wrong on new data, at most.

    The learner is fitted on the known share of the sample; the others are counted. The second program counts
    them again before anything is said, and ``result_`` has the certificate. By the method ``picks`` the
    learner is fitted again and again, with examples that it gets wrong; they count like errors (C-15).

    Whatever is fitted to data stands inside, as in ``CertifiedClassifier(make_pipeline(StandardScaler(),
    learner))``: before it in a pipeline it would see the counted examples.

    Args:
        learner: A classifier or a pipeline of scikit-learn, or anything with ``fit`` and ``predict``.
        method: ``share``, or ``picks`` for rounds of picks after it.
        share: Part of the sample that is known; None: half of a small one, more of a large one. It grows
            until it has examples of two classes.
        delta: Failure probability over the draw of the sample.
        claim: The error that is bounded, and how the sample was drawn; None: every error, of independent
            examples. A loss names classes by their place in ``classes_`` of the whole sample.
        batch: Wrong examples that are picked in a round, at most.
        growth: Picks of a round for each example that is learned from, if those are more than ``batch``.
        max_rounds: Rounds after which picking ends; None: when nothing is wrong, or nothing can be gained.
        progress: Told how far it is; None: a bar, in a terminal or a notebook.

    Attributes:
        estimator_: The fitted learner; the bound is about its predictions.
        bound_: The bound on its error.
        result_: The certificate with what belongs beside it; ``result_.save_to(folder)`` keeps it.
        picks_: Places of the picked examples; empty where none were.
        known_: Places of the known share.
        is_interrupted_: Whether Ctrl-C ended the rounds; the bound holds all the same.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.linear_model import LogisticRegression
        >>> images, labels = load_digits(n_class=2, return_X_y=True)
        >>> model = CertifiedClassifier(LogisticRegression()).fit(images, labels)
        >>> print(model.claim_)
        With probability at least 1 - 0.05 over the draw of the sample, this classifier errs on at most 2.41 %
        of new data.
    """

    def __init__(
        self,
        learner: Any,
        method: str = "share",
        *,
        share: float | None = None,
        delta: float = 0.05,
        claim: Claim | None = None,
        batch: int = 1,
        growth: float = 0.005,
        max_rounds: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.learner = learner
        self.method = method
        self.share = share
        self.delta = delta
        self.claim = claim
        self.batch = batch
        self.growth = growth
        self.max_rounds = max_rounds
        self.progress = progress

    def fit(self, X: Any, y: ArrayLike) -> CertifiedClassifier:
        """Fit the learner on the known share, and certify its error on the rest.

        Args:
            X: Inputs, examples along the first axis: an array, a data frame, a sparse matrix or a list of
                texts. The learner gets them as they are.
            y: Labels: numbers or texts.

        Raises:
            UsageError: A setting is out of its range, the learner fails, or the sample cannot be stored.
        """
        rule = self._check()
        inputs, labels = _read(X, y)
        fitter = Fitter(self.learner, inputs, labels)
        sample = fitter.store()
        claim = ERROR if self.claim is None else self.claim
        arranged = arrange(sample, claim.design)
        units = _count_known(arranged, self.share)
        fitter.known, counted = arranged.split(units)
        self.is_interrupted_ = False
        with open_bar(type(self).__name__) if self.progress is None else nullcontext(self.progress) as told:
            if self.method == "share":
                found: Found = {THE_END: (fitter.learn(_NONE), None)}
            else:
                order = np.lexsort((sample.y, arranged.inputs))  # a hash of the input, then the label
                ids = arranged.inputs * sample.classes + sample.y
                order = order[np.isin(order, counted)]
                steps = rounds(order, ids, fitter, rule, apart=len(fitter.known))
                found = self._pick(steps, told)
            tables = _declare(found, describe_learner(self.learner), rule, units)
            known, run = Known(scores=tables), Run(effort="quick", progress=told)
            self.result_: Result = certify(
                sample, known=known, claim=claim, method="scores", delta=self.delta, run=run
            )
        certificate = self.result_.certificate
        chosen, picks = found.get(certificate.table_choice.table) or next(iter(found.values()))
        self.estimator_, self.bound_ = chosen.model, self.result_.bound
        self.known_, self.picks_ = fitter.known, _NONE if picks is None else picks
        self.claim_ = (
            f"With probability at least 1 - {self.delta!r} over the draw of the sample, this classifier "
            f"{certificate.does}.{' VACUOUS: guessing does as well.' if self.result_.vacuous else ''}"
        )
        return self

    def _check(self) -> PickingRule:
        """Constants of the rounds; settings out of their range are refused."""
        learner = self.learner
        if isinstance(learner, type) or not hasattr(learner, "fit") or is_regressor(learner):
            raise UsageError(
                "`learner` is a classifier: an object with `fit` and `predict`, such as SVC(). Got "
                f"{getattr(learner, '__name__', learner)!r}."
            )
        if self.method not in METHODS:
            raise UsageError(f"`method` is {' or '.join(METHODS)}. Got {self.method!r}.")
        if self.method == "picks" and self.claim is not None and self.claim.clusters is not None:
            raise UsageError("rows are picked, and never clusters: take the method share.")
        check_delta(self.delta)
        Known(share=self.share)
        return PickingRule(self.batch, self.growth, self.max_rounds)

    def _pick(self, steps: Iterator[Round], told: Progress) -> Found:
        """Results of the rounds that have a place in the list; they end where little can be gained.

        Every place is paid for: to stop early, for whatever reason, costs nothing.
        """
        found: Found = {}
        fewest, least, since = math.inf, math.inf, 0
        try:
            for at in steps:
                picked, wrong = len(at.picks), len(at.errors)
                told(at.number, None, f"{count_of(picked, 'pick')}, {count_of(wrong, 'error')}")
                for place in at.places:
                    found[place] = at.model, None if place == NO_ROUNDS else np.sort(at.picks)
                    fewest = min(fewest, picked + wrong)
                if picked + wrong < least:
                    least, since = picked + wrong, picked
                if picked >= fewest or picked - since > max(_PATIENCE, least // 4):
                    break
        except KeyboardInterrupt:
            if not found:
                raise
            self.is_interrupted_ = True
        except (UndecidedError, LearnerError) as error:
            if not found:
                raise
            warnings.warn(f"the rounds ended early: {error}", stacklevel=3)
        return found

    @_has("predict")
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predictions of ``estimator_``. The bound is about these."""
        return self._learned.predict(X)  # type: ignore[no-any-return]

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of ``classes_`` by ``estimator_``; no bound is about them."""
        return self._learned.predict_proba(X)  # type: ignore[no-any-return]

    @_has("decision_function")
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of ``estimator_``; no bound is about them."""
        return self._learned.decision_function(X)  # type: ignore[no-any-return]

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the known share, and of the picks."""
        return self._learned.classes_  # type: ignore[no-any-return]

    @property
    def n_features_in_(self) -> int:
        """Features of an input, where the learner says so."""
        return self._learned.n_features_in_  # type: ignore[no-any-return]

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, where the learner keeps them."""
        return self._learned.feature_names_in_  # type: ignore[no-any-return]

    @property
    def _learned(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.learner)
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags or tags.classifier_tags
        tags.classifier_tags.multi_label = False
        return tags


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A fitted learner with its scores of every example, by rising label.

    The others are scores of two parts, back to front: they differ where other examples matter.
    """

    model: Any
    scores: NDArray[np.float32]
    others: NDArray[np.float32]


Found = dict[int, tuple[Scored, "Positions | None"]]
"""Classifiers by their place in the list of tables, with what was picked; None where no rule picks."""


class Fitter:
    """A learner on a sample: what it learns from the known share and picks, and what it gets wrong."""

    def __init__(self, learner: Any, inputs: Any, labels: NDArray[Any]) -> None:
        self.learner, self.inputs, self.labels = learner, inputs, labels
        self.classes, self.numbers = np.unique(labels, return_inverse=True)
        self.known = _NONE

    def store(self) -> Sample:
        """The sample as a certificate has it: tables of floats, words or gaps as cells.

        Raises:
            LearnerError: It cannot be stored, or the learner cannot take it either, and says why.
        """
        try:
            sample = _store(self.inputs, self.numbers, tuple(map(str, self.classes.tolist())))
        except CodeboundError as error:
            self._fit(np.arange(min(len(self.labels), _TRIED)))
            raise LearnerError(f"these examples cannot be stored, so nobody could count: {error}") from error
        if len(self.classes) < 2:
            raise LearnerError(f"a classifier needs two classes. Got {count_of(len(self.classes), 'class')}.")
        if STANDARDISED in sample.warnings:
            warnings.warn(
                f"{STANDARDISED}. A scaler that is fitted stands inside: "
                "CertifiedClassifier(make_pipeline(StandardScaler(), learner)).",
                stacklevel=3,
            )
        return sample

    def learn(self, picks: Positions) -> Scored:
        """The learner, fitted on the known share and the picks, in this order.

        Raises:
            LearnerError: It fails, or looks at more than one example when it predicts.
        """
        model, places = self._fit(np.concatenate([self.known, picks])), np.arange(len(self.labels))
        scores = self._score(model, places)
        others, half = np.empty_like(scores), len(places) // 2
        for part in (places[:half][::-1], places[half:][::-1]):
            if len(part):
                others[part] = self._score(model, part)
        differ = scores.argmax(axis=1) != others.argmax(axis=1)
        if differ.sum() > max(1, len(places) // _DOUBTFUL):
            raise LearnerError(
                f"{type(model).__name__} predicts {differ.sum()} of {len(places)} examples differently when "
                "others stand beside them: no bound is about such predictions."
            )
        scores[differ] = others[differ] = 0.0  # of no class, so wrong
        return Scored(model, scores, others)

    def judge(self, model: Scored, rest: Positions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Margins of examples, in both surroundings."""
        return tuple(_margins(each[rest], self.numbers[rest]) for each in (model.scores, model.others))  # type: ignore[return-value]

    def _fit(self, places: Positions) -> Any:
        model = clone(self.learner)
        try:
            return model.fit(_part(self.inputs, places), self.labels[places])
        except Exception as error:  # of somebody else's learner
            raise LearnerError(
                f"{type(model).__name__} failed on {count_of(len(places), 'example')} with "
                f"{type(error).__name__}: {error}. {_advice(self.inputs)}"
            ) from error

    def _score(self, model: Any, places: Positions) -> NDArray[np.float32]:
        try:
            return score_classes(model, _part(self.inputs, places), self.classes)
        except Exception as error:  # of somebody else's learner
            raise LearnerError(
                f"{type(model).__name__} learned from some examples, and failed on others with "
                f"{type(error).__name__}: {error}"
            ) from error


def _read(X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """Inputs and labels as scikit-learn takes them."""
    if y is None:
        raise UsageError("requires y to be passed, but the target y is None: a bound needs labels.")
    inputs, labels = indexable(X, y)
    if isinstance(inputs, list) and not isinstance(inputs[0], str):
        with suppress(TypeError, ValueError):  # of values that are no numbers, which stay as they are
            inputs = np.asarray(inputs, dtype=np.float64)  # whatever the other rows hold
    labels = column_or_1d(labels, warn=True)
    check_classification_targets(labels)
    return inputs, labels


def _store(inputs: Any, numbers: NDArray[np.int64], names: tuple[str, ...]) -> Sample:
    if getattr(inputs, "ndim", 2) == 1:  # a column of texts
        inputs = np.asarray(inputs, dtype=object)
    if hasattr(inputs, "tocsr") and math.prod(inputs.shape) > _MOST_DENSE:
        raise UsageError(
            f"a sparse matrix of {inputs.shape} is too large when it is written out. Give the texts "
            "themselves, and what makes numbers of them inside: make_pipeline(TfidfVectorizer(), learner)."
        )
    dtype = getattr(inputs, "dtype", None)
    is_table = getattr(inputs, "ndim", 0) == 2 and getattr(dtype, "kind", "") == "f"
    sample = replace(load_sample((inputs, numbers)), class_names=names)
    return replace(sample, x=as_cells(sample.x), is_cells=True) if is_table else sample


def _count_known(arranged: Arranged, share: float | None) -> int:
    """Units of the known share; more until it has two classes, which looks at known rows alone.

    Raises:
        LearnerError: None would be left to be counted.
    """
    units = arranged.units
    found = usual_share(units, is_rule=False) if share is None else math.floor(round(share * units, 9))
    labels = arranged.sample.y[arranged.places]
    second = int(np.argmax(labels != labels[0]))
    if arranged.clusters is not None:
        second = int(arranged.clusters[arranged.places[second]])
    found = max(found, second + 1)
    if found >= units:
        raise LearnerError(
            f"of {count_of(units, 'example')} none is left to be counted, after as many as have two classes. "
            "Give more."
        )
    return found


def _declare(found: Found, by: str, rule: PickingRule, rows: int) -> list[ScoreTable]:
    """The list of tables up to the last that was made; one that was not has no example right."""
    tables = []
    nothing = np.zeros_like(next(iter(found.values()))[0].scores)
    for place in range(1, 1 + max(found)):
        if place not in found:
            tables.append(ScoreTable(nothing, "nobody: the rounds did not come to their end", "nothing"))
            continue
        scored, picks = found[place]
        made, of = by, "the known share alone"
        if picks is not None:
            made, of = printable(f"{rule.describe(place)}: {by}"), "the known share and the picks"
        tables.append(ScoreTable(scored.scores, made, of, rows=rows, picks=picks))
    return tables


def _margins(scores: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Score of the label less the largest other one, rounded by the scale of each example; 1 where right."""
    values, own = scores.astype(np.float64), labels[:, None]
    label, scale = np.take_along_axis(values, own, axis=1)[:, 0], np.abs(values).max(axis=1)
    np.put_along_axis(values, own, -np.inf, axis=1)
    margins = label - values.max(axis=1)
    step = np.ldexp(1.0, np.frexp(scale)[1] - _SCORE_BITS)
    return np.asarray(np.where(margins > 0.0, 1.0, np.round(margins / step) * step))


def _part(inputs: Any, at: Positions) -> Any:
    """Some examples and nothing of the others: pandas keeps the categories of all rows with every part."""
    part = _safe_indexing(inputs, at)
    if not hasattr(part, "iloc"):
        return part
    part = part.copy(deep=False)
    if hasattr(part.index, "from_tuples"):
        part.index = part.index.from_tuples(list(part.index), names=part.index.names)
    elif hasattr(part.index, "remove_unused_categories"):
        part.index = part.index.remove_unused_categories()
    if part.ndim == 1:
        return part.cat.remove_unused_categories() if part.dtype.name == "category" else part
    for place, kind in enumerate(part.dtypes):
        if kind.name == "category":
            part.isetitem(place, part.iloc[:, place].cat.remove_unused_categories())
    return part


def _advice(inputs: Any) -> str:
    """A likely cause of a failure, and what to do about it."""
    shape: tuple[int, ...] = getattr(inputs, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        cell = np.asarray(_safe_indexing(inputs, [0]), dtype=object).item()
        if isinstance(cell, str):
            return (
                "X is a table with one column of texts, and a vectorizer takes the column itself, of one "
                "dimension: X['text'] of a frame, X[:, 0] of an array."
            )
    return "If these are too few for it, give more, or a larger `share`."
