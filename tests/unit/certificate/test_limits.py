"""Limits against scipy and against exact sums, and the bound that follows from them."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from codebound.sample.counting import Tally, Term, Terms, guess_rate, terms_of


@given(st.integers(1, 500), st.data(), st.integers(0, 60), st.sampled_from([1.0, 0.5, 0.1]))
def test_the_binomial_limit_is_that_of_clopper_and_pearson(n, data, bits, share):
    errors = data.draw(st.integers(0, n))
    found = Term("binomial", errors, n, bits, share).limit(0.05)
    wanted = 1.0 if errors == n else beta.isf(0.05 * share * 2.0**-bits, errors + 1, n - errors)
    assert found == pytest.approx(wanted, rel=1e-9)
    assert found == 1.0 or binom.cdf(errors, n, found) <= 0.05 * share * 2.0**-bits * (1 + 1e-6)


def counts(n):
    return st.tuples(st.just(n), st.integers(0, n))


@given(st.integers(2, 200).flatmap(counts), st.integers(0, 20))
@example((21, 20), 15)  # a limit of 1 - 7e-8, where the law is steep
def test_the_picked_limit_solves_its_equation(count, bits):
    n, k = count
    p = Term("picked", k, n, bits).limit(0.05)
    if k == n:
        assert p == 1.0
        return
    assert p >= Term("binomial", k, n, bits).limit(0.05) * (1 - 1e-12)

    def excess(risk):
        """Falls in the risk; its zero solves the equation of the law."""
        return n * risk * binom.pmf(k, n, risk) / binom.sf(k, n, risk) - 0.05 * 2.0**-bits

    if p < 1.0 - 1e-9:
        assert excess(p) <= 1e-9 * 2.0**-bits  # the safe side of the solution
        assert excess(p - 1e-11) >= -1e-9 * 2.0**-bits  # and next to it


def test_nothing_that_counted_has_no_limit():
    assert Term("binomial", 0, 0).limit(0.05) == Term("picked", 0, 0).limit(0.05) == 1.0


def test_limits_are_joined_as_the_page_says():
    each = (Term("binomial", 3, 50), Term("binomial", 30, 50))
    assert [Terms(each, joined).bound((0.2, 0.7)) for joined in ("first", "largest")] == [0.2, 0.7]
    assert Terms(each, "sum").bound((0.6, 0.7)) == 1.0


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_sum_is_the_smallest_number_that_is_not_below_it(first, second):
    joint = Terms((Term("binomial", 3, 50),) * 2, "sum").bound((first, second))
    assert math.nextafter(joint, 0.0) < Fraction(first) + Fraction(second) <= joint or joint == 0.0


def test_each_limit_has_its_share_of_delta():
    def shared(on, parts, law="binomial"):
        found = terms_of(law, on, [Tally("t", 3, 50, 2 if law == "picked" else None)] * parts, bits=7)
        assert {(each.count, each.n, each.bits) for each in found.each} == {
            (5 if law == "picked" else 3, 50, 7)
        }
        assert {each.law for each in found.each} == {"binomial" if law == "sum" else law}
        return {each.share for each in found.each}, found.joined

    assert shared("answered:1", 2) == ({0.5}, "first")
    assert shared("each class", 4) == shared("each class", 4, "picked") == ({0.25}, "largest")
    assert shared("all", 2, "sum") == ({0.5}, "sum")
    for on in ("all", "predicted:1", "any row of a cluster"):
        assert shared(on, 1) == ({1.0}, "first")


def test_a_guess_is_an_exact_fraction():
    assert guess_rate(3, None) == Fraction(2, 3)
    assert guess_rate(3, Fraction(4, 5)) == Fraction(1, 5)
    assert guess_rate(3, Fraction(1, 4)) == Fraction(2, 3)
