"""Errata of Arora et al. 2018 on linear classifiers, with the numbers they were found with."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from worlds.networks import unit_vector

from codebound_papers.arora18.vector import (
    compress_vectors,
    discretize_vectors,
    keep_probabilities,
    nonzeros_bound,
    published_discretize_vectors,
    published_threshold,
    published_vector_count,
    threshold,
    vector_count,
)


def test_a_e11_probabilities_are_clipped():
    unclipped = 2 * 0.5**2 / (0.1 * 0.1**2)
    assert unclipped == pytest.approx(500)
    assert float(keep_probabilities(torch.tensor([0.5]), margin=0.1, eta=0.1)) == 1.0


def test_a_e11_without_the_clip_a_large_coordinate_is_lost():
    """Dividing by 500 leaves 0.001 of 0.5: the estimate would be biased."""
    c = torch.tensor([0.5]).double()
    assert float(compress_vectors(c, margin=0.1, eta=0.1)) == 0.5
    assert float(c / (2 * c**2 / (0.1 * 0.1**2))) == pytest.approx(0.001)


def test_a_e11_the_variance_is_half_of_the_published_one():
    c, margin, eta = 0.01, 0.1, 0.1
    p = float(keep_probabilities(torch.tensor([c]).double(), margin=margin, eta=eta))
    variance = p * (1 - p) * (c / p) ** 2
    assert variance <= c**2 / p == pytest.approx(eta * margin**2 / 2)


@pytest.mark.thorough
def test_a_e11_failures_and_nonzeros_stay_below_half_eta_and_the_mean():
    size, margin, eta, repeats = 4000, 0.5, 0.2, 2000
    c, u = unit_vector(size, 0), unit_vector(size, 1)
    found = torch.stack([compress_vectors(c, margin=margin, eta=eta, seed=seed) for seed in range(repeats)])
    errors = (found @ u - c @ u).abs()
    assert float((errors > margin).double().mean()) <= eta / 2
    assert float(errors.square().mean()) == pytest.approx(eta * margin**2 / 2, rel=0.15)  # p is small here
    assert float(found.count_nonzero(dim=1).double().mean()) <= nonzeros_bound(margin=margin, eta=eta) * 1.02


def test_a_e12_the_published_threshold_is_four_times_too_large():
    size, margin, eta = 10_000, 0.1, 0.1
    small = margin / (4 * math.sqrt(size))
    p = 2 * small**2 / (eta * (margin / 2) ** 2)
    assert p < 1.0
    assert small / p == pytest.approx(0.5)
    assert threshold(size, margin=margin, eta=eta) == pytest.approx(0.5)
    assert published_threshold(size, margin=margin, eta=eta) == pytest.approx(2.0)


def test_a_e12_dropping_by_a_threshold_also_takes_certain_coordinates():
    """A coordinate of 0.9 is kept with certainty, is above the threshold, and is what matters most."""
    size, margin, eta = 100, 0.1, 0.1
    c = torch.full((size,), math.sqrt(0.19 / (size - 1))).double()
    c[0] = 0.9
    assert threshold(size, margin=margin, eta=eta) < published_threshold(size, margin=margin, eta=eta) < 0.9
    assert float(published_discretize_vectors(c, margin=margin, eta=eta)[0]) == 0.0
    assert float(discretize_vectors(c, margin=margin, eta=eta)[0]) == pytest.approx(0.9, abs=margin / 20)


def test_a_e12_the_published_threshold_keeps_values_that_the_lemma_drops():
    """A coordinate of 0.2 to 0.8 of the size that counts as small: 0.6 to 2.5 once compressed, all above 0.5.

    The lemma drops them all; the published threshold of 2 keeps some, which the corrected one never does.
    """
    size, margin, eta = 10_000, 0.1, 0.1
    small = margin / (4 * math.sqrt(size))
    c = small * torch.linspace(0.2, 0.8, size).double()
    found = [published_discretize_vectors(c, margin=margin, eta=eta, seed=seed) for seed in range(40)]
    values = torch.cat([each[each != 0.0] for each in found])
    assert len(values) > 20
    assert threshold(size, margin=margin, eta=eta) < float(values.abs().min())
    assert float(values.abs().max()) < published_threshold(size, margin=margin, eta=eta)
    assert not discretize_vectors(c, margin=margin, eta=eta).any()


def test_a_lem5_errors_stay_within_the_margin():
    size, margin, eta, repeats = 400, 0.4, 0.2, 1000
    c, u = unit_vector(size, 2), unit_vector(size, 3)
    step = margin / (2 * math.sqrt(size))
    wrong = 0
    for seed in range(repeats):
        found = discretize_vectors(c, margin=margin, eta=eta, seed=seed)
        levels = found / step
        assert float((levels - levels.round()).abs().max()) < 1e-6
        wrong += abs(float(found @ u - c @ u)) > margin
    assert wrong / repeats <= eta


def exact_failure(count: int, error: float) -> float:
    """P(|mean of k squared Gaussians - 1| >= error): the worst case rho = 1, exactly."""
    return float(chi2.sf(count * (1 + error), count) + chi2.cdf(count * (1 - error), count))


def test_a_e13_the_step_of_the_proof_fails_and_the_lemma_holds():
    """With gamma = 1 the published k misses gamma/2 too often. It never misses 11/12 of gamma too often,
    which leaves more than rounding to gamma/(2 sqrt(hk)) takes.
    """
    count = published_vector_count(margin=1.0, eta=1e-6)
    assert exact_failure(count, 0.5) == pytest.approx(2.0e-6, rel=0.05)
    for margin, eta in itertools.product(np.geomspace(0.01, 1.0, 30), np.geomspace(1e-9, 0.5, 30)):
        count = published_vector_count(margin=margin, eta=eta)
        assert exact_failure(count, 11.0 / 12.0 * margin) <= eta, (margin, eta)


@pytest.mark.parametrize("margin", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("eta", [0.1, 1e-3, 1e-6])
def test_a_e13_corrected_k_is_enough_exactly(margin, eta):
    assert exact_failure(vector_count(margin=margin, eta=eta), margin / 2) <= eta
