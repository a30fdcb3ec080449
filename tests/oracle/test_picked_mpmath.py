"""The limit of C-15 against the sum that defines it, and against its closed form in 60 digits."""

import math

import mpmath
import pytest
from drawing import examples
from hypothesis import example, given
from hypothesis import strategies as st

from codebound.bounds.held_out import picked_risk
from codebound.bounds.numerics import picked_inverse_upper
from codebound.bounds.risk import PickedFacts

ACCURACY = 1e-9
# n, k, and per cent without bits and with 100 of them, at delta = 0.05
KNOWN = [
    (500, 10, 4.307, 19.718),
    (1797, 80, 6.086, 12.962),
    (60_000, 850, 1.584, 2.092),
    (50_000, 10_000, 20.666, 22.268),
    (7291, 200, 3.388, 5.753),
]


def log_defining_sum(k: int, n: int, p: float) -> mpmath.mpf:
    """ln of sum_{m=k}^{n-1} C(m,k)/C(n,k) (1-p)^-(n-m), term by term."""
    with mpmath.workdps(60):
        kept = 1 - mpmath.mpf(p)
        term, total = mpmath.mpf(1), mpmath.mpf(0)
        for m in range(n - 1, k - 1, -1):  # C(m,k)/C(n,k) from C(m+1,k)/C(n,k)
            term *= mpmath.mpf(m + 1 - k) / (m + 1) / kept
            total += term
        return mpmath.log(total)


def log_closed_sum(k: int, n: int, p: float) -> mpmath.mpf:
    """The same as P(Bin > k) / (p P(Bin = k)), the lower tail summed from k downwards."""
    with mpmath.workdps(60):
        x = mpmath.mpf(p)
        log_pmf = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        log_pmf += k * mpmath.log(x) + (n - k) * mpmath.log1p(-x)
        term, series = mpmath.mpf(1), mpmath.mpf(1)
        for i in range(k):
            term *= (k - i) * (1 - x) / ((n - k + 1 + i) * x)
            series += term
            if term < mpmath.mpf(10) ** -50 * series:
                break
        return mpmath.log1p(-mpmath.exp(log_pmf) * series) - mpmath.log(x) - log_pmf


def is_above_and_near(k: int, n: int, log_delta: float, log_sum) -> None:
    """At the value the inequality holds; a little below it does not, unless that is below k/n."""
    value = picked_inverse_upper(k, n, log_delta)
    target = mpmath.log(n) - mpmath.mpf(log_delta)
    assert value == 1.0 or log_sum(k, n, value) >= target
    tighter = value * (1.0 - ACCURACY)
    assert log_sum(k, n, tighter) <= target


@examples(60)
@given(
    st.integers(2, 300).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))),
    st.floats(1e-12, 0.5),
    st.floats(0, 200),
)
@example((0, 1), 0.5, 0.0)
@example((298, 299), 1e-12, 100.0)
def test_it_solves_the_defining_sum_from_above(counts, delta, bits):
    k, n = counts
    log_delta = math.log(delta) - bits * math.log(2.0)
    if picked_inverse_upper(k, n, log_delta) < 1.0 - 1e-6:
        is_above_and_near(k, n, log_delta, log_defining_sum)


@pytest.mark.few(7)
@pytest.mark.parametrize("bits", [0, 30, 4000])
@pytest.mark.parametrize(
    ("n", "k"), [(60_000, 0), (60_000, 850), (50_000, 10_000), (10**6, 5), (10**6, 400_000), (10**9, 10**5)]
)
def test_it_solves_the_closed_form_at_real_sizes(n, k, bits):
    is_above_and_near(k, n, math.log(0.05) - bits * math.log(2.0), log_closed_sum)


def test_the_closed_form_is_the_sum():
    for k, n, p in ((0, 5, 0.3), (3, 40, 0.2), (39, 40, 0.99), (10, 120, 0.15)):
        assert abs(log_closed_sum(k, n, p) - log_defining_sum(k, n, p)) < mpmath.mpf(10) ** -40


@pytest.mark.parametrize(("n", "k", "plain", "with_bits"), KNOWN)
def test_known_values(n, k, plain, with_bits):
    for bits, expected in ((0, plain), (100, with_bits)):
        facts = PickedFacts(picks=k, errors=0, n=n, code_bits=bits, delta=0.05)
        assert 100.0 * picked_risk(facts).value == pytest.approx(expected, abs=5e-4)
