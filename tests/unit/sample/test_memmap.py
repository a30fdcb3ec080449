"""Arrays that lie in a file, block by block: the numbers are those of one sort in memory."""

import tempfile
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import DataError
from codebound.sample import memmap as large

NUMBERS = st.sampled_from([-np.inf, -2.0, 0.0, 0.5, 1.0, 7.0, np.inf, np.nan])


@given(st.lists(st.lists(NUMBERS, max_size=9), min_size=1, max_size=6), st.integers(1, 6), st.booleans())
def test_in_order_is_one_sort(blocks, block, in_file):
    arrays = [np.array(each, dtype=np.float64) for each in blocks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "BLOCK", block)
        patch.setattr(large, "MEMORY", 1 if in_file else 1 << 20)
        found = large.sort_blocks(arrays, sum(map(len, arrays)), np.float64)
    assert np.array_equal(found, np.sort(np.concatenate(arrays)), equal_nan=True)


@pytest.mark.parametrize("kind", ["all different", "all equal"])
def test_memory_is_some_blocks_however_many_numbers_there_are(kind, monkeypatch):
    monkeypatch.setattr(large, "MEMORY", 1 << 12)
    monkeypatch.setattr(large, "BLOCK", 1 << 12)

    def peak(n):
        array = large.allocate(n, np.float64)
        array[:] = np.random.default_rng(0).normal(size=n) if kind == "all different" else -np.inf
        tracemalloc.start()
        large.sort_blocks((array[rows] for rows in large.rows_in_blocks(n)), n, np.float64)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few, many = peak(1 << 15), peak(1 << 18)
    assert many < few + 8 * (1 << 14)  # in memory it would be 2 MB more


def test_a_full_temporary_folder_is_an_error_with_a_remedy(monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(DataError, match=r"no room for 8 MB .*No space left.* TMPDIR"):
        large.allocate(1_000_000, np.float64)
