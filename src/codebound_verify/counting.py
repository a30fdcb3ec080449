"""Counting: rows that are right, wrong or in doubt, and copies (docs/format.md, sections 6.1-6.3, 7.8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .header import Header
from .losses import (
    ANY_ROW,
    EACH_CLASS,
    ONE_ROW,
    PARTS,
    Array,
    Mask,
    Question,
    check_question,
    columns_of,
    differences,
    is_about,
    lead_of,
    surplus,
)
from .order import Arranged, Places
from .refusal import Refused
from .sample import Data

MOST_PARTS = 1024


class Scores(Protocol):
    """Scores of rows, whatever made them.

    ``classes`` has the label of each column, rising. ``theta`` is subtracted from each difference (9.2).
    """

    @property
    def classes(self) -> Places:
        """Label of each column."""

    @property
    def theta(self) -> float:
        """Amount that is subtracted from each difference. 0 but for a bounded domain."""

    def blocks(self, rows: Places) -> Iterator[tuple[Places, Array, Array]]:
        """Blocks of these rows, of bounded memory: their stored places, values (m, C), and room (m,).

        Values are float64. The room is 0 for what nothing rounds, and infinite where nothing can be said.
        """


@dataclass(frozen=True)
class Tally:
    """Counts behind one limit: ``n`` rows count, and ``errors`` of them are wrong, beside the picks."""

    of: str
    errors: int
    n: int
    picks: int | None = None

    @property
    def right(self) -> int:
        """Number of right rows."""
        return self.n - self.errors - (self.picks or 0)


@dataclass
class _Flags:
    """Of all stored rows: which a limit is about, and which are surely right. In doubt a row is wrong."""

    about: Mask
    right: Mask


def recount(
    question: Question,
    header: Header,
    data: Data,
    arranged: Arranged,
    scores: Scores,
    picked: Places | None = None,
) -> tuple[Tally, ...]:
    """Count each limit of a question (6.5) on the rows after the known share. Picks, if any, count apart."""
    y, copies = data.y, header.sample.copies
    check_question(question, scores.classes)
    counted = arranged.one_row if question.on == ONE_ROW else arranged.counted
    assert counted is not None  # a message about clusters is refused where there are none
    risk, silent = _flag(question, y, counted, scores)
    count = _Counting(copies, question.on, y, arranged, counted, picked)
    if question.threshold is not None:
        return count.tally("answered", risk), count.tally("silent", silent)
    if question.on not in PARTS:
        return (count.tally(question.loss, risk),)
    parts, numbers = _parts(question.on, y, copies, arranged, scores.classes)
    word = question.on.removeprefix("each ")
    return tuple(
        count.tally(f"{word} {number}", _Flags(risk.about & (parts == number), risk.right))
        for number in numbers
    )


def _flag(question: Question, y: Places, counted: Places, scores: Scores) -> tuple[_Flags, _Flags]:
    """Flags of the loss and of silence. A row that no block has stays one that is counted and wrong."""
    risk = _Flags(is_about(question, y), np.zeros(len(y), dtype=bool))
    silent = _Flags(np.ones(len(y), dtype=bool), np.zeros(len(y), dtype=bool))
    for rows, values, room in scores.blocks(counted):
        right, is_possible, is_sure = judge_block(
            question, scores.classes, scores.theta, y[rows], values, room
        )
        risk.right[rows], silent.right[rows] = right, is_sure
        risk.about[rows] &= is_possible
    return risk, silent


def judge_block(
    question: Question, classes: Places, theta: float, labels: Array, values: Array, room: Array
) -> tuple[Mask, Mask, Mask]:
    """Masks of rows: surely right, possibly among those that count by their scores, and surely so."""
    is_plain = np.isfinite(values).all(axis=1)
    if (~is_plain & (room == 0)).any():
        raise Refused("Scores: a score of a counted row is not finite.")
    with np.errstate(invalid="ignore"):
        lost = differences(question, values, columns_of(labels, classes), classes) - theta
        right = is_plain & (lost > room)
        if (lead := _lead(question, values, classes)) is None:
            every = np.ones(len(labels), dtype=bool)
            return right, every, every
        is_sure = is_plain & (lead > room)
        return right & is_sure, ~(is_plain & (lead <= -room)), is_sure


def _lead(question: Question, values: Array, classes: Places) -> Array | None:
    """By how far a row is answered, or predicted as the class of the claim. None if all rows count."""
    if question.threshold is not None:
        found: Array = surplus(values) - question.threshold
        return found
    return None if question.predicted is None else lead_of(question.predicted, values, classes)


def _parts(on: str, y: Places, copies: str, arranged: Arranged, classes: Places) -> tuple[Places, list[int]]:
    """The number of the part of each row, and the numbers of all parts, rising."""
    if on == EACH_CLASS:
        parts, numbers = y, classes
    else:
        assert arranged.groups is not None  # as with clusters
        parts = arranged.groups
        numbers = np.unique(parts)
        if copies != "independent":
            _check_groups(arranged.inputs, parts)
    if len(numbers) > MOST_PARTS:
        raise Refused(f"Claim: it has {len(numbers)} parts; {MOST_PARTS} are allowed.")
    return parts, numbers.tolist()


def _check_groups(inputs: Places, groups: Places) -> None:
    """Check that equal inputs have one group."""
    first = np.empty(int(inputs.max()) + 1, dtype=np.int64)
    first[inputs] = groups
    if (first[inputs] != groups).any():
        raise Refused(
            "Sample: copies of one input are in two groups, and are not declared to be independent."
        )


class _Counting:
    """Counts of rows by the reading of copies (6.3)."""

    def __init__(
        self, copies: str, on: str, y: Places, arranged: Arranged, counted: Places, picked: Places | None
    ) -> None:
        self._copies, self._on, self._y, self._arranged = copies, on, y, arranged
        self._picked = picked
        self._is_left = np.zeros(len(y), dtype=bool)  # rows that are counted and not picked
        self._is_left[counted] = True
        self._is_seen = np.zeros(int(arranged.inputs.max()) + 1, dtype=bool)  # by the input's number
        self._is_seen[arranged.inputs[arranged.known]] = True
        if picked is not None:
            if not self._is_left[picked].all() or len(np.unique(picked)) != len(picked):
                raise Refused("Picks: a picked row is known, or picked twice.")
            self._is_left[picked] = False
            self._is_seen[arranged.inputs[picked]] = True
        if copies == "repeated":  # nor does a right row count whose input has another label
            pairs = np.unique(arranged.inputs << 16 | y)
            self._is_seen |= np.bincount(pairs >> 16, minlength=len(self._is_seen)) > 1

    def tally(self, of: str, flags: _Flags) -> Tally:
        """Count the rows that some flags are about."""
        rows = np.flatnonzero(self._is_left & flags.about)
        wrong, right = rows[~flags.right[rows]], rows[flags.right[rows]]
        errors, good = self._count(wrong, right)
        if self._picked is None:
            return Tally(of, errors, errors + good)
        picks = int(flags.about[self._picked].sum())
        return Tally(of, errors, errors + good + picks, picks)

    def _count(self, wrong: Places, right: Places) -> tuple[int, int]:
        """Numbers of rows that count as wrong, and as right."""
        inputs = self._arranged.inputs
        if self._on == ANY_ROW:
            clusters = self._arranged.clusters
            assert clusters is not None
            bad = np.unique(clusters[wrong])
            return len(bad), len(np.setdiff1d(clusters[right], bad))
        if self._copies == "independent":
            return len(wrong), len(right)
        right = right[~self._is_seen[inputs[right]]]
        if self._copies == "any":
            return len(wrong), len(np.unique(inputs[right]))
        records = inputs << 16 | self._y  # input and label: labels are below 2^16
        bad = np.unique(records[wrong])
        return len(bad), len(np.setdiff1d(records[right], bad))
