"""Spectra of layers against numpy; stable ranks, true and released."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn
from worlds.networks import linear_of

from codebound.run.errors import ModelError, UsageError
from codebound_networks.reading.walk import wrap
from codebound_networks.views.layers import view_of
from codebound_papers.measure.norms import (
    frobenius_norm,
    layer_spectra,
    layer_spectrum,
    power_iteration_norm,
    released_stable_rank,
    stable_rank,
    tail_values,
)
from codebound_papers.measure.spectral import matrix_spectral_norm

MATRICES = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.floats(-9, 9)
)


def view_of_matrix(matrix: np.ndarray):
    return view_of("layer", linear_of(matrix))


@given(MATRICES)
def test_singular_values_are_those_of_numpy(matrix):
    spectrum = layer_spectrum(view_of_matrix(matrix))
    exact = np.linalg.svd(matrix, compute_uv=False)
    assert spectrum.singular_values == pytest.approx(exact, rel=1e-8, abs=3e-6 * exact[0] + 1e-150)
    assert exact[0] * (1 - 1e-15) <= spectrum.spectral_norm_upper <= exact[0] * (1 + 1e-9) + 1e-150
    assert spectrum.frobenius_norm == pytest.approx(np.linalg.norm(matrix), rel=1e-12, abs=1e-150)


@given(MATRICES)
def test_the_same_numbers_everywhere(matrix):
    spectrum, tensor = layer_spectrum(view_of_matrix(matrix)), torch.from_numpy(matrix)
    norm = matrix_spectral_norm(tensor)
    assert spectrum.spectral_norm_upper == norm.upper
    assert spectrum.spectral_norm == pytest.approx(norm.value, rel=1e-14)
    assert spectrum.stable_rank == pytest.approx(stable_rank(tensor), rel=1e-12)
    assert spectrum.frobenius_norm == frobenius_norm(tensor)


def test_what_rounding_makes_of_a_zero_is_zero():
    left, right = np.random.default_rng(0).normal(size=(2, 30, 3))
    spectrum = layer_spectrum(view_of_matrix(left @ right.T))
    assert (spectrum.singular_values > 0.0).sum() == 3
    assert spectrum.eigenvalues.size == 3
    assert layer_spectrum(view_of_matrix(np.zeros((3, 4)))).stable_rank == 0.0


def test_a_whole_network_in_order_and_by_what():
    net = wrap(nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5)))
    kernel, matrix = layer_spectra(net)
    assert (kernel.name, kernel.rows, kernel.columns, kernel.of) == ("0", 4, 18, "reshaped kernel")
    assert (matrix.name, matrix.of, matrix.singular_values.size) == ("3", "matrix", 5)
    with pytest.raises(ValueError, match="read-only"):
        matrix.singular_values[0] = 1.0


@given(MATRICES, hnp.arrays(np.float64, 7, elements=st.floats(-9, 9)))
def test_no_cushion_exceeds_the_inverse_root_of_the_stable_rank(matrix, x):
    """S-5.3: sqrt(stable rank) <= 1 / cushion."""
    x = x[: matrix.shape[1]]
    if np.linalg.norm(matrix) > 1e-3 and np.linalg.norm(x) > 1e-3:
        cushion = np.linalg.norm(matrix @ x) / (np.linalg.norm(matrix) * np.linalg.norm(x))
        assert cushion <= layer_spectrum(view_of_matrix(matrix)).stable_rank ** -0.5 * (1 + 1e-9)


def test_s_e25_numbers():
    """A random 10 x 64 matrix: true 5.85, plotted 0.594; doubling divides the plotted one by 4."""
    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=(10, 64)) * 0.3)
    assert stable_rank(matrix) == pytest.approx(5.85, abs=5e-3)
    assert released_stable_rank(matrix) == pytest.approx(0.594, abs=5e-4)
    assert released_stable_rank(2.0 * matrix) == pytest.approx(released_stable_rank(matrix) / 4.0)
    assert stable_rank(2.0 * matrix) == pytest.approx(stable_rank(matrix))
    assert released_stable_rank(torch.zeros(2, 2)) == 0.0


@given(MATRICES.filter(lambda m: np.abs(m).max() > 1e-3), st.floats(0.01, 100.0))
def test_only_the_true_stable_rank_ignores_scale(matrix, factor):
    tensor = torch.from_numpy(matrix)
    assert stable_rank(factor * tensor) == pytest.approx(stable_rank(tensor), rel=1e-9)
    released = released_stable_rank(factor * tensor)
    assert released == pytest.approx(released_stable_rank(tensor) / factor**2, rel=1e-8)
    norm = matrix_spectral_norm(tensor).value
    assert released_stable_rank(tensor) == pytest.approx(stable_rank(tensor) / norm**2, rel=1e-9)


def test_power_iteration_reaches_the_norm_from_below():
    matrix = torch.from_numpy(np.random.default_rng(1).normal(size=(10, 64)))
    exact = float(torch.linalg.matrix_norm(matrix, ord=2))
    assert power_iteration_norm(matrix) == pytest.approx(exact, rel=1e-9)
    assert power_iteration_norm(matrix, iterations=1) < exact
    assert power_iteration_norm(torch.zeros(2, 3)) == 0.0
    with pytest.raises(UsageError):
        power_iteration_norm(matrix, iterations=0)


def test_values_for_tail_fits():
    view = view_of_matrix(np.array([[3.0, -4.0], [0.0, 0.5]]))
    assert tail_values(view).tolist() == [3.0, 4.0, 0.5]
    assert tail_values(view, of="positive").tolist() == [3.0, 0.5]
    assert tail_values(view, of="eigenvalues") == pytest.approx(
        np.linalg.svd(view.matrix.numpy(), compute_uv=False) ** 2
    )
    with pytest.raises(UsageError, match="'eigenvalues'"):
        tail_values(view, of="signed")


def test_broken_weights_are_named():
    view = view_of_matrix(np.array([[1.0, np.nan]]))
    for work in (layer_spectrum, tail_values):
        with pytest.raises(ModelError, match="layer layer: the weights contain NaN"):
            work(view)
