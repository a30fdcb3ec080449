"""Errata of Arora et al. 2018 on noise stability, each shown on a network small enough to follow by hand."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from codebound_papers.measure.noise.meter import stability
from codebound_papers.measure.noise.quantities import (
    Smoothness,
    StabilitySettings,
    adversarial_smoothness,
    smoothness_quantile,
)
from codebound_papers.measure.noise.result import Key
from codebound_papers.measure.norms import stable_rank


def two_layers(first: torch.Tensor, second: torch.Tensor, *, bias: bool = False) -> nn.Sequential:
    net = nn.Sequential(
        nn.Linear(first.shape[1], first.shape[0], bias=bias),
        nn.ReLU(),
        nn.Linear(second.shape[1], second.shape[0], bias=bias),
    ).double()
    with torch.no_grad():
        net[0].weight.copy_(first)
        net[2].weight.copy_(second)
    return net


def replaced_first(matrix: torch.Tensor) -> StabilitySettings:
    """A compressor that turns the first layer into the given matrix and leaves the second one alone."""

    def noise(layer: torch.Tensor, _seed: int) -> torch.Tensor:
        return matrix if layer.shape == matrix.shape else layer

    return StabilitySettings(smoothness=Smoothness(noise, draws=1, delta=0.0))


def test_a_e8_the_smallest_admissible_number_does_not_exist():
    """All of (0, rho] is admissible, so what is wanted is the largest."""
    ratios = [3.0, 5.0]
    rho = smoothness_quantile(ratios, 0.0)
    for candidate in (rho, rho / 2, rho / 1e9):
        assert all(1.0 / ratio <= 1.0 / candidate for ratio in ratios)  # the inequality, divided by the rest
    assert not all(1.0 / ratio <= 1.0 / (1.01 * rho) for ratio in ratios)


def test_a_e8_the_noise_includes_the_layer_itself():
    """No layer is before the first one: without its own replacement its smoothness would say nothing."""
    net = two_layers(torch.eye(2), torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))
    x = torch.tensor([[1.0, -0.5]], dtype=torch.float64)
    moved = torch.tensor([[-0.2, 0.0], [0.0, -1.0]], dtype=torch.float64)  # x goes to (-0.2, 0.5)
    found = stability(net, x, replaced_first(moved))
    # the numbers of S-E7: M(x + eta) = (-.5, .5), J (x + eta) = (-.2, .2), eta = (-1.2, 1), M(x) = (1, -1)
    gap = math.hypot(0.3, 0.3)
    by_hand = math.hypot(1.2, 1.0) * math.hypot(1.0, 1.0) / (math.hypot(1.0, 0.5) * gap)
    assert found.smoothness == pytest.approx(by_hand)
    assert stability(net, x, replaced_first(torch.eye(2, dtype=torch.float64))).smoothness == math.inf


def test_a_e9_the_printed_estimate_is_above_the_smoothness_and_the_corrected_one_is_met():
    """One unit that wakes up: rho = 1/c, which is mu sqrt(r) / c, while mu r / c is sqrt(h) times as much."""
    h = 9
    net = two_layers(torch.eye(h), torch.eye(h))
    x = torch.ones(1, h, dtype=torch.float64)
    x[0, -1] = -1e-9
    awake = torch.eye(h, dtype=torch.float64)
    awake[-1, 0] = 0.5
    found = stability(net, x, replaced_first(awake))
    row, after = found.layers
    rank = stable_rank(net[2].weight.detach())
    corrected = adversarial_smoothness(cushion=after.cushion, stable_rank=rank, contraction=row.contraction)
    assert rank == pytest.approx(h)
    assert row.smoothness == pytest.approx(corrected, rel=1e-6)
    assert row.smoothness < after.cushion * rank / row.contraction / 2.9


def test_a_e20_a_bias_breaks_the_identity_that_cushions_rest_on():
    """M(x) = J x fails with a bias, and holds again once the bias is a column."""
    net = two_layers(torch.eye(2), torch.tensor([[1.0, 1.0]]), bias=True)
    with torch.no_grad():
        net[0].bias.zero_()
        net[2].bias.fill_(-3.0)
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)  # the network gives 0, its Jacobian times x gives 3
    separate = stability(net, x, StabilitySettings(biases="separate"))
    augmented = stability(net, x, StabilitySettings(interlayer="output"))
    key = Key("interlayer", "0", "2")
    assert separate.columns[key] == pytest.approx(3.0 / (math.sqrt(2.0) * math.sqrt(5.0)))
    assert augmented.columns[key] == pytest.approx(0.0, abs=1e-12)  # noise is infinitely larger than f(x) = 0


def test_a_e24_a_convolution_may_have_a_cushion_above_one():
    net = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(36, 2, bias=False))
    nn.init.ones_(net[0].weight)
    found = stability(net, torch.ones(1, 1, 6, 6))
    taps = np.convolve(np.ones(6), np.ones(3), mode="same")  # 2 3 3 3 3 2 along each axis
    assert found.layers[0].cushion == pytest.approx((taps**2).sum() / (3.0 * 6.0))
    assert found.layers[0].cushion > 1.0


def test_a_e24_a_dead_activation_is_an_outlier_and_the_output_has_no_contraction():
    net = two_layers(torch.eye(2), torch.ones(2, 2))
    x = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [3.0, -4.0]], dtype=torch.float64)
    found = stability(net, x)
    assert (found.undefined, found.left_out) == (1, 1)
    assert found.contraction == pytest.approx(5.0 / 3.0)
    assert found.layers[-1].contraction is None


@pytest.mark.parametrize(("share", "improves"), [(0.5, True), (2.0, False)])
def test_a_e27_the_distance_from_the_start_improves_a_cushion_where_it_is_shorter(share, improves):
    """The cushion is divided by the share of the distance in the norm, the value of table 1 by its square."""
    end, x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).double(), torch.ones(3, 4).double()
    net, start = (two_layers(matrix, torch.ones(2, 5).double()) for matrix in (end, (1.0 - share) * end))
    first = stability(net, x, initial=start).layers[0]
    assert first.distance_cushion == pytest.approx(first.cushion / share)
    assert (first.distance_cushion > first.cushion) is improves
