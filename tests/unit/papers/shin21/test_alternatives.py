"""Laws of entries: samples of known laws, and distances as scipy has them."""

import numpy as np
import pytest
from scipy import stats

from codebound.run.errors import UsageError
from codebound_papers.shin21.alternatives import fit_entry_laws
from codebound_papers.shin21.laws import Stable

STREAM = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("verdict", "values"),
    [
        ("Gaussian", STREAM.normal(1.0, 2.0, 6000)),
        ("Laplace", STREAM.laplace(-1.0, 0.1, 6000)),
        ("stable", Stable(1.5, scale=2.0, location=1.0).sample(6000, seed=1)),
        ("none of the three; Gaussian is nearest", STREAM.random(6000)),
    ],
)
def test_a_sample_of_a_law_is_recognised(verdict, values):
    assert fit_entry_laws(values).verdict == verdict


def test_fits_are_those_of_scipy():
    x = STREAM.laplace(size=3000)
    fits = {each.law: each for each in fit_entry_laws(x).fits}
    for name, law in (("Gaussian", stats.norm), ("Laplace", stats.laplace)):
        location, scale = law.fit(x)
        assert (fits[name].location, fits[name].scale) == pytest.approx((location, scale))
        assert fits[name].likelihood == pytest.approx(law.logpdf(x, location, scale).mean())
        assert fits[name].distance == pytest.approx(stats.kstest(x, law(location, scale).cdf).statistic)


def test_a_stable_law_is_found_again():
    fit = next(
        x for x in fit_entry_laws(Stable(1.4, scale=3.0).sample(8000, seed=2)).fits if x.law == "stable"
    )
    assert fit.alpha == pytest.approx(1.4, abs=0.05)
    assert fit.scale == pytest.approx(3.0, rel=0.05)
    draws = fit.sample((60, 70), seed=0)
    assert draws.shape == (60, 70)
    assert fit_entry_laws(draws).verdict == "stable"


@pytest.mark.parametrize("values", [[], [1.0, 1.0], [0.0, np.nan]])
def test_a_law_needs_values(values):
    with pytest.raises(UsageError, match="a law is fitted to finite values"):
        fit_entry_laws(values)
