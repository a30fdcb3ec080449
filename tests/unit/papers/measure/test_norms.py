"""Matrix norms against numpy, path norms against the enumeration of paths."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

from codebound.run.errors import ModelError, UnsupportedLayerError, UsageError
from codebound_papers.measure.norms import (
    frobenius_norm,
    l1_2_norm,
    l1_inf_norm,
    l2_1_norm,
    log_path_norm,
    stable_rank,
)
from codebound_papers.measure.spectral import gram_power_bound, matrix_spectral_norm

MATRICES = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-9, 9)
)


@given(MATRICES)
def test_norms_are_their_definitions(array):
    matrix = torch.from_numpy(array)
    rows1, rows2 = np.abs(array).sum(axis=1), np.sqrt((array**2).sum(axis=1))
    assert frobenius_norm(matrix) == pytest.approx(np.linalg.norm(array), rel=1e-12, abs=1e-150)
    assert l1_inf_norm(matrix) == pytest.approx(rows1.max(), rel=1e-12, abs=1e-150)
    assert l2_1_norm(matrix) == pytest.approx(rows2.sum(), rel=1e-12, abs=1e-150)
    assert l1_2_norm(matrix) == pytest.approx(np.sqrt((rows1**2).sum()), rel=1e-12, abs=1e-150)


def test_rows_are_units():
    wide = torch.tensor([[1.0, 1.0, 1.0, 1.0]])
    assert (l1_inf_norm(wide), l1_inf_norm(wide.T)) == (4.0, 1.0)
    assert (l2_1_norm(wide), l2_1_norm(wide.T)) == (2.0, 4.0)
    assert (l1_2_norm(wide), l1_2_norm(wide.T)) == (4.0, 2.0)


@given(MATRICES)
def test_spectral_norm_and_its_upper_bounds(array):
    norm = matrix_spectral_norm(torch.from_numpy(array))
    exact = np.linalg.svd(array, compute_uv=False)[0]
    assert norm.exact
    assert norm.value == pytest.approx(exact, rel=1e-9, abs=1e-150)
    assert exact * (1 - 1e-15) <= norm.upper <= exact * (1 + 1e-9) + 1e-150
    assert (
        exact * (1 - 1e-15)
        <= gram_power_bound(torch.from_numpy(array))
        <= exact * 6 ** (1 / 128) * (1 + 1e-9)
    )


@given(MATRICES.filter(lambda array: np.abs(array).max() > 1e-3))
def test_stable_rank_lies_between_one_and_the_rank(array):
    rank = stable_rank(torch.from_numpy(array))
    assert 1 - 1e-12 <= rank <= min(array.shape) + 1e-9


def test_stable_rank_of_known_matrices():
    assert stable_rank(torch.zeros(3, 2)) == 0.0
    assert stable_rank(torch.diag(torch.tensor([2.0, 1.0, 1.0]))) == pytest.approx(1.5)


@pytest.mark.parametrize("factor", [1e-320, 1e-200, 1e200, 1e307])
def test_extreme_scales_neither_overflow_nor_vanish(factor):
    matrix = torch.tensor([[3.0, 0.0], [0.0, 4.0]], dtype=torch.float64) * factor
    assert frobenius_norm(matrix) == pytest.approx(5 * factor, rel=1e-2)
    assert matrix_spectral_norm(matrix).value == pytest.approx(4 * factor, rel=1e-2)
    assert gram_power_bound(matrix) == pytest.approx(4 * factor, rel=1e-2)


def test_powers_bound_large_matrices_within_seven_percent(monkeypatch):
    monkeypatch.setattr("codebound_papers.measure.spectral.EXACT_SIDE", 50)
    matrix = torch.randn(80, 120, generator=torch.Generator().manual_seed(0))
    exact = np.linalg.svd(matrix.double().numpy(), compute_uv=False)[0]
    norm = matrix_spectral_norm(matrix)
    assert not norm.exact
    assert 0.98 * exact <= norm.value <= exact * (1 + 1e-12) <= norm.upper <= 1.07 * exact


def test_a_truncated_power_iteration_is_no_upper_bound():
    """The teeth of every ``upper >= exact`` above: the usual shortcut fails them."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(60, 60, generator=generator, dtype=torch.float64)
    v = torch.randn(60, generator=generator, dtype=torch.float64)
    for _ in range(5):
        v = matrix.T @ (matrix @ v)
        v = v / v.norm()
    exact = np.linalg.svd(matrix.numpy(), compute_uv=False)[0]
    assert float((matrix @ v).norm()) < exact * (1 - 1e-3)


@pytest.mark.parametrize("bad", [torch.zeros(0, 3), torch.zeros(3), torch.zeros(1, 2, 3)])
def test_only_matrices_have_matrix_norms(bad):
    with pytest.raises(UsageError, match="shape"):
        frobenius_norm(bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_weights_have_no_norm(bad):
    for norm in (frobenius_norm, matrix_spectral_norm, gram_power_bound):
        with pytest.raises(ModelError, match="NaN or infinity"):
            norm(torch.tensor([[1.0, bad]]))


def layers_of(*sizes, bias, seed):
    generator = torch.Generator().manual_seed(seed)
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = nn.Linear(inputs, outputs, bias=bias)
        for tensor in layer.parameters():
            nn.init.normal_(tensor, generator=generator)
        layers += [layer, nn.ReLU()]
    return layers[:-1]


def path_sum(layers, power):
    """Brute force: every path from an input, or from a bias, to an output."""
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    total = 0.0
    for start in range(len(linear)):
        if start and linear[start - 1].bias is None:
            continue
        widths = [linear[start].in_features, *(layer.out_features for layer in linear[start:])]
        for path in itertools.product(*map(range, widths)):
            product = 1.0 if start == 0 else abs(linear[start - 1].bias[path[0]].item())
            for layer, (source, target) in zip(linear[start:], itertools.pairwise(path), strict=True):
                product *= abs(layer.weight[target, source].item())
            total += product**power
    if linear[-1].bias is not None:
        total += float((linear[-1].bias.detach().double().abs() ** power).sum())
    return total ** (1 / power)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_path_norm_is_the_sum_over_paths(power, bias):
    layers = layers_of(3, 4, 2, 3, bias=bias, seed=1)
    found = log_path_norm(nn.Sequential(*layers), input_shape=(3,), power=power)
    assert found == pytest.approx(math.log(path_sum(layers, power)), rel=1e-6)


@pytest.mark.parametrize("power", [1, 2])
def test_path_norm_of_a_convolution_is_that_of_its_dense_map(power):
    conv = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False)
    dense = torch.stack([conv(unit.view(1, 2, 4, 4)).flatten() for unit in torch.eye(32)]).T
    linear = nn.Linear(12, 2, bias=False)
    model = nn.Sequential(nn.Sequential(conv, nn.ReLU()), nn.Flatten(), nn.Dropout(0.5), linear)
    paths = linear.weight.double().abs() ** power @ dense.double().abs() ** power
    expected = math.log(paths.sum().item()) / power
    assert log_path_norm(model, input_shape=(2, 4, 4), power=power) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("weight", [1e-30, 1e30])
def test_path_norms_of_deep_chains_stay_finite(weight):
    model = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(100)))
    for layer in model:
        nn.init.constant_(layer.weight, weight)
    exact = 101 * math.log(2) + 100 * math.log(weight)
    assert log_path_norm(model, input_shape=(2,), power=1) == pytest.approx(exact, rel=1e-6)


def test_tiny_weights_with_biases_and_dead_chains():
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(60)))
    for tensor in model.parameters():
        nn.init.constant_(tensor, 1e-30)
    assert log_path_norm(model, input_shape=(2,), power=1) == pytest.approx(math.log(2e-30), rel=1e-6)
    for tensor in model.parameters():
        nn.init.zeros_(tensor)
    assert log_path_norm(model, input_shape=(2,), power=2) == -math.inf


@pytest.mark.parametrize(
    ("layer", "name"),
    [(nn.MaxPool2d(2), "MaxPool2d"), (nn.BatchNorm2d(1), "BatchNorm2d"), (nn.GELU(), "GELU")],
)
def test_path_norm_refuses_by_name(layer, name):
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Sequential(layer))
    with pytest.raises(UnsupportedLayerError, match=rf"layer 1.0 \({name}\).*batch norm"):
        log_path_norm(model, input_shape=(1, 4, 4), power=1)


def test_path_norm_names_the_layer_that_does_not_fit():
    with pytest.raises(ModelError, match="layer 0"):
        log_path_norm(nn.Sequential(nn.Linear(3, 2)), input_shape=(4,), power=1)
