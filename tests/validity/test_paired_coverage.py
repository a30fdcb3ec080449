"""C-19 in worlds whose rates are known: near zero, few and many single errors, a truth on either side."""

from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import beta, binom
from worlds import rates

from codebound.bounds.paired import PairedFacts, better, not_worse

DELTA = 0.05
WORLDS = {  # n, P(A alone wrong), P(B alone wrong)
    "clear gain": (1000, 0.06, 0.02),
    "B never alone": (1000, 0.03, 0.0),
    "no difference": (1000, 0.05, 0.05),
    "a hair worse": (1000, 0.0499, 0.05),
    "worse": (400, 0.04, 0.06),
    "many, small gain": (200, 0.42, 0.38),
    "many, large gain": (100, 0.6, 0.35),
    "few rows": (60, 0.12, 0.05),
}
SIZES = [1000, pytest.param(20_000, marks=pytest.mark.slow)]


@lru_cache(None)
def limit(a_only: int, b_only: int, n: int) -> float:
    found = better(PairedFacts(a_only=a_only, b_only=b_only, n=n, delta=DELTA))
    return max(found.limit, 1e-12) if found.is_better else found.limit


def drawn(world: str, runs: int) -> tuple[np.ndarray, int, float]:
    n, p, q = WORLDS[world]
    rng = np.random.default_rng(list(world.encode()))
    return rng.multinomial(n, [p, q, max(0.0, 1.0 - p - q)], size=runs)[:, :2], n, p - q


def misses(world: str, runs: int, limit_of) -> int:
    counts, n, difference = drawn(world, runs)
    return sum(limit_of(int(x), int(y), n) > difference for x, y in counts)


def exceeds(count: int, runs: int) -> bool:
    return rates.exceeds(count, reps=runs, delta=DELTA, level=1e-6)


@pytest.mark.parametrize("runs", SIZES)
@pytest.mark.parametrize("world", WORLDS)
def test_verdict_and_limit_hold_together(world, runs):
    assert not exceeds(misses(world, runs, limit), runs)


@lru_cache(None)
def with_a_gate_at_twice_the_level(x: int, y: int, n: int) -> float:
    return 1e-12 if binom.sf(x - 1, x + y, 0.5) <= 2 * DELTA else -1.0


@lru_cache(None)
def with_the_share_that_was_seen(x: int, y: int, n: int) -> float:
    """The sign limit, times the seen share of examples on which just one errs."""
    wrong = float(beta.isf(DELTA, y + 1, x)) if x else 1.0
    return (x + y) / n * (1.0 - 2.0 * wrong)


@lru_cache(None)
def with_the_rate_that_was_seen(x: int, y: int, n: int) -> float:
    """As if B alone erred exactly as often as it was seen to: then x alone is random."""
    return float(beta.ppf(DELTA, x, n - x + 1)) - y / n if x else -1.0


@pytest.mark.parametrize("runs", [3000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("world", "broken"),
    [
        ("no difference", with_a_gate_at_twice_the_level),
        ("B never alone", with_the_share_that_was_seen),
        ("no difference", with_the_rate_that_was_seen),
        ("many, small gain", with_the_rate_that_was_seen),
    ],
)
def test_it_has_teeth(world, broken, runs):
    assert exceeds(misses(world, runs, broken), runs)


@pytest.mark.parametrize("runs", SIZES)
@pytest.mark.parametrize(("n", "q"), [(1000, 0.03), (1000, 0.0101), (200, 0.4), (300, 0.5045)])
def test_a_margin_is_granted_at_its_end_at_most_with_delta(n, q, runs):
    margin = 0.01
    counts = np.random.default_rng(7).multinomial(n, [q - margin, q, 1.0 - 2.0 * q + margin], size=runs)

    @lru_cache(None)
    def is_granted(x: int, y: int) -> bool:
        return not_worse(PairedFacts(a_only=x, b_only=y, n=n, delta=DELTA), margin)

    assert not exceeds(sum(is_granted(int(x), int(y)) for x, y, _ in counts), runs)


def test_a_margin_without_uncertainty_is_caught():
    runs, n, q, margin = 5000, 1000, 0.03, 0.01
    counts = np.random.default_rng(7).multinomial(n, [q - margin, q, 1.0 - 2.0 * q + margin], size=runs)
    assert exceeds(sum((y - x) / n < margin for x, y, _ in counts), runs)
