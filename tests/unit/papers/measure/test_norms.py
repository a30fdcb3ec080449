"""Matrix norms against numpy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from codebound.run.errors import ModelError, UsageError
from codebound_papers.measure.norms import (
    frobenius_norm,
    l1_inf_norm,
    l2_1_norm,
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


def test_rows_are_units():
    wide = torch.tensor([[1.0, 1.0, 1.0, 1.0]])
    assert (l1_inf_norm(wide), l1_inf_norm(wide.T)) == (4.0, 1.0)
    assert (l2_1_norm(wide), l2_1_norm(wide.T)) == (2.0, 4.0)


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
