"""C-20 on streams that never exceed what was certified, and what a careless alarm does on them."""

from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import beta
from worlds import rates

from codebound.bounds.monitoring import EVERY, FACTORS, Mixture, alternatives, steady_limit

ALPHA, BOUND = 0.05, 0.05
FULL = pytest.mark.slow


def steady(rng: np.random.Generator, labels: int) -> np.ndarray:
    """The error is as certified all the time: where a false alarm is most likely."""
    return rng.random(labels) < BOUND


def in_bursts(rng: np.random.Generator, labels: int) -> np.ndarray:
    """Between 0 and what is certified, by what has happened before: errors make it more careless."""
    outcomes = np.zeros(labels, dtype=bool)
    coins = rng.random(labels)
    for start in range(0, labels, EVERY):
        before = outcomes[max(0, start - EVERY) : start].mean() if start else 1.0
        chance = BOUND if before > 0.03 or rng.random() < 0.5 else 0.0
        outcomes[start : start + EVERY] = coins[start : start + EVERY] < chance
    return outcomes


def false_alarms(world, *, runs: int, labels: int, seed: int = 0) -> int:
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(runs):
        watch = Mixture(bound=BOUND, alpha=ALPHA)
        watch.update(world(rng, labels))
        found += watch.alarm_at is not None
    return found


def exceeds(count: int, runs: int) -> bool:
    return rates.exceeds(count, reps=runs, delta=ALPHA, level=1e-6)


@pytest.mark.parametrize("world", [steady, in_bursts])
@pytest.mark.parametrize(("runs", "labels"), [(400, 2000), pytest.param(10_000, 10_000, marks=FULL)])
def test_it_hardly_ever_alarms_while_nothing_has_changed(world, runs, labels):
    assert not exceeds(false_alarms(world, runs=runs, labels=labels), runs)


def log_ratios(outcomes: np.ndarray) -> np.ndarray:
    """Running sums of the log likelihood ratio of each rate."""
    likely = alternatives(BOUND)[:, None]
    step = np.where(outcomes, np.log(likely / BOUND), np.log((1.0 - likely) / (1.0 - BOUND)))
    return np.cumsum(step, axis=1)


def best_rate_afterwards(outcomes: np.ndarray) -> bool:
    """The likelihood ratio of whichever rate does best, whenever."""
    return bool((log_ratios(outcomes).max(axis=0) >= -np.log(ALPHA)).any())


def best_start_afterwards(outcomes: np.ndarray) -> bool:
    """Starting times that pay no weight."""
    sums = log_ratios(outcomes)
    starts = np.concatenate([np.zeros((len(FACTORS), 1)), sums[:, EVERY - 1 :: EVERY]], axis=1)
    lowest = np.minimum.accumulate(starts, axis=1)[:, np.arange(outcomes.size) // EVERY]
    mixed = np.log(np.mean(np.exp(sums - lowest), axis=0))
    return bool((mixed >= -np.log(ALPHA)).any())


def one_look_at_every_label(outcomes: np.ndarray) -> bool:
    """The limit of a test that may be made once, made after every 20 labels."""
    errors = np.cumsum(outcomes)[19::20]
    labels = np.arange(20, outcomes.size + 1, 20)
    return bool((beta.ppf(ALPHA, np.maximum(errors, 1), labels - errors + 1)[errors > 0] > BOUND).any())


@pytest.mark.parametrize("broken", [best_rate_afterwards, best_start_afterwards, one_look_at_every_label])
@pytest.mark.parametrize(("runs", "labels"), [(2500, 1000), pytest.param(10_000, 2000, marks=FULL)])
def test_it_has_teeth(broken, runs, labels):
    rng = np.random.default_rng(1)
    assert exceeds(sum(broken(steady(rng, labels)) for _ in range(runs)), runs)


@lru_cache(None)
def limit_at(errors: int, labels: int) -> float:
    return steady_limit(errors=errors, labels=labels, alpha=ALPHA)


@lru_cache(None)
def limit_of_one_look(errors: int, labels: int) -> float:
    return float(beta.isf(ALPHA, errors + 1, labels - errors))


def limits_missed(limit, *, runs: int, labels: int, rate: float) -> int:
    """Streams of a steady error on which some limit, looked at every 5 labels, is too small."""
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(runs):
        errors = np.cumsum(rng.random(labels) < rate)
        found += any(
            limit(int(errors[t - 1]), t) < rate for t in range(5, labels + 1, 5) if errors[t - 1] < t
        )
    return found


@pytest.mark.parametrize("rate", [0.05, 0.4])
@pytest.mark.parametrize("runs", [500, pytest.param(10_000, marks=FULL)])
def test_a_steady_error_is_below_its_limit_at_all_times(rate, runs):
    assert not exceeds(limits_missed(limit_at, runs=runs, labels=400, rate=rate), runs)


def test_the_limit_of_one_look_at_every_look_is_caught():
    assert exceeds(limits_missed(limit_of_one_look, runs=500, labels=400, rate=0.4), 500)


def delay(good: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    watch = Mixture(bound=0.05, alpha=0.01)
    watch.update(rng.random(good) < 0.03)
    watch.update(rng.random(6000) < 0.10)
    assert watch.alarm_at is not None
    return watch.alarm_at - good


@pytest.mark.parametrize(("good", "most"), [(0, 330), (3000, 750)])
def test_a_good_past_does_not_delay_it_for_long(good, most):
    """A plain mixture takes 335 and 2,640 labels."""
    assert np.median([delay(good, seed) for seed in range(60)]) <= most
