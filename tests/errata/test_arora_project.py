"""Errata of Arora et al. 2018 on random projections of matrices, with the numbers they were found with."""

import math

import numpy as np
import pytest
import torch
from worlds.rates import exceeds

from codebound_papers.arora18.projection import project_matrix
from codebound_papers.arora18.projection_plan import gaussian_count, published_count, sign_count
from codebound_papers.arora18.vector import project_vectors

EPSILON, ETA, REPEATS = 0.5, 0.05, 4000


def unit_pair(rho: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors of length 64 with cosine rho: a matrix and the direction u v^T, flattened."""
    a, b = torch.linalg.qr(torch.randn(64, 2, generator=torch.Generator().manual_seed(0)).double()).Q.T
    return a, rho * a + math.sqrt(1.0 - rho**2) * b


def misses(estimate, *, count: int, rho: float) -> int:
    a, b = unit_pair(rho)
    return sum(
        abs(float(estimate(a, count=count, seed=seed) @ b) - rho) >= EPSILON for seed in range(REPEATS)
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("eta", "rho", "low", "high"),
    [
        (0.05, 0.0, 0.065, 0.095),
        (0.05, 1.0, 0.17, 0.23),
        (0.01, 0.0, 0.02, 0.04),
        (0.01, 1.0, 0.09, 0.13),
    ],
)
def test_a_e4_published_k_fails_too_often(eta, rho, low, high):
    """Simulated beforehand: 0.08 and 0.19 to 0.21 for eta = 0.05, 0.03 and 0.10 to 0.12 for eta = 0.01."""
    found = misses(project_matrix, count=published_count(EPSILON, eta), rho=rho)
    assert low < found / REPEATS < high
    assert exceeds(found, reps=REPEATS, delta=eta)


@pytest.mark.thorough
@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_a_e4_corrected_k_keeps_its_promise(rho):
    found = misses(project_matrix, count=sign_count(EPSILON, ETA), rho=rho)
    assert found / REPEATS <= 0.005


@pytest.mark.thorough
@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_a_e4_corrected_gaussian_k_keeps_its_promise(rho):
    """Measured beforehand: at most 0.005 in all settings; allow for the spread of 4000 draws."""
    found = misses(project_vectors, count=gaussian_count(EPSILON, ETA), rho=rho)
    assert found / REPEATS <= 0.01


def test_a_e4_golden_counts():
    assert sign_count(0.1, 1e-6) == 6516
    assert published_count(0.1, 1e-6) == 1382


def test_a_e4_the_gaussian_rate_is_smallest_at_rho_one():
    """Cramer rate of a product of Gaussians, by brute force over the exponent."""

    def rate(epsilon: float, rho: float) -> float:
        exponent = np.linspace(1e-6, (1 - 1e-6) / (1 + rho), 50_001)
        log_mgf = -exponent * rho - 0.5 * np.log((1 - exponent * (1 + rho)) * (1 + exponent * (1 - rho)))
        return float(np.max(exponent * epsilon - log_mgf))

    for epsilon in (0.05, 0.2, 0.5, 1.0):
        rates = [rate(epsilon, rho) for rho in np.linspace(-0.999, 1.0, 21)]
        assert min(rates) == rates[-1] == pytest.approx((epsilon - math.log1p(epsilon)) / 2.0, rel=1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize(("count", "factor"), [(25, 101.0), (250, 11.0), (2500, 2.0)])
def test_a_e14_the_estimate_is_much_larger_than_the_matrix(count, factor):
    """E||Ahat||_F^2 = (1 + (N-1)/k) ||A||_F^2; the paper takes the norm for about that of A."""
    matrix = torch.randn(50, 50, generator=torch.Generator().manual_seed(1)).double()
    ratios = [
        float(project_matrix(matrix, count=count, seed=seed).square().sum() / matrix.square().sum())
        for seed in range(30)
    ]
    assert float(np.mean(ratios)) == pytest.approx(factor, rel=0.12)
    assert 1 + 2499 / count == pytest.approx(factor, rel=0.01)


def test_a_e4_the_inequalities_behind_the_corrected_k():
    """Both tails of a squared sum of signs, with the exponents that the proof picks for them."""
    for epsilon in np.linspace(0.01, 1.0, 100):
        allowed = -(epsilon**2 / 2 - epsilon**3 / 3) / 2
        step = epsilon / (2 * (1 + epsilon))
        assert math.log(1 - step + 1.5 * step**2) + step * (1 - epsilon) <= allowed + 1e-12
        assert (math.log1p(epsilon) - epsilon) / 2 <= allowed + 1e-12


def test_a_e5_a_difference_of_a_matrix_and_itself_tells_no_estimate_from_another():
    """With the estimate in it the promise is one: 0 breaks it, algorithm 1 keeps it; "at most" is meant."""
    a, b = unit_pair(0.9)

    def keeps(estimate: torch.Tensor) -> bool:
        return abs(float(estimate @ b) - float(a @ b)) <= EPSILON

    estimates = [project_matrix(a, count=sign_count(EPSILON, ETA), seed=seed) for seed in range(50)]
    assert not keeps(torch.zeros_like(a))
    assert sum(map(keeps, estimates)) >= 0.9 * len(estimates)


def test_a_e7_a_layer_is_applied_to_its_input_and_not_to_its_output():
    """The pairs of lemma 2 are a row of a Jacobian, as long as a layer's output, and what the layer is
    applied to: x^i, the output itself, does not even fit unless the layer is square.
    """
    stream = torch.Generator().manual_seed(0)
    matrix, entering, row = (torch.randn(*shape, generator=stream).double() for shape in ((3, 5), (5,), (3,)))
    leaving = matrix @ entering
    estimate = project_matrix(matrix, count=20_000)
    assert float(row @ estimate @ entering) == pytest.approx(float(row @ leaving), abs=0.5)
    with pytest.raises(RuntimeError, match="size"):
        row @ estimate @ leaving
