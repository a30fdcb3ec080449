"""``PickToLearn``: any learner with the interface of scikit-learn, and a bound on the error on new data."""

from __future__ import annotations

import warnings
from contextlib import nullcontext, suppress
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from codebound.any_learner.candidates import RoundSearch, Sample, Variant, digests
from codebound.any_learner.learners import Fitter
from codebound.any_learner.picking_rule import RuleConstants
from codebound.bounds.facts import check_bits, check_delta
from codebound.bounds.risk import percent
from codebound.run.errors import DataError, UsageError
from codebound.run.progress import open_bar
from codebound.sample.caveats import STANDARDISED, looks_standardised
from codebound.sample.dataset import permutation
from codebound.sample.losses import WRONG, parse_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from codebound.any_learner.picking_rule import Positions
    from codebound.bounds.risk import RiskBound
    from codebound.run.progress import Progress
    from codebound.sample.losses import Loss

F = TypeVar("F")

_NEVER_CHOSEN = ("candidates", "delta", "extra_bits", "loss", "progress", "tau")
"""Settings that say what is claimed: candidates cannot choose among them."""
_LEAST_TO_SET_APART = 100  # examples of a sample
_GROWTH = 0.01  # of what is learned from, in a round
_MOST_COPIES = 100  # one example in so many may be a copy of an earlier one


def _has(name: str) -> Callable[[F], F]:
    """For methods that are there where the learner has them."""

    def check(self: PickToLearn) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return cast("Callable[[F], F]", available_if(check))


class PickToLearn(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns from few examples, which it picks itself, and bounds how often the result is wrong on new data.

    The learner is fitted on examples that are set apart and on the picks. Every pick, and every other example
    of the rest that it still gets wrong, counts as an error of a test set as large as the rest (C-15). There
    is a bound after every round; the smallest is kept, and this choice is paid for in bits. With nothing
    picked it is that of a hold-out set (C-10).

    ``risk_bound_.assumptions`` says what has to be true. In particular the learner and all settings are fixed
    before the sample is seen, or listed in ``candidates``; and whatever is fitted to data stands inside, as
    in ``PickToLearn(make_pipeline(StandardScaler(), learner))``, never before it in a pipeline.

    Args:
        estimator: A deterministic classifier or regressor, such as one with a fixed ``random_state``.
        tau: For regressors: a prediction that is off by more than this is wrong.
        loss: For classifiers: what counts, and is picked, in place of any error: ``class:C``,
            ``confused:A:B``, ``false-alarm:C``, ``top:K`` or ``cost-above:L:COSTS``
            (docs/losses.md). Labels are then whole numbers from 0 on. The bound is about data
            that the loss is about; scores are probabilities, or decisions without them.
        delta: Failure probability over the draw of the sample.
        first: First picks in each class (for regressors: in all), in the order of a hash of their content.
            None: 1, and 0 where ``auto`` sets examples apart.
        apart: Examples that are set apart before, and learned from without being counted, by a fixed order:
            then the order of the rows must not depend on the data, which you promise. ``auto``: two
            thirds, and none of fewer than 100. Give 0 where rows are sorted.
        batch: Wrong examples that are picked in a round, at most. One at a time needs the fewest picks, and
            the most fits.
        growth: Picks of a round for each example that is learned from, where these are more than ``batch``.
            None: 0, and 0.01 where ``auto`` sets examples apart.
        leave: The rounds end when no more than so many examples are wrong, fewer than ``batch``.
        max_rounds: The rounds end after so many.
        aim: The wrong examples are picked whose margin is nearest to ``-aim``: of probabilities, of decisions
            if there are none, of regressors ``tau`` less the residual. None: the worst, which noise may be.
        candidates: Settings to choose from, such as ``[{"estimator__C": 1.0}, {"batch": 1}]``; the choice
            costs the logarithm of their number.
        extra_bits: Bits for choices that were made with this sample elsewhere: ``log2`` of the number of
            settings that a grid search compared.
        progress: Told after each round how many are done, and the best bound so far; None: a bar, in a
            terminal or a notebook.

    Attributes:
        estimator_: What was learned; the bound is about it.
        risk_bound_: The bound, with its facts and assumptions.
        picks_: Positions of the picks in the sample, in their order.
        errors_: Positions of the others that are wrong.
        apart_: Positions of the examples that were set apart.
        n_: Examples that could be picked.
        message_: Which candidate, and after how many rounds.
        settings_: The settings of that candidate.
        stages_: All rounds, each with its bound.
        is_interrupted_: Whether somebody stopped the search; the bound holds all the same.
        sample_sha256_: Hash of the sample, in its order.
        picks_sha256_: Hash of the picks, in their order.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.linear_model import LogisticRegression
        >>> images, labels = load_digits(n_class=2, return_X_y=True)
        >>> model = PickToLearn(LogisticRegression()).fit(images, labels)
        >>> model.n_, len(model.picks_) + len(model.errors_) < 10, model.risk_bound_.value < 0.04
        (120, True, True)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        tau: float | None = None,
        loss: str = "wrong",
        delta: float = 0.05,
        first: int | None = None,
        apart: int | str = "auto",
        batch: int = 1,
        growth: float | None = None,
        leave: int = 0,
        max_rounds: int | None = None,
        aim: float | None = None,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        extra_bits: float = 0.0,
        progress: Progress | None = None,
    ) -> None:
        self.estimator = estimator
        self.tau = tau
        self.loss = loss
        self.delta = delta
        self.first = first
        self.apart = apart
        self.batch = batch
        self.growth = growth
        self.leave = leave
        self.max_rounds = max_rounds
        self.aim = aim
        self.candidates = candidates
        self.extra_bits = extra_bits
        self.progress = progress

    def fit(self, X: Any, y: ArrayLike) -> PickToLearn:
        """Picks, learns and counts.

        Whoever stops it by Ctrl-C after the first round keeps the best result so far: the number of rounds is
        paid for in any case.

        Args:
            X: Inputs, examples along the first axis: whatever the learner takes.
            y: Labels or values.

        Raises:
            UsageError: A setting is out of its range; or the learner fails on the picks, or gives another
                result for the same picks, or looks at more than one example when it predicts.
        """
        sample = self._sample(X, y)
        watched = open_bar("PickToLearn") if self.progress is None else nullcontext(self.progress)
        variants = self._variants(sample)
        with watched as progress:
            search = RoundSearch(variants, progress)
            stage, at = search.run()
        self.stages_, self.is_interrupted_ = tuple(search.stages), search.is_interrupted
        self.estimator_, self.message_ = at.model, stage.message
        self.risk_bound_: RiskBound = stage.bound
        self.settings_ = dict(self.candidates[stage.message.candidate]) if self.candidates else {}
        self.picks_, self.errors_ = at.picks, np.sort(at.errors)
        best = variants[stage.message.candidate]
        self.apart_, self.n_ = best.fitter.apart, best.n
        if is_classifier(self.estimator):
            counted = np.delete(sample.labels, self.apart_)
            self._constant_error = 1.0 - np.unique(counted, return_counts=True)[1].max() / len(counted)
        self.sample_sha256_, self.picks_sha256_ = sample.sha256(), sample.sha256(at.picks.tolist())
        return self

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

    @_has("score")
    def score(self, X: Any, y: ArrayLike) -> float:
        """The score of ``estimator_``: accuracy, or R² of a regressor."""
        return float(self._learned.score(X, y))

    @property
    def claim_(self) -> str:
        """The guarantee in words."""
        check_is_fitted(self, "estimator_")
        bound = self.risk_bound_
        share = percent(bound.value)
        does = f"is wrong on at most {share} of new data"
        if self.tau is not None:
            does = f"is off by more than {self.tau!r} on at most {share} of new data"
        elif self.loss != str(WRONG):
            does = parse_loss(self.loss).says(share)
        return (
            f"With probability at least 1 - {bound.delta!r} over the draw of the sample, what was learned "
            f"{does} ({bound.ref})." + self._vacuous
        )

    @property
    def _vacuous(self) -> str:
        """That the bound says nothing, where it does not."""
        bound, loss = self.risk_bound_, parse_loss(self.loss)
        is_plain = loss == WRONG and self.tau is None
        if is_plain and bound.value >= self._constant_error:
            return (
                " VACUOUS: the commonest label, always given, is wrong on "
                f"{percent(self._constant_error)} of the examples that count."
            )
        is_vacuous = bound.vacuous
        if not is_plain and bound.facts.classes is not None:
            is_vacuous = bound.value >= loss.guess_rate(max(bound.facts.classes, loss.least_classes))
        return " VACUOUS: it says no more than guessing." if is_vacuous else ""

    @property
    def code_bits_(self) -> float:
        """Length of the message, with the bits for choices made elsewhere."""
        check_is_fitted(self, "estimator_")
        return self.message_.bits(max(1, len(self.candidates or ()))) + self.extra_bits

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes that ``estimator_`` knows."""
        return self._learned.classes_  # type: ignore[no-any-return]

    @property
    def n_features_in_(self) -> int:
        """Features of an input, where the learner says so."""
        return self._learned.n_features_in_  # type: ignore[no-any-return]

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, where the learner keeps them."""
        return self._learned.feature_names_in_  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.target_tags.multi_output = False
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        return tags

    @property
    def _learned(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def _sample(self, X: Any, y: ArrayLike) -> Sample:
        """Inputs and labels as they are stored, with their hashes."""
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise UsageError(
                "`estimator` is an object with `fit` and `predict`, such as SVC(). Got "
                f"{getattr(self.estimator, '__name__', self.estimator)!r}."
            )
        if y is None:
            raise UsageError("requires y to be passed, but the target y is None: a bound needs labels.")
        inputs, labels = indexable(X, y)
        if isinstance(inputs, list) and not isinstance(inputs[0], str):
            with suppress(TypeError, ValueError):  # of values that are no numbers, which stay as they are
                inputs = np.asarray(inputs, dtype=np.float64)  # whatever the other rows hold
        labels = column_or_1d(labels, warn=True)
        if is_classifier(self.estimator):
            check_classification_targets(labels)
        else:
            labels = check_array(labels, ensure_2d=False, dtype=np.float64, input_name="y")
        if isinstance(inputs, np.ndarray) and looks_standardised(inputs):
            warnings.warn(
                f"{STANDARDISED}. A scaler that is fitted stands inside: "
                "PickToLearn(make_pipeline(StandardScaler(), learner)).",
                stacklevel=3,
            )
        found = Sample(inputs, labels, digests(inputs, labels))
        copies = len(labels) - len(set(found.digests))
        if _MOST_COPIES * copies > len(labels):
            warnings.warn(
                f"{copies} of {len(labels)} examples are exact copies of earlier ones: the bound holds if "
                "they are independent draws that happen to be equal. Leave out what was repeated.",
                stacklevel=3,
            )
        return found

    def _apart(self, n: int) -> Positions:
        apart = (2 * n // 3 if n >= _LEAST_TO_SET_APART else 0) if self.apart == "auto" else self.apart
        if not isinstance(apart, int | np.integer) or not 0 <= apart < n:
            raise UsageError(
                f"`apart` counts examples that are set apart, fewer than the {n} of the sample, or is "
                f"'auto'. Got {self.apart!r}."
            )
        return permutation(n)[:apart]

    def _variants(self, sample: Sample) -> list[Variant]:
        """This estimator with the settings of each candidate."""
        for settings in self.candidates or ():
            if found := [name for name in settings if name in _NEVER_CHOSEN]:
                raise UsageError(f"candidates cannot differ in {', '.join(found)}: fix it beforehand.")
        plain = clone(self).set_params(candidates=None)
        candidates = self.candidates or ({},)
        return [clone(plain).set_params(**each)._variant(sample, len(candidates)) for each in candidates]

    def _variant(self, sample: Sample, candidates: int) -> Variant:
        if is_classifier(self.estimator) != (self.tau is None):
            raise UsageError(
                "`tau` says which residual of a regressor is a loss: give it for regressors, and for no "
                f"classifier. Got tau={self.tau!r} for {type(self.estimator).__name__}."
            )
        if self.tau is not None and not self.tau >= 0.0:
            raise UsageError(f"`tau` is a residual, at least 0. Got {self.tau!r}.")
        check_delta(self.delta)
        check_bits(self.extra_bits)
        apart = self._apart(len(sample.labels))
        is_set_apart = self.apart == "auto" and len(apart) > 0
        rule = RuleConstants(
            first=(0 if is_set_apart else 1) if self.first is None else self.first,
            batch=self.batch,
            growth=(_GROWTH if is_set_apart else 0.0) if self.growth is None else self.growth,
            leave=self.leave,
            max_rounds=self.max_rounds,
        )
        loss, classes = self._loss(sample)
        fitter = Fitter(
            *(self.estimator, sample.inputs, sample.labels, apart, self.tau, self.aim),
            loss=loss,
            classes=classes,
        )
        part = np.ones(len(sample.labels), dtype=bool)
        if loss is not None and loss.has_part:
            part = loss.is_about(torch.from_numpy(sample.labels.astype(np.int64))).numpy()
        n = int(part.sum()) - int(part[apart].sum())
        if not n:
            raise DataError(f"no example that is not set apart can have the loss {self.loss}.")
        return Variant(
            rule=rule,
            fitter=fitter,
            contents=sample.contents(apart, by_class=self.tau is None),
            n=n,
            delta=self.delta,
            classes=max(2, len(np.unique(sample.labels))) if is_classifier(self.estimator) else None,
            candidates=candidates,
            extra_bits=self.extra_bits,
            part=part,
        )

    def _loss(self, sample: Sample) -> tuple[Loss | None, int]:
        """Return the loss and its number of classes. For plain errors, None and 0."""
        if self.loss == str(WRONG):
            return None, 0
        if self.tau is not None:
            raise UsageError("a regressor has the loss that `tau` says: leave out `loss`.")
        labels, found = sample.labels, parse_loss(self.loss)
        if labels.dtype.kind not in "iu" or labels.min() < 0:
            raise UsageError(
                f"the loss {self.loss} names classes: label them by whole numbers from 0 on, fixed before "
                f"the sample was seen. Got labels of type {labels.dtype}."
            )
        named = 1 + max(astuple(found)) if found.has_part else 0
        count = max(int(labels.max()) + 1, found.least_classes, named)
        return parse_loss(self.loss, classes=count), count
