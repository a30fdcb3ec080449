"""Copies in a large sample, counted by both programs in memory that hardly grows with the sample."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.sample import memmap as large
from codebound.sample.dataset import Dataset
from codebound.sample.rows import rows_of
from codebound_verify.sample import count_repeats


def sample_of(x, y):
    return Dataset("s", "train", np.array(x, dtype=np.uint8).reshape(len(x), -1), np.array(y), 3)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=60), st.integers(1, 70))
def test_both_programs_count_what_a_dictionary_counts(rows, block):
    seen, copies, contradictions = {}, 0, 0
    for value, label in rows:
        before = seen.setdefault(value, set())
        copies += label in before
        contradictions += bool(before) and label not in before
        before.add(label)
    sample = sample_of(*zip(*rows, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "MEMORY", 1)
        patch.setattr(large, "BLOCK", block)
        found = rows_of(sample, allow_copies=True)
    second = count_repeats(sample.x, sample.y)
    assert (found.copies, found.contradictions) == (copies, contradictions)
    assert (second.copies, second.contradictions) == (copies, contradictions)


def growth(count, monkeypatch):
    """Bytes that each example more takes at the worst moment."""
    monkeypatch.setattr("codebound.sample.dataset._HASH_CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr("codebound_verify.sample.CHUNK", 1 << 12)
    monkeypatch.setattr("codebound_verify.sample.PIECE", 1 << 11)
    monkeypatch.setattr(large, "BLOCK", 1 << 11)
    peaks, sizes = [], (1 << 13, 1 << 15)
    for n in sizes:
        x = np.random.default_rng(0).integers(0, 256, size=(n, 8), dtype=np.uint8)
        sample = Dataset("s", "train", x, np.zeros(n, dtype=np.int64), 2)
        tracemalloc.start()
        count(sample)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])


def test_the_writer_keeps_hardly_a_byte_of_an_example(monkeypatch):
    monkeypatch.setattr(large, "MEMORY", 1 << 12)
    assert growth(rows_of, monkeypatch) < 4
    monkeypatch.setattr(large, "MEMORY", 1 << 30)
    assert growth(rows_of, monkeypatch) > 20


def test_the_second_program_keeps_eight_bytes_of_an_example(monkeypatch):
    assert 8 <= growth(lambda sample: count_repeats(sample.x, sample.y), monkeypatch) < 16


def test_one_copy_is_one():
    assert rows_of(sample_of([1, 1, *range(2, 120)], [0] * 120)).sentence == (
        "1 of 120 examples is an exact copy of an earlier one"
    )
