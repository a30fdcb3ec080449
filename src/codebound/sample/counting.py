"""Counts, limits and bound of a claim: the only counts that it rests on (docs/format.md, section 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from codebound.bounds.numerics import binomial_inverse_upper, float_above, picked_inverse_upper
from codebound.run.errors import DataError, UsageError
from codebound.run.extensions import LazyModule
from codebound.run.references import implements
from codebound.sample.losses import leads, leads_of
from codebound.sample.questions import ALL, ANY_ROW, EACH_CLASS, EACH_GROUP, ONE_ROW

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.sample.order import Arranged
    from codebound.sample.questions import Question

    Array = NDArray[np.float64] | Tensor
    Mask = NDArray[np.bool_]
    from collections.abc import Sequence

else:
    np, torch = LazyModule("numpy"), LazyModule("torch")

MOST_PARTS = 1024
_OF_CLUSTERS = (ONE_ROW, ANY_ROW)
_OF_PARTS = (EACH_CLASS, EACH_GROUP)


@dataclass(frozen=True, slots=True)
class Tally:
    """Errors among n rows that a limit is about; ``picks`` among these rows, under the picked law."""

    of: str
    errors: int
    n: int
    picks: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """Judgements of rows, in doubt the worse of two."""

    right: Mask  # beyond doubt, and so is that they count
    counts: Mask  # they may be answered, or predicted as what is asked for; all, where nothing is asked
    speaks: Mask  # they are answered beyond doubt

    @classmethod
    def join(cls, parts: list[Verdicts]) -> Verdicts:
        """Put verdicts of blocks of rows one after the other."""
        names = ("right", "counts", "speaks")
        return cls(*(np.concatenate([getattr(each, name) for each in parts]) for name in names))


def judge(
    question: Question,
    values: Array,
    labels: NDArray[np.int64] | Tensor,
    *,
    classes: NDArray[np.int64] | None = None,
    room: Array | float = 0.0,
    theta: float = 0.0,
) -> Verdicts:
    """Judge rows by their scores (6.1, 6.2, 7.8).

    A label that no column has is wrong; ``classes`` are those of the columns. A difference has to exceed
    ``room`` after ``theta`` was subtracted (9.2).
    """
    scores, beyond = torch.as_tensor(values).double(), torch.as_tensor(room).double()
    right = question.loss.differences(scores, torch.as_tensor(labels), classes) - theta > beyond
    counts = speaks = torch.ones_like(right)
    kind, _, word = question.on.partition(":")
    if kind == "answered":
        lead = leads(scores) - float(word)
        counts, speaks = ~(lead <= -beyond), lead > beyond
    elif kind == "predicted":
        lead = leads_of(scores, int(word), classes)
        counts, speaks = ~(lead <= -beyond), lead > beyond
    found = (right & speaks, counts, speaks)
    return Verdicts(*(each.cpu().numpy() for each in found))


@implements("I-06:copies", kind="algorithm")
def count(
    arranged: Arranged,
    verdicts: Verdicts,
    *,
    question: Question,
    known: NDArray[np.int64],
    classes: NDArray[np.int64],
    picked: NDArray[np.int64] | None = None,
) -> tuple[Tally, ...]:
    """Count errors of the open rows, for each limit of a claim.

    Args:
        arranged: The sample with its order.
        verdicts: Of each stored row; those of known and picked rows are not looked at.
        question: Loss, and rows that count.
        known: Stored indices of known rows.
        classes: Their labels.
        picked: Stored indices of picked rows, under the picked law.
    """
    on = question.on
    if (arranged.clusters is None) == (on in _OF_CLUSTERS):
        when = "only with clusters: give that of each row" if on in _OF_CLUSTERS else "never with clusters"
        raise UsageError(f"{on!r} is counted {when}.")
    if picked is not None and on not in (ALL, *_OF_PARTS):
        raise UsageError(
            f"{on!r} is not counted of a sample of which rows were picked: ask for all, or parts."
        )
    labels = arranged.sample.y
    is_about = question.loss.is_about(labels)
    if on in _OF_CLUSTERS:
        return (_count_clusters(arranged, is_about, verdicts.right, question=question, known=known),)
    counter = _Counter(arranged, known, picked)
    if on.startswith("answered"):
        answered = counter.count("answered", is_about & verdicts.counts, verdicts.right)
        return answered, counter.count("silent", np.ones_like(is_about), verdicts.speaks)
    if on in _OF_PARTS:
        parts = _parts(arranged, on, classes)
        return tuple(counter.count(of, is_about & part, verdicts.right) for of, part in parts)
    is_asked = is_about & verdicts.counts
    tally = counter.count(str(question.loss), is_asked, verdicts.right)
    return (_require_some(tally, counter.is_open, is_asked=is_asked),)


def _require_some(tally: Tally, is_open: Mask, *, is_asked: Mask) -> Tally:
    if tally.n:
        return tally
    reason = f"is one that {tally.of!r} is about. Collect such examples, or ask for another loss"
    if not is_open.any():
        reason = "is left, all are known. Learn from fewer of them (rows of a table), or collect more"
    elif (is_open & is_asked).any():
        reason = (
            "says more: all are right, and the input of each is known, or has another label. Declare that "
            "equal rows are independent draws (copies) where that is true, or collect more"
        )
    raise DataError(f"nothing can be said about {tally.of!r}: no counted example {reason}.")


def _parts(arranged: Arranged, on: str, classes: NDArray[np.int64]) -> Iterator[tuple[str, Mask]]:
    """Names and rows of parts, by rising number."""
    numbers, wanted = arranged.sample.y, np.sort(classes)
    if on == EACH_GROUP:
        groups, inputs = arranged.design.groups, arranged.inputs
        if groups is None:
            raise UsageError("each group can be counted only of a sample with groups.")
        if arranged.design.copies != "independent":
            group_of = np.zeros(int(inputs.max()) + 1, np.int64)
            group_of[inputs] = groups
            if (group_of[inputs] != groups).any():
                raise DataError(
                    "copies of a row are in different groups. Put them in one, or declare that equal rows "
                    "are independent draws."
                )
        numbers, wanted = groups, np.unique(groups)
    if len(wanted) > MOST_PARTS:
        raise UsageError(f"{on!r} makes {len(wanted)} limits; at most {MOST_PARTS} hold together.")
    return ((f"{on[5:]} {number}", numbers == number) for number in wanted.tolist())


def _count_clusters(
    arranged: Arranged, is_about: Mask, right: Mask, *, question: Question, known: NDArray[np.int64]
) -> Tally:
    is_counted = np.ones(arranged.sample.n, bool)
    is_counted[known] = False
    rows = np.flatnonzero(is_counted)
    if question.on == ONE_ROW:
        rows = arranged.one_row(rows)
    rows = rows[is_about[rows]]
    assert arranged.clusters is not None
    own = arranged.clusters[rows]
    n, errors = len(np.unique(own)), len(np.unique(own[~right[rows]]))
    return _require_some(Tally(str(question.loss), errors, n), is_counted, is_asked=~is_counted)


class _Counter:
    """Count by what is declared of copies (6.3)."""

    def __init__(
        self, arranged: Arranged, known: NDArray[np.int64], picked: NDArray[np.int64] | None
    ) -> None:
        self._copies, self._picked = arranged.design.copies, picked
        self._inputs, self._labels = arranged.inputs, arranged.sample.y
        seen = known if picked is None else np.concatenate((known, picked))
        self.is_open = np.ones(arranged.sample.n, bool)
        self.is_open[seen] = False
        is_seen = np.zeros(int(self._inputs.max()) + 1, bool)
        is_seen[self._inputs[seen]] = True
        if self._copies == "repeated":
            pairs = np.unique(self._inputs << 16 | self._labels)
            is_seen |= np.bincount(pairs >> 16, minlength=len(is_seen)) > 1
        # rows whose input is that of no known or picked row; of records, of none with another label
        self._is_new = ~is_seen[self._inputs]

    def count(self, of: str, is_counted: Mask, right: Mask) -> Tally:
        """Count errors of some rows."""
        counted = is_counted & self.is_open
        wrong, good = np.flatnonzero(counted & ~right), np.flatnonzero(counted & right)
        errors, fine = len(wrong), len(good)
        if self._copies != "independent":
            good = good[self._is_new[good]]
        if self._copies == "any":
            fine = len(np.unique(self._inputs[good]))
        elif self._copies == "repeated":
            records = self._inputs << 16 | self._labels
            bad = np.unique(records[wrong])
            errors, fine = len(bad), len(np.setdiff1d(records[good], bad))
        picks = 0 if self._picked is None else int(is_counted[self._picked].sum())
        return Tally(of, errors, errors + fine + picks, None if self._picked is None else picks)


@dataclass(frozen=True, slots=True)
class Term:
    """One limit of a bound, by the law of C-2 or of C-15; ``share`` is that of the failure probability."""

    law: Literal["binomial", "picked"]
    count: int  # errors, and picks under the picked law
    n: int
    bits: float = 0.0
    share: float = 1.0

    def limit(self, delta: float) -> float:
        """The limit at a failure probability of the whole bound; 1 where nothing was counted."""
        if self.n == 0:
            return 1.0
        log_delta = math.log(delta) + math.log(self.share) - self.bits * math.log(2.0)
        inverse = binomial_inverse_upper if self.law == "binomial" else picked_inverse_upper
        return min(1.0, inverse(self.count, self.n, log_delta))


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits of a claim, and how its bound follows from them.

    Example:
        >>> terms = Terms((Term("picked", 800, 60_000, bits=30),))
        >>> round(terms.bound(terms.limits(0.05)), 5)
        0.01703
    """

    each: tuple[Term, ...]
    joined: Literal["first", "largest", "sum"] = "first"

    def limits(self, delta: float) -> tuple[float, ...]:
        """All limits; together they hold with probability 1 - delta."""
        return tuple(term.limit(delta) for term in self.each)

    def bound(self, limits: Sequence[float]) -> float:
        """The bound that follows, rounded up."""
        if self.joined == "first":
            return limits[0]
        if self.joined == "largest":
            return max(limits)
        return min(1.0, float_above(sum(map(Fraction, limits), Fraction(0))))


@implements("C-17:table", "C-17:groups", kind="certificate")
def terms_of(
    law: Literal["binomial", "picked", "sum"], on: str, counts: Sequence[Any], *, bits: float
) -> Terms:
    """Terms by a law, of counts with ``errors``, ``n`` and ``picks``.

    Limits on each class, or on each group, share delta equally, and all of them hold together, if the table
    was fixed before the sample was seen and groups were formed without regard to errors. Rows of one group
    are independent draws from it; groups may overlap.
    """
    one: Literal["binomial", "picked"] = "binomial" if law == "sum" else law
    is_half = law == "sum" or on.startswith("answered")
    share = 0.5 if is_half else 1.0 / len(counts) if on.startswith("each ") else 1.0
    each = (Term(one, found.errors + (found.picks or 0), found.n, bits, share) for found in counts)
    return Terms(tuple(each), "sum" if law == "sum" else "largest" if on.startswith("each ") else "first")


def guess_rate(classes: int, commonest: Fraction | None) -> Fraction:
    """Error rate of guessing, for the loss ``wrong``: the bound of a claim says nothing from here on.

    ``commonest`` is the share of the commonest label among the counted rows, where all of them count.
    """
    at_random = 1 - Fraction(1, classes)
    return at_random if commonest is None else min(at_random, 1 - commonest)
