"""Noise sensitivity against simulation, and the norm of a map against its matrix."""

import math

import pytest
import torch
from torch import nn
from worlds.networks import inputs

from codebound.run.errors import UsageError
from codebound_networks.views.layers import view_of
from codebound_papers.measure.noise.quantities import (
    linear_noise_sensitivity,
    map_frobenius_norm,
    noise_sensitivity,
)


def test_the_noise_sensitivity_of_a_linear_map_is_the_simulated_one():
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False).double().requires_grad_(False)
    x = inputs(3, 2, 5, 5)
    mean, error = noise_sensitivity(layer, x, draws=4000, seed=1)
    frobenius = map_frobenius_norm(view_of("conv", layer), (2, 5, 5))
    exact = linear_noise_sensitivity(
        x.flatten(1).norm(dim=1), layer(x).flatten(1).norm(dim=1), frobenius=frobenius
    )
    assert ((mean - exact).abs() < 5 * error).all()
    wrong = linear_noise_sensitivity(
        x.flatten(1).norm(dim=1),
        layer(x).flatten(1).norm(dim=1),
        frobenius=float(layer.weight.detach().norm()),
    )
    assert ((mean - wrong).abs() > 5 * error).all()  # the kernel's norm is not the map's


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
def test_the_frobenius_norm_of_a_map_is_that_of_its_matrix(mode):
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1, dilation=1, padding_mode=mode).double()
    view = view_of("conv", layer)
    assert map_frobenius_norm(view, (2, 5, 4)) == pytest.approx(
        float(view.operator((2, 5, 4)).dense().norm())
    )


@pytest.mark.thorough
def test_the_sensitivity_of_a_nonlinear_map_is_sampled():
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    mean, error = noise_sensitivity(torch.relu, x, draws=20000)
    normal = torch.distributions.Normal(0.0, 1.0)  # E (max(1 + z, 0) - 1)^2 + E max(z, 0)^2, by hand
    below = float(normal.cdf(torch.tensor(-1.0)))
    density = math.exp(-0.5) / math.sqrt(2 * math.pi)
    exact = (1 - below - density) + below + 0.5
    assert abs(float(mean) - exact) < 5 * float(error)
    with pytest.raises(UsageError, match="at least 2 draws"):
        noise_sensitivity(torch.relu, x, draws=1)
