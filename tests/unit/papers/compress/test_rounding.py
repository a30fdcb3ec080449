"""Rounding to a coded grid: the nearest multiple, within half a step; layers no code can take."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound_networks.views.layers import view_of
from codebound_papers.compress import compressors
from codebound_papers.compress.compressors import number_of_levels, round_weight, rounding_bound, weight_of
from codebound_papers.guha23.pruning import published_rounding_bound


@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0.0, 1.0))
def test_rounding_moves_a_matrix_by_less_than_both_bounds(seed, half, density):
    stream = np.random.default_rng(seed)
    matrix = stream.normal(size=(12, 9)) * (stream.random((12, 9)) < density)
    grid = round_weight(torch.from_numpy(matrix), 2 * half + 1)
    change = grid.code.values() - matrix
    assert grid.nonzeros == np.count_nonzero(matrix)
    assert not change[matrix == 0].any()
    assert np.linalg.norm(change) <= rounding_bound(grid.size, nonzeros=grid.nonzeros) * (1 + 1e-12)
    assert grid.error <= published_rounding_bound(grid.size, nonzeros=grid.nonzeros)
    assert np.abs(np.rint(matrix / grid.size)).max() <= half


@given(st.floats(0.0, 10.0), st.floats(0.05, 20.0))
def test_number_of_levels_counts_what_rounding_gives(largest, size):
    values = np.rint(np.linspace(-largest, largest, 20_001) / size)
    found = len(set(values.tolist()))
    assert number_of_levels(largest, size) - found in (0, 2)  # an end half-way rounds to the even level


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan")])
def test_a_step_that_is_none_is_refused(size):
    with pytest.raises(UsageError):
        number_of_levels(1.0, size)


def test_layers_that_no_code_takes_are_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(compressors, "MAX_ENTRIES", 5)
    with pytest.raises(UnsupportedLayerError, match="layer fc: its weight has 6 elements"):
        weight_of(view_of("fc", nn.Linear(3, 2)))
