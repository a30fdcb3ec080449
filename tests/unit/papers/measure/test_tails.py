"""Tail fits: the scan against brute force, planted laws, and the rules of the verdict."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from codebound.run.errors import UsageError
from codebound_papers.measure import tails as module
from codebound_papers.measure.tails import TailEstimate, estimate_tail, fit_power_law
from codebound_papers.shin21.laws import PowerLaw

VALUES = hnp.arrays(
    np.float64,
    st.integers(2, 60),
    elements=st.floats(0.01, 100.0).map(lambda x: round(x, 9)) | st.sampled_from([0.5, 1.0, 2.0]),
)


def brute_force(values: np.ndarray) -> tuple[float, float, float]:
    """Distance, start and density exponent by definition, one candidate at a time."""
    fits = []
    for start in np.unique(values)[:-1]:
        tail = np.sort(values[values >= start])
        slope = tail.size / np.log(tail / start).sum()
        places = np.unique(tail)
        below = np.array([(tail < place).mean() for place in places])
        fits.append((np.abs(1.0 - (places / start) ** -slope - below).max(), start, 1.0 + slope))
    return min(fits)


@pytest.mark.thorough
@given(VALUES.filter(lambda values: np.unique(values).size > 1))
def test_the_scan_finds_the_smallest_distance(values):
    fit = estimate_tail(values)
    assert fit.distance == pytest.approx(brute_force(values)[0], abs=1e-9)
    tail = values[values >= fit.xmin]
    assert fit.tail_points == tail.size
    assert fit.density_exponent == pytest.approx(1.0 + tail.size / np.log(tail / fit.xmin).sum(), rel=1e-7)


@pytest.mark.parametrize("grid", [2, 7, 64, 100_000])
def test_grids_drop_no_winner(grid, monkeypatch):
    """From two points up to all of them: the coarsest grid changes the work and never the result."""
    sample = PowerLaw(1.2, 1.0).sample(3000, seed=0)
    expected = estimate_tail(sample)
    monkeypatch.setattr(module, "_FIRST_GRID", grid)
    assert estimate_tail(sample) == expected


def test_small_blocks_change_nothing(monkeypatch):
    sample = np.abs(np.random.default_rng(1).standard_normal(2000))
    expected = estimate_tail(sample)
    monkeypatch.setattr(module, "_CHUNK", 100)
    assert estimate_tail(sample) == expected


@given(VALUES.filter(lambda values: np.unique(values).size > 1), st.sampled_from([2.0**-40, 0.25, 2.0**60]))
def test_units_do_not_matter(values, unit):
    fit, scaled = estimate_tail(values), estimate_tail(values * unit)
    assert scaled.distance == pytest.approx(fit.distance, abs=1e-9)


def test_s_e17_two_exponents():
    """Table 1's 1.39 and 2.84 are density exponents: tails 0.39 and 1.84."""
    for density, tail in ((1.39, 0.39), (2.84, 1.84)):
        fit = TailEstimate(values=9, tail_points=9, xmin=1.0, density_exponent=density, distance=0.1)
        assert fit.tail_exponent == pytest.approx(tail)
    assert estimate_tail(PowerLaw(2.0, 3.0).sample(5000, seed=0)).tail_exponent == pytest.approx(
        2.0, abs=0.15
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("exponent", [0.5, 1.5, 4.0])
def test_planted_power_laws_are_recovered(exponent):
    law = PowerLaw(exponent, 0.3)
    fit = fit_power_law(law.sample(600, seed=5), resamples=60)
    assert fit.status == "power law"
    low, high = fit.interval
    assert low < law.density_exponent < high
    standard_error = exponent / math.sqrt(fit.estimate.tail_points)
    assert abs(fit.estimate.tail_exponent - exponent) < 5 * standard_error
    assert fit.estimate.xmin < 0.6


def test_the_start_of_a_planted_tail_is_found():
    body = np.random.default_rng(0).uniform(0.0, 1.0, 2000)
    fit = estimate_tail(np.concatenate([body, PowerLaw(2.0, 1.0).sample(1000, seed=0)]))
    assert 0.9 < fit.xmin < 1.6
    assert fit.tail_exponent == pytest.approx(2.0, abs=0.25)


def test_null_reference_of_gaussian_weights():
    """640 Gaussian weights, positive part: density exponent 5.9 +- 1.6 (12 draws, 3.6 to 9.0)."""
    rng = np.random.default_rng(1)
    draws = [rng.normal(size=640) * 0.3 for _ in range(12)]
    exponents = [estimate_tail(draw[draw > 0.0]).density_exponent for draw in draws]
    assert np.mean(exponents) == pytest.approx(5.9, abs=0.05)
    assert np.std(exponents) == pytest.approx(1.6, abs=0.05)
    assert (min(exponents), max(exponents)) == pytest.approx((3.6, 9.0), abs=0.05)


@pytest.mark.thorough
def test_gaussian_weights_are_never_called_a_power_law():
    rng = np.random.default_rng(2)
    verdicts = [fit_power_law(np.abs(rng.normal(size=640)), resamples=30) for _ in range(10)]
    assert all(verdict.status != "power law" for verdict in verdicts)
    assert all(verdict.reason.startswith(verdict.status) for verdict in verdicts)


def test_a_bad_fit_is_ruled_out_with_its_p_value():
    fit = fit_power_law(np.linspace(1.0, 2.0, 400), resamples=40)
    assert (fit.status, fit.p_value) == ("no power law", pytest.approx(1 / 41))
    assert fit.reason == f"no power law: p = 0.02, {fit.estimate.tail_points} of 400 values in the tail"


def test_few_points_are_no_verdict():
    fit = fit_power_law(PowerLaw(1.0, 1.0).sample(40, seed=3), resamples=20)
    assert fit.status == "undecided"
    assert fit.reason.endswith("fewer than 50")


def test_absurd_ranges_stay_finite():
    """Tail exponents near 0, whose samples would overflow."""
    with np.errstate(all="raise", under="ignore"):
        fit = fit_power_law(np.geomspace(1e-200, 1e200, 60), resamples=20)
    numbers = [fit.p_value, *fit.interval, *(c.statistic for c in fit.comparisons)]
    assert np.isfinite(numbers).all()


def test_nothing_to_fit_is_a_result():
    for values in ([], [2.0], [3.0, 3.0, 3.0]):
        fit = fit_power_law(values)
        assert (fit.status, fit.estimate, fit.p_value) == ("undecided", None, None)
        assert "leave nothing to fit" in fit.reason


def test_a_favoured_alternative_ends_the_claim():
    """A lognormal body far above its median looks like a power law to the eye and not to the likelihood."""
    sample = np.exp(np.random.default_rng(0).normal(size=4000))
    fit = fit_power_law(sample[sample > 1.0], resamples=20)
    assert fit.status != "power law"


def test_same_seed_same_verdict_and_json():
    sample = PowerLaw(1.5, 1.0).sample(300, seed=1)
    first, second = (fit_power_law(sample, resamples=20, seed=4) for _ in range(2))
    assert first == second
    assert first != fit_power_law(sample, resamples=20, seed=5)
    assert json.loads(json.dumps(asdict(first)))["status"] == first.status


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.nan], "finite"),
        ([1.0, np.inf], "finite"),
        ([1.0, 0.0, -2.0], "2 of 3 values at or below 0"),
    ],
)
def test_bad_values_are_named(values, message):
    for fit in (estimate_tail, fit_power_law):
        with pytest.raises(UsageError, match=message):
            fit(values)


def test_estimates_need_two_different_values():
    with pytest.raises(UsageError, match="Got 3 values from 1 to 1"):
        estimate_tail([1.0, 1.0, 1.0])
    with pytest.raises(UsageError, match="no tail of 9 values"):
        estimate_tail([1.0, 2.0], least_points=9)
    with pytest.raises(UsageError, match="at least 2"):
        estimate_tail([1.0, 2.0], least_points=1)
    with pytest.raises(UsageError, match="resamples"):
        fit_power_law([1.0, 2.0], resamples=5)


def test_values_a_rounding_apart_are_one():
    close = np.nextafter(100.0, 200.0)
    assert fit_power_law([100.0, close]).estimate is None
    assert estimate_tail([1.0, 2.0, 100.0, close]).tail_points == 4


def test_least_points_is_kept():
    assert estimate_tail([1.0, 2.0, 3.0, 50.0, 51.0], least_points=4).tail_points >= 4
