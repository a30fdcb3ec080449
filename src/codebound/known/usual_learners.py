"""The usual learners of each kind of data, compared by cross-validation inside the known share.

What is chosen there costs nothing: candidates, their views of the inputs and the size of the known share
depend on the type and shape of the inputs and on known rows alone.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.known.learners import as_odds, score_classes
from codebound.known.views import Codes, Standardised, flatten
from codebound.learn.features import is_picture
from codebound.run.progress import Progress, silent
from codebound.sample.counting import Term

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from codebound.known.views import View
    from codebound.sample.dataset import Sample
    from codebound.sample.order import Arranged

COMPARED = {"quick": 1000, "standard": 2400, "max": 10_000}
"""Known rows that learners are compared on: their order rarely changes beyond, and a choice is no bound."""
_SECONDS = {"quick": (0.5, 10.0), "standard": (3.6, 120.0), "max": (math.inf, math.inf)}
"""Longest cross-validation, and longest fit on the whole share, by the estimates below: 3,000 rows take some
seconds, and 60,000 pictures no hours."""
_FOR_EACH = 0.5, 2e-3  # seconds of a cross-validation, and for each row: small samples take little time
_FEW = 1200  # rows up to which there are five folds, and three beyond
_LEAST = 4  # rows that can be learned from
_MUCH_WORSE, _MORE = 1.5, 5  # times the fewest errors of a fold, and so many more: not worth the other folds
_MOST_QUADRATIC = 20_000  # rows of a support vector machine, whose time grows faster than the rows
_MOST_TREES = 30_000  # rows of a forest, which keeps all of them in every tree
_TREES = 101  # odd: two classes have no tie
_WIDE = 500  # columns from which on they are mostly hashed words, or genes, and linear learners the best
_USUAL_SLOPE, _SURE = 0.3, 20  # of the logarithm of errors; errors by which a measured one counts for half
_CLEARLY = 0.97  # times the bound that a half promises: a larger share is taken
_TWENTIETHS = range(10, 17)  # shares, from a half to four fifths


@dataclass(frozen=True, slots=True)
class Candidate:
    """A learner that may suit.

    Attributes:
        family: Name of its kind.
        says: Parameters that tell it from others of its family.
        view: Name of what it reads of the inputs.
        estimator: The learner, not fitted.
        seconds: Estimate of its time for so many rows, columns and classes, on one slow core.
        most: Rows that it can learn from.
    """

    family: str
    says: str
    view: str
    estimator: Any
    seconds: Callable[[int, int, int], float]
    most: int = 1 << 40

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"{self.family}, {self.says}"


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Errors of a candidate, or of the mean of two, on known rows that were left out.

    Attributes:
        members: The candidates.
        odds: What was said of each row.
        is_wrong: Whether that is another class.
    """

    members: tuple[Candidate, ...]
    odds: NDArray[np.float32]
    is_wrong: NDArray[np.bool_]

    @property
    def errors(self) -> int:
        """Errors on all of them."""
        return self.count_errors(len(self.is_wrong))

    def count_errors(self, rows: int) -> int:
        """Count the errors on the first rows."""
        return int(self.is_wrong[:rows].sum())


@dataclass(eq=False)
class Comparison:
    """Candidates on the known rows of a sample.

    Attributes:
        arranged: The sample in its order.
        share: Units of the known share.
        effort: Reach of the search.
        progress: Told the candidates done.
        skipped: Reasons why candidates were left out, by their name.
    """

    arranged: Arranged
    share: int
    effort: str = "standard"
    progress: Progress = silent
    skipped: dict[str, str] = field(default_factory=dict)
    _read: dict[str, Any] = field(default_factory=dict, init=False)

    @cached_property
    def known(self) -> NDArray[np.int64]:
        """The known rows."""
        return self.arranged.split(self.share)[0]

    @cached_property
    def views(self) -> dict[str, View]:
        """Views of the inputs by their names, with words and scales of the known rows."""
        sample, known = self.arranged.sample, self.known
        codes = Codes.of(sample, known) if sample.is_cells else flatten
        return {"codes": codes, "scaled": Standardised.of(sample, known), "stored": flatten}

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The known rows that candidates are compared on."""
        return self.known[: COMPARED[self.effort]]

    @cached_property
    def folds(self) -> NDArray[np.int64]:
        """Fold of each row; equal inputs, or rows of a cluster, share one."""
        owners = self.arranged.inputs if self.arranged.clusters is None else self.arranged.clusters
        _, firsts, own = np.unique(owners[self.rows], return_index=True, return_inverse=True)
        return np.argsort(np.argsort(firsts))[own.reshape(-1)] % (5 if len(self.rows) <= _FEW else 3)

    @cached_property
    def scores(self) -> list[Score]:
        """Scores of the candidates that could be compared, and of the mean of two, the best first."""
        found: list[Score] = []
        if len(self.rows) < _LEAST or len(np.unique(self._labels)) < 2:
            self.skipped["every learner"] = "the known share is too small, or has one class."
            return found
        best: dict[int, int] = {}
        candidates = list(self.allowed())
        for done, each in enumerate(candidates):
            self.progress(done, len(candidates), f"comparing learners: {each.name}")
            try:
                if score := self._validate(each, best):
                    found.append(score)
            except Exception as error:  # of scikit-learn on odd data; another one will do
                self.skipped[each.name] = f"it failed with {type(error).__name__}: {error}"
        found.sort(key=lambda each: each.errors)  # stable: the first of equals
        families: dict[str, Score] = {}
        for score in found:
            families.setdefault(score.members[0].family, score)
        means = [self._average(pair) for pair in combinations(families.values(), 2)]
        return sorted(found + means, key=lambda each: each.errors)

    def allowed(self) -> Iterator[Candidate]:
        """Yield the candidates that there is time for."""
        sample = self.arranged.sample
        width, classes = math.prod(sample.input_shape), len(np.unique(sample.y[self.known]))
        longest, last = _SECONDS[self.effort]
        if self.effort != "max":
            longest = min(longest, _FOR_EACH[0] + _FOR_EACH[1] * len(self.rows))
        folds = int(self.folds.max()) + 1
        for each in list_candidates(sample, self.views, classes):
            compared = folds * each.seconds(len(self.rows), width, classes)
            whole = each.seconds(len(self.known), width, classes)
            if len(self.known) > each.most or compared > longest or whole > last:
                self.skipped[each.name] = f"on {len(self.known):,} known rows it would take too long."
            else:
                yield each

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        return self.arranged.sample.y[self.rows]

    def _judge(self, members: tuple[Candidate, ...], odds: NDArray[np.float32]) -> Score:
        return Score(members, odds, odds.argmax(axis=1) != self._labels)

    def _average(self, pair: tuple[Score, ...]) -> Score:
        members = tuple(each.members[0] for each in pair)
        return self._judge(members, np.mean([each.odds for each in pair], axis=0))

    def _validate(self, candidate: Candidate, best: dict[int, int]) -> Score | None:
        """Cross-validate a candidate; None where one fold shows that it is much worse than another one."""
        odds = np.zeros((len(self.rows), self.arranged.sample.classes), np.float32)
        for fold in range(int(self.folds.max()) + 1):
            odds[self.folds == fold] = self._leave_out(candidate, fold)
            errors = int(self._judge((), odds).is_wrong[self.folds == fold].sum())
            if errors > _MUCH_WORSE * best.setdefault(fold, errors) + _MORE:
                self.skipped[candidate.name] = "it errs much more often than another one."
                return None
            best[fold] = min(errors, best[fold])
        return self._judge((candidate,), odds)

    def _leave_out(self, candidate: Candidate, fold: int, *, part: int = 1) -> NDArray[np.float32]:
        """Scores of a fold by a learner of the other rows, or of a part of them."""
        from sklearn.base import clone

        if candidate.view not in self._read:
            view = self.views[candidate.view]
            self._read[candidate.view] = view(self.arranged.sample.x[self.rows])
        inputs = self._read[candidate.view]
        learned = np.flatnonzero(self.folds != fold)
        learned = learned[: len(learned) // part]
        classes = np.arange(self.arranged.sample.classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rare classes, and steps that did not end: errors show it
            fitted = clone(candidate.estimator).fit(inputs[learned], self._labels[learned])
            return as_odds(fitted, score_classes(fitted, inputs[self.folds == fold], classes))

    def choose_share(self, *, delta: float, other: tuple[int, int] | None = None) -> int | None:
        """Units of the share, from a half to four fifths, that promises the smallest bound.

        Errors of the best candidate after half of the rows show what more rows may bring. Rows beyond those
        known are not looked at. None where not all known rows were compared.

        Args:
            delta: Failure probability.
            other: Errors of a better learner, each of so many rows left out by itself.
        """
        if not (self.scores or other) or len(self.rows) < len(self.known):
            return None
        units, n = self.arranged.units, self.arranged.sample.n
        if other is not None:
            errors, rows, learned, slope = max(other[0], 0.5), other[1], other[1], _USUAL_SLOPE
        else:
            errors, rows = max(self.scores[0].errors, 0.5), len(self.rows)
            learned, slope = int((self.folds != 0).sum()), self._measure_slope(self.scores[0])
        found: list[tuple[float, int]] = []
        for twentieths in _TWENTIETHS:
            share = max(twentieths * units // 20, self.share)
            known = len(self.known) * share // self.share
            rate = errors / rows * (learned / max(known, 1)) ** slope
            if known < n:
                found.append((_expect_limit(rate, n - known, delta), share))
        half = found[0][0] if found else 1.0
        return min(found)[1] if found and min(found)[0] < _CLEARLY * half else self.share

    def _measure_slope(self, score: Score) -> float:
        """By how much the logarithm of errors falls with that of rows; between usual and measured."""
        try:
            odds = np.zeros_like(score.odds)
            for fold in range(int(self.folds.max()) + 1):
                parts = [self._leave_out(each, fold, part=2) for each in score.members]
                odds[self.folds == fold] = np.mean(parts, axis=0)
            before = self._judge(score.members, odds).errors
        except Exception:  # half of the rows have one class, say
            before = score.errors
        errors = max(score.errors, 0.5)
        trust = errors / (errors + _SURE)
        measured = float(np.clip(math.log2(max(before, 0.5) / errors), 0.0, 1.0))
        return trust * measured + (1.0 - trust) * _USUAL_SLOPE


def _expect_limit(rate: float, n: int, delta: float) -> float:
    """The limit of so many errors as are expected, between those of whole numbers."""
    expected = min(rate, 1.0) * n
    low, high = (Term("binomial", k, n, 2).limit(delta) for k in (int(expected), min(n, int(expected) + 1)))
    return low + (expected - int(expected)) * (high - low)


def has_many_columns(sample: Sample) -> bool:
    """Return True if inputs have as many columns as hashed words, and are no pictures."""
    shape = sample.input_shape
    return math.prod(shape) >= _WIDE and not (sample.is_cells or is_picture(shape))


def list_candidates(sample: Sample, views: dict[str, View], classes: int) -> Sequence[Candidate]:
    """The usual learners of a kind of inputs; of equally good ones the first is taken."""
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    codes = views["codes"]
    is_wide = has_many_columns(sample)
    found = [
        Candidate("support vectors", f"C = {c}, {view}", view, SVC(C=c), _svm_seconds, _MOST_QUADRATIC)
        for c, view in ((10, "scaled"), (1, "scaled"), (10, "stored"))
        if not is_wide and (view == "scaled" or not sample.is_cells)
    ]
    found.append(
        Candidate(
            "trees",
            f"{_TREES} extremely random ones",
            "codes",
            ExtraTreesClassifier(_TREES, random_state=0),
            lambda n, d, c: _TREES * (5e-4 + 1e-8 * n * math.log2(n + 2) * math.sqrt(d) + 1e-8 * n * c),
            _MOST_TREES,
        )
    )
    if is_picture(sample.input_shape):
        return found
    linear = [(1, "scaled"), (10, "scaled"), (0.1, "scaled")]
    if is_wide:
        linear = [(10, "stored"), (100, "stored"), (1, "scaled")]
    found += [
        Candidate(
            "logistic regression",
            f"C = {c}, {view}",
            view,
            LogisticRegression(C=c, max_iter=500),
            lambda n, d, c: 3e-8 * n * d * c,
        )
        for c, view in linear
    ]
    words = codes.are_categories if isinstance(codes, Codes) else []
    given: dict[str, Any] = {"random_state": 0, "early_stopping": False}
    given["categorical_features"] = words if any(words) else None
    for rounds, part in ((200, 0.3), (100, 1.0))[: 2 if classes == 2 else 1]:
        learner = HistGradientBoostingClassifier(max_iter=rounds, max_features=part, **given)
        says = f"{rounds} rounds on {100 * part:g} % of the columns"
        found.append(Candidate("boosting", says, "codes", learner, partial(_boosting_seconds, rounds, part)))
    return found


def _boosting_seconds(rounds: int, part: float, n: int, d: int, c: int) -> float:
    return rounds * (1 if c == 2 else c) * (5e-4 + 1.1e-5 * d * part + 2e-9 * n * d)


def _svm_seconds(n: int, d: int, c: int) -> float:
    return n**2 * (3e-10 * d + 2e-8)
