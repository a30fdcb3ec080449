"""Columns of numbers and of cells, against a slow reading of section 7.3."""

import math
import struct

import numpy as np
import picked_oracle as oracle
import pytest

from codebound_verify.learn.columns import LONGEST_VECTOR, ColumnMap, DirectionMap, read_cells
from codebound_verify.learn.exact import SINGLE
from codebound_verify.refusal import Refused
from codebound_verify.sample import cell

GAP, TEXT = 0x7FF8 << 48, 0x7FF9


def table(rows) -> np.ndarray:
    return np.array([[cell(value) for value in row] for row in rows], np.float64)


def pattern(value: float) -> int:
    """The bits of a cell; minus zero is zero."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return 0 if bits == 1 << 63 else bits


def slow(first, rows, weights=None):
    """Section 7.3 for cells, a cell at a time; the numbers of a column in the order of the page.

    Also gives the column that each number is of.
    """
    numbers, owners = [[] for _ in rows], []
    for j in range(len(first[0])):
        seen = [pattern(row[j]) for row in first]
        if any(bits >> 48 == TEXT for bits in seen):
            counts = {bits: seen.count(bits) for bits in seen if bits != GAP}
            words = sorted(counts, key=lambda bits: (-counts[bits], bits))[:256]
            owners += [j] * len(words)
            for found, row in zip(numbers, rows, strict=True):
                found += [float(pattern(row[j]) == word) for word in words]
            continue
        there = sorted(row[j] for row, bits in zip(first, seen, strict=True) if bits != GAP)
        if not there:
            continue
        m = len(there)
        middle = there[m // 2]
        spread = there[9 * m // 10] - there[m // 10] or there[-1] - there[0] or 1.0
        owners += [j] * (1 + (m < len(first)))
        for found, row in zip(numbers, rows, strict=True):
            missing = math.isnan(row[j])
            found.append(0.0 if missing else min(4.0, max(-4.0, (row[j] - middle) / spread)))
            if m < len(first):
                found.append(float(missing))
    d = len(owners)
    weights = [1] * d if weights is None else [weights[j] for j in owners]
    u = math.floor((4095 - math.sqrt(d) / 2) / (4 * math.sqrt(sum(w * w for w in weights))))
    vectors = [[round(z * (w * u)) for z, w in zip(found, weights, strict=True)] for found in numbers]
    return vectors, sum(w * w for w in weights) * u * u


def columns_of(vectors) -> list:
    """The columns of vectors, in an order that does not depend on theirs."""
    return sorted(zip(*vectors, strict=True))


def mixed(rows: int = 60, seed: int = 0) -> np.ndarray:
    """A table with numbers, gaps, words, both in one column, nothing, and words that come late."""
    random = np.random.default_rng(seed)
    words = ["red", "green", " blue ", "blue", "grün", ""]
    made = []
    for i in range(rows):
        number = float(random.normal())
        made.append(
            [
                number,
                None if i % 7 == 2 else number * 3,
                words[random.integers(6)],
                words[random.integers(3)] if random.random() < 0.5 else float(random.integers(3)),
                None if i < 30 else "late",
                None if i < 30 else number,
                5.0,
                None if random.random() < 0.5 else "often",
                number if i < 30 else ("late" if i % 2 else None),
                0.0 if i % 2 else -0.0,
                ("x", 0.0, -0.0)[i % 3],
                1e300 if i % 9 == 4 else -1e300,
            ]
        )
    return table(made)


@pytest.mark.parametrize("first", [1, 2, 11, 29, 45])
def test_cells(first):
    x = mixed()
    features = ColumnMap(x[:first], is_cells=True)
    wanted, scale = slow(x[:first].tolist(), x.tolist())
    found = features.vectors(features.prepare(x))
    assert columns_of(found.tolist()) == columns_of(wanted)
    assert features.squared_scale == scale
    assert (found.astype(np.int64) ** 2).sum(axis=1).max() <= SINGLE


def test_cells_that_are_numbers_are_columns_of_numbers():
    x = np.random.default_rng(1).normal(size=(50, 4))
    plain, cells = ColumnMap(x[:20], is_cells=False), ColumnMap(x[:20], is_cells=True)
    assert plain.vectors(x).tolist() == cells.vectors(x).tolist()


def test_only_the_commonest_words_count():
    """300 words, of which 44 come once: of those the smaller patterns are taken."""
    words = [f"word {k}" for k in range(300)]
    rows = [[word] for word in (*words, *words[44:])]
    x = table([*rows, ["new"], [None]])
    found = read_cells(x[: len(rows)])
    own = np.sort(table([[word] for word in words[44:]]).view(np.uint64).ravel())
    assert sorted(found.patterns.tolist()) == own.tolist()
    x = table([[word] for word in words])
    assert sorted(read_cells(x).patterns.tolist()) == np.sort(x.view(np.uint64).ravel())[:256].tolist()
    features = ColumnMap(x, is_cells=True)
    assert not features.vectors(table([["new"], [None]])).any()


def test_nothing_but_the_first_rows_decides():
    """A text below them is missing in a plain column, and a word that is new is none of those listed."""
    x = table([[1.0, "a"], [2.0, "b"], [3.0, "b"]])
    features = ColumnMap(x, is_cells=True)
    found = features.vectors(table([["text", "c"], [2.0, 7.0], [None, None]]))
    assert not found.any()


def test_a_table_of_nothing_is_refused():
    with pytest.raises(Refused, match="no column has anything"):
        ColumnMap(table([[None, None]] * 3), is_cells=True)


def test_tables_that_become_too_long_are_refused():
    words = table([[f"{i}, {j}" for j in range(300)] for i in range(250)])
    with pytest.raises(Refused, match=f"at most {LONGEST_VECTOR} is allowed"):
        read_cells(words)
    assert read_cells(words[:, :262]).dimension == 262 * 250


@pytest.mark.parametrize("weighed", [(4, 0, 1, 2, 8, 3, 1, 0, 5, 1, 1, 2), (0,) * 11 + (8,)])
def test_cells_with_weights(weighed):
    x = mixed()
    features = ColumnMap(x[:45], is_cells=True)
    cells = read_cells(x[:45])
    owners = [*cells.plain, *cells.plain[cells.told], *cells.columns]
    features.weigh(np.array([weighed[j] for j in owners], float))
    wanted, scale = slow(x[:45].tolist(), x.tolist(), weighed)
    assert columns_of(features.vectors(x).tolist()) == columns_of(wanted)
    assert features.squared_scale == scale


def inputs(shape, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    found = random.normal(size=shape) * np.exp(random.normal(size=shape))
    found[0] = 0
    found[..., 0] = 3.0  # a column that says nothing
    found[..., 1] = random.random(shape[:-1]) < 0.05  # and one that says something rarely
    return found


@pytest.mark.parametrize("shape", [(40, 5), (30, 1, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_columns_of_numbers(shape, dtype):
    x = inputs(shape).astype(dtype)
    flat = x.reshape(len(x), -1).astype(float).tolist()
    features = ColumnMap(x[5:27], is_cells=False)
    assert features.vectors(x).tolist() == oracle.column_vectors(flat[5:27], flat, normalised=False)
    directions = DirectionMap(x[0].size)
    assert directions.vectors(x).tolist() == oracle.column_vectors([], flat, normalised=True)


@pytest.mark.parametrize("weights", [(4, 0, 1, 2, 2), (0, 0, 1, 0, 0), (8, 8, 8, 8, 8)])
def test_columns_of_numbers_with_weights(weights):
    x = inputs((40, 5))
    flat = x.tolist()
    features = ColumnMap(x[5:27], is_cells=False)
    features.weigh(np.array(weights, float))
    found = oracle.column_vectors(flat[5:27], flat, normalised=False, weights=list(weights))
    assert features.vectors(x).tolist() == found
    assert max(sum(v * v for v in row) for row in found) <= SINGLE
    directions = DirectionMap(5)
    directions.weigh(np.array(weights, float))
    found = oracle.column_vectors([], flat, normalised=True, weights=list(weights))
    assert directions.vectors(x).tolist() == found


def test_weights_that_leave_no_room_are_refused():
    features = ColumnMap(np.zeros((1, 1 << 16)), is_cells=False)
    features.weigh(np.full(1 << 16, 3.0))
    assert features.squared_scale > 0
    with pytest.raises(Refused, match="too much"):
        features.weigh(np.full(1 << 16, 4.0))


def test_no_vector_is_too_long_for_float32():
    for d in (1, 2, 64, 3072, 65536):
        x = np.random.default_rng(d).normal(size=(3, d)) * 1e9
        x[1] = 1.0
        for found in (DirectionMap(d).vectors(x), ColumnMap(x[:1], is_cells=False).vectors(x)):
            assert (found.astype(np.int64) ** 2).sum(axis=1).max() <= SINGLE
