"""Samples that the page was made with are known at any scale, by half of their smallest keys, or by name."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from codebound_verify.development import find_development, is_part, read_sketches, row_keys


def header_of(*sources):
    made = [SimpleNamespace(of=source) for source in sources]
    return SimpleNamespace(
        known=SimpleNamespace(tables=made[1:], features=made[0] if made else None, base=None)
    )


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def test_a_sample_is_known_at_any_scale_and_in_parts(digits):
    x = digits.reshape(-1, 1, 8, 8)
    for seen in (x.astype(np.uint8), (x / 16).astype(np.float32), 3 - x[::-1] * -7.0, x[::3]):
        assert find_development(header_of(), seen) == "digits"
    assert find_development(header_of(), np.random.default_rng(0).integers(0, 17, (900, 64))) is None
    assert find_development(header_of(), x[:, :, :7]) is None
    assert find_development(header_of(), np.zeros((9, 64))) is None
    assert find_development(header_of(), np.full((9, 64), np.nan)) is None


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
        assert find_development(header_of(*sources), x) == name
