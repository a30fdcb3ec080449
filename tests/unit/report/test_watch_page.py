"""Page of a watch: the alarm says what it shows, and the curves are those of the stream."""

import re
from html import unescape

import numpy as np
import pytest
from worlds.ledgers import every_page, stream, watch

from codebound.bounds.monitoring import Mixture
from codebound.report.holdout_page import lines_page, watch_values


def page(*lines):
    return unescape(lines_page(lines, name="live.watch.jsonl", head="12" * 32))


def answers(text):
    return re.findall(r'<p class="claim answer( vacuous)?">(.*?)</p>', text)


def test_an_alarm_says_what_it_shows_and_no_more():
    lines = every_page()
    ((mark, words),) = answers(page(*lines["alarm"]))
    assert (
        words
        == f"Alarm at label {lines['alarm'][-1]['alarm']:,}: the error exceeded 5 % at some time up to then."
    )
    assert mark == " vacuous"
    text = page(*lines["alarm"])
    assert (
        "If nothing has changed since 5 % was certified, the chance that it ever alarms is at most 0.06: 0.01"
        " and 0.05 that the certificate was false." in text
    )
    ((mark, words),) = answers(page(*lines["quiet"]))
    assert words == "No alarm in 2,500 labels: nothing shows that the error ever exceeded 5 %."
    assert "if the error is the same all the time" in text


def test_the_alarm_of_one_group_is_an_answer():
    (_, (mark, words)) = answers(page(*every_page()["groups"]))
    assert words == "Alarm for dates at its label 120."
    assert mark == " vacuous"


def corners(line):
    """Points of a line, in per cent of the picture, from its lower left."""
    pairs = np.array([each.split(",") for each in line.split()], dtype=float)
    return pairs[:, 0], 100.0 - pairs[:, 1]


def test_the_curves_end_where_the_stream_does():
    outcomes = stream(3, (3000, 0.03), (1500, 0.1))
    mixture = Mixture(bound=0.05, alpha=0.01)
    mixture.update(outcomes)
    error = watch_values(*split(watch(outcomes)))["picture"]
    (_, limits), (_, recent) = error["lines"]
    bound_at = 100.0 - error["level"]  # the height of 5 %
    for line, value in ((limits, mixture.upper_limit()), (recent, outcomes[-225:].mean())):
        across, up = corners(line)
        assert across[-1] == pytest.approx(100.0)
        assert up[-1] == pytest.approx(bound_at * value / 0.05, abs=0.05)
    assert error["alarm"] == pytest.approx(100.0 * mixture.alarm_at / 4500, abs=0.01)


@pytest.mark.parametrize("size", [1, 99, 100, 101, 1000])
def test_how_the_labels_came_in_makes_no_difference(size):
    outcomes = stream(8, (1000, 0.04))
    whole, parts = (watch_values(*split(watch(outcomes, size=each))) for each in (1000, size))
    assert whole["picture"] == parts["picture"]
    assert whole["numbers"] == parts["numbers"]


def split(lines):
    first, *batches = lines
    return first, batches


@pytest.mark.parametrize("labels", [1, 7, 100, 12_345])
def test_marks_are_round_and_inside(labels):
    picture = watch_values(*split(watch(stream(9, (labels, 0.02)))))["picture"]
    assert len(picture["up"]) >= 2
    assert len(picture["across"]) >= 2
    assert all(0.0 <= at <= 100.0 for _, at in (*picture["up"], *picture["across"]))


def test_a_watch_that_has_begun_has_no_picture():
    values = watch_values(*split(every_page()["begun"]))
    assert values["picture"] is None
    assert values["answers"][0]["words"] == "No label has been seen yet."
