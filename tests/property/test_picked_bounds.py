"""What every picked bound must satisfy, whatever the counts are."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.held_out import holdout, picked_risk
from codebound.bounds.risk import HoldoutFacts, PickedFacts
from codebound.run.errors import UsageError

SIZES = st.integers(1, 10**9)
DELTAS = st.floats(1e-12, 0.5)
BITS = st.integers(0, 10**7)


@st.composite
def facts(draw) -> PickedFacts:
    n = draw(SIZES)
    counted = draw(st.integers(0, n))
    errors = draw(st.integers(0, counted))
    return PickedFacts(
        picks=counted - errors, errors=errors, n=n, code_bits=draw(BITS), delta=draw(DELTAS), classes=10
    )


def value(given_facts: PickedFacts, **changed) -> float:
    return picked_risk(replace(given_facts, **changed)).value


@given(facts())
def test_it_lies_between_the_counted_share_and_one(given_facts):
    assert given_facts.counted / given_facts.n <= value(given_facts) <= 1.0


@given(facts())
def test_it_is_never_below_the_hold_out_bound_for_as_many_errors(given_facts):
    fresh = HoldoutFacts(errors=given_facts.counted, n=given_facts.n, delta=given_facts.delta)
    assert value(given_facts) >= holdout(fresh).value * (1.0 - 1e-9)


@given(facts(), st.integers(0, 1000), st.integers(0, 1000))
def test_more_picks_errors_or_bits_never_help(given_facts, more_bits, more):
    more = min(more, given_facts.n - given_facts.counted)
    assert value(given_facts, code_bits=given_facts.code_bits + more_bits) >= value(given_facts) * (1 - 1e-9)
    assert value(given_facts, errors=given_facts.errors + more) >= value(given_facts) * (1 - 1e-9)


@given(facts())
def test_a_pick_costs_what_an_error_costs(given_facts):
    swapped = value(given_facts, picks=given_facts.errors, errors=given_facts.picks)
    assert swapped == value(given_facts)


def test_all_of_the_sample_says_nothing():
    found = picked_risk(PickedFacts(picks=90, errors=10, n=100, delta=0.05, classes=10))
    assert (found.value, found.vacuous, found.ref, found.subject) == (1.0, True, "C-15", "g")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"picks": -1}, "picks"),
        ({"picks": 60, "errors": 41}, "together"),
        ({"errors": 101, "picks": 0}, "errors"),
        ({"n": 0, "picks": 0, "errors": 0}, "sample size"),
        ({"delta": 0.0}, "delta"),
        ({"code_bits": -1.0}, "code_bits"),
        ({"classes": 1}, "classes"),
        ({"picks": 1.5}, "whole number"),
    ],
)
def test_counts_that_no_sample_has_are_refused(changed, says):
    with pytest.raises(UsageError, match=says):
        PickedFacts(**{"picks": 3, "errors": 2, "n": 100, "delta": 0.05, **changed})


def test_the_prices_of_bits_in_the_page_are_those_of_the_bound():
    page = (Path(__file__).parents[2] / "docs/why.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) of ([\d,]+) \|(.*)\|$", page, flags=re.MULTILINE)
    assert len(rows) == 4
    for counted, n, cells in rows:
        for bits, cell in zip((50, 150, 550, 2050), cells.split("|"), strict=True):
            picks, size = (int(number.replace(",", "")) for number in (counted, n))
            exact = picked_risk(PickedFacts(picks=picks, errors=0, n=size, code_bits=bits, delta=0.05)).value
            assert float(cell.strip(" %")) == pytest.approx(100.0 * exact, abs=0.00501)
