"""Tail fits and likelihood ratios against powerlaw and WeightWatcher; alternatives against brute force."""

import contextlib
import io
import math
import warnings

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from codebound_papers.measure.tails import compare_alternatives, estimate_tail

RNG = np.random.default_rng(0)
SAMPLES = {
    "power law": (1.0 - RNG.random(500)) ** (-1 / 1.5),
    "half Gaussian": np.abs(RNG.standard_normal(500)),
    "lognormal": np.exp(RNG.standard_normal(500)),
    "student": np.abs(RNG.standard_t(3, 500)),
    "rounded": np.round(np.exp(RNG.standard_normal(500)), 1) + 0.1,
}


def powerlaw_fit(values):
    powerlaw = pytest.importorskip("powerlaw", reason="powerlaw < 2 is an oracle")
    if not powerlaw.__version__.startswith("1."):
        pytest.skip("powerlaw 2 limits the exponent to 3")
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return powerlaw.Fit(values, verbose=False)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_fit_of_powerlaw(name):
    ours, theirs = estimate_tail(SAMPLES[name]), powerlaw_fit(SAMPLES[name])
    assert ours.density_exponent == pytest.approx(theirs.alpha, rel=1e-9)
    assert ours.xmin == theirs.xmin
    assert ours.distance == pytest.approx(theirs.D, abs=1e-12)
    assert ours.tail_exponent / math.sqrt(ours.tail_points) == pytest.approx(theirs.sigma, rel=1e-9)


@pytest.mark.thorough
def test_s_e17_a_fit_to_signed_weights_is_one_to_their_positive_part():
    """The released code passes signed weights; here Gaussian and heavy-tailed ones."""
    rng = np.random.default_rng(0)
    for weights in (rng.normal(size=160) * 0.3, rng.standard_t(3, size=160) * 0.3):
        signed = powerlaw_fit(weights)
        positive, absolute = (estimate_tail(part) for part in (weights[weights > 0.0], np.abs(weights)))
        assert (positive.density_exponent, positive.xmin) == pytest.approx(
            (signed.alpha, signed.xmin), rel=1e-9
        )
        assert absolute.density_exponent != pytest.approx(signed.alpha, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "rounded"])
def test_the_fit_of_weightwatcher(name):
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        weightwatcher = pytest.importorskip("weightwatcher.WW_powerlaw")
    theirs = weightwatcher.WWFit(SAMPLES[name])
    ours = estimate_tail(SAMPLES[name])
    assert (ours.density_exponent, ours.xmin) == pytest.approx((theirs.alpha, theirs.xmin), rel=1e-9)


@pytest.mark.parametrize("name", ["power law", "half Gaussian", "lognormal"])
def test_likelihood_ratios_of_powerlaw(name):
    fit = powerlaw_fit(SAMPLES[name])
    tail = np.sort(SAMPLES[name][SAMPLES[name] >= fit.xmin])
    for ours in compare_alternatives(tail, xmin=fit.xmin):
        other = ours.alternative.replace(" ", "_")
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ratio, p_value = fit.distribution_compare("power_law", other)
            statistic, _ = fit.distribution_compare("power_law", other, normalized_ratio=True)
        assert ours.ratio == pytest.approx(ratio, abs=5e-3)
        assert ours.ratio <= ratio + 1e-5  # their optimiser may stop short of the maximum, never beyond it
        assert ours.statistic == pytest.approx(statistic, rel=5e-2, abs=1e-2)
        if other != "lognormal":  # theirs ignores that lognormal tails contain power laws
            assert ours.p_value == pytest.approx(p_value, rel=1e-2, abs=1e-3)


def best_likelihood(log_density, start) -> float:
    """Largest log-likelihood of a law given up to its constant, by a general optimiser."""
    found = optimize.minimize(
        lambda p: -log_density(p), start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-11}
    )
    return -float(found.fun)


@pytest.mark.parametrize("name", ["half Gaussian", "lognormal"])
def test_alternatives_reach_the_largest_likelihood(name):
    xmin = float(np.quantile(SAMPLES[name], 0.5))
    tail = SAMPLES[name][SAMPLES[name] >= xmin]
    u = np.log(tail / xmin)
    slope = 1.0 / u.mean()
    power_law = u.size * (np.log(slope) - 1.0)

    def lognormal(p):
        scale = np.exp(p[1])
        return (stats.norm.logpdf(u, p[0], scale) - stats.norm.logsf(0.0, p[0], scale)).sum()

    def truncated(p):
        s, b = np.exp(p)
        total, _ = integrate.quad(lambda v: np.exp(-s * v - b * np.expm1(v)), 0.0, 40.0, limit=200)
        return (-s * u - b * np.expm1(u)).sum() - u.size * np.log(total)

    exponential, log_normal, cut = compare_alternatives(tail, xmin=xmin)
    y = tail / xmin
    assert exponential.ratio == pytest.approx(
        power_law - (stats.expon.logpdf(y, 1.0, y.mean() - 1.0) + u).sum(), abs=1e-8
    )
    assert log_normal.ratio == pytest.approx(power_law - best_likelihood(lognormal, (0.0, 0.0)), abs=1e-5)
    limit = power_law - best_likelihood(truncated, (0.0, -1.0))
    assert cut.ratio == pytest.approx(limit, abs=1e-5)


def test_containing_alternatives_are_never_less_likely():
    """Where the likelihood grows towards the power law itself, the ratio is 0 and nothing is favoured."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        tail = 2.0 * (1.0 - rng.random(rng.integers(3, 80))) ** (-1 / rng.uniform(0.3, 5.0))
        _, lognormal, truncated = compare_alternatives(tail, xmin=float(tail.min()))
        assert lognormal.ratio <= 1e-9
        assert truncated.ratio <= 1e-9


@pytest.mark.parametrize("tail", [[1.0, 1e9], [1.0, 1.0 + 1e-9], [1.0, 2.0, 1e30], [1.0, 1.0, 1.0, 4.0]])
def test_extreme_tails_have_finite_ratios(tail):
    for comparison in compare_alternatives(np.array(tail), xmin=1.0):
        assert np.isfinite([comparison.ratio, comparison.statistic]).all()
        assert 0.0 <= comparison.p_value <= 1.0
