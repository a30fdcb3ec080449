"""Stable laws against scipy, mpmath and closed forms; samplers against distributions."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from codebound.run.errors import UsageError
from codebound_papers.shin21.laws import PowerLaw, Stable, tail_constant

PLACES = np.array([-40.0, -5.0, -2.0, -1.0, -0.3, 0.0, 1e-9, 0.2, 0.9999, 1.0, 1.7, 4.0, 30.0])
INDICES = [(0.5, 0.0), (0.8, 0.0), (1.3, 0.0), (1.5, 0.0), (1.9, 0.0)]
SKEWED = [(0.5, 0.5), (0.7, 1.0), (0.9, -0.5), (1.1, 0.3), (1.5, 0.5), (1.5, -1.0), (1.8, 1.0)]


@pytest.fixture
def levy_stable():
    """scipy's law in the parametrisation S0; scipy takes it from an attribute of one shared object."""
    before = stats.levy_stable.parameterization
    stats.levy_stable.parameterization = "S0"
    yield stats.levy_stable
    stats.levy_stable.parameterization = before


@pytest.mark.parametrize(("alpha", "beta"), INDICES + SKEWED)
def test_density_and_distribution_of_scipy(alpha, beta, levy_stable):
    law = Stable(alpha, beta)
    assert law.density(PLACES) == pytest.approx(levy_stable.pdf(PLACES, alpha, beta), abs=1e-10, rel=1e-8)
    near = PLACES[np.abs(PLACES) < 10.0]
    assert law.cdf(near) == pytest.approx(levy_stable.cdf(near, alpha, beta), abs=1e-8)
    assert law.cdf(near) + law.tail(near) == pytest.approx(np.ones(near.size), abs=1e-12)


def test_scale_and_location_of_scipy(levy_stable):
    law = Stable(alpha=1.5, beta=0.5, scale=3.0, location=-2.0)
    theirs = levy_stable.pdf(PLACES, 1.5, 0.5, loc=-2.0, scale=3.0)
    assert law.density(PLACES) == pytest.approx(theirs, abs=1e-10, rel=1e-8)


@pytest.mark.few(2)
@pytest.mark.parametrize("beta", [0.3, 1.0])
@pytest.mark.parametrize("x", [-3.0, -1.0, 0.0, 2.0, 8.0])
def test_skewed_laws_of_index_one_by_quadrature(beta, x):
    """Directly from the characteristic function, which decays like exp(-u)."""

    def integrand(u):
        return mpmath.exp(-u) * mpmath.cos(u * x + beta * 2 / mpmath.pi * u * mpmath.log(u))

    pieces = [0.0, *np.linspace(0.5, 45.0, 90)]
    exact = float(mpmath.quad(integrand, pieces) / mpmath.pi)
    assert Stable(1.0, beta).density(x).item() == pytest.approx(exact, abs=1e-7)
    assert Stable(1.01, beta).density(x).item() == pytest.approx(exact, abs=2e-2)


@given(st.floats(-1e6, 1e6), st.floats(0.01, 100.0), st.floats(-10.0, 10.0))
def test_cauchy_and_gauss_are_exact(x, scale, location):
    standard = (x - location) / scale
    cauchy = Stable(alpha=1.0, scale=scale, location=location)
    assert cauchy.density(x).item() == pytest.approx(1 / (math.pi * scale * (1 + standard**2)), rel=1e-13)
    assert cauchy.tail(x).item() == pytest.approx(stats.cauchy.sf(standard), rel=1e-9)
    gauss = Stable(alpha=2.0, scale=scale, location=location)
    exact = stats.norm(location, math.sqrt(2.0) * scale)
    assert gauss.density(x).item() == pytest.approx(exact.pdf(x), rel=1e-9, abs=1e-300)
    assert gauss.cdf(x).item() == pytest.approx(exact.cdf(x), rel=1e-9, abs=1e-300)


def test_the_integrals_meet_the_closed_forms():
    """The Lévy law is alpha 1/2, beta 1, which S0 moves by tan(pi/4); then alpha near 2 and near 1."""
    x = np.linspace(0.1, 20.0, 40)
    assert Stable(0.5, 1.0, location=1.0).density(x) == pytest.approx(stats.levy.pdf(x), rel=1e-9, abs=1e-12)
    assert Stable(0.5, 1.0, location=1.0).cdf(x) == pytest.approx(stats.levy.cdf(x), rel=1e-9, abs=1e-12)
    assert Stable(2.0 - 1e-9).density(x) == pytest.approx(Stable(2.0).density(x), abs=1e-8)
    assert Stable(1.0 + 1e-9).density(x) == pytest.approx(Stable(1.0).density(x), abs=1e-8)


@pytest.mark.parametrize("alpha", [0.3, 0.7, 1.2, 1.7])
def test_density_at_zero_in_closed_form(alpha):
    assert Stable(alpha).density(0.0).item() == pytest.approx(math.gamma(1 + 1 / alpha) / math.pi, rel=1e-12)


@given(st.floats(0.3, 2.0), st.floats(-1.0, 1.0), st.floats(-20.0, 20.0))
def test_reflection_and_range(alpha, beta, x):
    law, mirror = Stable(alpha, beta), Stable(alpha, -beta)
    assert law.density(x) == pytest.approx(mirror.density(-x), abs=1e-9)
    assert law.cdf(x) == pytest.approx(mirror.tail(-x), abs=1e-9)
    assert 0.0 <= law.cdf(x) <= 1.0
    assert law.density(x) >= 0.0


@pytest.mark.parametrize(("alpha", "beta"), [(0.6, 0.0), (1.5, 0.0), (1.5, 0.7), (1.02, 0.5)])
def test_density_is_the_slope_of_the_distribution(alpha, beta):
    law, x = Stable(alpha, beta), np.linspace(-6.0, 6.0, 25)
    slope = (law.cdf(x + 1e-4) - law.cdf(x - 1e-4)) / 2e-4
    assert law.density(x) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 1.9])
def test_tails_approach_their_power(alpha):
    """S-5.2: the density approaches alpha c^alpha c_alpha x^-(alpha + 1)."""
    law = Stable(alpha, scale=1.3)
    assert tail_constant(alpha) == pytest.approx(
        math.sin(math.pi * alpha / 2) * math.gamma(alpha) / math.pi, rel=1e-12
    )
    x = 1e9
    power = alpha * 1.3**alpha * tail_constant(alpha) * x ** -(alpha + 1.0)
    assert law.density(x).item() == pytest.approx(power, rel=1e-4)
    assert law.tail(x).item() == pytest.approx(tail_constant(alpha) * (1.3 / x) ** alpha, rel=1e-4)
    assert Stable(alpha, 0.5).tail(x).item() == pytest.approx(
        1.5 * tail_constant(alpha) * x**-alpha, rel=1e-3
    )


def test_tail_constant_at_the_ends():
    assert (tail_constant(0.0), tail_constant(2.0)) == pytest.approx((0.5, 0.0), abs=1e-15)


def characteristic(law, u):
    """``E[exp(i u X)]`` in the parametrisation S0, for u above 0."""
    size = law.scale * u
    skew = 2.0 / math.pi * np.log(size)
    if law.alpha != 1.0:
        skew = math.tan(math.pi * law.alpha / 2.0) * (size ** (1.0 - law.alpha) - 1.0)
    return np.exp(-(size**law.alpha) * (1.0 + 1j * law.beta * skew) + 1j * law.location * u)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.5, 0.0), (0.8, 0.6), (1.0, 0.0), (1.0, 0.7), (1.5, -0.5), (1.9, 1.0), (2.0, 0.0)]
)
def test_samples_follow_their_law(alpha, beta):
    law = Stable(alpha, beta, scale=2.0, location=-1.0)
    sample = law.sample(4000, seed=1)
    assert stats.kstest(sample[:300], law.cdf).pvalue > 1e-3
    assert stats.kstest(sample[:300] + 2.0, law.cdf).pvalue < 1e-6  # teeth: another location is noticed
    u = np.array([0.1, 0.4, 1.0])
    empirical = np.exp(1j * u[:, None] * sample).mean(axis=1)
    assert np.abs(empirical - characteristic(law, u)).max() < 5 / math.sqrt(sample.size)


@given(st.floats(0.2, 5.0), st.floats(0.01, 100.0), st.floats(0.001, 1e4))
def test_power_law_of_scipy(exponent, xmin, x):
    law, exact = PowerLaw(exponent, xmin), stats.pareto(exponent, scale=xmin)
    assert law.density(x).item() == pytest.approx(exact.pdf(x), rel=1e-9, abs=1e-300)
    assert law.tail(x).item() == pytest.approx(exact.sf(x), rel=1e-9)
    assert law.cdf(x).item() == pytest.approx(exact.cdf(x), rel=1e-9, abs=1e-12)


def test_power_law_samples_and_moments():
    law = PowerLaw(5.0, 1.0)
    sample = law.sample(200_000, seed=0)
    assert stats.kstest(sample, law.cdf).pvalue > 1e-3
    for order in (0, 1, 2):
        simulated = (sample**order * (sample > 1.5)).mean()
        assert law.moment_above(order, 1.5) == pytest.approx(simulated, rel=0.03)


def test_s_e16_at_a_fixed_threshold_larger_exponents_are_sparser_and_at_a_fixed_share_the_threshold_falls():
    """Remark 1 fixes the threshold; section 5.2 moves it: both can be right."""
    shares = [PowerLaw(alpha, 1.0).tail(2.0).item() for alpha in (1.0, 2.0, 3.0)]
    assert shares == pytest.approx([0.5, 0.25, 0.125])
    thresholds = [0.125 ** (-1.0 / alpha) for alpha in (1.0, 2.0, 3.0)]
    assert [
        PowerLaw(alpha, 1.0).tail(t).item() for alpha, t in zip((1.0, 2.0, 3.0), thresholds, strict=True)
    ] == (pytest.approx([0.125] * 3))
    assert thresholds == sorted(thresholds, reverse=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stable(0.0),
        lambda: Stable(2.1),
        lambda: Stable(1.5, 1.2),
        lambda: Stable(1.5, scale=0.0),
        lambda: Stable(1.5, location=math.nan),
        lambda: PowerLaw(0.0, 1.0),
        lambda: PowerLaw(1.0, -1.0),
        lambda: PowerLaw(2.0, 1.0).moment_above(2, 1.5),
        lambda: PowerLaw(3.0, 1.0).moment_above(2, 0.5),
        lambda: Stable(1.5).density(math.inf),
    ],
)
def test_impossible_laws_are_refused(make):
    with pytest.raises(UsageError):
        make()
