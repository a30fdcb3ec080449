"""Splits: disjoint, complete, exact counts, and an order that a second program finds too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.samples import numbered

from codebound.run.errors import UsageError
from codebound.sample.dataset import ROLES, permutation, split

MASK = (1 << 64) - 1


def philox4x64_10(counter: int, key: int) -> list[int]:
    """Salmon et al. 2011, written from the paper: ten rounds of two multiplications."""
    c = [(counter >> (64 * i)) & MASK for i in range(4)]
    k0, k1 = key & MASK, key >> 64
    for _ in range(10):
        p0, p1 = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(p1 >> 64) ^ c[1] ^ k0, p1 & MASK, (p0 >> 64) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return c


@pytest.mark.parametrize("seed", [0, 1, 12345, (1 << 127) + 3])
def test_order_is_the_documented_one(seed):
    n = 103
    keys = [word for block in range(n // 4 + 1) for word in philox4x64_10(block + 1, seed)][:n]
    assert permutation(n, seed=seed).tolist() == sorted(range(n), key=lambda i: (keys[i], i))


def test_order_depends_on_the_seed_only():
    assert permutation(50, seed=1).tolist() != permutation(50, seed=2).tolist()


def test_digits_split_as_announced():
    parts = split(numbered(1797), {"train": 0.8, "test": 0.2})
    assert (parts["train"].n, parts["test"].n) == (1437, 360)


@pytest.mark.parametrize(
    ("n", "fractions", "counts"),
    [
        (60000, [0.8, 0.2], [48000, 12000]),
        (10, [0.1, 0.2, 0.7], [1, 2, 7]),
        (60000, [0.1] * 3 + [0.7], [6000, 6000, 6000, 42000]),
        (3, [1 / 3, 1 / 3, 1 / 3], [1, 1, 1]),
        (7, [1.0], [7]),
        (7, [0.5, 0.5], [3, 4]),
    ],
)
def test_rounding_rule(n, fractions, counts):
    parts = split(numbered(n), dict(zip(ROLES, fractions, strict=False)))
    assert [part.n for part in parts.values()] == counts


@given(st.integers(450, 900), st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(0, 2**64))
def test_parts_are_disjoint_and_complete(n, weights, seed):
    fractions = {role: weight / sum(weights) for role, weight in zip(ROLES, weights, strict=False)}
    parts = split(numbered(n), fractions, seed=seed)
    order = permutation(n, seed=seed).tolist()
    assert [number for part in parts.values() for number in part.x[:, 0].tolist()] == order
    for role, part in parts.items():
        assert part.role == role
        assert abs(part.n - n * fractions[role]) <= 1.0 + 1e-6


def test_counts_are_taken_as_they_are():
    parts = split(numbered(10), {"prior": 3, "certify": 7})
    assert [part.n for part in parts.values()] == [3, 7]


def test_unlabelled_parts_lose_their_labels():
    parts = split(numbered(30), {"train": 0.5, "unlabelled": 0.5})
    assert set(parts["unlabelled"].y.tolist()) == {0}
    assert set(parts["train"].y.tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "no part"),
        ({"validation": 1.0}, "validation"),
        ({"train": 0.5, "test": 0.4}, "add up to 0.9"),
        ({"train": 5, "test": 4}, "add up to 9; the sample has 10"),
        ({"train": 0.5, "test": 5}, "decimals"),
        ({"train": -0.5, "test": 1.5}, "negative"),
        ({"train": float("nan"), "test": 1.0}, "negative"),
        ({"train": 0.99, "test": 0.01}, None),
        ({"test": 0.01, "train": 0.99}, "'test'.*empty"),
        ({"train": 10, "test": 0}, "'test'.*empty"),
    ],
)
def test_refused_parts(parts, message):
    if message is None:
        assert split(numbered(10), parts)["test"].n == 1
        return
    with pytest.raises(UsageError, match=message):
        split(numbered(10), parts)


@pytest.mark.parametrize("seed", [-1, 1 << 128])
def test_refused_seeds(seed):
    with pytest.raises(UsageError, match="seed"):
        split(numbered(10), {"train": 1.0}, seed=seed)
