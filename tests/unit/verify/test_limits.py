"""The limit of C-15 in multiple precision, against the sum that defines it."""

import mpmath
import pytest
import rule_writer as rules
from drawing import examples
from hypothesis import example, given
from hypothesis import strategies as st

from codebound_verify.formulas import picked


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
