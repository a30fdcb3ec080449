"""Samples that the page was made with are known at any scale, by half of their smallest keys, or by name."""

import hashlib

import numpy as np
import pytest
from sklearn.datasets import load_digits

from codebound_verify.development import find_development, is_part, read_sketches, row_keys


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def test_a_sample_is_known_at_any_scale_and_in_parts(digits):
    x = digits.reshape(-1, 1, 8, 8)
    for seen in (x.astype(np.uint8), (x / 16).astype(np.float32), 3 - x[::-1] * -7.0, x[::3]):
        assert find_development(seen, []) == "digits"
    assert find_development(np.random.default_rng(0).integers(0, 17, (900, 64)), []) is None
    assert find_development(x[:, :, :7], []) is None
    assert find_development(np.zeros((9, 64)), []) is None
    assert find_development(np.full((9, 64), np.nan), []) is None


@pytest.mark.parametrize("blocks", [1, 3])
def test_keys_do_not_change_with_scale_offset_and_type(blocks):
    x = np.random.default_rng(1).integers(0, 256, (50, 3, 5, 5), dtype=np.uint8)
    x[0] = 7  # a constant row has no key
    keys = set(row_keys(x, blocks).tolist())
    assert len(keys) == 49
    scaled = ((x / 255).astype(np.float32) - np.float32(0.1307)) / np.float32(0.3081)
    for other in (x.astype(np.float64), (x / 255).astype(np.float32), x * -0.0 + x / 16, x[::-1]):
        assert set(row_keys(other, blocks).tolist()) == keys
    assert len(set(row_keys(scaled, blocks).tolist()) & keys) > 40
    alone = x * np.array([1.0, 0.5, 3.0])[:, None, None] + np.array([0.0, -1.0, 2.0])[:, None, None]
    assert (set(row_keys(alone, blocks).tolist()) == keys) == (blocks == 3)


def test_a_key_is_the_beginning_of_a_hash():
    row = np.array([[0, 8, 16]], np.uint8)
    content = np.array([0, 2048, 4096], "<u2").tobytes()
    assert row_keys(row, 1).tolist() == [int(hashlib.sha256(content).hexdigest()[:12], 16)]
    assert not row_keys(np.array([[0.0, np.nan, 1.0]]), 1).size


def test_half_of_the_smallest_keys_have_to_be_listed(digits):
    keys = row_keys(digits, 1)
    listed = read_sketches()["digits"]["keys"]
    assert len(listed) == 12 * 1024
    digits_of = [f"{key:012x}" for key in sorted(set(keys.tolist()))[:1024]]
    assert "".join(digits_of) == listed
    own = np.sort(np.unique(keys))[:20]
    border = int(listed[-12:], 16)
    others = np.arange(1, 21, dtype=np.uint64) + own[-1]
    assert not np.isin(others, keys).any()
    assert others.max() < border
    assert is_part(np.concatenate([own, others]), listed)
    assert not is_part(np.concatenate([own[:-1], others]), listed)
    assert is_part(np.concatenate([own[:1], np.full(99, border + 1, np.uint64)]), listed)
    assert not is_part(np.full(99, border + 1, np.uint64), listed)
    assert not is_part(np.empty(0, np.uint64), listed)


def test_a_sample_is_known_by_the_name_of_what_it_was_made_of():
    x = np.zeros((9, 3))
    for sources, name in (
        (("rows of fashion-mnist",), "fashion-mnist"),
        (("other", "MNIST, train"), "mnist"),
        (("other", "features of Cifar-10"), "cifar10"),
        (("other", "another"), None),
        (("other", "letters of digitsfactory"), None),
    ):
        assert find_development(x, sources) == name
