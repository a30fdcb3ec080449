"""Estimators of scikit-learn as learners of a rule: functions of the picks, and of one example at a time."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from codebound.errors import UsageError
from codebound.estimator.rule import Judgement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from codebound.estimator.rule import Positions

_SCORE_BITS = 16
"""Margins are rounded to so many bits of the largest score of an example: rounding errors become ties."""


class LearnerError(UsageError, TypeError):
    """A learner failed; its own error, of whatever kind, is the cause."""


@dataclass(frozen=True, slots=True)
class Fitter:
    """An estimator on a sample.

    Attributes:
        estimator: The estimator, not fitted.
        inputs: The inputs of the sample.
        labels: The labels or values of the sample.
        apart: Positions of the examples that are always learned from.
        tau: Largest residual that is no fault; None for classifiers.
        faults: For classifiers, the classes and which prediction is a fault for each label.
        aim: Wrong examples with a margin near ``-aim`` are picked first; None: the smallest margins.
        warm: Whether a model goes on from the one before.
    """

    estimator: Any
    inputs: Any
    labels: NDArray[Any]
    apart: Positions
    tau: float | None
    aim: float | None
    warm: bool
    faults: tuple[NDArray[Any], NDArray[np.bool_]] | None = None

    def learn(self, picks: Positions, before: Any) -> Any:
        """The estimator, fitted on the examples set apart and the picks, in this order.

        Raises:
            LearnerError: It cannot be fitted.
        """
        at = np.concatenate([self.apart, picks])
        model = deepcopy(before) if self.warm and before is not None else clone(self.estimator)
        try:
            return model.fit(_safe_indexing(self.inputs, at), self.labels[at])
        except Exception as error:  # of somebody else's learner
            raise LearnerError(
                f"the learner {type(model).__name__} failed on {len(at)} picked examples with "
                f"{type(error).__name__}: {error}. If these are too few for it, set more apart (`apart`) or "
                "begin with more picks (`first`)."
            ) from error

    def judge(self, model: Any, rest: Positions) -> tuple[Judgement, Judgement]:
        """All examples at once, and in two parts back to front."""
        half = len(rest) // 2
        places = np.arange(len(rest))
        others = (places[:half][::-1], places[half:][::-1])
        return self._judged(model, rest, (places,)), self._judged(model, rest, others)

    def is_repeatable(self, model: Any, picks: Positions, before: Any) -> bool:
        """Whether the estimator, fitted once more on the same picks, answers the same on the whole sample."""
        again = self.learn(picks, before)
        return all(
            _is_alike(_answers(model, name, self.inputs), _answers(again, name, self.inputs))
            for name in ("predict", "predict_proba", "decision_function")
            if hasattr(model, name)
        )

    def _judged(self, model: Any, rest: Positions, parts: Iterable[Positions]) -> Judgement:
        wrong, score = np.zeros(len(rest), dtype=bool), np.zeros(len(rest))
        for part in parts:
            if not len(part):
                continue
            at = rest[part]
            predicted = _answers(model, "predict", _safe_indexing(self.inputs, at))
            if predicted.size != len(at):
                raise LearnerError(
                    f"the learner {type(model).__name__} predicts values of shape {predicted.shape} for "
                    f"{len(at)} examples: one for each is needed."
                )
            predicted = predicted.reshape(len(at))
            wrong[part] = self._faults(predicted, at)
            failed = wrong[part]
            if failed.any():
                score[part[failed]] = self._scores(model, predicted[failed], at[failed])
        return Judgement(wrong, score)

    def _faults(self, predicted: NDArray[Any], at: Positions) -> NDArray[np.bool_]:
        if self.tau is None and self.faults is not None:
            classes, is_bad = self.faults
            places = np.searchsorted(classes, predicted).clip(max=len(classes) - 1)
            unknown = classes[places] != predicted  # a class that no label has
            return np.asarray(is_bad[np.searchsorted(classes, self.labels[at]), places] | unknown)
        if self.tau is None:
            return np.asarray(predicted != self.labels[at], dtype=bool)
        return np.asarray(~(np.abs(predicted - self.labels[at]) <= self.tau))  # NaN is a fault

    def _scores(self, model: Any, predicted: NDArray[Any], at: Positions) -> NDArray[np.float64]:
        if self.tau is None:
            margins, scale = _margins(model, _safe_indexing(self.inputs, at), self.labels[at])
        else:
            margins = self.tau - np.abs(predicted - self.labels[at])
            scale = np.maximum(np.abs(predicted), np.abs(self.labels[at]))
        margins = _rounded(margins, scale)
        return margins if self.aim is None else np.abs(margins + self.aim)


def _answers(model: Any, method: str, inputs: Any) -> NDArray[Any]:
    try:
        return np.asarray(getattr(model, method)(inputs))
    except Exception as error:  # of somebody else's learner
        raise LearnerError(
            f"the learner {type(model).__name__} learned from the picks, but its {method} failed with "
            f"{type(error).__name__}: {error}. If the picks were too few for it, set more apart (`apart`) or "
            "begin with more picks (`first`)."
        ) from error


def _margins(
    model: Any, inputs: Any, labels: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score of the label less the largest other one, and the largest score; zero without scores."""
    method = next((name for name in ("predict_proba", "decision_function") if hasattr(model, name)), None)
    classes = getattr(model, "classes_", None)
    nothing = np.zeros(len(labels))
    if method is None or classes is None or len(classes) < 2:
        return nothing, nothing
    scores = _answers(model, method, inputs).astype(np.float64)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    if scores.shape != (len(labels), len(classes)):
        return nothing, nothing
    is_label = np.asarray(classes)[None, :] == labels[:, None]
    others = np.where(is_label, -np.inf, scores).max(axis=1)
    label = np.where(is_label, scores, -np.inf).max(axis=1)
    label = np.where(is_label.any(axis=1), label, scores.min(axis=1))  # a class that no pick had
    return label - others, np.abs(scores).max(axis=1)


def _rounded(margins: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Margins on a grid that is set by the scale of each example alone; what is no number is the worst."""
    margins = np.where(np.isnan(margins), -np.inf, margins)
    step = np.ldexp(1.0, np.frexp(np.where(np.isfinite(scale), scale, 1.0))[1] - _SCORE_BITS)
    return np.asarray(np.round(margins / step) * step)


def _is_alike(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind in "fc":
        return bool(np.allclose(one, other, rtol=1e-6, atol=1e-9, equal_nan=True))
    return bool(np.array_equal(one, other))
