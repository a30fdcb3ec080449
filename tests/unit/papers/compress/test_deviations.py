"""Deviation of a compressed network: actual <= recursion <= e-form, and refusals with reasons."""

import copy
import math

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from worlds.networks import Skipping
from worlds.samples import random_labels

from codebound.bounds.original import LayerBounds, output_deviation
from codebound.run.errors import UsageError
from codebound_networks.reading.walk import wrap
from codebound_networks.views.zoo import build
from codebound_papers.compress.compression_summary import deviation, exponential_deviation
from codebound_papers.compress.methods import mbp, naive


def normal_inputs(shape, seed: int = 0):
    return random_labels(100, shape=shape, seed=seed).on("cpu")


def perceptron(depth: int, *, width: int = 20, seed: int = 0, bias: bool = False):
    spec = f"mlp:depth={depth},width={width},bias={str(bias).lower()}"
    return wrap(build(spec, input_shape=(12,), classes=5, seed=seed))


@examples(25)
@given(st.integers(1, 5), st.floats(0.0, 0.3), st.integers(0, 1000))
def test_actual_recursion_and_e_form_are_in_order(depth, strength, seed):
    net = perceptron(depth, seed=seed)
    found = deviation(mbp(net, strength=strength, levels=1001, seed=seed), normal_inputs((12,), seed=seed))
    assert found.mean <= found.largest <= found.recursion
    if found.e_form is None:
        assert any(layer.change * depth > layer.weight for layer in found.layers)
    else:
        assert found.recursion <= found.e_form * (1 + 1e-9)


def test_the_measured_deviation_is_that_of_the_two_modules():
    net = perceptron(3, bias=True)
    compressed, data = naive(net, density=0.5), normal_inputs((12,))
    found = deviation(compressed, data, chunk_size=7)
    with torch.no_grad():
        x = data.x.double()
        gap = (copy.deepcopy(net.model).double()(x) - compressed.module().double()(x)).norm(dim=1)
    assert found.largest == pytest.approx(float(gap.max()))
    assert found.mean == pytest.approx(float(gap.mean()))


def test_norms_of_the_layers_are_spectral_norms():
    net = perceptron(2)
    compressed = mbp(net)
    found = deviation(compressed, normal_inputs((12,)))
    for layer, code, view in zip(found.layers, compressed.layers, net.layers, strict=True):
        change = (code.weight.double() - view.weight.double()).numpy()
        assert layer.change == pytest.approx(np.linalg.norm(change, 2), rel=1e-6)
        assert layer.weight == pytest.approx(np.linalg.norm(view.weight.double().numpy(), 2), rel=1e-6)
        assert layer.predicted == code.predicted_error
    norm = np.linalg.norm(normal_inputs((12,)).x.numpy(), axis=1).max()
    bounds = [LayerBounds(weight=layer.weight, weight_change=layer.change) for layer in found.layers]
    assert found.recursion == pytest.approx(output_deviation(bounds, input_norm=float(norm)))


def test_a_convolutional_chain_with_pooling_and_biases_is_covered():
    net = wrap(build("lenet5", input_shape=(1, 8, 8), classes=5))
    found = deviation(mbp(net, strength=0.2), normal_inputs((1, 8, 8)))
    assert 0.0 < found.largest <= found.recursion
    assert found.e_form is None
    assert "layer 1 has a bias" in found.reason
    assert all(layer.change > 0.0 for layer in found.layers)


def test_networks_that_are_no_chain_have_a_measured_deviation_and_a_reason():
    found = deviation(mbp(wrap(Skipping(12, 5))), normal_inputs((12,)))
    assert found.largest > 0.0
    assert found.recursion is None
    assert found.e_form is None
    assert "no chain" in found.reason
    squashed = wrap(nn.Sequential(nn.Linear(12, 6), nn.Sigmoid(), nn.Linear(6, 5)))
    found = deviation(mbp(squashed), normal_inputs((12,)))
    assert found.recursion is None
    assert "step 1 (activation)" in found.reason


def test_the_e_form_names_the_layer_whose_change_is_too_large():
    fine, changed = LayerBounds(weight=1.0, weight_change=0.1), LayerBounds(weight=1.0, weight_change=0.6)
    with pytest.raises(UsageError, match=r"layer 2 changes by 0\.6"):
        exponential_deviation([fine, changed], input_norm=1.0)
    assert exponential_deviation([fine, fine], input_norm=3.0) == pytest.approx(math.e * 3.0 * 0.2)
    with_lipschitz = LayerBounds(weight=1.0, weight_change=0.1, lipschitz=2.0)
    assert exponential_deviation([fine, with_lipschitz], input_norm=3.0) == pytest.approx(math.e * 6.0 * 0.2)
