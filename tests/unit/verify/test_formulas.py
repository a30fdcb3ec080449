"""Every bound against exact integers, SciPy, published vectors, and the sum that defines the last."""

import math
import time
from fractions import Fraction

import cbound_writer as writer
import mpmath
import pytest
import rule_writer as rules
from drawing import examples
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from codebound_verify.formulas import (
    Forms,
    clopper_pearson,
    is_honest,
    least_share,
    occam,
    picked,
    probability_of_more,
)

DELTAS = st.floats(1e-12, 0.999)


@st.composite
def counts(draw, largest):
    n = draw(st.integers(1, largest))
    return draw(st.integers(0, n)), n


@given(counts(60), st.integers(0, 300), DELTAS)
def test_the_exact_form_is_the_largest_p_with_a_probable_tail(pair, code_bits, delta):
    errors, n = pair
    value = occam(errors=errors, n=n, code_bits=code_bits, delta=delta).bound
    if errors == n:
        assert value == 1
        return
    target = Fraction(delta) / 2**code_bits

    def tail(p: Fraction) -> Fraction:
        return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(errors + 1))

    with mpmath.workdps(60):
        p = Fraction(int(mpmath.nint(mpmath.ldexp(value, 300))), 2**300)
    tiny = p / 10**25
    assert tail(min(Fraction(1), p + tiny)) <= target <= tail(p - tiny)


@given(counts(60), st.floats(0.0, 1.0))
def test_the_probability_of_more_errors_is_that_of_exact_integers(pair, risk):
    errors, n = pair
    p = Fraction(risk)
    exact = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(errors, n + 1))
    value = probability_of_more(errors, n, risk)
    with mpmath.workdps(60):
        true = mpmath.mpf(exact.numerator) / exact.denominator
        assert true <= value * (1 + mpmath.mpf("1e-58"))
        assert value <= min(mpmath.mpf(1), true * (1 + mpmath.mpf("1e-25")) + mpmath.mpf("1e-29"))


@given(counts(10**5), st.floats(1e-6, 1.0 - 1e-6))
def test_the_probability_of_more_errors_is_that_of_scipy(pair, risk):
    errors, n = pair
    expected = binom.sf(errors - 1, n, risk)
    value = float(probability_of_more(errors, n, risk))
    if expected > 1e-290:
        assert value == pytest.approx(expected, rel=1e-6)
    else:
        assert value < 1e-280


@given(counts(10**6), DELTAS)
def test_clopper_pearson_is_scipys_beta_quantile(pair, delta):
    errors, n = pair
    value = float(clopper_pearson(errors=errors, n=n, delta=delta))
    expected = 1.0 if errors == n else beta.isf(delta, errors + 1, n - errors)
    assert value == pytest.approx(expected, rel=1e-9)


@given(counts(5000), st.integers(0, 900), DELTAS)
def test_the_tail_at_the_exact_form_is_that_of_scipy(pair, code_bits, delta):
    errors, n = pair
    value = float(occam(errors=errors, n=n, code_bits=code_bits, delta=delta).bound)
    if 1e-9 < value < 1 - 1e-4:  # SciPy's logcdf is accurate here
        tail = binom.logcdf(errors, n, value)
        if tail > -650:
            assert tail == pytest.approx(math.log(delta) - code_bits * math.log(2), rel=1e-7, abs=1e-7)


@given(counts(10**6), st.integers(0, 10**6), DELTAS)
def test_kl_and_hoeffding_solve_their_equations_and_the_forms_are_ordered(pair, code_bits, delta):
    errors, n = pair
    forms = occam(errors=errors, n=n, code_bits=code_bits, delta=delta)
    assert forms.bound <= forms.kl <= forms.hoeffding <= 1
    nats = code_bits * math.log(2) - math.log(delta)
    assert float(forms.hoeffding) == pytest.approx(min(1, errors / n + math.sqrt(nats / 2 / n)), rel=1e-12)
    with mpmath.workdps(60):
        q, p = mpmath.mpf(errors) / n, forms.kl
        if p < 1 - mpmath.mpf(10) ** -30:  # else 60 digits of p say too little about 1 - p
            left = q * mpmath.log(q / p) if errors else mpmath.mpf(0)
            kl = left + (1 - q) * mpmath.log((1 - q) / (1 - p))
            assert float(n * kl) == pytest.approx(nats, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("errors", "code_bits", "expected"),
    [
        (0, 1000, (0.0115, 0.0115, 0.0762)),
        (300, 5000, (0.0737, 0.0738, 0.1750)),
        (1200, 20000, (0.2656, 0.2657, 0.3599)),
        (0, 60000, (0.5000, 0.5000, 0.5887)),
    ],
)
def test_golden_vectors(errors, code_bits, expected):
    forms = occam(errors=errors, n=60_000, code_bits=code_bits, delta=0.05)
    assert [round(float(value), 4) for value in (forms.bound, forms.kl, forms.hoeffding)] == list(expected)


def test_large_samples_and_long_messages_take_no_time():
    start = time.perf_counter()
    for n in (60_000, 10**6):
        for errors in (0, 1, n // 100, n // 2, n - 1):
            for code_bits in (0, 1000, 10**6):
                occam(errors=errors, n=n, code_bits=code_bits, delta=0.05)
    assert time.perf_counter() - start < 2


def test_a_printed_value_may_be_larger_but_only_by_a_millionth():
    exact = mpmath.mpf("0.1")
    assert is_honest(0.1 * (1 + 5e-7), exact)
    assert not is_honest(0.1 * (1 + 2e-6), exact)
    assert not is_honest(math.nextafter(0.1, 0), exact)
    assert not is_honest(math.nan, exact)


def test_the_writer_of_these_tests_is_honest():
    for errors, n, code_bits in [(0, 10, 0), (3, 50, 20), (50, 50, 7), (7, 200, 90)]:
        exact = occam(errors=errors, n=n, code_bits=code_bits, delta=0.05)
        printed = writer.forms(errors, n, code_bits, 0.05)
        assert all(is_honest(value, getattr(exact, name)) for name, value in printed.items())


def test_another_risk_is_added_and_capped():
    forms = Forms(*map(mpmath.mpf, (0.25, 0.5, 0.875))).plus(mpmath.mpf(0.25))
    assert (forms.bound, forms.kl, forms.hoeffding) == (0.5, 0.75, 1)


def test_a_share_from_below():
    share = least_share(inside=30, n=100, delta=0.01)
    assert float(share) == pytest.approx(beta.ppf(0.01, 30, 71), rel=1e-9)


def log_sum(k: int, n: int, p) -> mpmath.mpf:
    """ln of the sum over m from k to n - 1 of C(m, k) / C(n, k) (1 - p)^-(n - m), term by term."""
    term, total = mpmath.mpf(1), mpmath.mpf(0)
    for m in range(n - 1, k - 1, -1):
        term *= mpmath.mpf(m + 1 - k) / (m + 1) / (1 - p)
        total += term
    return mpmath.log(total)


@examples(60)
@given(
    st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))),
    st.floats(1e-9, 0.9),
    st.integers(0, 300),
)
@example((0, 1), 0.5, 0)
@example((199, 200), 1e-9, 0)
def test_it_solves_the_defining_sum_from_above(counts, delta, bits):
    k, n = counts
    with mpmath.workdps(60):
        value = picked(counted=k, n=n, code_bits=bits, delta=delta)
        target = mpmath.log(n) - mpmath.log(mpmath.mpf(delta)) + bits * mpmath.ln2
        if 1 - value > mpmath.mpf(10) ** -30:
            assert log_sum(k, n, value) >= target - mpmath.mpf(10) ** -25
            assert log_sum(k, n, value * (1 - mpmath.mpf(10) ** -20)) < target


@pytest.mark.parametrize(("k", "n", "bits"), [(0, 1, 0), (0, 30, 3), (7, 30, 0), (29, 30, 5), (12, 140, 40)])
def test_it_is_the_limit_by_integers(k, n, bits):
    value = picked(counted=k, n=n, code_bits=bits, delta=0.05)
    limit = rules.picked_limit(k, n, bits, 0.05)
    assert limit - 2.0**-49 <= value <= limit


# Per cent without bits and with 100 of them, at delta = 0.05; from the sum above, in 60 digits
KNOWN = [(500, 10, 4.307, 19.718), (1797, 80, 6.086, 12.962), (60_000, 850, 1.584, 2.092)]


@pytest.mark.parametrize(("n", "k", "plain", "with_bits"), KNOWN)
def test_values_of_the_page(n, k, plain, with_bits):
    for bits, expected in ((0, plain), (100, with_bits)):
        assert 100 * float(picked(counted=k, n=n, code_bits=bits, delta=0.05)) == pytest.approx(
            expected, abs=5e-4
        )


def test_all_counted_is_no_bound():
    assert picked(counted=30, n=30, code_bits=0, delta=0.05) == 1
    assert picked(counted=31, n=30, code_bits=0, delta=0.05) == 1


@pytest.mark.parametrize(("k", "n", "bits"), [(10_500, 50_000, 60), (10**5, 10**9, 4000), (0, 2**32, 2**32)])
def test_large_samples(k, n, bits):
    assert k / n < picked(counted=k, n=n, code_bits=bits, delta=0.05) <= 1
