"""The p-value of a tail fit under its null hypothesis, its power, and the coverage of the interval.

Teeth: a p-value that takes the fitted law for known fails the same check.
"""

import numpy as np
import pytest
from scipy.stats import kstest
from worlds.rates import exceeds

from codebound_papers.measure.tails import estimate_tail, fit_power_law
from codebound_papers.shin21.laws import PowerLaw

LEVEL = 0.1


def null_sample(seed: int, size: int = 200) -> np.ndarray:
    """Half a uniform body, half a power law that continues it."""
    body = np.random.default_rng(seed).uniform(0.0, 1.0, size // 2)
    return np.concatenate([body, PowerLaw(1.0, 1.0).sample(size // 2, seed=seed)])


def naive_p_value(sample: np.ndarray) -> float:
    """The mistake: the fitted law is taken for known, though its start was chosen for the fit."""
    fit = estimate_tail(sample)
    tail = sample[sample >= fit.xmin]
    return float(kstest(tail, PowerLaw(fit.tail_exponent, fit.xmin).cdf).pvalue)


def p_values(reps: int, resamples: int) -> np.ndarray:
    return np.array([fit_power_law(null_sample(s), resamples=resamples, seed=s).p_value for s in range(reps)])


@pytest.mark.thorough
def test_true_power_laws_are_rarely_ruled_out():
    found = p_values(60, 39)
    assert not exceeds(int((found <= LEVEL).sum()), reps=60, delta=LEVEL)
    assert 0.25 < np.median(found) < 0.75


def test_the_naive_p_value_is_blind():
    """Teeth: it is close to 1 under the null hypothesis, so it would rule out nothing."""
    naive = np.array([naive_p_value(null_sample(s)) for s in range(60)])
    assert np.median(naive) > 0.9


@pytest.mark.slow
def test_p_values_are_nearly_uniform_under_the_null_hypothesis():
    """Never too small, and somewhat large in the middle."""
    found = p_values(300, 99)
    assert not exceeds(int((found <= LEVEL).sum()), reps=300, delta=LEVEL)
    assert kstest(found, "uniform", alternative="greater").statistic < 0.06
    assert kstest(found, "uniform").statistic < 0.2
    naive = np.array([naive_p_value(null_sample(s)) for s in range(300)])
    assert kstest(naive, "uniform").statistic > 0.4


@pytest.mark.slow
def test_other_tails_are_ruled_out_or_left_open():
    rng = np.random.default_rng(0)
    for draw in (
        lambda: np.abs(rng.normal(size=640)),
        lambda: rng.exponential(size=640),
        lambda: rng.uniform(1.0, 2.0, 640),
    ):
        verdicts = [fit_power_law(draw(), resamples=50).status for _ in range(60)]
        assert verdicts.count("power law") <= 1
        assert verdicts.count("no power law") >= 10


@pytest.mark.slow
def test_the_interval_covers():
    hits, reps = 0, 200
    for seed in range(reps):
        low, high = fit_power_law(null_sample(seed, 400), resamples=60, seed=seed).interval
        hits += low <= 2.0 <= high
    # nominal 0.05; the percentile interval is approximate
    assert not exceeds(reps - hits, reps=reps, delta=0.1)
