"""Page about a watch: the alarm, limits and evidence along the stream, what it means."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.monitoring import Mixture
from codebound.bounds.risk import count_of, percent, rate
from codebound.report.templates import GROUPS, chosen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_POINTS = 200  # of a curve
_STREAM = (
    (
        "The labels are all that there are, or were chosen without regard to the outcome.",
        "Only complaints were labelled, or only answers that looked doubtful.",
    ),
    (
        (
            "As long as the error is at most the bound, each outcome is a loss with at most that "
            "probability, whatever came before."
        ),
        "One cause makes a hundred errors at once: an outage, a user who asks the same again and again.",
    ),
)


def watch_values(first: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Values of the page about a stream of labels."""
    bound, alpha, certificate = first["bound"], first["alpha"], first["certificate"]
    alarm = batches[-1]["alarm"] if batches else None
    mixture = Mixture(bound=bound, alpha=alpha / 2 if first["groups"] else alpha)
    curve = list(_curve(mixture, batches))
    labels, errors = mixture.labels, mixture.errors
    limit = percent(mixture.upper_limit()) if labels else "none"
    said = chosen(bound)
    if not labels:
        words = "No label has been seen yet."
    elif alarm is None:
        words = f"No alarm in {labels:,} labels: nothing shows that the error ever exceeded {said}."
    else:
        words = f"Alarm at label {alarm:,}: the error exceeded {said} at some time up to then."
    chance = f"If it never exceeds {said}, the chance that this watch ever alarms is at most {alpha:g}."
    in_each = f" for each {first['groups']['column']}" if first["groups"] else ""
    if certificate is not None:
        chance = (
            f"The {said} are certified{in_each} (failure probability {certificate['delta']:g}). If nothing "
            "has changed since then, the chance that this watch ever alarms is at most "
            f"{alpha + certificate['delta']:g}."
        )
    groups = list(_group_rows(first, batches))
    return {
        "title": "watch",
        "subtitle": f"{count_of(labels, 'label', form=',')} from {first['date'][:10]} to "
        f"{(batches[-1] if batches else first)['date'][:10]}; bound {said}, alpha {alpha:g}",
        "answers": [{"words": words, "is_shown": alarm is None}, *_group_answers(first, batches)],
        "how_sure": chance,
        "pictures": _pictures(
            curve, bound=bound, needed=2 / alpha if first["groups"] else 1 / alpha, alarm=alarm
        )
        if labels
        else [],
        "numbers": [
            ("labels", f"{labels:,}", "in the order of the stream"),
            ("errors", f"{errors:,}", rate(errors / labels) if labels else ""),
            (
                "alarm",
                "none" if alarm is None else f"label {alarm:,}",
                f"valid at every look, level {alpha:g}",
            ),
            (
                "upper limit",
                limit,
                f"if the error is the same all the time: a statement of its own, level {mixture.alpha:g}",
            ),
        ],
        "groups": groups,
        "group_column": first["groups"] and first["groups"]["column"],
        "means": [
            "You may look after every label, and stop or go on as you like: the level is for all looks.",
            f"An alarm says that the error exceeded {said} at some time: look at what changed.",
            f"The upper limit, {limit}, is for an error that is the same all the time.",
        ],
        "not_means": [
            "No alarm is no proof: a small or short rise goes unnoticed for a while.",
            "An alarm does not say when it began, why, nor that it still lasts.",
            "Nothing about the answers whose labels were not seen.",
        ],
        "assumed": [*_STREAM, *([GROUPS] if first["groups"] else [])],
    }


def _curve(
    mixture: Mixture, batches: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, float, float, float]]:
    """Labels, error of the last ones, upper limit and wealth (log10) along a stream; fills the mixture."""
    outcomes = np.zeros(sum(each["labels"] for each in batches), dtype=np.int64)
    before = 0
    for each in batches:
        outcomes[before + np.array(each["errors"], dtype=np.int64) - 1] = 1
        before += each["labels"]
    so_far = np.concatenate([[0], np.cumsum(outcomes)])
    step = -(-max(1, len(outcomes)) // _POINTS)
    window = max(100, len(outcomes) // 20)
    for start in range(0, len(outcomes), step):
        mixture.update(outcomes[start : start + step])
        seen = mixture.labels
        first = max(0, seen - window)
        recent = float(so_far[seen] - so_far[first]) / (seen - first)
        yield seen, recent, mixture.upper_limit(), mixture.log_wealth / math.log(10.0)


def _pictures(
    curve: Sequence[tuple[int, float, float, float]], *, bound: float, needed: float, alarm: int | None
) -> list[dict[str, Any]]:
    """Error and upper limit along the stream, and the evidence for an alarm below."""
    end = curve[-1][0]
    recent = [(seen, value) for seen, value, _, _ in curve if seen >= min(100, end)]
    top = min(1.0, 1.15 * max(1.6 * bound, 1.2 * curve[-1][2], *(value for _, value in recent)))
    room = math.log10(needed)
    low, high = min(-1.0, *(wealth for *_, wealth in curve)), 1.25 * room
    across = [(f"{each:,.0f}", round(100.0 * each / end, 2)) for each in _marks(end)]
    at_alarm = None if alarm is None else round(100.0 * alarm / end, 2)

    def line(values: Sequence[tuple[int, float]], bottom: float, top: float) -> str:
        return " ".join(
            f"{100.0 * seen / end:.2f},{100.0 - 100.0 * (max(value, bottom) - bottom) / (top - bottom):.2f}"
            for seen, value in values
        )

    return [
        {
            "title": "Error along the stream",
            "lines": [
                ("limit", line([(seen, limit) for seen, _, limit, _ in curve], 0.0, top)),
                ("recent", line(recent, 0.0, top)),
            ],
            "level": round(100.0 - 100.0 * bound / top, 2),
            "up": [(f"{100 * each:g} %", round(100.0 * each / top, 2)) for each in _marks(top)],
            "across": across,
            "alarm": at_alarm,
            "legend": [
                ("limit", "upper limit, if the error is the same all the time"),
                ("recent", f"error of the last {max(100, end // 20):,} labels"),
                ("level", f"bound, {chosen(bound)}"),
            ],
        },
        {
            "title": f"Evidence that the error exceeded {chosen(bound)}",
            "lines": [("recent", line([(seen, wealth) for seen, *_, wealth in curve], low, high))],
            "level": round(100.0 - 100.0 * (room - low) / (high - low), 2),
            "up": [
                (f"{10.0**each:g}", round(100.0 * (each - low) / (high - low), 2))
                for each in range(math.ceil(low), math.floor(high) + 1)
                if each % max(1, round((high - low) / 5)) == 0
            ],
            "across": across,
            "alarm": at_alarm,
            "legend": [
                ("recent", "wealth of a bet against the bound, starting with 1"),
                ("level", f"alarm at {needed:g}"),
            ],
        },
    ]


def _marks(end: float) -> list[float]:
    """Round numbers from 0 to an end, at most six.

    Example:
        >>> _marks(4500)
        [0.0, 1000.0, 2000.0, 3000.0, 4000.0]
    """
    power = 10.0 ** math.floor(math.log10(end))
    step = next(each * power for each in (0.2, 0.5, 1.0, 2.0) if end / (each * power) < 6)
    return [round(each * step, 12) for each in range(int(end / step + 1e-9) + 1)]


def _group_answers(
    first: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """An answer for each group with an alarm."""
    if first["groups"] and batches:
        for name, each in zip(first["groups"]["names"], batches[-1]["groups"], strict=True):
            if each["alarm"] is not None:
                words = f"Alarm for {name} at its label {each['alarm']:,}."
                yield {"words": words, "is_shown": False}


def _group_rows(first: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row for each group, those with an alarm first."""
    if not (first["groups"] and batches):
        return
    rows = []
    for number, name in enumerate(first["groups"]["names"]):
        parts = [each["groups"][number] for each in batches]
        labels, errors = (sum(each["labels"] for each in parts), sum(len(each["errors"]) for each in parts))
        alarm = parts[-1]["alarm"]
        said = "none" if alarm is None else f"label {alarm:,} of the group"
        rows.append((alarm is None, name, said, f"{errors:,} of {labels:,}"))
    rows.sort(key=lambda row: row[:2])
    yield {
        "title": "Groups",
        "columns": ("alarm", "errors"),
        "rows": [row[1:] for row in rows],
        "worst": "" if rows[0][0] else rows[0][1],
    }
