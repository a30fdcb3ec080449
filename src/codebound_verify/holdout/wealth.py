"""Watches: outcomes in their order, and an alarm that follows from them (docs/ledger.md, section 8)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import mpmath
from mpmath import mpf

from ..header import integer, or_null, record, sequence, word
from ..refusal import Refused
from .rules import CLAIM, LINE, LOSS, NAMES, NULL, SHA256, SHARE, TEXT, Record, adds_up, rise

EVERY = 100
FACTORS = (120, 130, 141, 153, 165, 179, 194, 210, 228, 247, 268, 290, 314, 341, 369, 400)  # hundredths
BATCH_LIMIT, LABELS_LIMIT, ERRORS_LIMIT = 1 << 20, 1 << 27, 1 << 22
PLACES = 40  # digits of the wealth
NEAR = mpf("1e-6")
_PLACES = sequence(integer(1, BATCH_LIMIT), 0, BATCH_LIMIT)
_TOLD = {"alarm": or_null(integer(1, LABELS_LIMIT)), "errors": _PLACES}
_GROUP = record(dict, **_TOLD, labels=integer(0, BATCH_LIMIT))
_FIRST = record(
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
)


class Outcomes(NamedTuple):
    """Outcomes of all units, or of a group: how many, the places of the lost ones, and the alarm."""

    labels: int
    lost: array[int]
    alarm: int | None


def check_watch(line: Record, batches: Iterable[Record]) -> tuple[Record, list[Outcomes]]:
    """The first line, and the outcomes of all units and of each group, if every alarm follows."""
    first: Record = _FIRST(line, "Ledger: the first line")
    if first["loss"][0] == "precision":
        raise Refused("Ledger: a watch is of a loss other than precision.")
    count, errors = 0 if first["groups"] is None else len(first["groups"]["names"]), 0
    groups = sequence(_GROUP, count, count) if count else NULL
    batch = record(dict, **LINE, **_TOLD, kind=word("batch"), labels=integer(1, BATCH_LIMIT), groups=groups)
    tracks = [Outcomes(0, array("q"), None) for _ in range(count + 1)]
    for number, each in enumerate(batches, start=2):
        where = f"Ledger: line {number}"
        found = batch(each, where)
        parts = found["groups"] or ()
        for at, part in enumerate((found, *parts)):
            tracks[at] = _follow(tracks[at], part, f"{where}.groups[{at - 1}]" if at else where)
        sums = sum(part["labels"] for part in parts), sum(len(part["errors"]) for part in parts)
        if count and adds_up(first) and sums != (found["labels"], len(found["errors"])):
            raise Refused(f"{where} has groups whose labels or errors do not add up to all.")
        if (errors := errors + sums[1] + len(found["errors"])) > ERRORS_LIMIT:
            raise Refused(f"{where} is beyond {ERRORS_LIMIT} errors, those of groups included.")
    with mpmath.workdps(PLACES):
        bound, needed = mpf(first["bound"]), (2 if count else 1) / mpf(first["alpha"])
        for at, track in enumerate(tracks):
            where = f"Ledger: group {at - 1}" if at else "Ledger: the watch"
            check_alarm(track, bound=bound, needed=count * needed if at else needed, where=where)
    return first, tracks


def _follow(track: Outcomes, batch: Record, where: str) -> Outcomes:
    """The outcomes with those of a batch; an alarm that is no place in it, or that changed, is refused."""
    errors, alarm, end = batch["errors"], batch["alarm"], track.labels + batch["labels"]
    if errors and not (errors[-1] <= batch["labels"] and rise(errors)):
        raise Refused(f"{where} has errors that are no rising places of {batch['labels']} labels.")
    if end > LABELS_LIMIT:
        raise Refused(f"{where} is beyond {LABELS_LIMIT} labels.")
    if alarm != track.alarm and (track.alarm is not None or not track.labels < alarm <= end):
        raise Refused(
            f"{where} says alarm = {alarm} after the labels {track.labels + 1} to {end}; before it was "
            f"{track.alarm}: it is raised once, at one of them."
        )
    track.lost.extend(track.labels + place for place in errors)
    return Outcomes(end, track.lost, alarm)


def check_alarm(outcomes: Outcomes, *, bound: mpf, needed: mpf, where: str) -> None:
    """Refuse an alarm that does not follow or is missing, by the wealth where it rises: at lost units."""
    lost, alarm = outcomes.lost, outcomes.alarm
    until = lost if alarm is None else (each for each in lost if each <= alarm)
    others = [] if alarm is None or alarm in lost else [alarm]
    with mpmath.workdps(PLACES):
        rates = [min(c * bound / 100, 1 - 100 * (1 - bound) / c) for c in FACTORS]
        wrong = [rate / bound for rate in rates]
        right = [[((1 - rate) / (1 - bound)) ** k for rate in rates] for k in range(EVERY + 1)]
        started, starts, at = [mpf(0)] * len(rates), 0, 0
        for place in chain(until, others):
            while at < place:
                if at % EVERY == 0:
                    starts += 1
                    weight = mpf(1) / (starts * (starts + 1) * len(rates))
                    started = [each + weight for each in started]
                step = min(place - at - 1, EVERY - at % EVERY) or 1
                factors = wrong if at == place - 1 and place not in others else right[step]
                started = [each * factor for each, factor in zip(started, factors, strict=True)]
                at += step
            wealth = mpmath.fsum(started) + mpf(1) / (starts + 1)
            if place == alarm and wealth < needed:
                raise Refused(f"{where} says alarm = {alarm}, where the wealth is too small.")
            if place != alarm and wealth >= needed * (1 + NEAR):
                raise Refused(f"{where} says alarm = {alarm}; it has to be raised at label {place}.")
