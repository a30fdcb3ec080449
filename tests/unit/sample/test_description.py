"""A sample described and written, without the command line."""

import numpy as np
import pytest

from codebound.sample.description import describe_sample, save_sample
from codebound.sample.load import load_sample, split


@pytest.fixture
def file(tmp_path):
    x = np.arange(400.0).reshape(200, 2)
    x[6:20] = x[6]  # with two labels: twelve copies
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(200) % 2)
    return tmp_path / "d.npz"


def test_copies_are_a_warning_with_their_rates(file):
    found = describe_sample(str(file))
    assert found.record()["class_counts"] == [100, 100]
    assert found.copies is None
    assert (
        "12 of 200 examples are copies of earlier ones (6.0 % of label 0, 6.0 % of label 1)"
        in found.record()["warnings"][-1]
    )


def test_cells_are_described_by_their_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,red,0\n,blue,1\n3,red,0\n")
    record = describe_sample(str(tmp_path / "t.csv")).record()
    assert (record["dtype"], record["minimum"], record["maximum"]) == ("cells", 1.0, 3.0)


def test_a_part_is_the_one_that_certify_counts_on(file, tmp_path):
    parts = split(load_sample(str(file)), {"train": 0.75, "test": 0.25})
    for role, part in parts.items():
        save_sample(part, tmp_path / f"{role}.npz")
    with np.load(tmp_path / "test.npz") as written:
        assert np.array_equal(written["x"], parts["test"].x)
