"""What every picked bound must satisfy, whatever the counts are."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from codebound.bounds.facts import HoldoutFacts, PickedFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.picked import picked_risk
from codebound.bounds.risk import FIRST_APART
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


def test_examples_that_were_set_apart_are_declared():
    assert FIRST_APART in picked_risk(PickedFacts(picks=1, errors=1, n=50, n_first=5, delta=0.05)).assumptions
    assert FIRST_APART not in picked_risk(PickedFacts(picks=1, errors=1, n=50, delta=0.05)).assumptions


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"picks": -1}, "picks"),
        ({"picks": 60, "errors": 41}, "together"),
        ({"errors": 101, "picks": 0}, "errors"),
        ({"n": 0, "picks": 0, "errors": 0}, "sample size"),
        ({"delta": 0.0}, "delta"),
        ({"code_bits": -1.0}, "code_bits"),
        ({"n_first": -1}, "n_first"),
        ({"classes": 1}, "classes"),
        ({"picks": 1.5}, "whole number"),
    ],
)
def test_counts_that_no_sample_has_are_refused(changed, says):
    with pytest.raises(UsageError, match=says):
        PickedFacts(**{"picks": 3, "errors": 2, "n": 100, "delta": 0.05, **changed})


def test_the_prices_of_bits_in_the_page_are_those_of_the_bound():
    page = (Path(__file__).parents[2] / "docs/picked.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) of ([\d,]+) \|(.*)\|$", page, flags=re.MULTILINE)
    assert len(rows) == 4
    for counted, n, cells in rows:
        for bits, cell in zip((50, 150, 550, 2050), cells.split("|"), strict=True):
            picks, size = (int(number.replace(",", "")) for number in (counted, n))
            exact = picked_risk(PickedFacts(picks=picks, errors=0, n=size, code_bits=bits, delta=0.05)).value
            assert float(cell.strip(" %")) == pytest.approx(100.0 * exact, abs=0.00501)


@examples(200)
@given(st.data(), st.integers(1, 5000), st.floats(1e-9, 0.5), st.integers(0, 20))
def test_a_rule_that_picks_nothing_is_a_hold_out_set_at_its_bits(data, n, delta, bits):
    errors = data.draw(st.integers(0, n))
    facts = PickedFacts(picks=0, errors=errors, n=n, code_bits=bits, delta=delta, is_held_out=True)
    promised = holdout(HoldoutFacts(errors=errors, n=n, delta=delta * 2.0**-20)).value
    value = picked_risk(facts).value
    assert value <= promised * (1.0 + 1e-12)  # both are rounded up
    level = delta * 2.0**-bits
    exact = 1.0 if errors == n else beta.ppf(1.0 - level, errors + 1, n - errors)
    if level > 1e-6:  # below, the quantile of scipy is not exact
        assert value == pytest.approx(exact, rel=1e-6)
    assert value <= picked_risk(replace(facts, is_held_out=False)).value * (1.0 + 1e-12)


def test_a_rule_that_picks_is_no_hold_out_set():
    with pytest.raises(UsageError, match="no picks"):
        PickedFacts(picks=1, errors=0, n=50, delta=0.05, is_held_out=True)
