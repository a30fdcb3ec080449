"""The numerics against 60-digit arithmetic by another route, on both sides of every inverse."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest
from drawing import examples
from hypothesis import example, given
from hypothesis import strategies as st

from codebound.bounds import numerics
from codebound.bounds.numerics import (
    _log_tail,
    bernoulli_kl,
    binomial_inverse_upper,
    binomial_tail_upper,
    kl_inverse_upper,
    log2_choose,
    log_binomial_cdf,
    log_binomial_tail,
    log_chernoff_tail,
)
from codebound.bounds.occam import occam_hoeffding
from codebound.bounds.risk import OccamFacts

ACCURACY = 1e-9


def exact_log_cdf(k: int, n: int, p: float) -> mpmath.mpf:
    """ln P(Bin(n, p) <= k) through the continued fraction of the incomplete beta function."""
    p = mpmath.mpf(p)
    if k + 2 > (n + 3) * p:
        return mpmath.log(1 - mpmath.exp(_log_beta_fraction(1 - (1 - p), k + 1, n - k)))
    return _log_beta_fraction(1 - p, n - k, k + 1)


def _log_beta_fraction(x: mpmath.mpf, a: int, b: int) -> mpmath.mpf:
    """ln I_x(a, b) by Lentz's method; x must lie below (a+1)/(a+b+2) for fast convergence."""
    front = a * mpmath.log(x) + b * mpmath.log1p(-x) - mpmath.log(a)
    front -= mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
    tiny, c, d = mpmath.mpf(10) ** -200, mpmath.mpf(1), 1 - (a + b) * x / (a + 1)
    d = 1 / (d if d else tiny)
    value = d
    for m in range(1, 10**7):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for coefficient in (even, odd):
            d = 1 + coefficient * d
            c = 1 + coefficient / c
            d = 1 / (d if d else tiny)
            value *= d * c
        if abs(d * c - 1) < mpmath.mpf(10) ** -40:
            return front + mpmath.log(value)
    raise AssertionError("the oracle did not converge")


def exact_kl(q: float, p: float) -> mpmath.mpf:
    q, p = mpmath.mpf(q), mpmath.mpf(p)
    first = q * mpmath.log(q / p) if q else mpmath.mpf(0)
    return first + ((1 - q) * (mpmath.log1p(-q) - mpmath.log1p(-p)) if q < 1 else 0)


def assert_tight_and_safe(k: int, n: int, log_delta: float) -> None:
    value = binomial_inverse_upper(k, n, log_delta)
    with mpmath.workdps(60):
        assert value == 1.0 or exact_log_cdf(k, n, value) <= log_delta
        tighter = value * (1.0 - ACCURACY)
        assert exact_log_cdf(k, n, tighter) >= log_delta


def test_the_oracle_agrees_with_exact_fractions():
    for k, n, p in ((0, 5, 0.3), (3, 7, 0.5), (6, 7, 0.9), (20, 60, 0.7), (20, 60, 0.1), (2, 60, 0.01)):
        x = Fraction(p)
        exact = sum(math.comb(n, i) * x**i * (1 - x) ** (n - i) for i in range(k + 1))
        with mpmath.workdps(60):
            expected = mpmath.log(mpmath.mpf(exact.numerator) / exact.denominator)
            assert abs(exact_log_cdf(k, n, p) - expected) <= mpmath.mpf(10) ** -35


COUNTS = st.integers(1, 10**5).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))
FEW = st.integers(2, 10**9).flatmap(lambda n: st.tuples(st.integers(0, min(n - 1, 1000)), st.just(n)))


@examples(60)
@given(COUNTS, st.floats(-50_000.0, -1e-3))
@example((99, 100), -3.0)
@example((0, 1), -0.6)
@example((0, 1), -0.8)
@example((1, 2), -1e-9)
@example((98, 100), -1e-12)
def test_binomial_inverse_is_safe_and_within_1e_9(counts, log_delta):
    assert_tight_and_safe(*counts, log_delta)


@examples(40)
@given(FEW, st.floats(-7e6, -1e-3))
def test_binomial_inverse_with_few_errors_and_any_sample_size(counts, log_delta):
    assert_tight_and_safe(*counts, log_delta)


@pytest.mark.parametrize("code_bits", [0, 100, 10**4, 10**7])
@pytest.mark.parametrize("errors", [0, 1, 10**5, 3 * 10**8, 10**9 - 1])
def test_binomial_inverse_at_a_billion_examples(errors, code_bits):
    if code_bits == 0 and errors == 3 * 10**8:
        errors = 10**7  # the oracle's continued fraction is slow where the tail is wide
    assert_tight_and_safe(errors, 10**9, math.log(0.05) - code_bits * math.log(2.0))


@given(COUNTS, st.floats(1e-6, 1.0 - 1e-6))
@examples(60)
def test_log_cdf_is_accurate(counts, p):
    k, n = counts
    with mpmath.workdps(60):
        expected = exact_log_cdf(k, n, p)
        # an absolute error in the log is a relative error of the probability; the tail near 1 cancels
        assert abs(log_binomial_cdf(k, n, p) - expected) <= 1e-11 * abs(expected) + 1e-12


def exact_log_tail(k: int, n: int, p: float) -> mpmath.mpf:
    """ln P(Bin(n, p) >= k)."""
    p = mpmath.mpf(p)
    if p < mpmath.mpf(k + 1) / (n + 3):
        return _log_beta_fraction(p, k, n - k + 1)
    return mpmath.log(1 - mpmath.exp(_log_beta_fraction(1 - p, n - k + 1, k)))


@given(COUNTS, st.floats(1e-6, 1.0 - 1e-6) | st.floats(-300.0, -6.0).map(lambda power: 10.0**power))
@example((0, 1000), 1e-30)
@example((99_999, 100_000), 1e-300)
@examples(100)
def test_upper_tail_is_never_below_the_true_one_and_within_1e_9(counts, p):
    k, n = counts[0] + 1, counts[1]
    with mpmath.workdps(60):
        exact, value = mpmath.exp(exact_log_tail(k, n, p)), binomial_tail_upper(k, n, p)
        assert exact <= value <= exact * (1 + ACCURACY) + mpmath.mpf(2) ** -1073  # the smallest double


@given(COUNTS, st.floats(-40.0, 3.0))
@examples(60)
def test_upper_tail_where_it_decides(counts, deviations):
    """The same at probabilities around the mean of the count, where tails are neither 0 nor 1."""
    k, n = counts[0] + 1, counts[1]
    p = min(max(k / n + deviations / (2 * math.sqrt(n)), 1e-3 * k / n), 1.0 - 1e-9)
    with mpmath.workdps(60):
        exact, value = mpmath.exp(exact_log_tail(k, n, p)), binomial_tail_upper(k, n, p)
        assert exact <= value <= exact * (1 + ACCURACY) + mpmath.mpf(2) ** -1073


def test_upper_tail_at_its_ends():
    assert binomial_tail_upper(0, 10, 0.3) == binomial_tail_upper(3, 10, 1.0) == 1.0
    assert binomial_tail_upper(11, 10, 0.3) == binomial_tail_upper(1, 10, 0.0) == 0.0


@given(COUNTS, st.floats(1e-6, 1.0 - 1e-6) | st.floats(-300.0, -6.0).map(lambda power: 10.0**power))
@example((0, 1000), 1e-30)
@examples(60)
def test_log_tail_is_accurate_however_rare_one_success_is(counts, p):
    k, n = counts[0] + 1, counts[1]
    with mpmath.workdps(60):
        expected = exact_log_tail(k, n, p)
        assert abs(log_binomial_tail(k, n, p) - expected) <= 1e-11 * abs(expected) + 1e-12
        assert expected <= log_chernoff_tail(k, n, p) * (1 - 1e-11) + 1e-12
        if k > n * p:
            assert abs(log_chernoff_tail(k, n, p) + n * exact_kl(k / n, p)) <= 1e-11 * n * exact_kl(k / n, p)
        else:
            assert log_chernoff_tail(k, n, p) == 0.0


def test_tails_at_their_ends():
    assert log_binomial_tail(0, 5, 0.3) == log_binomial_tail(5, 5, 1.0) == 0.0
    assert log_binomial_tail(6, 5, 0.3) == log_binomial_tail(1, 5, 0.0) == -math.inf
    assert log_chernoff_tail(1, 5, 0.0) == -math.inf


@given(st.integers(10**3, 10**9), st.floats(1e-4, 0.6), st.floats(0.7, 0.999))
@example(2_402_602, 0.44310335, 0.894196)  # a deviance here is a small difference of large terms
@examples(60)
def test_the_stated_error_of_a_tail_covers_its_rounding(n, rate, ratio):
    k = int(rate * n)
    p = max(k, 1) / n / ratio
    tail = _log_tail(k, n, p, 1.0 - p)
    with mpmath.workdps(60):
        assert abs(exact_log_cdf(k, n, p) - tail.log_value) <= tail.error


@pytest.mark.parametrize(("k", "n", "log_delta"), [(300, 60_000, -3468.7), (5, 100, -3.0), (5, 100, -0.1)])
def test_the_inverse_steps_outward_by_the_stated_error(k, n, log_delta, monkeypatch):
    """With an error of 1e-6 claimed for every tail, the value must leave room for as much."""
    monkeypatch.setattr(numerics, "_log_tail", lambda *args: replace(_log_tail(*args), error=1e-6))
    value = binomial_inverse_upper(k, n, log_delta)
    with mpmath.workdps(60):
        exact = exact_log_cdf(k, n, value)
        if log_delta < -math.log(2.0):
            assert exact <= log_delta - 0.99e-6
        else:  # there the upper tail is solved, and the error is one of its logarithm
            assert mpmath.log1p(-mpmath.exp(exact)) >= mpmath.log1p(-mpmath.exp(log_delta)) + 0.99e-6


@given(
    st.integers(1, 10**9),
    st.floats(0.0, 1.0),
    st.one_of(st.floats(0.0, 1e4), st.integers(0, 10**7)),
    st.floats(1e-300, 1.0, exclude_max=True),
)
def test_closed_forms_round_up_and_by_less_than_1e_12(n, rate, code_bits, delta):
    facts = OccamFacts(errors=int(rate * n), n=n, code_bits=code_bits, delta=delta)
    with mpmath.workdps(60):
        q = mpmath.mpf(facts.errors) / n
        nats = mpmath.mpf(code_bits) * mpmath.log(2) - mpmath.log(mpmath.mpf(delta))
        exact = q + mpmath.sqrt(nats / (2 * n))
        assert nats <= facts.nats <= nats * (1 + mpmath.mpf(10) ** -12)
        assert q <= facts.error_rate <= q * (1 + mpmath.mpf(10) ** -12)
        assert min(1, exact) <= occam_hoeffding(facts).value <= exact * (1 + mpmath.mpf(10) ** -12)


def test_log_cdf_does_not_underflow_where_scipy_does():
    from scipy.stats import binom

    assert binom.logcdf(100, 60_000, 0.5) == -math.inf
    assert log_binomial_cdf(100, 60_000, 0.5) == pytest.approx(-40852.4, abs=0.05)


def test_log_cdf_at_the_ends():
    assert log_binomial_cdf(5, 5, 0.3) == 0.0
    assert log_binomial_cdf(2, 5, 0.0) == 0.0
    assert log_binomial_cdf(2, 5, 1.0) == -math.inf
    assert log_binomial_cdf(-1, 5, 0.3) == -math.inf


@given(st.floats(0.0, 1.0), st.floats(1e-15, 1.0, exclude_max=True))
@example(0.3, 0.3 + 1e-12)
@example(1.0, 0.999)
def test_kl_has_a_relative_error_below_1e_13(q, p):
    with mpmath.workdps(60):
        expected = exact_kl(q, p)
        assert abs(bernoulli_kl(q, p) - expected) <= 1e-13 * expected


def test_kl_at_the_ends():
    assert bernoulli_kl(0.0, 0.0) == 0.0
    assert bernoulli_kl(0.2, 0.0) == math.inf
    assert bernoulli_kl(0.2, 1.0) == math.inf


@given(st.floats(0.0, 1.0), st.floats(1e-12, 1e4))
def test_kl_inverse_is_safe_and_within_1e_9(q, nats):
    value = kl_inverse_upper(q, nats)
    with mpmath.workdps(60):
        assert value == 1.0 or exact_kl(q, value) >= nats
        tighter = value * (1.0 - ACCURACY)
        assert tighter <= q or exact_kl(q, tighter) <= nats


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_log2_choose_rounds_up(pair):
    k, n = pair
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.binomial(n, k), 2)
        assert exact <= log2_choose(n, k) <= exact * (1 + mpmath.mpf(10) ** -12)


def test_a_midpoint_instead_of_the_safe_end_is_caught():
    """Teeth: the two-sided check refuses a value that is too small by 1e-12."""
    value = kl_inverse_upper(0.1, 0.5) * (1.0 - 1e-12)
    with mpmath.workdps(60):
        assert exact_kl(0.1, value) < 0.5
