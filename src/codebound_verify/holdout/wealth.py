"""Watches: outcomes in their order, and an alarm that follows from them (docs/ledger.md, section 8)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import mpmath
from mpmath import mpf

from ..header import integer, or_null, record, sequence, word
from ..refusal import Refused
from .rules import CLAIM, LINE, LOSS, NAMES, SHA256, SHARE, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .rules import Record

EVERY = 100
FACTORS = (120, 130, 141, 153, 165, 179, 194, 210, 228, 247, 268, 290, 314, 341, 369, 400)  # hundredths
BATCH_LIMIT, LABELS_LIMIT = 1 << 20, 1 << 28
PLACES = 40  # digits of the wealth
NEAR = mpf("1e-6")


class Track:
    """Wealth of one sequence of outcomes, up to its alarm."""

    def __init__(self, bound: float, level: mpf) -> None:
        with mpmath.workdps(PLACES):
            rates = [min(c * mpf(bound) / 100, 1 - 100 * (1 - mpf(bound)) / c) for c in FACTORS]
            right = [(1 - rate) / (1 - mpf(bound)) for rate in rates]
            self._wrong = [rate / bound for rate in rates]
            self._right = [[each**k for each in right] for k in range(EVERY + 1)]
            self._needed = 1 / level
        self._started = [mpf(0)] * len(rates)
        self.labels = self.errors = self._starts = 0
        self.alarm: int | None = None

    def take(self, batch: Record, where: str) -> None:
        """Take a batch, and refuse an alarm that does not follow or is missing."""
        errors, labels, alarm = batch["errors"], batch["labels"], batch["alarm"]
        if errors and not (errors[-1] <= labels and all(a < b for a, b in pairwise(errors))):
            raise Refused(f"{where} has errors that are no rising places of {labels} labels.")
        before, end = self.labels, self.labels + labels
        if end > LABELS_LIMIT:
            raise Refused(f"{where} is beyond {LABELS_LIMIT} labels.")
        if self.alarm is not None and alarm != self.alarm:
            raise Refused(f"{where} says alarm = {alarm}; it was raised at label {self.alarm}.")
        if self.alarm is None and alarm is not None and not before < alarm <= end:
            raise Refused(f"{where} says alarm = {alarm}, and has the labels {before + 1} to {end}.")
        if self.alarm is None:
            with mpmath.workdps(PLACES):
                self._follow({before + place for place in errors}, end, alarm, where)
        self.labels, self.alarm = end, alarm
        self.errors += len(errors)

    def _follow(self, wrong: set[int], end: int, alarm: int | None, where: str) -> None:
        """The wealth at every error, where alone it rises, and at the alarm."""
        for place in sorted(wrong if alarm is None else {*wrong, alarm}):
            self._go(place - 1)
            self._go(place, is_wrong=place in wrong)
            wealth = mpmath.fsum(self._started) + mpf(1) / (self._starts + 1)
            if place == alarm:
                if wealth < self._needed:
                    raise Refused(f"{where} says alarm = {alarm}, where the wealth is too small.")
                return
            if wealth >= self._needed * (1 + NEAR):
                raise Refused(f"{where} says alarm = {alarm}; it has to be raised at label {place}.")
        self._go(end)

    def _go(self, to: int, *, is_wrong: bool = False) -> None:
        """The labels up to one: all of them right, or the only one wrong."""
        while self.labels < to:
            if self.labels % EVERY == 0:
                self._starts += 1
                weight = mpf(1) / (self._starts * (self._starts + 1) * len(FACTORS))
                self._started = [each + weight for each in self._started]
            step = min(to - self.labels, EVERY - self.labels % EVERY)
            factors = self._wrong if is_wrong else self._right[step]
            self._started = [each * factor for each, factor in zip(self._started, factors, strict=True)]
            self.labels += step


def check_watch(line: Record, batches: Iterable[Record]) -> tuple[Record, Sequence[Track]]:
    """The first line, and the tracks of all units and of each group, if every batch follows."""
    first: Record = record(
        dict,
        **LINE,
        kind=word("watch"),
        version=integer(1, 1),
        stream=TEXT,
        bound=SHARE,
        alpha=SHARE,
        certificate=or_null(record(dict, delta=SHARE, sha256=SHA256)),
        loss=LOSS,
        groups=or_null(record(dict, column=TEXT, names=NAMES)),
        clusters=or_null(record(dict, claim=CLAIM, column=TEXT, salt=SHA256)),
    )(line, "Ledger: the first line")
    if first["loss"][0] == "precision":
        raise Refused("Ledger: a watch is of a loss other than precision.")
    count = 0 if first["groups"] is None else len(first["groups"]["names"])
    alpha = mpf(first["alpha"])
    tracks = [Track(first["bound"], alpha / 2 if count else alpha)]
    tracks += [Track(first["bound"], alpha / (2 * count)) for _ in range(count)]
    places = sequence(integer(1, BATCH_LIMIT), 0, BATCH_LIMIT)
    told = {"alarm": or_null(integer(1, LABELS_LIMIT)), "errors": places}
    group = record(dict, **told, labels=integer(0, BATCH_LIMIT))
    groups = or_null(sequence(group, max(count, 1), count))
    batch = record(dict, **LINE, **told, kind=word("batch"), labels=integer(1, BATCH_LIMIT), groups=groups)
    for number, each in enumerate(batches, start=2):
        where = f"Ledger: line {number}"
        found = batch(each, where)
        parts = found["groups"] or ()
        if len(parts) != count:
            raise Refused(f"{where} has {len(parts)} groups; there are {count}.")
        for at, (track, part) in enumerate(zip(tracks, (found, *parts), strict=True)):
            track.take(part, f"{where}.groups[{at - 1}]" if at else where)
        sums = sum(part["labels"] for part in parts), sum(len(part["errors"]) for part in parts)
        if count and first["clusters"] is None and sums != (found["labels"], len(found["errors"])):
            raise Refused(f"{where} has groups whose labels or errors do not add up to all.")
    return first, tracks
