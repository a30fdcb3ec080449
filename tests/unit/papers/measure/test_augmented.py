"""Biases as a coordinate: the whole network runs through augmented matrices, and M(x) = J x holds."""

import pytest
import torch
from torch import nn
from worlds.networks import double_mlp

from codebound_networks.reading.walk import wrap
from codebound_networks.views.layers import view_of
from codebound_papers.measure.noise.quantities import augmented_matrix


def three_layers(*, bias):
    return double_mlp(5, 7, 6, 3, bias=bias)


def matrices(model):
    views = wrap(model).layers
    return [augmented_matrix(view, last=view is views[-1]) for view in views]


def evaluate(chain, x):
    for matrix in chain[:-1]:
        x = torch.relu(matrix @ x)
    return chain[-1] @ x


@pytest.mark.parametrize("bias", [True, False])
def test_augmented_matrices_compute_the_network(bias):
    model = three_layers(bias=bias)
    chain = matrices(model)
    assert [tuple(matrix.shape) for matrix in chain] == [(8, 6), (7, 8), (3, 7)]
    for x in torch.randn(10, 5, dtype=torch.float64):
        augmented = torch.cat([x, torch.ones(1, dtype=torch.float64)])
        assert torch.allclose(evaluate(chain, augmented), model(x), rtol=1e-12)
        assert torch.relu(chain[0] @ augmented)[-1] == 1.0


def test_output_is_jacobian_times_input_only_after_augmentation():
    model = three_layers(bias=True)
    chain = matrices(model)
    x = torch.randn(5, dtype=torch.float64)
    augmented = torch.cat([x, torch.ones(1, dtype=torch.float64)])
    jacobian = torch.autograd.functional.jacobian(lambda v: evaluate(chain, v), augmented)
    assert torch.allclose(jacobian @ augmented, model(x), rtol=1e-10)
    plain = torch.autograd.functional.jacobian(model, x)
    assert not torch.allclose(plain @ x, model(x), rtol=1e-3)


def test_a_convolution_is_augmented_per_patch():
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 3, 2).double()
    patch = torch.randn(2, 2, 2, dtype=torch.float64)
    augmented = torch.cat([patch.flatten(), torch.ones(1, dtype=torch.float64)])
    matrix = augmented_matrix(view_of("conv", conv), last=False)
    expected = torch.cat([conv(patch[None]).flatten(), torch.ones(1, dtype=torch.float64)])
    assert torch.allclose(matrix @ augmented, expected, rtol=1e-12)
