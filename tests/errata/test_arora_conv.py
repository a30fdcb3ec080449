"""Errata of Arora et al. 2018 on convolutions, with the numbers they were found with."""

import itertools
import math

import numpy as np
import pytest
import torch

from codebound.run.errors import UsageError
from codebound_networks.views.layers import conv_output_size
from codebound_papers.arora18.conv import (
    location_correlation,
    mixed_moment_sum,
    moment_bound,
    project_conv,
    random_subspace,
    tail_bound,
)
from codebound_papers.arora18.projection_plan import ConvCount, published_conv_count

SETTINGS = [(600, 10, 4, 400), (600, 10, 2, 400), (2000, 10, 8, 150)]
LOCATIONS = 60


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "mixes", "order", "repeats"), SETTINGS)
def test_a_e17_locations_are_correlated(size, mixes, order, repeats):
    """Lemma 12 claims p-wise independence, that is, correlation 0; measured 0.17 where 0.19 is predicted."""
    count = ConvCount(mixes, order)
    a, b = torch.linalg.qr(torch.randn(size, 2, generator=torch.Generator().manual_seed(0)).double()).Q.T
    errors = np.array(
        [
            (project_conv(a, locations=LOCATIONS, count=count, seed=seed) @ b).numpy()
            for seed in range(repeats)
        ]
    )
    correlations = np.corrcoef(errors.T)[np.triu_indices(LOCATIONS, 1)]
    predicted = location_correlation(size, count)
    assert predicted == pytest.approx((1 - mixes * order / size) / (order + 1 - mixes * order / size))
    assert correlations.mean() == pytest.approx(predicted, abs=0.06)
    inflation = errors.sum(axis=1).var() / (LOCATIONS * errors.var(axis=0).mean())
    assert inflation == pytest.approx(1 + (LOCATIONS - 1) * predicted, rel=0.3)
    assert inflation > 4  # independence: 1


def test_a_e17_golden_predictions():
    assert location_correlation(600, ConvCount(10, 4)) == pytest.approx(0.189, abs=5e-4)


@pytest.mark.thorough
def test_a_e17_the_correlation_test_has_teeth():
    """A fresh subspace for every location would be independent, and the same check sees it."""
    count = ConvCount(10, 4)
    a, b = torch.linalg.qr(torch.randn(600, 2, generator=torch.Generator().manual_seed(0)).double()).Q.T
    errors = np.array(
        [
            [float(project_conv(a, locations=1, count=count, seed=10 * i + j)[0] @ b) for j in range(10)]
            for i in range(100)
        ]
    )
    assert abs(np.corrcoef(errors.T)[np.triu_indices(10, 1)].mean()) < 0.06


def test_a_e17_projected_tensors_are_no_gaussians():
    """Var||M'||^2 = 2 N^2/kp (16751 simulated; a Gaussian has 1200), E<M1',M2'>^2 = N^2/kp (8592; 600)."""
    size, dimension = 600, 40
    generator = torch.Generator().manual_seed(0)
    basis = random_subspace(size, dimension)
    gaussians = torch.randn(2, 20_000, dimension, generator=generator).double()
    first, second = math.sqrt(size / dimension) * gaussians @ basis.T
    assert float(first.square().sum(dim=1).var()) == pytest.approx(2 * size**2 / dimension, rel=0.1)
    assert float((first * second).sum(dim=1).square().mean()) == pytest.approx(size**2 / dimension, rel=0.1)


def test_a_e18_the_order_is_an_even_logarithm_to_base_two():
    assert [published_conv_count(1.0, eta, patch=1).order for eta in (0.3, 0.25, 0.1, 2.0**-8)] == [
        2,
        2,
        4,
        8,
    ]


def test_a_e18_more_numbers_than_weights_are_refused():
    with pytest.raises(UsageError, match=r"1 to 30 dimensions\. Got 40"):
        project_conv(torch.zeros(30), locations=1, count=ConvCount(10, 4))


def test_a_e19_claim_1_holds():
    """No violation among 300 random instances."""
    rng = np.random.default_rng(0)
    violations = 0
    for _ in range(300):
        order = int(rng.choice([2, 3, 4, 5, 6]))
        sigmas = rng.exponential(size=rng.integers(1, 5))
        found = mixed_moment_sum(sigmas.tolist(), order)
        powers = itertools.product([0, *range(2, order + 1)], repeat=len(sigmas))
        brute = sum(float(np.prod(sigmas ** np.array(a))) for a in powers if sum(a) == order)
        assert found == pytest.approx(brute, rel=1e-9)
        violations += found > (9 * (sigmas**2).sum()) ** (order / 2) * (1 + 1e-12)
    assert violations == 0


def test_a_e19_claim_1_needs_that_no_power_is_one():
    """With all powers the sum of 30 equal terms is 465 at p = 2, above the 270 of the claim; else 30."""
    every_power = sum(1 for i in range(30) for _ in range(i, 30))
    assert mixed_moment_sum([1.0] * 30, 2) == 30 <= 9 * 30 < every_power


def test_a_e19_a_tail_needs_an_even_moment_and_a_moment_does_not():
    """A centred exponential law: its third moment is below the bound; Markov needs a power without a sign."""
    moments = {
        order: float(np.mean((np.random.default_rng(0).exponential(size=10**6) - 1.0) ** order))
        for order in (2, 3, 5)
    }
    for order, moment in moments.items():
        assert 0.0 < moment <= moment_bound([float(order)], order)
    with pytest.raises(UsageError, match="even"):
        tail_bound([1.0], 3, 24.0)
    for order in (0, 1):
        with pytest.raises(UsageError, match="at least 2"):
            moment_bound([1.0], order)


@pytest.mark.parametrize(("size", "kernel", "stride"), [(32, 3, 1), (32, 5, 2), (7, 7, 1)])
def test_a_e21_the_last_position_counts(size, kernel, stride):
    """A filter as large as the image has one position, where the printed size is 0."""
    output = torch.nn.functional.conv2d(
        torch.zeros(1, 1, size, size), torch.zeros(1, 1, kernel, kernel), stride=stride
    )
    assert conv_output_size(size, kernel=kernel, stride=stride) == output.shape[-1]
    assert (size - kernel) // stride == output.shape[-1] - 1
