"""C-16 against multiple precision, the price of answers against exact fractions, and known numbers."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.held_out import ladder_bits, looked_risk, sorted_answer_bits
from codebound.bounds.risk import LookFacts


def log_tail(errors: int, n: int, p: float) -> mpmath.mpf:
    """``ln P(Bin(n, p) <= errors)``, term by term."""
    with mpmath.workdps(60):
        p = mpmath.mpf(p)
        terms = (mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(errors + 1))
        return mpmath.log(mpmath.fsum(terms))


@given(
    st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))),
    st.floats(1e-12, 0.5),
    st.integers(1, 10**6),
    st.floats(0, 60),
)
def test_it_inverts_the_tail_from_above(counts, delta, looks, bits):
    errors, n = counts
    facts = LookFacts(errors=errors, n=n, delta=delta, looks=looks, answer_bits=bits)
    value = looked_risk(facts).value
    with mpmath.workdps(60):
        level = mpmath.log(mpmath.mpf(delta)) - mpmath.log(looks) - mpmath.mpf(bits) * mpmath.log(2)
        assert value == 1.0 or log_tail(errors, n, value) <= level
        tighter = value * (1.0 - 1e-8)
        assert tighter <= errors / n or log_tail(errors, n, tighter) >= level


@pytest.mark.parametrize(
    ("looks", "percent"), [(1, 5.37), (1000, 5.90), (10**6, 6.25)]
)  # a test set of 10,000 examples with 5 % errors, by SciPy's beta quantile
def test_what_choosing_costs(looks, percent):
    facts = LookFacts(errors=500, n=10_000, delta=0.05, looks=looks)
    assert 100.0 * looked_risk(facts).value == pytest.approx(percent, abs=5e-3)


def exact_probability(answers, levels) -> Fraction:
    """The definition of the page, in fractions."""
    result, improvements, left = Fraction(1), 0, list(levels)
    for told, answer in enumerate(answers):
        chance = Fraction(2 * improvements + 1, 2 * told + 2)
        if answer is None:
            result *= 1 - chance
        else:
            result *= chance / len(left)
            left = left[left.index(answer) + 1 :]
            improvements += 1
    return result


def transcripts(levels, length):
    """All sequences of answers that can be given."""
    for answers in product([None, *levels], repeat=length):
        told = [answer for answer in answers if answer is not None]
        if told == sorted(set(told), reverse=True):
            yield answers


@pytest.mark.parametrize("levels", [(5,), (9, 4), (30, 20, 10)])
def test_answers_have_a_prefix_code_and_their_bits_are_rounded_up(levels):
    for length in range(6):
        total = Fraction(0)
        for answers in transcripts(levels, length):
            exact = exact_probability(answers, levels)
            bits = ladder_bits(answers, levels)
            assert mpmath.mpf(bits) >= -mpmath.log(mpmath.mpf(exact.numerator) / exact.denominator, 2) - 1e-16
            assert bits == pytest.approx(math.log2(1 / exact), rel=1e-9, abs=1e-12)
            total += exact
        assert total <= 1


def test_attempts_that_fail_cost_next_to_nothing():
    assert ladder_bits([None] * 1000, [10]) < 6.5
    assert 1000 * sorted_answer_bits(999, bins=2) == pytest.approx(9965.8, abs=0.1)


def test_a_ladder_of_a_thousand_looks_with_five_steps():
    answers = [None] * 1000
    for place, level in zip((0, 10, 50, 200, 700), (600, 575, 550, 525, 500), strict=True):
        answers[place] = level
    # Krichevsky and Trofimov in closed form, and uniform levels: 400 at first, then 24, 23, 22, 21 are left
    flags = -mpmath.log(mpmath.beta(5.5, 995.5) / mpmath.pi, 2)
    levels = math.log2(400) + sum(map(math.log2, (24, 23, 22, 21)))
    found = ladder_bits(answers, range(9975, -1, -25))
    assert found == pytest.approx(float(flags) + levels, rel=1e-9)
    assert 70.0 < found < 80.0


@pytest.mark.parametrize("bins", [1, 2, 3, 5, 41])
@pytest.mark.parametrize("n", [0, 1, 7, 400, 10_000, 10**9])
def test_a_sorted_answer_costs_the_logarithm_of_all_that_are_possible(n, bins):
    found = sorted_answer_bits(n, bins=bins)
    exact = mpmath.log(mpmath.binomial(n + bins - 1, bins - 1), 2)
    assert exact * (1 - mpmath.mpf("1e-30")) <= found <= exact * (1 + mpmath.mpf("1e-11"))


def test_the_possible_answers_are_those_that_a_loop_finds():
    for n, bins in ((5, 2), (4, 3), (3, 5)):
        answers = {counts for counts in product(range(n + 1), repeat=bins) if sum(counts) == n}
        assert sorted_answer_bits(n, bins=bins) == pytest.approx(math.log2(len(answers)), rel=1e-12)
