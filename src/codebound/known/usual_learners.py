"""The usual learners of each kind of data, compared by cross-validation inside the known share.

What is chosen there costs nothing: candidates, their views of the inputs and the size of the known share
depend on the type and shape of the inputs and on known rows alone.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import version
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betainccinv

from codebound import __version__
from codebound.known.learners import as_odds, fit_known, score_all, score_classes
from codebound.known.views import Codes, Standardised, TextColumns, flatten
from codebound.learn.features import is_picture
from codebound.run.errors import UsageError
from codebound.run.extensions import find_extensions
from codebound.run.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from codebound.known.score_tables import ScoreTable
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
_SLOPE = 0.35  # by which the logarithm of errors usually falls with that of rows
_NEARLY = 1.05  # times the smallest bound: of such shares the largest has the best classifier
_ALIKE = 1.03  # times the fewest errors: less than chance does
_FINALISTS, _MOST_LEARNED = 3, 10_000  # families, and rows that they learn from, in the last comparison
_SEED = "; seed"  # follows the names of usual learners in their declaration
_MEAN, _AND = "mean of ", " and "
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
    """

    family: str
    says: str
    view: str
    estimator: Any
    seconds: Callable[[int, int, int], float]

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"{self.family}, {self.says}"


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """A candidate, or the mean of some, on known rows that were left out.

    Attributes:
        members: The candidates.
        odds: What was said of each row.
        labels: What it is.
    """

    members: tuple[Candidate, ...]
    odds: NDArray[np.float32]
    labels: NDArray[np.int64]

    @property
    def names(self) -> str:
        """Names of the candidates, as ``learn_usual`` reads them."""
        return (_MEAN if len(self.members) > 1 else "") + _AND.join(each.name for each in self.members)

    @property
    def errors(self) -> int:
        """Errors on all of them."""
        return self.count_errors(len(self.labels))

    def count_errors(self, rows: int) -> int:
        """Count the errors on the first rows."""
        return int((self.odds[:rows].argmax(axis=1) != self.labels[:rows]).sum())


def _best_of_families(scores: Iterable[Score]) -> list[Score]:
    """The first score of each family of candidates."""
    families: dict[str, Score] = {}
    for score in scores:
        families.setdefault(score.members[0].family, score)
    return list(families.values())


def _average(scores: Sequence[Score]) -> list[Score]:
    """The means of two of them, and of three."""
    groups = [*combinations(scores, 2), *combinations(scores, 3)]
    odds = [np.mean([each.odds for each in some], axis=0) for some in groups]
    members = [tuple(each.members[0] for each in some) for some in groups]
    return [Score(*each, scores[0].labels) for each in zip(members, odds, strict=True)]


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
        return make_views(self.arranged.sample, self.known)

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
        """Scores of the candidates that could be compared, and of means of some, the best first."""
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
        return sorted(found + _average(_best_of_families(found)), key=lambda each: each.errors)

    def compare_on(self, share: int) -> list[Score]:
        """Scores with those of rows that a larger share adds, by what learned from a half; the best first.

        More rows can change the order of learners. Of those that err nearly as rarely, the mean of most is
        taken.
        """
        learned, limit = self.known[:_MOST_LEARNED], COMPARED[self.effort]
        added = self.arranged.split(share)[0][len(self.known) :][:limit]
        added = added[~np.isin(self.arranged.inputs[added], self.arranged.inputs[learned])]
        finalists = _best_of_families(each for each in self.scores if len(each.members) == 1)
        x, y = self.arranged.sample.x, self.arranged.sample.y
        found: list[Score] = []
        for score in finalists[: _FINALISTS if len(added) else 0]:
            (candidate,) = score.members
            self.progress(len(found), None, f"comparing the best learners: {candidate.name}")
            view = self.views[candidate.view]
            try:
                odds = self._say(candidate, view(x[learned]), y[learned], view(x[added]))
            except Exception as error:  # as in the first comparison
                self.skipped[candidate.name] = f"it failed with {type(error).__name__}: {error}"
                continue
            labels = np.concatenate([score.labels, y[added]])
            found.append(Score(score.members, np.concatenate([score.odds, odds]), labels))
        found += _average(found)
        enough = _ALIKE * min((each.errors for each in found), default=0)
        found.sort(key=lambda each: (max(each.errors, enough), -len(each.members), each.errors))
        return found or self.scores

    def allowed(self) -> Iterator[Candidate]:
        """Yield the candidates that there is time for."""
        sample = self.arranged.sample
        width, classes = math.prod(sample.input_shape), len(np.unique(sample.y[self.known]))
        longest, last = _SECONDS[self.effort]
        if self.effort != "max":
            longest = min(longest, _FOR_EACH[0] + _FOR_EACH[1] * len(self.rows))
        folds = int(self.folds.max()) + 1
        for each in list_candidates(sample, self.views, self.known):
            compared = folds * each.seconds(len(self.rows), width, classes)
            whole = each.seconds(len(self.known), width, classes)
            if compared > longest or whole >= last:
                self.skipped[each.name] = f"on {len(self.known):,} known rows it would take too long."
            else:
                yield each

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        return self.arranged.sample.y[self.rows]

    def _validate(self, candidate: Candidate, best: dict[int, int]) -> Score | None:
        """Cross-validate a candidate; None where one fold shows that it is much worse than another one."""
        if candidate.view not in self._read:
            self._read[candidate.view] = self.views[candidate.view](self.arranged.sample.x[self.rows])
        inputs, labels = self._read[candidate.view], self._labels
        odds = np.zeros((len(self.rows), self.arranged.sample.classes), np.float32)
        for fold in range(int(self.folds.max()) + 1):
            is_out = self.folds == fold
            odds[is_out] = self._say(candidate, inputs[~is_out], labels[~is_out], inputs[is_out])
            errors = int((odds[is_out].argmax(axis=1) != labels[is_out]).sum())
            if errors > _MUCH_WORSE * best.setdefault(fold, errors) + _MORE:
                self.skipped[candidate.name] = "it errs much more often than another one."
                return None
            best[fold] = min(errors, best[fold])
        return Score((candidate,), odds, labels)

    def _say(
        self, candidate: Candidate, inputs: Any, labels: NDArray[np.int64], others: Any
    ) -> NDArray[np.float32]:
        """Scores of others by a candidate that learns from inputs with labels."""
        from sklearn.base import clone

        classes = np.arange(self.arranged.sample.classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rare classes, and steps that did not end: errors show it
            fitted = clone(candidate.estimator).fit(inputs, labels)
            return as_odds(fitted, score_classes(fitted, others, classes))

    def choose_share(self, *, delta: float, other: tuple[int, int] | None = None) -> int | None:
        """Units of the share, from a half to four fifths: the most that nearly promise the smallest bound.

        Errors are taken to fall with more rows as they usually do. Rows beyond those known are not looked
        at. None where no learner was compared.

        Args:
            delta: Failure probability.
            other: Errors of a better learner, each of so many rows left out by itself.
        """
        if not (self.scores or other):
            return None
        units, n = self.arranged.units, self.arranged.sample.n
        if other is not None:
            errors, rows, learned = *other, other[1]
        else:
            errors, rows, learned = self.scores[0].errors, len(self.rows), int((self.folds != 0).sum())
        found: dict[int, float] = {}
        for twentieths in _TWENTIETHS:
            share = max(twentieths * units // 20, self.share)
            known = len(self.known) * share // self.share
            rate = max(errors, 0.5) / rows * (learned / max(known, 1)) ** _SLOPE
            if known < n:
                expected = min(rate, 0.99) * (n - known)
                found[share] = float(betainccinv(expected + 1.0, n - known - expected, delta / 4.0))
        least = min(found.values(), default=1.0)
        return max((share for share, limit in found.items() if limit <= _NEARLY * least), default=self.share)


def has_many_columns(sample: Sample) -> bool:
    """Return True if inputs have as many columns as hashed words, and are no pictures."""
    shape = sample.input_shape
    return math.prod(shape) >= _WIDE and not (sample.is_cells or is_picture(shape))


def make_views(sample: Sample, known: NDArray[np.int64]) -> dict[str, View]:
    """Views of the inputs by their names, with words and scales of known rows."""
    codes = Codes.of(sample, known) if sample.is_cells else flatten
    scaled, texts = Standardised.of(sample, known), TextColumns.of(sample, known)
    return {"codes": codes, "scaled": scaled, "stored": flatten, "texts": texts}


def list_candidates(sample: Sample, views: dict[str, View], known: NDArray[np.int64]) -> Sequence[Candidate]:
    """The usual learners of a kind of inputs; of equally good ones the first is taken."""
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    codes, texts = views["codes"], views["texts"]
    texts_of = texts.columns if isinstance(texts, TextColumns) else ()
    found = _list_readers() if texts_of else []
    if len(texts_of) == sample.x.shape[1]:
        return found
    is_wide = has_many_columns(sample)
    found += [
        Candidate("support vectors", f"C = {c}, {view}", view, SVC(C=c), _svm_seconds)
        for c, view in ((10, "scaled"), (1, "scaled"), (10, "stored"))
        if not is_wide and (view == "scaled" or not sample.is_cells)
    ]
    found.append(
        Candidate(
            "trees",
            f"{_TREES} extremely random ones",
            "codes",
            ExtraTreesClassifier(_TREES, random_state=0),
            _trees_seconds,
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
    is_binary = len(np.unique(sample.y[known])) == 2
    for rounds, part in ((200, 0.3), (100, 1.0))[: 2 if is_binary else 1]:
        learner = HistGradientBoostingClassifier(max_iter=rounds, max_features=part, **given)
        says = f"{rounds} rounds on {100 * part:g} % of the columns"
        found.append(Candidate("boosting", says, "codes", learner, partial(_boosting_seconds, rounds, part)))
    return found


def _list_readers() -> list[Candidate]:
    """Linear learners of the weighted words of texts, of their pairs, and of parts of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.naive_bayes import ComplementNB
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    read, linear = partial(TfidfVectorizer, sublinear_tf=True), LinearSVC(random_state=0)
    pairs = read(stop_words="english", ngram_range=(1, 2)), ComplementNB(alpha=0.1)
    made = (
        ("words", "linear support vectors", (read(), linear), 3e-4),
        ("pairs of words", "naive Bayes", pairs, 5e-4),
        (
            "parts of words",
            "linear support vectors",
            (read(analyzer="char_wb", ngram_range=(3, 5)), linear),
            2e-3,
        ),
    )
    return [
        Candidate(family, says, "texts", make_pipeline(*steps), partial(_reading_seconds, each))
        for family, says, steps, each in made
    ]


def _reading_seconds(each: float, n: int, d: int, c: int) -> float:
    return each * n


def is_usual(by: str) -> bool:
    """Return True if a declaration names a learner that can be fitted, or loaded, by its name."""
    return _SEED in by or by in find_extensions()["LEARNERS"].values()


def learn_usual(names: str, arranged: Arranged, share: int) -> ScoreTable:
    """Scores of every example by the usual learner of this name, or by a mean of some, of a known share.

    What follows in a declaration, seed and versions, is left out.

    Raises:
        UsageError: None is called so, or it fails.
    """
    sample, known, names = arranged.sample, arranged.split(share)[0], names.partition(_SEED)[0]
    views = make_views(sample, known)
    candidates = {each.name: each for each in list_candidates(sample, views, known)}
    chosen = [candidates.get(name) for name in names.removeprefix(_MEAN).split(_AND)]
    if not all(chosen):
        raise UsageError(f"of these examples there is no usual learner {names!r}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what learners say of odd data, their errors show
        fitted = [fit_known(each.estimator, arranged, share, views[each.view]) for each in chosen if each]
        by = f"{names}{_SEED} 0, codebound {__version__}, scikit-learn {version('scikit-learn')}"
        return score_all(fitted, by, sample, share)


def _boosting_seconds(rounds: int, part: float, n: int, d: int, c: int) -> float:
    return rounds * (1 if c == 2 else c) * (5e-4 + 1.1e-5 * d * part + 2e-9 * n * d)


def _svm_seconds(n: int, d: int, c: int) -> float:
    return n**2 * (3e-10 * d + 2e-8) if n <= _MOST_QUADRATIC else math.inf


def _trees_seconds(n: int, d: int, c: int) -> float:
    each = 5e-4 + 1e-8 * n * (math.log2(n + 2) * math.sqrt(d) + c)
    return _TREES * each if n <= _MOST_TREES else math.inf
