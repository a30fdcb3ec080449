"""Code lengths: real ones beside the ideal, closed forms beside real ones, and the choice between codes."""

import itertools
import math

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import UsageError
from codebound_networks.codes.arithmetic import Writer
from codebound_networks.codes.choose import (
    _adaptive,
    _plain,
    _static,
    best_tensor_code,
    context_bits,
    gamma_bits,
    mask_bits,
    signed_bits,
    table_bits,
)
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.codes.numbers import gamma, signed
from codebound_networks.codes.static import choose_lanes_log2, frequency_table
from codebound_networks.codes.tensors import Adaptive, Dense, Enumerative, Static, Zero


def sparse(shape, density, limit, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, limit + 1, shape) * rng.choice([-1, 1], shape)
    return np.where(rng.random(shape) < density, size, 0).astype(np.int32)


def entropy_bits(levels):
    counts = np.unique(levels, return_counts=True)[1]
    return float(-(counts * np.log2(counts / levels.size)).sum())


def test_the_arithmetic_code_is_ideal_to_a_millionth_and_two_bits():
    rng = np.random.default_rng(1)
    writer, ideal = Writer(), 0.0
    for total in (3, 1000, 2**20, 2**24):
        for cum in rng.integers(0, total, 3000).tolist():
            freq = int(rng.integers(1, total - cum + 1))
            writer.narrow(cum, freq, total)
            ideal += math.log2(total / freq)
    assert abs(writer.finish().length - ideal) <= 1e-6 * ideal + 2


def test_flags_are_ideal_to_a_millionth_and_two_bits():
    rng = np.random.default_rng(2)
    writer, ideal = Writer(), 0.0
    for value in (rng.random(50_000) < 0.01).tolist():
        writer.split(value, 9900, 10_000)
        ideal += math.log2(100 if value else 10_000 / 9900)
    assert abs(writer.finish().length - ideal) <= 1e-6 * ideal + 2


@given(st.integers(1, 2**41 - 1), st.integers(-(2**40) + 1, 2**40 - 1))
def test_gamma_codes_have_exactly_their_length(k, j):
    one, other = Writer(), Writer()
    gamma(one, k)
    signed(other, j)
    assert one.finish().length == gamma_bits(k)
    assert other.finish().length == signed_bits(j)


@pytest.mark.parametrize("value", [0, -1, 2**41])
def test_gamma_refuses_what_it_cannot_code(value):
    with pytest.raises(UsageError, match="gamma"):
        gamma(Writer(), value)


@examples(25)
@given(
    st.sampled_from([(40,), (7, 9), (12, 3, 3, 3), (1, 50), (50, 1)]),
    st.sampled_from([0.03, 0.3, 1.0]),
    st.sampled_from([1, 2, 9]),
    st.integers(0, 10**6),
)
def test_closed_forms_are_the_real_lengths_within_two_bits(shape, density, limit, seed):
    levels = sparse(shape, density, limit, seed)
    if not levels.any():
        return
    limit = int(np.abs(levels).max())
    candidates = [*_plain(levels, -9, limit), *_adaptive(levels, -9, limit, (5, 28))]
    for bits, code in candidates:
        header = gamma_bits(code.mode) + signed_bits(-9)
        assert abs(encode_tensors([code]).length - header - bits) <= 2.0, code
    bits, code = _static(levels, -9, limit)
    assert code.table.sum() == 2**16
    assert abs(encode_tensors([code]).length - header - bits) <= 25.0  # a block is made of whole words


def test_the_closed_form_check_has_teeth():
    levels = sparse((7, 9), 0.3, 2)
    bits, code = next(_plain(levels, 0, 2))
    assert abs(encode_tensors([code]).length - bits) > 2.0


def test_context_and_mask_lengths_against_products_of_probabilities():
    n, bits = [0, 0, 0], 0.0
    for s in (0, 0, 2, 0, 1, 2, 0, 0):
        bits -= math.log2((n[s] + 0.5) / (sum(n) + 1.5))
        n[s] += 1
    assert context_bits(np.array([n])) == pytest.approx(bits, abs=1e-12)
    assert mask_bits(614_656, 61_466) == pytest.approx(288_263.02004 + math.log2(614_657), abs=1e-4)


@examples(25)
@given(
    st.sampled_from([(30,), (8, 12), (4, 2, 3, 3)]),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    st.sampled_from([1, 3]),
    st.integers(0, 10**6),
)
def test_the_best_code_is_the_shortest_that_can_be_built(shape, density, limit, seed):
    levels = sparse(shape, density, limit, seed)
    best = encode_tensors([best_tensor_code(levels, step=-20, strides=(4,))]).length
    limit = max(int(np.abs(levels).max()), 1)
    others = [Dense(levels, -20, limit), Enumerative(levels, -20, limit)]
    others += [
        Adaptive(levels, -20, limit, row_flags=rows, column_flags=columns, kind=kind, stride=stride)
        for rows, columns in itertools.product((0, 1), repeat=2)
        for kind, stride in [(0, 1), (1, 1), (2, 1), (3, 1), (3, 4)]
    ]
    assert best <= min(encode_tensors([code]).length for code in others) + 2


def test_each_code_has_its_tensor():
    rng = np.random.default_rng(0)
    columns = np.where(np.arange(40) % 5 == 0, sparse((60, 40), 0.9, 1), sparse((60, 40), 0.02, 1))
    rows = np.where((np.arange(60) % 3 == 0)[:, None], sparse((60, 40), 0.5, 3), 0)
    stripes = np.kron(rng.integers(0, 2, (10, 8)), np.ones((6, 5))).astype(np.int32)
    assert isinstance(best_tensor_code(np.zeros((3, 4), dtype=np.int32), step=0), Zero)
    assert isinstance(best_tensor_code(rng.integers(-9, 10, 30), step=0), Dense)
    assert isinstance(best_tensor_code(sparse((100_000,), 0.1, 3), step=0), Static)
    by_column, by_row, by_neighbour = (best_tensor_code(q, step=0) for q in (columns, rows, stripes))
    assert isinstance(by_column, Adaptive)
    assert by_column.kind == 1
    assert isinstance(by_row, Adaptive)
    assert by_row.row_flags == 1
    assert isinstance(by_neighbour, Adaptive)
    assert by_neighbour.kind == 3


def test_a_long_tensor_with_few_live_columns_is_still_coded_adaptively():
    levels = np.zeros((1000, 500), dtype=np.int32)
    levels[:, 7::50] = sparse((1000, 10), 0.3, 1)
    code = best_tensor_code(levels, step=0)
    assert isinstance(code, Adaptive)
    (decoded,) = decode_tensors(encode_tensors([code]), [levels.shape])
    assert (decoded.levels == levels).all()


@pytest.mark.thorough
@pytest.mark.parametrize(("density", "limit"), [(0.1, 1), (1.0, 15)])
def test_a_static_code_is_within_a_thousandth_of_the_entropy(density, limit):
    levels = sparse((1_000_000,), density, limit)
    code = best_tensor_code(levels, step=-30)
    assert isinstance(code, Static)
    message = encode_tensors([code])
    assert message.length <= 1.001 * entropy_bits(levels) + 40
    (decoded,) = decode_tensors(message, [levels.shape])
    assert (decoded.levels == levels).all()


def test_one_lane_and_many_lanes_decode_to_the_same():
    levels = sparse((5001,), 0.4, 4)
    table = frequency_table(np.bincount(levels + 4, minlength=9))
    for lanes_log2 in (0, 1, 5, 8, 12):
        message = encode_tensors([Static(levels, 0, 4, table=table, lanes_log2=lanes_log2)])
        (decoded,) = decode_tensors(message, [levels.shape])
        assert (decoded.levels == levels).all()
        assert message.length <= entropy_bits(levels) + table_bits(table) + 40 * 2**lanes_log2 + 40


def test_lanes_cost_a_two_thousandth_at_most():
    for bits in (1e3, 1e6, 3e6, 1e7, 1e8):
        lanes = 2 ** choose_lanes_log2(bits, int(bits))
        assert lanes == 1 or 32 * lanes <= 0.0005 * bits


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60).filter(any))
def test_frequencies_are_complete_and_nearly_ideal(counts):
    counts = np.array(counts)
    table = frequency_table(counts)
    assert table.sum() == 2**16
    assert ((table > 0) == (counts > 0)).all()
    p = counts[counts > 0] / counts.sum()
    loss = float((p * np.log2(p * 2**16 / table[counts > 0])).sum())
    assert -1e-12 <= loss <= len(counts) * 2**-15


@pytest.mark.parametrize("counts", [[1, 1, 1], [1, 2, 10], [1, 60_000, 3, 3, 3]])
def test_frequencies_are_optimal_among_neighbours(counts):
    counts = np.array(counts)
    table = frequency_table(counts).astype(float)

    def cost(frequencies):
        return -(counts * np.log2(frequencies)).sum()

    for i in range(len(counts)):
        for j in range(len(counts)):
            moved = table.copy()
            moved[i] += 1
            moved[j] -= 1
            if moved.min() >= 1:
                assert cost(moved) >= cost(table) - 1e-6


def test_no_frequency_for_nothing():
    with pytest.raises(UsageError, match="symbols"):
        frequency_table(np.zeros(3, dtype=np.int64))
