"""Peeling and supports: never wrong for generic values; injectivity against dense ranks."""

import numpy as np
import pytest
import torch

from codebound.bits.stream import Stream
from codebound_papers.guha23.sketch import peeling
from codebound_papers.guha23.sketch.operators import (
    cells_of,
    column_ensemble,
    live_entries,
    row_ensemble,
    sketch,
)
from codebound_papers.guha23.sketch.peeling import _independent, is_injective, peel


def case(seed, *, p=40, j=2, m=26, degree=5):
    rng = np.random.default_rng([seed, p, j, m])
    x = np.zeros((p, p))
    for _ in range(j):
        x[np.arange(p), rng.permutation(p)] = rng.standard_normal(p)
    stream = Stream(seed, "peel")
    a, b = (column_ensemble(stream, m=m, p=p, degree=degree) for _ in range(2))
    return x, a, b, sketch(torch.from_numpy(x), a, b).numpy()


@pytest.mark.parametrize(("m", "degree"), [(26, 5), (22, 4), (20, 3), (16, 3)])
def test_what_is_read_is_right_even_when_peeling_stalls(m, degree):
    complete = 0
    for seed in range(15):
        x, a, b, y = case(seed, m=m, degree=degree)
        result = peel(y, a, b)
        read = result.value != 0
        np.testing.assert_allclose(result.value[read], x[read], rtol=1e-9, atol=1e-12)
        assert not (x[~result.live & ~read] != 0).any()
        complete += result.complete
        assert result.complete == np.allclose(result.value, x, atol=1e-9)
    assert m != 26 or complete == 15
    assert m != 16 or complete < 15


def test_a_zero_sketch_is_the_zero_matrix():
    _, a, b, y = case(0)
    result = peel(0 * y, a, b)
    assert result.complete
    assert not result.value.any()


def test_cells_are_the_ones_of_the_kronecker_product():
    for a, b in ((case(0)[1:3]), [row_ensemble(Stream(0, s), m=9, p=12, degree=4) for s in "ab"]):
        k = np.kron(a.dense(), b.dense())
        entries = np.arange(0, a.p * b.p, 7)
        for entry, cells in zip(entries, cells_of(entries, a, b), strict=True):
            assert sorted(c for c in cells if c < a.m * b.m) == np.flatnonzero(k[:, entry]).tolist()


def test_live_entries_touch_no_zero():
    x, a, b, y = case(1, m=16)
    k = np.kron(a.dense(), b.dense())
    expected = ~(k[y.ravel() == 0].any(axis=0)).reshape(x.shape)
    np.testing.assert_array_equal(live_entries(y != 0, a, b), expected)


@pytest.mark.parametrize("size", [20, 60, 90, 100, 110])
def test_injectivity_is_the_rank_of_the_dense_matrix(size):
    for seed in range(5):
        _, a, b, _ = case(seed, p=20, m=10, degree=3)
        k = np.kron(a.dense(), b.dense())
        entries = np.sort(np.random.default_rng(seed).choice(400, size, replace=False))
        assert is_injective(entries, a, b) == (np.linalg.matrix_rank(k[:, entries]) == size)


def test_injectivity_sees_an_empty_column():
    a, b = (row_ensemble(Stream(0, side), m=8, p=30, degree=2) for side in ("a", "b"))
    empty = int(np.flatnonzero(a.degrees == 0)[0])
    assert not is_injective(np.array([empty * b.p]), a, b)


def test_a_core_that_cannot_be_peeled_is_eliminated():
    triangle = np.array([[0, 1], [1, 2], [0, 2]])  # independent over the rationals (determinant 2)
    square = np.array([[0, 1], [1, 2], [2, 3], [0, 3]])  # an even cycle: dependent
    assert _independent(triangle, 99)
    assert not _independent(square, 99)


@pytest.mark.parametrize("n", [200, 201, pytest.param(999, marks=pytest.mark.thorough)])
def test_long_odd_cycles_are_independent(n):
    """The determinant of a cycle of n is 2, or 0 if n is even; the size of the core alone is a limit."""
    cycle = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    assert _independent(cycle, n) == (n % 2 == 1)
    assert not _independent(cycle, 7)  # a row that is outside counts for nothing


def test_a_support_with_too_many_cells_is_not_looked_at(monkeypatch):
    _, a, b, _ = case(0)
    assert is_injective(np.array([0, 1, 2]), a, b)
    monkeypatch.setattr(peeling, "_MOST_CELLS", 3 * 25 - 1)
    assert not is_injective(np.array([0, 1, 2]), a, b)
