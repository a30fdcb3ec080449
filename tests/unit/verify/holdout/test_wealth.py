"""Batches of a watch, in whatever pieces; an alarm exactly where it is due."""

import pytest
from ledger_writer import alarm_of, mpf

from codebound_verify.holdout.wealth import Track
from codebound_verify.refusal import Refused

OUTCOMES = [int(at % 9 == 0) for at in range(230)] + [int(at % 3 == 0) for at in range(100)]


def follow(size: int, alarm: int | None, *, bound: float = 0.1) -> Track:
    track = Track(bound, mpf("0.01"))
    for start in range(0, len(OUTCOMES), size):
        part = OUTCOMES[start : start + size]
        told = alarm if alarm is not None and alarm <= start + len(part) else None
        errors = [place for place, bad in enumerate(part, start=1) if bad]
        track.take({"errors": errors, "labels": len(part), "alarm": told}, "here")
    return track


@pytest.mark.parametrize("size", [1, 7, 99, 100, 101, 330])
def test_batches_of_any_size_say_the_same(size):
    due = alarm_of(OUTCOMES, 0.1, 0.01)
    assert due is not None
    track = follow(size, due)
    assert (track.labels, track.errors, track.alarm) == (330, sum(OUTCOMES), due)
    for wrong in (due - 1, due + 1, None, 1):
        with pytest.raises(Refused, match="alarm"):
            follow(size, wrong)


def test_an_alarm_stays_where_it_was():
    track = follow(330, alarm_of(OUTCOMES, 0.1, 0.01))
    with pytest.raises(Refused, match="it was raised at label"):
        track.take({"errors": [], "labels": 5, "alarm": None}, "here")


def test_a_million_labels_without_error_take_no_time():
    track = Track(0.05, mpf("0.01"))
    track.take({"errors": [1 << 20], "labels": 1 << 20, "alarm": None}, "here")
    assert (track.labels, track.errors) == (1 << 20, 1)
