"""Copies across two samples, against a brute-force count."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.samples import rows_of

from codebound.certification import certify
from codebound.run.errors import CertificateError, DataError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Dataset, cross_duplicates


def bytes_of(x, y, dtype=np.uint8) -> Dataset:
    return rows_of(x, y, dtype=dtype)


def rows(draw_from: int):
    return st.lists(
        st.tuples(st.integers(0, draw_from), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=20
    )


@given(rows(3), rows(3))
def test_counts_equal_brute_force(a, b):
    seen = cross_duplicates(
        bytes_of([r[:2] for r in a], [r[2] for r in a]), bytes_of([r[:2] for r in b], [r[2] for r in b])
    )
    copies = [r for r in b if any(r[:2] == other[:2] for other in a)]
    assert (seen.n, seen.count) == (len(b), len(copies))
    assert seen.relabelled == sum(r not in a for r in copies)


def test_images_in_any_memory_layout():
    x = np.random.default_rng(0).integers(0, 256, (20, 4, 5, 3), dtype=np.uint8).transpose(0, 3, 1, 2)
    y = np.zeros(20, dtype=np.int64)
    whole = Dataset("a", "train", x, y, 2)
    part = Dataset("b", "test", np.ascontiguousarray(x[5:9]), np.array([0, 1, 0, 1]), 2)
    found = cross_duplicates(whole, part)
    assert (found.n, found.count, found.relabelled) == (4, 4, 2)


@pytest.mark.parametrize("other", [bytes_of([[1, 2, 3]], [0]), bytes_of([[1, 2]], [0], np.float32)])
def test_samples_of_another_kind_are_refused(other):
    with pytest.raises(DataError, match="cannot be compared"):
        cross_duplicates(bytes_of([[1, 2]], [0]), other)


def test_a_sample_with_coarse_values_declares_that_equal_examples_are_draws(tmp_path):
    x, y = np.repeat(np.arange(8.0), 10)[:, None], np.arange(80) % 2
    coarse = from_arrays(x, y, name="coarse")
    with pytest.raises(CertificateError, match=r"64 of 80 .* few words .* declare that \(allow_copies\)"):
        certify(None, coarse, method="constant")
    found = certify(None, replace(coarse, has_equal_draws=True), method="constant")
    assert found.allow_copies
    assert "--allow-copies" in found.save_to(tmp_path / "c").result["verify"]
