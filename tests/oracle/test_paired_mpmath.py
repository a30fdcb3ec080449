"""C-19 against multiple precision, and its promise by enumeration of all samples of a small size."""

import itertools
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from codebound.bounds.numerics import log_binomial_mass_upper
from codebound.bounds.paired import PairedFacts, better, difference_p_value, not_worse

DIGITS = 40


def tail(k: int, n: int, p: mpmath.mpf) -> mpmath.mpf:
    """``P(Bin(n, p) >= k)``, term by term."""
    return mpmath.fsum(mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(max(k, 0), n + 1))


@lru_cache(None)
def upper_limit(k: int, n: int, level: mpmath.mpf) -> mpmath.mpf:
    """The largest p with ``P(Bin(n, p) <= k) >= level``, by halving."""
    if k >= n:
        return mpmath.mpf(1)
    low, high = mpmath.mpf(k) / n, mpmath.mpf(1)
    for _ in range(130):
        middle = (low + high) / 2
        if tail(n - k, n, 1 - middle) >= level:
            low = middle
        else:
            high = middle
    return high


def p_value_of_the_page(x: int, y: int, n: int, delta: float, t: float) -> mpmath.mpf:
    """P(t) of docs/ledger.md, section 7."""
    t, side = mpmath.mpf(t), mpmath.mpf(delta) / 20
    v, most, total = upper_limit(y, n, side), upper_limit(x + y, n, side), x + y
    if t * (n - 1) > x - y - 1:
        few = mpmath.mpf(1)
    elif v < -t:
        few = side
    else:
        root = (1 - t) ** 2 - 4 * v
        b = ((1 - t) - mpmath.sqrt(root)) / 2 if root > 0 else (1 - t) / 2
        terms = (
            mpmath.binomial(n, j) * b**j * (1 - b) ** (n - j) * tail(x - y + j, n, b + t)
            for j in range(n + 1)
        )
        few = side + mpmath.fsum(terms)
    many = mpmath.mpf(0)
    if most > mpmath.mpf(1) / 2:
        s = most if t <= 0 else max(mpmath.mpf(1) / 2, 1 - upper_limit(n - total, n, side))
        sure = 2 * side
        many = sure if s < -t else sure + tail(x, total, min(mpmath.mpf(1), (1 + t / s) / 2))
    return min(mpmath.mpf(1), max(few, many))


pairs = st.integers(1, 30).flatmap(
    lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n)).filter(
        lambda each: sum(each[:2]) <= n
    )
)


@pytest.mark.few(1)
@given(pairs, st.sampled_from([1e-9, 0.01, 0.05, 0.5]), st.floats(-0.9, 0.9))
def test_the_p_value_is_that_of_the_page_from_above(counts, delta, difference):
    x, y, n = counts
    found = difference_p_value(PairedFacts(a_only=x, b_only=y, n=n, delta=delta), difference)
    with mpmath.workdps(DIGITS):
        exact = p_value_of_the_page(x, y, n, delta, difference)
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-7")) + mpmath.mpf("1e-250")


@pytest.mark.few(2)
@pytest.mark.parametrize(("x", "y", "n"), [(12, 2, 100), (45, 20, 100), (7, 0, 50), (30, 3, 60), (50, 5, 60)])
def test_a_limit_is_the_last_difference_that_is_rejected(x, y, n):
    found = better(PairedFacts(a_only=x, b_only=y, n=n, delta=0.05))
    assert found.is_better
    with mpmath.workdps(DIGITS):
        assert p_value_of_the_page(x, y, n, 0.05, found.limit) <= mpmath.mpf(0.05)
        assert p_value_of_the_page(x, y, n, 0.05, found.limit + 1e-7) > mpmath.mpf(0.05)


@pytest.mark.parametrize(("x", "y", "n"), [(25, 20, 300), (0, 0, 50), (4, 0, 50), (10, 40, 100), (3, 9, 12)])
def test_a_loss_is_a_product_of_two_limits(x, y, n):
    found = better(PairedFacts(a_only=x, b_only=y, n=n, delta=0.05))
    assert not found.is_better
    with mpmath.workdps(DIGITS):
        side = mpmath.mpf(0.05) / 20
        wrong = upper_limit(y, x + y, 19 * side) if x + y else mpmath.mpf(1)
        exact = -upper_limit(x + y, n, side) * max(mpmath.mpf(1) / 20, 2 * wrong - 1)
        assert exact * (1 + mpmath.mpf("1e-8")) <= found.limit <= exact or found.limit == exact == -1


def test_what_the_issue_asks_for():
    found = better(PairedFacts(a_only=60, b_only=20, n=1000, delta=0.05))
    assert found.is_better
    assert found.limit >= 0.019
    assert better(
        PairedFacts(a_only=30, b_only=17, n=1000, delta=0.05)
    ).is_better  # as by the sign test, p = .039


@pytest.mark.parametrize("delta", [0.05, 1e-12, 1e-250])
@pytest.mark.parametrize(
    ("x", "y", "n"), [(60, 20, 1000), (6000, 2000, 100_000), (45_000, 40_000, 100_000), (300, 1, 10**9)]
)
def test_large_samples_agree_with_a_long_sum(x, y, n, delta):
    facts = PairedFacts(a_only=x, b_only=y, n=n, delta=delta)
    found = better(facts)
    limit = found.limit
    assert limit <= (x - y) / n
    if not found.is_better or delta < 1e-200 or n > 10**6 or x + y > n / 2:
        return
    v = binom_limit(y, n, delta / 20)
    b = ((1 - limit) - ((1 - limit) ** 2 - 4 * v) ** 0.5) / 2
    j = np.arange(0, n - (x - y) + 1)
    total = float((binom.pmf(j, n, b) * binom.sf(x - y + j - 1, n, b + limit)).sum())
    assert total == pytest.approx(0.95 * delta, rel=1e-5) or limit == 0.0


def binom_limit(k: int, n: int, level: float) -> float:
    from scipy.stats import beta

    return float(beta.isf(level, k + 1, n - k))


def test_a_difference_of_two_binomial_numbers_is_the_trinomial_one():
    n, a, b = 7, 0.3, 0.2
    p, q = a * (1 - b), b * (1 - a)
    ours = np.convolve(binom.pmf(np.arange(n + 1), n, a), binom.pmf(np.arange(n + 1), n, b)[::-1])
    step = np.array([q, 1 - p - q, p])
    theirs = np.array([1.0])
    for _ in range(n):
        theirs = np.convolve(theirs, step)
    assert ours == pytest.approx(theirs, abs=1e-14)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [1, 2, 9, 40])
@pytest.mark.parametrize("difference", [-0.3, 0.0, 0.1, 0.45])
def test_the_tail_rises_with_the_rate_of_single_errors(n, difference):
    """Darroch's theorem, where it is used."""
    rates = np.linspace(max(0.0, -difference), 0.5 * (1.0 - difference), 40)
    for least in range(-n, n + 1):
        if least - 1 < (n - 1) * difference:
            continue
        j = np.arange(n + 1)
        tails = [
            (binom.pmf(j, n, b) * binom.sf(least + j - 1, n, min(1.0, b + difference))).sum() for b in rates
        ]
        assert np.all(np.diff(tails) >= -1e-12)


def outcomes(n: int) -> list[tuple[int, int]]:
    return [(x, y) for x, y in itertools.product(range(n + 1), repeat=2) if x + y <= n]


def error_rates(n: int, limits: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Exact probability that the limit is above the difference, for each pair of rates p, q."""
    x, y = np.array(outcomes(n)).T
    from scipy.special import gammaln, xlogy

    choose = gammaln(n + 1) - gammaln(x + 1) - gammaln(y + 1) - gammaln(n - x - y + 1)
    found = []
    for p, q in rates:
        rest = max(0.0, 1.0 - p - q)
        masses = np.exp(choose + xlogy(x, p) + xlogy(y, q) + xlogy(n - x - y, rest))
        found.append(masses[limits > p - q].sum())
    return np.array(found)


def worst_rates(limits: np.ndarray, steps: int) -> np.ndarray:
    """Differences just below each limit, where an error is most likely, with many rates of single errors."""
    pairs = []
    for limit in np.unique(np.concatenate([limits, [0.0, 1e-9, -1e-9]])):
        for difference in (limit - 1e-9, limit):
            singles = np.linspace(max(0.0, -difference), (1.0 - difference) / 2, steps)
            pairs += [(q + difference, q) for q in singles if 0.0 <= q + difference <= 1.0 - q]
    return np.array(pairs)


def largest_error(n: int, delta: float, limit_of, steps: int = 25) -> float:
    limits = np.array([limit_of(PairedFacts(a_only=x, b_only=y, n=n, delta=delta)) for x, y in outcomes(n)])
    return float(error_rates(n, limits, worst_rates(limits, steps)).max())


def of_better(facts: PairedFacts) -> float:
    """The claim: a limit, and that the difference is positive where B is called better."""
    found = better(facts)
    return max(found.limit, 1e-12) if found.is_better else found.limit


@pytest.mark.few(1)
@pytest.mark.parametrize("delta", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("n", [1, 2, 5, 11, 24])
def test_no_pair_of_rates_makes_it_err_more_often_than_delta(n, delta):
    assert largest_error(n, delta, of_better) <= delta


@pytest.mark.slow
def test_no_pair_of_rates_makes_it_err_more_often_than_delta_at_forty():
    assert largest_error(40, 0.05, of_better, steps=60) <= 0.05


def gate_at_twice_the_level(facts: PairedFacts) -> float:
    p_value = binom.sf(facts.a_only - 1, facts.discordant, 0.5)
    return 1e-12 if p_value <= 2 * facts.delta else -1.0


def seen_share_times_sign_limit(facts: PairedFacts) -> float:
    if not facts.a_only:
        return -1.0
    at_most = binom_limit(facts.b_only, facts.discordant, facts.delta) if facts.a_only else 1.0
    return facts.discordant / facts.n * (1.0 - 2.0 * at_most)


@pytest.mark.parametrize("broken", [gate_at_twice_the_level, seen_share_times_sign_limit])
def test_enumeration_has_teeth(broken):
    assert largest_error(24, 0.05, broken) > 0.05


def test_a_margin_is_never_granted_more_often_than_delta():
    n, delta, margin = 24, 0.05, 0.1
    granted = np.array(
        [
            0.0 if not_worse(PairedFacts(a_only=x, b_only=y, n=n, delta=delta), margin) else -2.0
            for x, y in outcomes(n)
        ]
    )
    rates = np.array([(q - margin, q) for q in np.linspace(margin, (1 + margin) / 2, 100)])
    assert granted.max() == 0.0
    assert error_rates(n, granted, rates).max() <= delta


@given(
    st.integers(1, 10**5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.floats(1e-9, 1.0 - 1e-9),
)
def test_a_mass_is_that_of_the_binomial_law_from_above(counts, p):
    k, n = counts
    with mpmath.workdps(DIGITS):
        choose = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        exact = choose + k * mpmath.log(mpmath.mpf(p)) + (n - k) * mpmath.log(1 - mpmath.mpf(p))
        found = log_binomial_mass_upper(k, n, p)
        assert exact <= found <= exact + mpmath.mpf("1e-8") * max(1, abs(exact) * mpmath.mpf("1e-5"))


@pytest.mark.parametrize(
    ("k", "p", "mass"), [(0, 0.0, 1.0), (1, 0.0, 0.0), (5, 1.0, 1.0), (4, 1.0, 0.0), (6, 0.5, 0.0)]
)
def test_masses_at_the_ends(k, p, mass):
    assert np.exp(log_binomial_mass_upper(k, 5, p)) == mass
