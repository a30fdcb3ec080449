"""Truncated singular values: rank and spectral error against the SVD, measured rounding, exact decoding."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from worlds.networks import linear_of

from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.codes.quantization import step_size
from codebound_networks.reading.walk import wrap
from codebound_networks.views.layers import view_of
from codebound_papers.arora18.truncation import (
    Truncation,
    delta_for_margin,
    factor_count,
    rank_bound,
    truncate,
)
from codebound_papers.compress.codes import LowRank
from codebound_papers.compress.methods import lowrank


def decaying(rows: int, columns: int, rate: float, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    u, _, v = torch.linalg.svd(torch.randn(rows, columns, generator=generator).double(), full_matrices=False)
    return (u * rate ** torch.arange(min(rows, columns)).double()) @ v


def layer_of(matrix: torch.Tensor) -> torch.nn.Linear:
    return linear_of(matrix.float(), bias=True)


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.02, 1.0), st.integers(0, 99))
def test_lemma_1(rows, columns, delta, seed):
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).double()
    values = np.linalg.svd(matrix.numpy(), compute_uv=False)
    left, right = truncate(matrix, delta)
    rank = left.shape[1]
    assert rank == int((values >= delta * values[0]).sum()) <= rank_bound(matrix, delta)
    error = np.linalg.norm((left @ right - matrix).numpy(), 2)
    dropped = values[rank] if rank < len(values) else 0.0
    assert error == pytest.approx(dropped, abs=1e-9 * values[0])
    assert error <= delta * values[0]


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.5])
def test_the_change_stays_within_the_allowance(delta):
    matrix = decaying(40, 60, 0.7)
    found = Truncation(delta=delta).compress(view_of("fc", layer_of(matrix)), seed=0)
    assert isinstance(found.code, LowRank)
    change = float(torch.linalg.matrix_norm(found.weight.double() - matrix, ord=2))
    allowance = delta * float(torch.linalg.matrix_norm(matrix, ord=2))
    assert change <= allowance * (1 + 1e-6)  # the weights of the layer are float32
    assert found.predicted_error == pytest.approx(allowance)


def test_a_coarser_step_would_not_do():
    matrix = decaying(40, 60, 0.7)
    found = Truncation(delta=0.1).compress(view_of("fc", layer_of(matrix)), seed=0)
    factors = truncate(matrix.float().double(), 0.05)
    step = found.code.left.step + 1
    coarse = [torch.round(f / step_size(step)) for f in factors]
    moved = coarse[0] @ coarse[1] * step_size(2 * step) - matrix
    assert float(torch.linalg.matrix_norm(moved, ord=2)) > found.predicted_error


def test_weights_are_the_exact_product_of_integers():
    found = Truncation(delta=0.1).compress(view_of("fc", layer_of(decaying(20, 30, 0.6))), seed=0)
    left, right = found.code.left, found.code.right
    exact = left.levels.astype(object) @ right.levels.astype(object)
    expected = (exact.astype(np.float64) * step_size(left.step + right.step)).astype(np.float32)
    assert np.array_equal(found.weight.numpy(), expected)
    (again,) = decode_tensors(encode_tensors([found.code]), [(20, 30)])
    assert np.array_equal(again.weights(), expected)


def test_full_rank_is_rounded_within_the_same_allowance():
    matrix = torch.linalg.qr(torch.randn(24, 24, generator=torch.Generator().manual_seed(0)).double()).Q
    found = Truncation(delta=0.2).compress(view_of("fc", layer_of(matrix)), seed=0)
    assert not isinstance(found.code, LowRank)
    assert float(torch.linalg.matrix_norm(found.weight.double() - matrix, ord=2)) <= 0.2 * (1 + 1e-6)


def test_a_larger_allowance_costs_fewer_bits():
    network = wrap(torch.nn.Sequential(layer_of(decaying(60, 80, 0.8))))
    bits = [
        encode_tensors([lowrank(network, delta=delta).layers[0].code]).length for delta in (0.02, 0.1, 0.5)
    ]
    assert bits == sorted(bits, reverse=True)
    assert bits[0] > 2 * bits[2]


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_does_not_matter(scale):
    matrix = decaying(30, 40, 0.6) * scale
    found = Truncation(delta=0.1).compress(view_of("fc", layer_of(matrix)), seed=0)
    assert isinstance(found.code, LowRank)
    change = torch.linalg.matrix_norm(found.weight.double() - matrix, ord=2)
    assert float(change) <= 0.1 * float(torch.linalg.matrix_norm(matrix, ord=2)) * (1 + 1e-6)


def test_an_allowance_below_every_grid_is_refused_by_name():
    with pytest.raises(UnsupportedLayerError, match=r"layer fc: .* Choose a larger delta"):
        Truncation(delta=1e-7).compress(view_of("fc", layer_of(decaying(30, 40, 0.6))), seed=0)


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.5, float("nan")])
def test_shares_out_of_range_are_refused(delta):
    with pytest.raises(UsageError, match="share of a spectral norm"):
        lowrank(wrap(torch.nn.Sequential(torch.nn.Linear(3, 3))), delta=delta)
    with pytest.raises(UsageError):
        factor_count(delta, width=3, stable_ranks=[1.0])


def test_theorem_2_2_needs_positive_numbers():
    with pytest.raises(UsageError):
        delta_for_margin(0.0, input_norm=1.0, spectral_norms=[1.0])
    with pytest.raises(UsageError):
        delta_for_margin(1.0, input_norm=1.0, spectral_norms=[])
