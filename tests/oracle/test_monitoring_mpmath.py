"""C-20 against a literal sum over starting times and rates in multiple precision, and its limit likewise."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bounds.monitoring import EVERY, FACTORS, Mixture, steady_limit

# fmt: off
RATES = [
    "1.20", "1.30", "1.41", "1.53", "1.65", "1.79", "1.94", "2.10",
    "2.28", "2.47", "2.68", "2.90", "3.14", "3.41", "3.69", "4.00",
]
# fmt: on


def wealth(outcomes: list[int], bound: float, at: int) -> mpmath.mpf:
    """W after ``at`` labels as docs/ledger.md, section 8, has it."""
    b, total, starts = mpmath.mpf(bound), mpmath.mpf(0), -(-at // 100)
    for j in range(1, starts + 1):
        later = outcomes[100 * (j - 1) : at]
        wrong = sum(later)
        for c in map(mpmath.mpf, RATES):
            q = min(c * b, 1 - (1 - b) / c)
            total += (q / b) ** wrong * ((1 - q) / (1 - b)) ** (len(later) - wrong) / (16 * j * (j + 1))
    return total + mpmath.mpf(1) / (starts + 1)


def test_the_factors_are_those_of_the_page():
    assert tuple(map(float, RATES)) == FACTORS
    assert EVERY == 100


@pytest.mark.few(1)
@given(
    st.sampled_from([1e-4, 0.05, 0.24, 0.5, 0.97]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.03, 0.2, 0.6, 1.0]),
    st.integers(1, 450),
)
def test_the_wealth_is_the_sum_over_starts_and_rates_from_below(bound, seed, rate, labels):
    outcomes = (np.random.default_rng(seed).random(labels) < rate).astype(int).tolist()
    watch = Mixture(bound=bound, alpha=0.01)
    watch.update(outcomes)
    with mpmath.workdps(40):
        exact = mpmath.log(wealth(outcomes, bound, labels))
        assert exact - mpmath.mpf("1e-9") <= watch.log_wealth <= exact


@pytest.mark.few(1)
@pytest.mark.parametrize(("bound", "rate"), [(0.05, 0.15), (0.01, 0.1), (0.3, 0.6), (0.9, 0.99)])
def test_the_alarm_is_at_the_first_label_that_reaches_the_level(bound, rate):
    outcomes = (np.random.default_rng(3).random(450) < rate).astype(int).tolist()
    watch = Mixture(bound=bound, alpha=0.05)
    watch.update(outcomes)
    assert watch.alarm_at is not None
    with mpmath.workdps(40):
        assert wealth(outcomes, bound, watch.alarm_at) >= 20
        assert all(wealth(outcomes, bound, at) < 20 for at in range(1, watch.alarm_at))


def exact_mixture(errors: int, labels: int, p: float) -> mpmath.mpf:
    """``ln`` of the likelihood under Beta(1/2, 1/2) over that under p."""
    p, right = mpmath.mpf(p), labels - errors
    mixed = mpmath.loggamma(errors + 0.5) + mpmath.loggamma(right + 0.5) - mpmath.loggamma(labels + 1)
    return (
        mixed - mpmath.log(mpmath.pi) - errors * mpmath.log(p) - (right * mpmath.log(1 - p) if right else 0)
    )


@given(
    st.integers(1, 10**7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([1e-12, 0.01, 0.05, 0.9]),
)
def test_the_limit_of_a_steady_error_solves_its_equation_from_above(counts, alpha):
    errors, labels = counts
    limit = steady_limit(errors=errors, labels=labels, alpha=alpha)
    with mpmath.workdps(50):
        level = -mpmath.log(mpmath.mpf(alpha))
        assert limit == 1.0 or exact_mixture(errors, labels, limit) >= level
        tighter = limit * (1.0 - 1e-7)
        assert tighter <= errors / labels or exact_mixture(errors, labels, tighter) <= level


def test_known_delays():
    """A stream of all errors: the alarm of 1/alpha = 100 with B = .05 needs few of them."""
    watch = Mixture(bound=0.05, alpha=0.01)
    watch.update([1] * 20)
    with mpmath.workdps(40):
        first = next(at for at in range(1, 20) if wealth([1] * 20, 0.05, at) >= 100)
    assert watch.alarm_at == first
