"""Columns and cells against a naive reading of docs/format.md, 7.3, a cell at a time."""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.learn.column_features import MOST_WORDS, ColumnFeatures
from codebound.learn.features import fit_features
from codebound.run.errors import ModelError

Cell = float | str | None


def cell(value: Cell) -> bytes:
    """The eight bytes of a cell, highest first."""
    if value is None:
        return bytes.fromhex("7ff8000000000000")
    if isinstance(value, str):
        return b"\x7f\xf9" + hashlib.sha256(value.encode()).digest()[:6]
    return struct.pack(">d", value)


def array(rows: list[list[Cell]]) -> torch.Tensor:
    data = b"".join(cell(value) for row in rows for value in row)
    return torch.from_numpy(np.frombuffer(data, ">f8").astype("<f8").reshape(len(rows), -1))


def naive(first: list[list[Cell]], rows: list[list[Cell]]) -> list[list[float]]:
    """Numbers of rows before they are rounded: -4 to 4 for plain columns, 0 or 1 for all others."""
    found: list[list[float]] = [[] for _ in rows]
    for j, column in enumerate(zip(*first, strict=True)):
        there = [value for value in column if value is not None]
        if any(isinstance(value, str) for value in there):
            counts: dict[bytes, int] = {}
            for value in there:
                key = cell(value if isinstance(value, str) else value + 0.0)
                counts[key] = counts.get(key, 0) + 1
            words = sorted(counts, key=lambda key: (-counts[key], key))[:MOST_WORDS]
            for row, new in zip(rows, found, strict=True):
                value = row[j]
                own = cell(value + 0.0) if isinstance(value, float) else cell(value)
                new += [float(own == word) for word in words]
        elif there:
            v = sorted(there)
            m = len(v)
            spread = v[9 * m // 10] - v[m // 10] or v[-1] - v[0] or 1.0
            for row, new in zip(rows, found, strict=True):
                value = row[j]
                is_there = isinstance(value, float)
                new.append(min(4.0, max(-4.0, (value - v[m // 2]) / spread)) if is_there else 0.0)
                if m < len(column):
                    new.append(float(not is_there))
    return found


VALUES = st.one_of(
    st.none(), st.sampled_from([-0.0, 0.0, 1.0, -2.5, 7.0, 1e300]), st.sampled_from(["a", "b", "ä"])
)
NUMBERS = st.one_of(st.none(), st.floats(-100, 100).map(lambda x: round(x, 2)))


@examples(150)
@given(st.lists(st.tuples(VALUES, NUMBERS, NUMBERS, VALUES), min_size=3, max_size=25), st.integers(2, 12))
def test_cells_are_read_as_the_page_says(table: list[tuple[Cell, ...]], count: int) -> None:
    rows = [list(row) for row in table]
    first = rows[: min(count, len(rows))]
    parts = np.array(naive(first, rows))
    x = array(rows)
    labels = torch.arange(len(first)) % 2
    if parts.shape[1] == 0:
        with pytest.raises(ModelError, match="Got 0"):
            fit_features(ColumnFeatures(), x[: len(first)], labels)
        return
    features = fit_features(ColumnFeatures(), x[: len(first)], labels)
    size = parts.shape[1]
    u = math.floor((4095 - math.sqrt(size) / 2) / (4 * math.sqrt(size)))
    assert features.dimension == size
    assert features.unit == size * u * u
    wanted, found = np.rint(parts * u), features(x).numpy()
    order, own = np.lexsort(wanted[::-1]), np.lexsort(found[::-1])
    # the order of numbers in a vector is nobody's business
    assert np.array_equal(wanted[:, order], found[:, own])


def test_the_commonest_words_have_numbers_and_of_equals_the_smaller_bits() -> None:
    words = [f"w{i}" for i in range(MOST_WORDS + 40)]
    rows = [[word] for word in words] + [[word] for word in words[:100]]
    features = fit_features(ColumnFeatures(), array(rows), torch.arange(len(rows)) % 2)
    kept = {value.to_bytes(8, "big") for value in features.tensors["words"].tolist()}
    singles = sorted(cell(word) for word in words[100:])[: MOST_WORDS - 100]
    assert kept == {cell(word) for word in words[:100]} | set(singles)
    x = array([["w0"], ["never seen"], [None]])
    assert features(x).count_nonzero(dim=1).tolist() == [1, 0, 0]


def test_columns_are_measured_by_order_statistics() -> None:
    x = torch.tensor([[float(i), 5.0, 0.0 if i < 9 else 1.0] for i in range(10)])
    tensors = fit_features(ColumnFeatures(), x, torch.arange(10)).tensors
    assert tensors["middle"].tolist() == [5.0, 5.0, 0.0]
    # nine tenths less one tenth; a column that does not vary; one that does so at its ends alone
    assert tensors["spread"].tolist() == [8.0, 1.0, 1.0]


def test_rows_of_cells_have_no_length() -> None:
    with pytest.raises(ModelError, match="no length"):
        fit_features(ColumnFeatures(True), array([[1.0, None], [2.0, 3.0]]), torch.arange(2))


@examples(60)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=2, max_size=6))
def test_normalised_rows_are_those_of_the_page(rows: list[list[float]]) -> None:
    x = torch.tensor(rows, dtype=torch.float64)
    found = fit_features(ColumnFeatures(True), x, torch.arange(len(x)))(x)
    for row, vector in zip(rows, found.tolist(), strict=True):
        largest = max(map(abs, row))
        w = [round(value * 32767 / largest) if largest else 0 for value in row]
        n = math.sqrt(sum(value * value for value in w))
        assert vector == [round(value * 4094 / n) if n else 0 for value in w]
