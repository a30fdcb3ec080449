"""Learners with the interface of scikit-learn: fitted on the known share, their scores are declared."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from codebound.known.score_tables import ScoreTable, run_on
from codebound.known.views import flatten, view_for
from codebound.run.errors import UsageError
from codebound.run.extensions import import_named
from codebound.sample.dataset import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from codebound.known.views import View
    from codebound.sample.dataset import Sample
    from codebound.sample.order import Arranged

_METHODS = ("predict_proba", "decision_function")
_LARGEST = 1e30  # of a score


class Fitted(nn.Module):
    """A fitted learner as a classifier of inputs as they are stored.

    Args:
        learner: The learner, fitted on labels from 0 on.
        classes: Number of classes of the sample.
        view: What the learner reads of stored inputs.
    """

    def __init__(self, learner: Any, classes: int, view: View = flatten) -> None:
        super().__init__()
        self.learner, self.classes, self.view = learner, classes, view

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        scores = score_classes(self.learner, self.view(x.cpu().numpy()), np.arange(self.classes))
        return torch.from_numpy(scores)

    def odds(self, x: Tensor) -> Tensor:
        """Scores that sum up to one, or nearly."""
        return torch.from_numpy(as_odds(self.learner, self(x).numpy()))


class Mean(nn.Module):
    """The mean of what fitted learners say of inputs as they are stored."""

    def __init__(self, members: Sequence[Fitted]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return torch.stack([each.odds(x) for each in self.members]).mean(0)  # type: ignore[operator]


def load_object(spec: str, role: str) -> Any:
    """Import what plays a role by its name."""
    try:
        return import_named(spec)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"no {role} {spec}: {error}. Give package.module:name; its module must be importable "
            "(installed, or in the current directory)."
        ) from error


def load_learner(spec: str, seed: int) -> Any:
    """A classifier of scikit-learn's kind, or a training function, from ``package.module:name``.

    A class is called without arguments. A ``random_state`` that is not set becomes the seed.

    Example:
        >>> load_learner("sklearn.tree:DecisionTreeClassifier", 3).random_state
        3
    """
    found = load_object(spec, "learner")
    try:
        found = found() if isinstance(found, type) else found
    except Exception as error:  # of somebody else's class
        raise UsageError(
            f"the learner {spec} cannot be made without arguments: {error}. Name one that is made already."
        ) from error
    if not hasattr(found, "fit") and not callable(found):
        raise UsageError(f"the learner {spec} has no fit and is no function. Got {type(found).__name__}.")
    if hasattr(found, "get_params") and found.get_params().get("random_state", seed) is None:
        found.set_params(random_state=seed)
    return found


def learn_scores(learner: Any, arranged: Arranged, share: int) -> ScoreTable:
    """Fit a learner on the known share, and score every example.

    The learner reads an array with a row for each example, as stored; of cells a data frame of pandas, with
    categories for words and NaN for gaps, or without pandas an array of floats, with ranks for words. Words
    are numbered by the known share.

    Raises:
        UsageError: The learner fails.
    """
    view = view_for(arranged.sample, arranged.split(share)[0])
    fitted = fit_known(learner, arranged, share, view)
    return score_all([fitted], describe_learner(learner), arranged.sample, share)


def fit_known(learner: Any, arranged: Arranged, share: int, view: View) -> Fitted:
    """Fit a copy of a learner on the known share.

    Raises:
        UsageError: The learner fails.
    """
    from sklearn.base import clone

    sample, known = arranged.sample, arranged.split(share)[0]
    try:
        fitted = clone(learner).fit(view(sample.x[known]), sample.y[known])
    except Exception as error:  # of somebody else's learner
        raise _failure(learner, f"on the {len(known):,} examples of the known share", error) from error
    return Fitted(fitted, sample.classes, view)


def score_all(networks: Sequence[Fitted], by: str, sample: Sample, share: int) -> ScoreTable:
    """The scores of a fitted learner, or the mean of those of several, for every example.

    Raises:
        UsageError: A learner fails.
    """
    network = networks[0] if len(networks) == 1 else Mean(networks)
    try:
        scores = run_on(network, sample)
    except UsageError:
        raise
    except Exception as error:  # of somebody else's learner
        raise _failure(networks[0].learner, "on the sample", error) from error
    return ScoreTable(scores, printable(by), of="the known share alone", rows=share, classifier=network)


def _failure(learner: Any, where: str, error: Exception) -> UsageError:
    return UsageError(
        f"the learner {type(learner).__name__} failed {where} with {type(error).__name__}: {error}"
    )


def describe_learner(learner: Any) -> str:
    """Parameters and version of a learner, as a header can have them.

    Example:
        >>> from sklearn.naive_bayes import GaussianNB
        >>> describe_learner(GaussianNB()).partition(" 1.")[0]
        'GaussianNB(), sklearn'
    """
    return printable(f"{' '.join(repr(learner).split())}, {_version_of(learner)}")


def score_classes(learner: Any, inputs: Any, labels: NDArray[Any]) -> NDArray[np.float32]:
    """Scores of all classes, by rising label; the largest is that of the class which the learner predicts.

    A class that the learner does not know has less than any other.
    """
    predicted = np.asarray(learner.predict(inputs)).reshape(-1)
    columns = np.searchsorted(labels, predicted).clip(max=len(labels) - 1)
    known = np.searchsorted(labels, np.asarray(getattr(learner, "classes_", labels)))
    method = next((each for each in _METHODS if hasattr(learner, each)), "predict")
    found = np.asarray(getattr(learner, method)(inputs)) if method != "predict" else predicted
    if found.ndim == 1 and len(known) == 2 and method == "decision_function":
        found = np.column_stack([-found, found])
    if found.shape != (len(predicted), len(known)):  # none, or of another kind
        found, known = labels[None, :] == predicted[:, None], np.arange(len(labels))
    found = np.nan_to_num(found.astype(np.float64)).clip(-_LARGEST, _LARGEST).astype(np.float32)
    scores = np.repeat(found.min(axis=1, keepdims=True) - 1.0, len(labels), axis=1)
    scores[:, known] = found
    others = scores.copy()
    np.put_along_axis(others, columns[:, None], -np.inf, axis=1)
    least = np.nextafter(others.max(axis=1), np.float32(np.inf))
    rows = np.arange(len(scores))
    scores[rows, columns] = np.maximum(scores[rows, columns], least)
    scores[labels[columns] != predicted] = 0.0  # of no class
    return scores


def as_odds(learner: Any, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores as they are where they are probabilities, else the softmax of them."""
    if hasattr(learner, "predict_proba"):
        return scores
    odds: NDArray[np.float32] = np.exp(scores - scores.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return odds


def _version_of(learner: Any) -> str:
    """Package of a learner, and its version."""
    package = type(learner).__module__.partition(".")[0]
    try:
        return f"{package} {version({'sklearn': 'scikit-learn'}.get(package, package))}"
    except PackageNotFoundError:
        return f"{package} without a version"
