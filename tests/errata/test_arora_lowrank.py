"""Errata of Arora et al. 2018 on the spectral-norm bound."""

import math

import pytest
import torch

from codebound_networks.views.layers import view_of
from codebound_papers.arora18.truncation import Truncation, delta_for_margin, factor_count, truncate


def awkward(side: int = 20) -> torch.Tensor:
    """Entries close to half-way between the multiples of ||A||_F / h^2, all to be rounded up."""
    entries = torch.full((side * side,), 19.5, dtype=torch.float64)
    entries[:197] = 20.5
    return entries.reshape(side, side)


def spectral(matrix: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=2))


def test_a_e10_the_published_rounding_can_exceed_the_allowance():
    """Multiples of ||A||_F/h^2 move this matrix by almost ||A||_F/(2h), far more than delta ||A||_2."""
    matrix, delta = awkward(), 0.01
    step = float(matrix.norm()) / 20**2
    moved = spectral(torch.round(matrix / step) * step - matrix)
    assert moved == pytest.approx(float(matrix.norm()) / 40, rel=0.01)
    assert moved > 2 * delta * spectral(matrix)


@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_a_e10_the_measured_step_stays_within_the_allowance(delta):
    layer = torch.nn.Linear(20, 20)
    with torch.no_grad():
        layer.weight.copy_(awkward())
    found = Truncation(delta=delta).compress(view_of("fc", layer), seed=0)
    assert spectral(found.weight.double() - awkward()) <= delta * spectral(awkward())


def test_a_e10_the_change_is_delta_times_the_norm():
    matrix = 100.0 * torch.randn(12, 9, generator=torch.Generator().manual_seed(0)).double()
    left, right = truncate(matrix, 0.5)
    change = spectral(left @ right - matrix)
    assert 0.5 < change <= 0.5 * spectral(matrix)  # "at most delta" is false


def test_a_e10_the_count_scales_with_the_squared_input_norm_and_margin():
    def numbers(*, margin: float, input_norm: float) -> float:
        delta = delta_for_margin(margin, input_norm=input_norm, spectral_norms=[2.0, 3.0])
        return factor_count(delta, width=7, stable_ranks=[1.5, 2.5])

    once = numbers(margin=0.1, input_norm=1.0)
    assert once == pytest.approx(2 * math.e**2 * 2**2 * 7 * 36 * 4.0 / 0.1**2)
    assert numbers(margin=0.1, input_norm=3.0) == pytest.approx(9 * once)
    assert numbers(margin=0.05, input_norm=1.0) == pytest.approx(4 * once)
    # inputs and margin in other units describe the same problem
    assert numbers(margin=0.5, input_norm=5.0) == pytest.approx(once)


def test_a_e10_needs_delta_at_most_one_over_the_depth():
    assert delta_for_margin(1e9, input_norm=1.0, spectral_norms=[1.0] * 4) == 0.25
