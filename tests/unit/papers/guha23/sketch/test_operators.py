"""Ensembles, the sketch and its adjoint, against Kronecker products and an independent drawing program."""

import hashlib

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.stream import Stream
from codebound.run.errors import UsageError
from codebound_papers.guha23.sketch.operators import adjoint, column_ensemble, row_ensemble, sketch


def pair(seed, *, m=7, p1=10, p2=12, degree=3):
    stream = Stream(seed, "pair")
    return (column_ensemble(stream, m=m, p=p, degree=degree) for p in (p1, p2))


def drawn_by_hand(seed, name, *, m, p, degree):
    """The documented procedure, one word at a time, with Python integers."""
    key = hashlib.sha256(f"codebound/{seed}/{name}".encode()).digest()[:16]
    philox = np.random.Philox(counter=0, key=np.frombuffer(key, dtype="<u8").astype(np.uint64))
    columns = []
    while len(columns) < p:
        words = [int(philox.random_raw()) for _ in range(m)]
        ones = sorted(sorted(range(m), key=lambda i: (words[i], i))[:degree])
        if ones not in columns:
            columns.append(ones)
    return columns


@pytest.mark.parametrize(("m", "p", "degree"), [(5, 10, 2), (5, 9, 2), (12, 30, 4), (4, 4, 1)])
def test_another_program_draws_the_same_columns(m, p, degree):
    ours = column_ensemble(Stream(3, "x"), m=m, p=p, degree=degree)
    assert ours.rows.reshape(p, degree).tolist() == drawn_by_hand(3, "x", m=m, p=p, degree=degree)


def test_columns_are_distinct_even_when_all_are_needed():
    columns = column_ensemble(Stream(0, "all"), m=5, p=10, degree=2).rows.reshape(10, 2)
    assert len({tuple(c) for c in columns.tolist()}) == 10


def test_rows_are_chosen_uniformly():
    ones = column_ensemble(Stream(1, "u"), m=20, p=4000, degree=5).transposed.degrees
    expected = 4000 * 5 / 20
    assert np.abs(ones - expected).max() < 6 * np.sqrt(expected)


def test_the_literal_ensemble_leaves_columns_empty():
    graph = row_ensemble(Stream(0, "rows"), m=64, p=200, degree=5)
    assert graph.transposed.degrees.max() <= 5
    assert 0.1 < np.mean(graph.degrees == 0) < 0.3  # exp(-5 * 64 / 200) = 0.20


@examples(30)
@given(st.integers(0, 10_000), st.booleans())
def test_sketch_and_adjoint_are_the_kronecker_product(seed, integer):
    a, b = pair(seed)
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-99, 99, (10, 12)), rng.integers(-99, 99, (7, 7))
    if not integer:
        x, y = x / 7, y / 7
    k = np.kron(a.dense(), b.dense())
    forward, back = sketch(torch.from_numpy(x), a, b), adjoint(torch.from_numpy(y), a, b)
    tolerance = 0 if integer else 1e-10
    np.testing.assert_allclose(forward.numpy().ravel(), k @ x.ravel(), rtol=0, atol=tolerance)
    np.testing.assert_allclose(back.numpy().ravel(), k.T @ y.ravel(), rtol=0, atol=tolerance)
    assert forward.dtype == (torch.int64 if integer else torch.float64)


def test_integers_beyond_double_precision_stay_exact():
    a, b = pair(0)
    x = torch.zeros(10, 12, dtype=torch.int64)
    x[3, 4] = 2**53 + 1
    assert sum(sketch(x, a, b).flatten().tolist()) == 9 * (2**53 + 1)


def test_the_transposed_graph_is_the_transposed_matrix():
    a, _ = pair(5)
    np.testing.assert_array_equal(a.transposed.dense(), a.dense().T)


def test_the_gram_inverse_is_the_pseudo_inverse():
    a, _ = pair(6)
    inverse, rank = a.gram_inverse
    gram = a.dense() @ a.dense().T
    np.testing.assert_allclose(inverse.numpy(), np.linalg.pinv(gram), atol=1e-10)
    assert rank == np.linalg.matrix_rank(gram)


def test_impossible_requests_say_what_to_do():
    with pytest.raises(UsageError, match="Take more rows"):
        column_ensemble(Stream(0, "x"), m=4, p=7, degree=2)
    with pytest.raises(UsageError, match="sides from 1"):
        column_ensemble(Stream(0, "x"), m=4, p=1 << 20, degree=2)
    with pytest.raises(UsageError, match="at least 1 one"):
        row_ensemble(Stream(0, "x"), m=4, p=7, degree=0)
    a, b = pair(0)
    with pytest.raises(UsageError, match=r"\(12, 10\).*\(10, 12\)"):
        sketch(torch.zeros(12, 10), a, b)
