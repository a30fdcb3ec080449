"""The two laws where counts are large: how long they take, and against sums in many digits."""

import time

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from codebound_verify.formulas import binomial, picked

DELTAS = st.floats(1e-12, 0.999)


@st.composite
def counts(draw, largest):
    n = draw(st.integers(1, largest))
    return draw(st.integers(0, n)), n


@given(counts(10**6), DELTAS)
def test_the_binomial_law_is_scipys_beta_quantile(pair, delta):
    errors, n = pair
    expected = 1.0 if errors == n else beta.isf(delta, errors + 1, n - errors)
    assert float(binomial(errors=errors, n=n, bits=0, delta=delta)) == pytest.approx(expected, rel=1e-9)


def tail(errors: int, n: int, p) -> mpmath.mpf:
    """ln P(Bin(n, p) <= errors), term by term."""
    term = total = mpmath.mpf(1)
    for k in range(errors, 0, -1):
        term *= mpmath.mpf(k) / (n - k + 1) * (1 - p) / p
        total += term
    return mpmath.log(mpmath.binomial(n, errors) * p**errors * (1 - p) ** (n - errors) * total)


@given(counts(300), st.integers(0, 900), DELTAS)
def test_the_tail_at_the_limit_is_the_price_however_long_the_message(pair, bits, delta):
    errors, n = pair
    with mpmath.workdps(400):
        p = binomial(errors=errors, n=n, bits=bits, delta=delta)
        wanted = mpmath.log(mpmath.mpf(delta)) - bits * mpmath.ln2
        if errors < n and 1 - p > mpmath.mpf(10) ** -40:  # 60 digits of p say little about less
            assert tail(errors, n, p) <= wanted + mpmath.mpf(10) ** -15
            assert tail(errors, n, p * (1 - mpmath.mpf(10) ** -25)) >= wanted - mpmath.mpf(10) ** -15


@pytest.mark.parametrize(
    ("errors", "bits", "expected"),
    [(0, 1000, 0.0115), (300, 5000, 0.0737), (1200, 20_000, 0.2656), (0, 60_000, 0.5000)],
)
def test_golden_vectors(errors, bits, expected):
    assert round(float(binomial(errors=errors, n=60_000, bits=bits, delta=0.05)), 4) == expected


# Per cent without bits and with 100 of them, at delta = 0.05; from the sum in docs/why.md, in 60 digits
@pytest.mark.parametrize(
    ("n", "k", "plain", "with_bits"),
    [(500, 10, 4.307, 19.718), (1797, 80, 6.086, 12.962), (60_000, 850, 1.584, 2.092)],
)
def test_values_of_picks(n, k, plain, with_bits):
    for bits, expected in ((0, plain), (100, with_bits)):
        assert 100 * float(picked(counted=k, n=n, bits=bits, delta=0.05)) == pytest.approx(expected, abs=5e-4)


def test_large_samples_and_long_messages_take_no_time():
    start = time.process_time()
    for n in (60_000, 10**6, 2**32):
        for errors in (0, 1, n // 100_000, n - n // 100_000, n - 1):
            for bits in (0, 1000, 10**6, 2**32):
                assert errors / n <= binomial(errors=errors, n=n, bits=bits, delta=0.05) <= 1
                assert errors / n <= picked(counted=errors, n=n, bits=bits, delta=0.05) <= 1
    for errors in (10**4, 5 * 10**5):
        assert errors / 10**6 < binomial(errors=errors, n=10**6, bits=3, delta=0.05) < errors / 10**6 + 0.01
    assert time.process_time() - start < 10
