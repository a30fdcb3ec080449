"""A sample described and written, without the command line."""

import numpy as np
import pytest

from codebound.sample.description import describe_sample, save_sample


@pytest.fixture
def file(tmp_path):
    x = np.arange(400.0).reshape(200, 2)
    x[6:20] = x[6]  # with two labels: twelve copies
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(200) % 2)
    return tmp_path / "d.npz"


def test_copies_are_a_warning_that_says_what_certify_makes_of_them(file):
    found = describe_sample(str(file))
    assert found.counts == (100, 100)
    assert found.duplicates is None
    assert "more than one in 100 is refused by certify" in found.warnings[-1]
    assert found.record()["warnings"] == list(found.warnings)


def test_a_part_is_the_one_that_certify_counts_on(file, tmp_path):
    parts = [
        save_sample(str(file), tmp_path / f"{role}.npz", role=role, holdout=0.25)
        for role in ("train", "test")
    ]
    assert [part.n for part in parts] == [150, 50]
    with np.load(tmp_path / "test.npz") as written:
        assert np.array_equal(written["x"], parts[1].x)
