"""Estimators of scikit-learn as learners of a rule: functions of the picks, and of one example at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from codebound.any_learner.picking_rule import Judgement
from codebound.bounds.risk import count_of
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from codebound.any_learner.picking_rule import Positions
    from codebound.sample.losses import Loss

_SCORES = ("predict_proba", "decision_function")
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
        tau: Largest residual that is no loss; None for classifiers.
        loss: For classifiers, what is a loss, of labels that are whole numbers; None: any error.
        classes: How many classes there are then.
        aim: Wrong examples with a margin near ``-aim`` are picked first; None: the smallest margins.
    """

    estimator: Any
    inputs: Any
    labels: NDArray[Any]
    apart: Positions
    tau: float | None
    aim: float | None
    loss: Loss | None = None
    classes: int = 0

    def learn(self, picks: Positions) -> Any:
        """The estimator, fitted on the examples set apart and the picks, in this order.

        Raises:
            LearnerError: It cannot be fitted.
        """
        at, model = np.concatenate([self.apart, picks]), clone(self.estimator)
        try:
            return model.fit(_part(self.inputs, at), self.labels[at])
        except Exception as error:  # of somebody else's learner
            raise LearnerError(
                f"the learner {type(model).__name__} failed on {count_of(len(at), 'example')} with "
                f"{type(error).__name__}: {error}. {_advice(self.inputs)}"
            ) from error

    def judge(self, model: Any, rest: Positions) -> tuple[Judgement, Judgement]:
        """All examples at once, and in two parts back to front."""
        half = len(rest) // 2
        places = np.arange(len(rest))
        others = (places[:half][::-1], places[half:][::-1])
        return self._judge(model, rest, (places,)), self._judge(model, rest, others)

    def is_repeatable(self, model: Any, picks: Positions) -> bool:
        """Return True if a refit on the same picks gives the same answers."""
        again = self.learn(picks)
        return all(
            _is_alike(_call_method(model, name, self.inputs), _call_method(again, name, self.inputs))
            for name in ("predict", *_SCORES)
            if hasattr(model, name)
        )

    def _judge(self, model: Any, rest: Positions, parts: Iterable[Positions]) -> Judgement:
        wrong, score = np.zeros(len(rest), dtype=bool), np.zeros(len(rest))
        for part in parts:
            if not len(part):
                continue
            at = rest[part]
            predicted = _call_method(model, "predict", _part(self.inputs, at))
            if predicted.size != len(at):
                raise LearnerError(
                    f"the learner {type(model).__name__} predicts values of shape {predicted.shape} for "
                    f"{count_of(len(at), 'example')}: one for each is needed."
                )
            predicted = predicted.reshape(len(at))
            wrong[part] = self._losses(model, predicted, at)
            failed = wrong[part]
            if failed.any():
                score[part[failed]] = self._scores(model, predicted[failed], at[failed])
        return Judgement(wrong, score)

    def _losses(self, model: Any, predicted: NDArray[Any], at: Positions) -> NDArray[np.bool_]:
        """Return a mask of the wrong examples."""
        labels, loss = self.labels[at], self.loss
        if self.tau is not None:
            return np.asarray(~(np.abs(predicted - labels) <= self.tau))  # NaN is a loss
        if loss is None:
            return np.asarray(predicted != labels, dtype=bool)
        if loss.is_ranked:
            if not any(hasattr(model, name) for name in _SCORES):
                raise LearnerError(
                    f"the learner {type(model).__name__} has no scores of its classes "
                    f"({' or '.join(_SCORES)}), which this loss is about. Ask for another loss."
                )
            inputs = _part(self.inputs, at)
            return np.asarray(_round(*_margins(model, inputs, labels, best=loss.guesses)) <= 0.0)
        is_known = np.isin(predicted, np.arange(self.classes))  # others cost the most
        places = np.where(is_known, predicted, 0)
        guessed, right = (torch.from_numpy(each.astype(np.int64)) for each in (places, labels))
        scores = torch.nn.functional.one_hot(guessed, self.classes)
        return np.asarray(loss.is_incurred(scores, right).numpy() | ~is_known)

    def _scores(self, model: Any, predicted: NDArray[Any], at: Positions) -> NDArray[np.float64]:
        if self.tau is None:
            best = 1 if self.loss is None else self.loss.guesses
            inputs = _part(self.inputs, at)
            margins, scale = _margins(model, inputs, self.labels[at], best=best)
        else:
            margins = self.tau - np.abs(predicted - self.labels[at])
            scale = np.maximum(np.abs(predicted), np.abs(self.labels[at]))
        margins = _round(margins, scale)
        return margins if self.aim is None else np.abs(margins + self.aim)


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
    return "If these are too few for it, set more apart (`apart`) or begin with more picks (`first`)."


def _call_method(model: Any, method: str, inputs: Any) -> NDArray[Any]:
    try:
        return np.asarray(getattr(model, method)(inputs))
    except Exception as error:  # of somebody else's learner
        raise LearnerError(
            f"the learner {type(model).__name__} learned from the picks, but its {method} failed with "
            f"{type(error).__name__}: {error}. If the picks were too few for it, set more apart (`apart`) or "
            "begin with more picks (`first`)."
        ) from error


def _all_scores(model: Any, inputs: Any) -> NDArray[np.float64] | None:
    """The scores of the classes that a model knows; None without, or where it knows one class alone."""
    method = next((name for name in _SCORES if hasattr(model, name)), None)
    classes = getattr(model, "classes_", None)
    if method is None or classes is None or len(classes) < 2:
        return None
    scores = _call_method(model, method, inputs).astype(np.float64)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    return scores if scores.shape == (_num_samples(inputs), len(classes)) else None


def _margins(
    model: Any, inputs: Any, labels: NDArray[Any], *, best: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score of the label less the largest other one, or a later one, and the largest; zero without scores."""
    scores = _all_scores(model, inputs)
    if scores is None:
        return np.zeros(len(labels)), np.zeros(len(labels))
    is_label = np.asarray(model.classes_)[None, :] == labels[:, None]
    ordered = np.sort(np.where(is_label, -np.inf, scores), axis=1)  # the label itself is the first of them
    others = ordered[:, -min(best, scores.shape[1])]
    label = np.where(is_label, scores, -np.inf).max(axis=1)
    label = np.where(is_label.any(axis=1), label, scores.min(axis=1))  # a class that no pick had
    return label - others, np.abs(scores).max(axis=1)


def _round(margins: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
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
