"""Mixtures of regressions: likelihood never falls, planted lines are found, the released variant."""

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from codebound.run.errors import UsageError
from codebound_networks.views.layers import view_of
from codebound_papers.measure.norms import stable_rank, tail_values
from codebound_papers.measure.tails import estimate_tail
from codebound_papers.shin21.mixture import fit_regressions, rank_against_alpha, released_regressions


def planted(seed: int, *, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Lines 2x + 1 (30 %, deviation 0.1) and -x + 6 (70 %, deviation 0.3)."""
    rng = np.random.default_rng(seed)
    x, first = rng.uniform(0.0, 5.0, n), rng.random(n) < 0.3
    noise = rng.normal(size=n)
    return x, np.where(first, 2.0 * x + 1.0 + 0.1 * noise, 6.0 - x + 0.3 * noise)


@pytest.mark.parametrize("seed", range(3))
def test_planted_lines_are_found(seed):
    mixture = fit_regressions(*planted(seed), restarts=5)
    assert mixture.slopes == pytest.approx((-1.0, 2.0), abs=0.08)
    assert mixture.intercepts == pytest.approx((6.0, 1.0), abs=0.25)
    assert mixture.deviations == pytest.approx((0.3, 0.1), abs=0.06)
    assert mixture.weights == pytest.approx((0.7, 0.3), abs=0.1)


@examples(40)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(8, 30))
def test_the_likelihood_never_falls(seed, components, n):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 4, n).astype(float), rng.normal(size=n)  # ties in x, no structure
    mixture = fit_regressions(x, y, components=components, restarts=2, seed=seed)
    steps = np.diff(mixture.history)
    assert (steps >= -1e-8 * (1.0 + np.abs(mixture.history[1:]))).all()
    assert sum(mixture.weights) == pytest.approx(1.0)
    assert list(mixture.slopes) == sorted(mixture.slopes)


def test_the_reported_likelihood_is_the_likelihood():
    x, y = planted(0)
    mixture = fit_regressions(x, y, restarts=2)
    terms = [
        w * stats.norm.pdf(y, a * x + b, s)
        for a, b, s, w in zip(
            mixture.slopes, mixture.intercepts, mixture.deviations, mixture.weights, strict=True
        )
    ]
    assert mixture.log_likelihood == pytest.approx(np.log(np.sum(terms, axis=0)).sum(), rel=1e-12)


def test_one_component_is_least_squares():
    x, y = planted(1)
    mixture = fit_regressions(x, y, components=1, restarts=1)
    slope, intercept = np.polyfit(x, y, 1)
    assert (mixture.slopes[0], mixture.intercepts[0]) == pytest.approx((slope, intercept))
    assert mixture.deviations[0] == pytest.approx((y - slope * x - intercept).std())


def test_restarts_help_and_are_reproducible():
    x, y = planted(2, n=60)
    ends = [fit_regressions(x, y, restarts=count, seed=3).log_likelihood for count in (1, 10)]
    assert ends[1] >= ends[0]
    assert fit_regressions(x, y, restarts=3, seed=3) == fit_regressions(x, y, restarts=3, seed=3)


def test_s_e24_the_released_variant_depends_on_its_seed():
    """Two components, one precision, no restarts: on 43 points without structure seeds disagree."""
    rng = np.random.default_rng(3)
    x, y = rng.uniform(1.4, 5.0, 43), rng.uniform(1.0, 8.0, 43)
    ends = [released_regressions(x, y, seed=seed) for seed in range(12)]
    assert all(len(end.slopes) == 2 and len(set(end.deviations)) == 1 for end in ends)
    assert all(len(end.history) <= 100 for end in ends)
    likelihoods = [end.log_likelihood for end in ends]
    assert max(likelihoods) - min(likelihoods) > 1.0
    assert max(likelihoods) < fit_regressions(x, y).log_likelihood


def test_the_released_precision_is_twice_the_likely_one():
    """On one line both components coincide: eta = 2 n / sum err^2, so the deviation is low by sqrt(2)."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 5.0, 2000)
    y = 0.5 * x + 0.5 + 0.2 * rng.normal(size=2000)
    one = fit_regressions(x, y, components=1, restarts=1)
    released = released_regressions(x, y, seed=0)
    errors = np.min(
        [np.abs(y - a * x - b) for a, b in zip(released.slopes, released.intercepts, strict=True)], 0
    )
    assert released.deviations[0] < one.deviations[0] / np.sqrt(2.0)
    assert released.deviations[0] >= np.sqrt((errors**2).mean() / 2.0) * 0.99


def test_exact_lines_do_not_blow_up():
    x = np.arange(10.0)
    mixture = fit_regressions(x, np.where(x < 5, x, 20.0 - x), restarts=5)
    assert np.isfinite(mixture.log_likelihood)
    assert min(mixture.deviations) > 0.0
    assert np.isfinite(fit_regressions(x, np.ones(10), restarts=2).log_likelihood)


def test_rank_rows_name_both_exponents_and_both_ranks():
    layer = nn.Linear(64, 10, bias=False)
    with torch.no_grad():
        nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    view = view_of("output", layer)
    (row,) = rank_against_alpha([view], of="positive")
    fit = estimate_tail(tail_values(view, of="positive"))
    assert (row["layer"], row["density_exponent"]) == ("output", fit.density_exponent)
    assert row["tail_exponent"] == pytest.approx(row["density_exponent"] - 1.0)
    assert row["stable_rank"] == stable_rank(view.matrix)
    assert row["released_stable_rank"] < row["stable_rank"]
    with torch.no_grad():
        layer.weight.fill_(1.0)
    with pytest.raises(UsageError, match="layer output: no tail"):
        rank_against_alpha([view])


@pytest.mark.parametrize(
    ("x", "y", "components"),
    [
        ([1.0], [1.0], 1),
        ([1.0, 2.0], [1.0], 1),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 2),
        ([1.0, np.nan], [1.0, 2.0], 1),
    ],
)
def test_bad_points_are_refused(x, y, components):
    with pytest.raises(UsageError):
        fit_regressions(x, y, components=components)
