"""Batches of a watch, in whatever pieces; an alarm exactly where it is due."""

from array import array

import pytest
from ledger_writer import alarm_of, mpf

from codebound_verify.holdout.wealth import Outcomes, check_alarm, check_watch
from codebound_verify.refusal import Refused

OUTCOMES = [int(at % 9 == 0) for at in range(230)] + [int(at % 3 == 0) for at in range(100)]
LINE = {"previous": "0" * 64, "date": "2026-01-01T00:00:00Z"}
FIRST = LINE | {"kind": "watch", "version": 1, "stream": "mail", "bound": 0.1, "alpha": 0.01}
FIRST |= {"certificate": None, "loss": ["wrong"], "groups": None, "clusters": None}


def batches(size: int, alarm: int | None) -> list[dict]:
    found = []
    for start in range(0, len(OUTCOMES), size):
        part = OUTCOMES[start : start + size]
        told = alarm if alarm is not None and alarm <= start + len(part) else None
        errors = [place for place, bad in enumerate(part, start=1) if bad]
        found.append(
            LINE | {"kind": "batch", "errors": errors, "labels": len(part), "alarm": told, "groups": None}
        )
    return found


@pytest.mark.parametrize("size", [1, 7, 99, 100, 101, 330])
def test_batches_of_any_size_say_the_same(size):
    due = alarm_of(OUTCOMES, 0.1, 0.01)
    assert due is not None
    _, (track,) = check_watch(FIRST, batches(size, due))
    assert (track.labels, len(track.lost), track.alarm) == (330, sum(OUTCOMES), due)
    for wrong in (due - 1, due + 1, None, 1):
        with pytest.raises(Refused, match="alarm"):
            check_watch(FIRST, batches(size, wrong))


@pytest.mark.parametrize("changed", [None, 1, 331, 335])
def test_an_alarm_stays_where_it_was(changed):
    lines = batches(330, alarm_of(OUTCOMES, 0.1, 0.01))
    more = lines[0] | {"errors": [], "labels": 5}
    assert check_watch(FIRST, [*lines, more])[1][0].labels == 335
    with pytest.raises(Refused, match="it is raised once"):
        check_watch(FIRST, [*lines, more | {"alarm": changed}])


def test_a_million_labels_without_error_take_no_time():
    late = Outcomes(1 << 20, array("q", [1 << 20]), None)
    check_alarm(late, bound=mpf(0.05), needed=mpf(100), where="here")
