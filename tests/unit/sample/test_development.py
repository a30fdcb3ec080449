"""Samples that the format was developed on are known by their values, to both programs in the same way."""

from dataclasses import replace

import numpy as np
import pytest

from codebound.sample import development as developed
from codebound.sample.arrays import from_arrays
from codebound.sample.load import load_dataset
from codebound_verify.development import row_keys


@pytest.mark.parametrize("blocks", [1, 3])
def test_keys_of_both_programs_do_not_change_with_scale_offset_and_type(blocks):
    x = np.random.default_rng(1).integers(0, 256, (50, 3, 5, 5), dtype=np.uint8)
    x[0] = 7  # a constant row has no key
    keys = developed.row_keys(x, blocks)
    assert len(keys) == 49
    scaled = ((x / 255).astype(np.float32) - np.float32(0.1307)) / np.float32(0.3081)
    for other in (x.astype(np.float64), (x / 255).astype(np.float32), x * -0.0 + x / 16, x[::-1]):
        assert developed.row_keys(other, blocks) == keys == set(row_keys(other, blocks))
    assert len(developed.row_keys(scaled, blocks) & keys) > 40
    alone = x * np.array([1.0, 0.5, 3.0])[:, None, None] + np.array([0.0, -1.0, 2.0])[:, None, None]
    assert (developed.row_keys(alone, blocks) == keys) == (blocks == 3)


def test_a_hundredth_of_a_large_set_has_rows_on_the_list():
    """Of 600 examples of 60,000, ten are expected on a list of 1,024."""
    lists = developed._lists()["rows"]
    assert {len(lists[name]["keys"]) for name in ("mnist", "fashion-mnist", "cifar10", "shuttle")} == {1024}
    digits = load_dataset("digits")
    some = digits.select(np.random.default_rng(0).permutation(digits.n)[:18], role="train")
    assert developed.development_sample(from_arrays(some.x / 16, some.y, name="some"), 3) == "digits"


def test_other_samples_are_none_of_them():
    """Neither of the same width, nor constant, nor of a name that only begins like one."""
    x = np.random.default_rng(0).integers(0, 17, (500, 64))
    y = np.arange(500) % 10
    assert developed.development_sample(from_arrays(x, y, name="given"), 3) == ""
    assert developed.development_sample(from_arrays(0 * x + 7, y, name="digits2"), 3) == ""


def test_a_table_comes_from_what_it_was_made_of():
    y = np.arange(40) % 2
    table = from_arrays(np.random.default_rng(0).normal(size=(40, 2)), y, name="table")
    assert developed.development_sample(table, 3) == ""
    assert developed.development_sample(replace(table, development="digits"), 1) == "digits"
    wine = replace(table, development="sklearn-wine")
    assert [developed.development_sample(wine, version) for version in (2, 3)] == ["", "sklearn-wine"]
