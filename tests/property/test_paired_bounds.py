"""Properties of C-19: what more errors, fewer examples and a smaller delta do to it."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import skellam

from codebound.bounds.numerics import binomial_inverse_upper
from codebound.bounds.paired import PairedFacts, better, difference_p_value, not_worse
from codebound.run.errors import UsageError


@st.composite
def facts(draw):
    n = draw(st.integers(1, 3000))
    x = draw(st.integers(0, n))
    y = draw(st.integers(0, n - x))
    return PairedFacts(a_only=x, b_only=y, n=n, delta=draw(st.sampled_from([1e-200, 1e-6, 0.01, 0.05, 0.5])))


@given(facts())
def test_a_limit_never_exceeds_what_was_seen_and_has_the_sign_of_the_verdict(each):
    found = better(each)
    assert found.is_better == (found.p_value <= each.delta)
    if found.is_better:
        assert 0.0 <= found.limit <= max(0.0, (each.a_only - each.b_only) / each.n)
    else:
        assert -1.0 <= found.limit < 0.0
        assert found.limit <= (each.a_only - each.b_only) / each.n + 1e-12


@given(facts())
def test_two_classifiers_are_never_better_than_each_other(each):
    other = replace(each, a_only=each.b_only, b_only=each.a_only)
    if each.delta < 0.5:
        assert not (better(each).is_better and better(other).is_better)


@given(facts(), st.floats(0.01, 1.0))
def test_a_smaller_delta_says_less(each, part):
    smaller = replace(each, delta=max(1e-300, each.delta * part))
    assert (
        better(smaller).limit <= better(each).limit * (1.0 + 1e-7 if better(each).limit > 0 else 1.0) + 1e-12
    )


@given(facts())
def test_one_more_error_of_b_says_less(each):
    if each.discordant < each.n:
        worse = replace(each, b_only=each.b_only + 1)
        assert better(worse).limit <= better(each).limit + 1e-8


@given(facts(), st.floats(-0.99, 0.99), st.floats(-0.99, 0.99))
def test_the_p_value_rises_with_the_difference(each, first, second):
    low, high = sorted((first, second))
    assert difference_p_value(each, low) <= difference_p_value(each, high) * (1.0 + 1e-7) + 1e-290


@pytest.mark.parametrize(
    "wrong",
    [
        {"a_only": -1},
        {"b_only": 8},
        {"n": 0},
        {"n": 10**10},
        {"delta": 0.0},
        {"delta": 0.6},
        {"delta": 1e-301},
    ],
)
def test_counts_that_cannot_be_are_refused(wrong):
    with pytest.raises(UsageError):
        PairedFacts(**({"a_only": 3, "b_only": 2, "n": 9, "delta": 0.05} | wrong))


@pytest.mark.parametrize("margin", [-0.1, 1.0, float("nan")])
def test_margins_that_cannot_be_are_refused(margin):
    with pytest.raises(UsageError):
        not_worse(PairedFacts(a_only=3, b_only=2, n=9, delta=0.05), margin)


def test_rare_errors_of_many_examples_agree_with_poisson_numbers():
    n = 10**9
    found = better(PairedFacts(a_only=300, b_only=200, n=n, delta=0.05))
    b = binomial_inverse_upper(200, n, math.log(0.05 / 20))
    assert skellam.sf(99, n * (b + found.limit), n * b) == pytest.approx(0.95 * 0.05, rel=1e-4)


def test_a_comparison_takes_no_time():
    start = time.process_time()
    better(PairedFacts(a_only=40_000, b_only=38_000, n=100_000, delta=0.05))
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8])
def test_numbers_of_numpy_are_numbers(kind):
    facts = PairedFacts(a_only=kind(60), b_only=kind(20), n=kind(200), delta=np.float64(0.05))
    assert better(facts) == better(PairedFacts(a_only=60, b_only=20, n=200, delta=0.05))
    with pytest.raises(UsageError, match="whole number"):
        PairedFacts(a_only=60.5, b_only=20, n=200, delta=0.05)
