"""Properties of C-21: what a stricter risk, a smaller delta and more thresholds do to the choice."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.selective import SelectiveFacts, choose_threshold, choose_with_share
from codebound.run.errors import UsageError


@st.composite
def facts(draw):
    steps = draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12)), min_size=1, max_size=8))
    answered, wrong, total, lost = [], [], 0, 0
    for right, bad in steps:
        total, lost = total + right + bad, lost + bad
        answered.append(total)
        wrong.append(lost)
    return SelectiveFacts(
        answered=tuple(answered),
        wrong=tuple(wrong),
        n=max(1, total),
        risk=draw(st.floats(0.001, 0.9)),
        delta=draw(st.floats(1e-6, 0.5)),
    )


def place(index: int | None) -> int:
    return -1 if index is None else index


@given(facts(), st.floats(0.1, 1.0))
def test_a_stricter_risk_or_a_smaller_delta_answers_no_more(each, part):
    chosen = place(choose_threshold(each).index)
    assert place(choose_threshold(replace(each, risk=each.risk * part)).index) <= chosen
    assert place(choose_threshold(replace(each, delta=each.delta * part)).index) <= chosen
    assert place(choose_with_share(each).index) <= chosen


@given(facts())
def test_all_that_passed_are_below_the_risk_and_what_stopped_it_is_not(each):
    found = choose_threshold(each)
    passed = place(found.index) + 1
    assert all(limit <= each.risk for limit in found.limits[:passed])
    assert all(limit > each.risk for limit in found.limits[passed:])
    assert len(found.limits) <= passed + 1


@given(facts())
def test_thresholds_after_a_failure_are_never_looked_at(each):
    found = choose_threshold(each)
    tested = len(found.limits)
    cut = replace(each, answered=each.answered[:tested], wrong=each.wrong[:tested])
    assert choose_threshold(cut) == found


def test_a_first_threshold_with_too_few_answers_finds_nothing():
    few = 298  # 0.99**298 is above 0.05
    each = SelectiveFacts(answered=(few, 5000), wrong=(0, 0), n=5000, risk=0.01, delta=0.05)
    assert choose_threshold(each).index is None
    assert choose_with_share(each).share_limit == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"answered": (5, 4)},
        {"wrong": (2, 1)},
        {"wrong": (1, 6), "answered": (5, 5)},
        {"answered": (5, 11)},
        {"answered": (5,)},
        {"answered": (), "wrong": ()},
        {"risk": 0.0},
        {"risk": 1.0},
        {"delta": 0.0},
        {"answered": (-1, 5)},
    ],
)
def test_counts_that_cannot_be_are_refused(wrong):
    usual = {"answered": (5, 8), "wrong": (0, 1), "n": 10, "risk": 0.1, "delta": 0.05}
    with pytest.raises(UsageError):
        SelectiveFacts(**(usual | wrong))
