"""Subspaces: exact against integers and fractions, the same for every chunk size, refused beyond the page."""

import math
from fractions import Fraction

import cbound_writer as reference
import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import FormatError, UsageError
from codebound_networks.codes import random_subspace as module
from codebound_networks.codes.arithmetic import Writer
from codebound_networks.codes.quantization import step_size
from codebound_networks.codes.random_subspace import Subspace, hashes, scale_exponent, start_values
from codebound_networks.codes.tensors import Dense, Raw, Zero

SHAPES = {"a.weight": (5, 3, 2, 2), "a.bias": (5,), "scalar": (), "b.weight": (4, 65), "b.bias": (4,)}
Q = np.array([3, -1, 0, 2, -(2**20)], dtype=np.int32)


def make(q=Q, entries_log2=1, step=-40, *, zero_head=False, seed=7) -> Subspace:
    return Subspace(Dense(q, 0, 2**20), entries_log2, step, zero_head, seed)


@given(st.integers(0, 2**41), st.integers(1, 2**20), st.integers(0, 2), st.integers(1, 40))
@examples(50)
def test_hashes_are_those_of_the_page(seed, dimension, entries_log2, count):
    entries = 1 << entries_log2
    words = reference.outputs(seed, "hash", count * entries)
    index, sign = hashes(seed, dimension, entries, count)
    assert (index.dtype, sign.dtype) == (np.int32, np.int8)
    assert index.shape == sign.shape == (count, entries)
    assert index.ravel().tolist() == [(word >> 32) * dimension >> 32 for word in words]
    assert sign.ravel().tolist() == [-1 if word & 1 else 1 for word in words]


def test_starts_are_those_of_the_page():
    assert start_values(3, 100).tolist() == reference.popcounts(3, "start", 100)


@given(st.lists(st.integers(1, 2**13), max_size=4).map(tuple))
def test_the_scale_is_the_root_of_the_columns_rounded_down_to_a_power_of_two(shape):
    m, columns = scale_exponent(shape), math.prod(shape[1:])
    if len(shape) < 2:
        assert m == 0
    else:
        assert 4**m <= columns < 4 ** (m + 1)


@pytest.mark.few(14)
@pytest.mark.parametrize("entries_log2", [0, 1, 2])
@pytest.mark.parametrize("zero_head", [False, True])
@pytest.mark.parametrize("has_base", [False, True])
@pytest.mark.parametrize("step", [-1000, -40, 3])
def test_weights_against_fractions(entries_log2, zero_head, has_base, step):
    """The exact number, rounded to float64 where the page adds, then once to float32."""
    base = {name: np.full(shape, 0.3, np.float32) for name, shape in SHAPES.items()} if has_base else None
    found = make(entries_log2=entries_log2, step=step, zero_head=zero_head).weights(
        SHAPES, ["b.weight"], base=base
    )
    count = sum(math.prod(shape) for shape in SHAPES.values())
    words = reference.outputs(7, "hash", count << entries_log2)
    begins, unit, e = reference.popcounts(7, "start", count), Fraction(step_size(step)), 0
    for name, shape in SHAPES.items():
        is_started = not has_base and len(shape) > 1 and not (zero_head and name == "b.weight")
        for value in found[name].ravel().tolist():
            mine = words[e << entries_log2 : (e + 1) << entries_log2]
            total = sum((1 - 2 * (word & 1)) * int(Q[(word >> 32) * len(Q) >> 32]) for word in mine)
            exact = float(Fraction(begins[e], 4) * is_started + total * unit)  # one rounding to float64
            exact /= 2 ** {"a.weight": 1, "b.weight": 3}.get(name, 0)
            assert value == float(np.float32(exact + 0.30000001192092896 if has_base else exact))
            e += 1
    assert list(found) == list(SHAPES)
    assert {name: values.shape for name, values in found.items()} == SHAPES
    assert all(values.dtype == np.float32 for values in found.values())


@pytest.mark.parametrize("chunk", [1, 3, 64, 10**6])
def test_chunks_change_nothing(monkeypatch, chunk):
    base = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    before = make().weights(SHAPES, []), make().weights(SHAPES, [], base=base)
    monkeypatch.setattr(module, "_CHUNK", chunk)
    after = make().weights(SHAPES, []), make().weights(SHAPES, [], base=base)
    for one, other in zip(before, after, strict=True):
        assert all(one[name].tobytes() == other[name].tobytes() for name in SHAPES)


def test_no_weight_is_minus_zero():
    weights = Subspace(Zero((3,)), 1, 0, zero_head=True, seed=0).weights(SHAPES, ["b.weight"])
    for name in ("a.bias", "b.weight", "b.bias"):
        assert not weights[name].any()
        assert not np.signbit(weights[name]).any()
    assert weights["a.weight"].any()


def test_starts_have_the_spread_of_a_fresh_layer():
    """Unit variance before the scale; the same check fails on starts that are not divided by 4."""
    drawn = start_values(1, 100_000) / 4.0

    def is_standard(values):
        return abs(values.mean()) < 0.02 and abs(values.std() - 1.0) < 0.02

    assert is_standard(drawn)
    assert not is_standard(4.0 * drawn)


def test_every_integer_is_used_equally_often():
    """Chi-square of 50 cells at five standard deviations; teeth: all words of one half."""

    def is_uniform(index):
        counts = np.bincount(index, minlength=50)
        return ((counts - index.size / 50) ** 2 / (index.size / 50)).sum() < 49 + 5 * math.sqrt(98)

    index, sign = hashes(2, 50, 2, 50_000)
    assert is_uniform(index.ravel())
    assert not is_uniform(index.ravel() // 2)
    assert abs(int(sign.sum())) < 5 * math.sqrt(sign.size)


UNWRITABLE = {
    "dimensions": (lambda: Subspace(Zero((2**20 + 1,)), 0, 0, False, 0), "dimensions"),
    "entries": (lambda: Subspace(Zero((2,)), 3, 0, False, 0), "not among"),
    "step": (lambda: Subspace(Zero((2,)), 0, 1001, False, 0), "a step lies"),
    "seed": (lambda: Subspace(Zero((2,)), 0, 0, False, -1), "seed"),
    "a long seed": (lambda: Subspace(Zero((2,)), 0, 0, False, 2**41), "gamma"),
    "a step of the integers": (lambda: Subspace(Dense(Q, 1, 2**20), 0, 0, False, 0), "step 0"),
    "a matrix of integers": (lambda: Subspace(Zero((2, 2)), 0, 0, False, 0), "does not fit"),
    "floats": (lambda: Subspace(Raw(np.ones(2, np.float32)), 0, 0, False, 0), "holds integers"),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_the_format_does_not_allow_is_not_written(name):
    attempt, because = UNWRITABLE[name]
    with pytest.raises(UsageError, match=because):
        attempt().code_choices(writer := Writer(), [(2,)]).code_integers(writer)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (2**25 + 1,)])
def test_tensors_have_elements_but_not_too_many(shape):
    with pytest.raises(UsageError, match="elements"):
        make().code_choices(Writer(), [shape])


def test_the_work_is_charged():
    writer = Writer()
    writer.charge_work(2**36 - 18 * 100)
    make(entries_log2=1).code_choices(writer, [(10, 10)])
    with pytest.raises(UsageError, match="products"):
        make(entries_log2=1).code_choices(writer, [(1,)])


def test_a_weight_beyond_float32_is_refused():
    with pytest.raises(FormatError, match="float32"):
        make(step=1000).weights(SHAPES, [])


@pytest.mark.parametrize("dimension", [0, 2**20 + 1])
def test_hashes_of_no_subspace(dimension):
    with pytest.raises(UsageError, match="dimensions"):
        hashes(0, dimension, 1, 4)
