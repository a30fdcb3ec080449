"""Products with matrices that are never stored, beside dense ones from the literal stream."""

import hashlib
import os
import subprocess
import sys

import cbound_writer as reference
import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.stream import Stream, popcounts
from codebound.run.errors import UsageError
from codebound_papers.compress import random_matrices as projection
from codebound_papers.compress.random_matrices import RandomMatrix, combine, project_onto


def dense(count, n, *, seed, gaussian):
    """The helper matrix of docs/format.md, section 4.8, from plain integers."""
    if gaussian:
        return np.array(reference.popcounts(seed, "project", count * n), dtype=object).reshape(count, n)
    return np.array(reference.sign_rows(seed, "project", count, n), dtype=object)


MATRIX = {gaussian: dense(11, 300, seed=5, gaussian=gaussian).astype(np.int64) for gaussian in (False, True)}
SIZES = st.tuples(st.integers(1, 4), st.integers(1, 9), st.sampled_from([1, 2, 63, 64, 65, 129, 200]))


@examples(40)
@given(SIZES, st.booleans(), st.integers(0, 3), st.sampled_from([1, 100, 2**20]), st.data())
def test_sums_are_those_of_python_integers(sizes, gaussian, seed, limit, data):
    vectors, count, n = sizes
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    z = rng.integers(-limit, limit + 1, (vectors, count))
    expected = z.astype(object) @ dense(count, n, seed=seed, gaussian=gaussian)
    found = combine(z, n, seed=seed, gaussian=gaussian)
    assert found.dtype == np.int64
    assert found.tolist() == expected.tolist()


@examples(40)
@given(SIZES, st.booleans(), st.integers(0, 3))
def test_projections_are_inner_products(sizes, gaussian, seed):
    vectors, count, n = sizes
    values = np.random.default_rng(seed).normal(size=(vectors, n))
    expected = values @ dense(count, n, seed=seed, gaussian=gaussian).astype(float).T
    found = project_onto(values, count=count, seed=seed, gaussian=gaussian)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.few(3)
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("strip", [1, 2, 7, 1 << 10])
@pytest.mark.parametrize("depth", [1, 3, 1 << 8])
@pytest.mark.parametrize("vectors", [1, 3])
def test_how_the_matrix_is_cut_changes_no_bit(monkeypatch, gaussian, strip, depth, vectors):
    z = np.random.default_rng(0).integers(-9, 10, (vectors, 11))
    values = np.random.default_rng(1).normal(size=(vectors, 300))
    for tile, width in ((64 * 11, 1), (1 << 12, 100), (1 << 16, 1 << 13)):
        for name, size in (("_STRIP", strip), ("_DEPTH", depth), ("_TILE", tile), ("_WIDTH", width)):
            monkeypatch.setattr(projection, name, size)
        assert combine(z, 300, seed=5, gaussian=gaussian).tolist() == (z @ MATRIX[gaussian]).tolist()
        found = project_onto(values, count=11, seed=5, gaussian=gaussian)
        np.testing.assert_allclose(found, values @ MATRIX[gaussian].T, rtol=1e-12, atol=1e-11)


@pytest.mark.thorough
def test_the_number_of_threads_changes_no_bit():
    script = (
        "import hashlib, numpy as np; from codebound_papers.compress.random_matrices import combine;"
        "z = np.random.default_rng(0).integers(-2**20, 2**20, (40, 300));"
        "print(hashlib.sha256(combine(z, 3000, seed=1, gaussian=False).tobytes()).hexdigest())"
    )
    found = set()
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        found.add(subprocess.check_output([sys.executable, "-c", script], env=environment, text=True).strip())
    z = np.random.default_rng(0).integers(-(2**20), 2**20, (40, 300))
    signs = np.stack([1 - 2 * row for row in bits_of_rows(300, 3000)])
    assert found == {hashlib.sha256((z @ signs).tobytes()).hexdigest()}


def bits_of_rows(count, n):
    """The bits of each row, one word after the other."""
    words = Stream(1, "project").words(count * -(-n // 64)).reshape(count, -1)
    for row in words:
        yield (row[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).astype(np.int64).ravel()[:n]


@pytest.mark.thorough
@pytest.mark.parametrize("largest", [2**12 - 1, 2**12, 2**12 + 1, 2**20, 2**40 + 1])
def test_sums_beyond_float32_are_exact(largest):
    """4096 weights of 2^12 make sums up to 2^24, beyond which float32 skips odd numbers."""
    z = np.full((1, 4096), largest, dtype=np.int64)
    signs = RandomMatrix(4096, 70, "project", 3).combine(np.eye(4096, dtype=np.int64))
    assert combine(z, 70, seed=3, gaussian=False).tolist() == (z @ signs).tolist()


def test_the_exactness_test_has_teeth():
    z = np.full((1, 4096), 2**20 + 1, dtype=np.int64)
    signs = RandomMatrix(4096, 70, "project", 3).combine(np.eye(4096, dtype=np.int64))
    rounded = z.astype(np.float32) @ signs.astype(np.float32)
    assert (rounded.astype(np.int64) != z @ signs).any()


def test_popcounts():
    words = [0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF, *reference.outputs(0, "popcounts", 50)]
    assert popcounts(np.array(words, dtype=np.uint64)).tolist() == [bin(word).count("1") for word in words]


def test_odd_integers_are_the_parts_of_the_outputs():
    words = reference.outputs(4, "ticket", 3)
    parts = [word >> 16 * part & 0xFFFF for word in words for part in range(4)]
    assert Stream(4, "ticket").odd_integers(10).tolist() == [2 * part - 65535 for part in parts[:10]]


def test_sums_that_no_float_holds_are_refused():
    with pytest.raises(UsageError, match="not exact"):
        combine(np.full((1, 2), 2**60), 3, seed=0, gaussian=False)
