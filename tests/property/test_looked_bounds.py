"""What the bound after looks must satisfy, whatever the counts are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.held_out import holdout, ladder_bits, looked_risk
from codebound.bounds.risk import HoldoutFacts, LookFacts
from codebound.run.errors import UsageError


@st.composite
def facts(draw) -> LookFacts:
    n = draw(st.integers(1, 10**9))
    looks = draw(st.none() | st.integers(1, 10**9))
    return LookFacts(
        errors=draw(st.integers(0, n)),
        n=n,
        delta=draw(st.floats(1e-12, 0.5)),
        looks=looks,
        number=draw(st.integers(1, looks or 10**6)),
        answer_bits=draw(st.floats(0, 1e6)),
    )


def value(given_facts: LookFacts, **changed) -> float:
    return looked_risk(replace(given_facts, **changed)).value


@given(facts())
def test_a_used_set_never_says_more_than_a_fresh_one(given_facts):
    fresh = holdout(HoldoutFacts(errors=given_facts.errors, n=given_facts.n, delta=given_facts.delta))
    assert value(given_facts) >= fresh.value * (1.0 - 1e-9)


@given(st.integers(0, 300), st.integers(1, 10**6))
def test_networks_fixed_beforehand_cost_what_the_hold_out_limit_shares(errors, looks):
    used = LookFacts(errors=errors, n=300, delta=0.05, looks=looks)
    shared = HoldoutFacts(errors=errors, n=300, delta=0.05 / looks)
    assert looked_risk(used).value == pytest.approx(holdout(shared).value, rel=1e-9)


@given(facts(), st.integers(0, 1000), st.floats(0, 1000))
def test_more_errors_or_answers_never_help(given_facts, more, more_bits):
    errors = min(given_facts.n, given_facts.errors + more)
    assert value(given_facts, errors=errors) >= value(given_facts) * (1 - 1e-9)
    assert value(given_facts, answer_bits=given_facts.answer_bits + more_bits) >= value(given_facts) * (
        1 - 1e-9
    )


def test_later_looks_of_a_plan_without_an_end_cost_more():
    values = [
        looked_risk(LookFacts(errors=5, n=100, delta=0.05, looks=None, number=number)).value
        for number in (1, 2, 10, 1000)
    ]
    assert values == sorted(values)
    assert values[0] < values[-1]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"looks": 0}, "number from 1"),
        ({"number": 3}, "number from 1"),
        ({"answer_bits": -1.0}, "code_bits"),
        ({"errors": 101}, "errors"),
        ({"delta": 1.0}, "delta"),
    ],
)
def test_what_no_look_has_is_refused(changed, says):
    with pytest.raises(UsageError, match=says):
        LookFacts(**{"errors": 3, "n": 100, "delta": 0.05, "looks": 2, **changed})


def test_an_answer_above_the_best_is_refused():
    with pytest.raises(UsageError, match="below the best"):
        ladder_bits([20, 30], [30, 20, 10])
