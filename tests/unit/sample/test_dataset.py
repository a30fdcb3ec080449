"""Samples: validation, scaling, content hash, parts that a second program finds too, shared examples."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from certificate_counts import hash_of
from hypothesis import given
from hypothesis import strategies as st
from worlds.samples import numbered, rows_of

from codebound.run.errors import CertificateError, DataError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.columns import text_cells
from codebound.sample.dataset import (
    ROLES,
    Sample,
    Scaling,
    count_copies,
    permutation,
    require_certifiable,
    require_disjoint,
)
from codebound.sample.load import split


@pytest.mark.parametrize("dtype", ["uint8", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("layout", ["plain", "transposed", "strided"])
def test_hash_has_the_documented_layout_for_every_memory_layout(dtype, layout):
    x = np.arange(7 * 2 * 3 * 4).reshape(7, 2, 3, 4).astype(dtype)
    x = {"plain": x, "transposed": x.transpose(0, 2, 3, 1), "strided": x[::2]}[layout]
    data = rows_of(x)
    assert data.sha256 == hash_of(x, data.y)


def test_hash_is_the_same_across_chunks(monkeypatch):
    data = rows_of(np.arange(100, dtype=np.float64).reshape(20, 5))
    whole = data.sha256
    monkeypatch.setattr("codebound.sample.dataset._PART_VALUES", 10)
    assert data.sha256 == whole


def test_hash_sees_shape_dtype_values_labels_and_order():
    x = np.arange(12, dtype=np.uint8).reshape(4, 3)
    hashes = {
        rows_of(x).sha256,
        rows_of(x.reshape(4, 3, 1)).sha256,
        rows_of(x.astype(np.float32)).sha256,
        rows_of(x + np.uint8(1)).sha256,
        rows_of(x, [1, 1, 1, 1]).sha256,
        rows_of(x[::-1]).sha256,
    }
    assert len(hashes) == 6


def test_hash_ignores_what_is_not_content():
    x = np.ones((2, 2), dtype=np.uint8)
    y = np.zeros(2, dtype=np.int64)
    other = Sample("b", "test", x, y, 7, Scaling(3.0), "somewhere", ("careful",))
    assert Sample("a", "train", x, y, 1).sha256 == other.sha256


@pytest.mark.parametrize("stored", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scaling_follows_its_formula_and_leaves_stored_values_alone(stored, dtype):
    x = np.random.default_rng(0).integers(0, 255, (4, 3, 2, 2)).astype(stored)
    scaling = Scaling(255.0, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
    data = Sample("d", "train", x.copy(), np.zeros(4, np.int64), 1, scaling)
    device = data.on("cpu")
    (inputs, _), *_ = device.chunks(4, dtype)
    mean, std = (np.array(v)[:, None, None] for v in (scaling.mean, scaling.std))
    np.testing.assert_allclose(inputs.numpy(), (x / 255.0 - mean) / std, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(data.x, x)
    np.testing.assert_array_equal(device.x.numpy(), x)


def test_batches_and_chunks_agree():
    data = rows_of(np.arange(30, dtype=np.uint8).reshape(10, 3)).on("cpu")
    x, y = data.batch(torch.arange(10))
    chunks = list(data.chunks(4))
    assert [len(part) for part, _ in chunks] == [4, 4, 2]
    assert torch.equal(torch.cat([part for part, _ in chunks]), x)
    assert torch.equal(torch.cat([part for _, part in chunks]), y)


def test_select_keeps_the_order_and_drops_labels_of_unlabelled_parts():
    data = rows_of(np.arange(8, dtype=np.uint8).reshape(4, 2), [0, 1, 2, 1])
    part = data.select([3, 0], role="certify")
    assert part.x.tolist() == [[6, 7], [0, 1]]
    assert part.y.tolist() == [1, 0]
    assert part.role == "certify"
    assert data.select([3, 0], role="unlabelled").y.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("x", "y", "classes", "message"),
    [
        (np.zeros(3, np.uint8), [0, 0, 0], 1, "shape"),
        (np.zeros((0, 3), np.uint8), [], 1, "at least one example"),
        (np.zeros((3, 0), np.uint8), [0, 0, 0], 1, "one feature"),
        (np.zeros((3, 2), np.int32), [0, 0, 0], 1, "from_arrays"),
        (np.zeros((3, 2), np.uint8), [0, 0], 1, "one per input"),
        (np.zeros((3, 2), np.uint8), [0, 0, 3], 3, r"\[0, 2\].*0 to 3"),
        (np.zeros((3, 2), np.uint8), [0, 0, -1], 3, "-1"),
        (np.full((3, 2), np.nan, np.float32), [0, 0, 0], 1, "NaN"),
        (np.full((3, 2), -np.inf, np.float32), [0, 0, 0], 1, "infinity"),
        (np.full((3, 2), -1.1e300), [0, 0, 0], 1, r"beyond 1e\+300"),
    ],
)
def test_refuses_what_is_no_sample(x, y, classes, message):
    with pytest.raises(DataError, match=message):
        Sample("d", "train", x, np.array(y, dtype=np.int64), classes)


def test_refuses_labels_that_are_not_int64():
    with pytest.raises(DataError, match="int64"):
        Sample("d", "train", np.zeros((2, 2), np.uint8), np.zeros(2, np.int32), 1)


def test_refuses_scaling_for_other_channels():
    with pytest.raises(DataError, match="2 constants for 3 channels"):
        Sample("d", "train", np.zeros((2, 3), np.uint8), np.zeros(2, np.int64), 1, Scaling(1.0, (0.0, 0.0)))


@pytest.mark.parametrize(
    "constants",
    [
        {"divisor": 0.0},
        {"divisor": float("nan")},
        {"divisor": float("inf")},
        {"std": (1.0, 0.0)},
        {"std": ()},
        {"mean": (float("inf"),)},
    ],
)
def test_refuses_useless_scaling(constants):
    with pytest.raises(DataError, match="scaling needs"):
        Scaling(**constants)


def test_a_part_is_a_copy():
    data = rows_of(np.arange(12, dtype=np.uint8).reshape(6, 2))
    first = data.on("cpu").part(0, 2)
    first.x.zero_()
    assert first.n == 2
    assert data.x[1].tolist() == [2, 3]
    assert data.on("cpu").part(0, 100).n == 6


def test_what_no_certificate_can_be_about_is_refused_before_anything_is_searched():
    stream = np.random.default_rng(0)
    with pytest.raises(DataError, match=r"inputs of shape \(2, 3, 4, 5\) have 4 axes.*x\.reshape"):
        require_certifiable(from_arrays(stream.random((20, 2, 3, 4, 5)), np.arange(20) % 2, name="deep"))
    require_certifiable(from_arrays(stream.random((20, 3, 4, 5)), np.arange(20) % 2, name="fine"))


@pytest.mark.parametrize(
    ("n", "labels", "is_refused"),
    [
        (100, 51, True),
        (100, 50, False),
        (99, 99, False),
        (5000, 1001, True),
        (5000, 1000, False),
        (100_100, 1001, False),
    ],
)
def test_labels_of_which_nearly_every_example_has_its_own_are_no_classes(n, labels, is_refused):
    sample = from_arrays(np.zeros((n, 1)), np.arange(n) % labels, name="many")
    if not is_refused:
        require_certifiable(sample)
        return
    with pytest.raises(
        DataError, match=f"{n} examples have {labels} different labels. So many are no classes"
    ):
        require_certifiable(sample)


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


@pytest.mark.parametrize(
    ("n", "fractions", "counts"),
    [
        (60000, [0.8, 0.2], [48000, 12000]),
        (1797, [0.8, 0.2], [1437, 360]),
        (10, [0.1, 0.2, 0.7], [1, 2, 7]),
        (60000, [0.1] * 3 + [0.7], [6000, 6000, 6000, 42000]),
        (3, [1 / 3, 1 / 3, 1 / 3], [1, 1, 1]),
        (7, [1.0], [7]),
        (7, [0.5, 0.5], [3, 4]),
        (10, [0.99, 0.01], [9, 1]),
        (10, [3, 7], [3, 7]),
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
        ({"test": 0.01, "train": 0.99}, "'test'.*empty"),
        ({"train": 10, "test": 0}, "'test'.*empty"),
    ],
)
def test_refused_parts(parts, message):
    with pytest.raises(UsageError, match=message):
        split(numbered(10), parts)


@pytest.mark.parametrize("seed", [-1, 1 << 128])
def test_refused_seeds(seed):
    with pytest.raises(UsageError, match="seed"):
        split(numbered(10), {"train": 1.0}, seed=seed)


ROWS = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=20)


@given(ROWS, ROWS)
def test_counts_equal_brute_force(a, b):
    assert count_copies(rows_of(a, dtype=np.uint8), rows_of(b, dtype=np.uint8)) == sum(r in a for r in b)


def test_images_in_any_memory_layout():
    x = np.random.default_rng(0).integers(0, 256, (20, 4, 5, 3), dtype=np.uint8).transpose(0, 3, 1, 2)
    assert count_copies(rows_of(x), rows_of(np.ascontiguousarray(x[5:9]))) == 4


@pytest.mark.parametrize(("dtype", "x"), [(np.uint8, [[1, 2, 3]]), (np.float32, [[1, 2]])])
def test_samples_of_another_kind_are_refused(dtype, x):
    with pytest.raises(DataError, match="cannot be compared"):
        count_copies(rows_of([[1, 2]], dtype=np.uint8), rows_of(x, dtype=dtype))


def test_cells_are_hashed_as_cells_and_nothing_else_is_taken_for_one():
    x = np.concatenate([np.array([1.5, -0.0, np.nan]), text_cells(["red"])])[:, None]
    sample = Sample("t", "train", x, np.array([0, 1, 0, 1]), 2, is_cells=True)
    patterns = [*np.array([1.5, -0.0]).view(np.uint64).tolist(), 0x7FF8 << 48]
    red = hashlib.sha256(b"red").hexdigest()[:12]
    content = b"".join(each.to_bytes(8, "little") for each in [*patterns, int(f"7ff9{red}", 16)])
    labels = b"int64|4|" + np.array([0, 1, 0, 1], "<i8").tobytes()
    assert sample.sha256 == hashlib.sha256(b"cells|4,1|" + content + labels).hexdigest()
    assert sample.inputs_sha256 == hashlib.sha256(b"cells|4,1|" + content).hexdigest()
    assert (
        sample.select([3, 2], role="test").sha256 == replace(sample, x=x[[3, 2]], y=sample.y[[3, 2]]).sha256
    )
    for pattern in (0xFFF8 << 48, (0x7FF8 << 48) + 1, 0x7FFA << 48, 0x7FF0 << 48):
        strange = np.array([[pattern], [0]], np.uint64).view(np.float64)
        with pytest.raises(DataError, match=r"cells are float64|infinity"):
            Sample("t", "train", strange, np.array([0, 1]), 2, is_cells=True)
    with pytest.raises(DataError, match="1e\\+300"):
        Sample("t", "train", np.array([[1.1e300], [np.nan]]), np.array([0, 1]), 2, is_cells=True)


def test_unlabelled_inputs_of_the_sample_are_no_fresh_ones():
    sample = from_arrays([[0.0, 1.0], [2.0, 3.0]], [0, 1], name="t")
    fresh = np.array([[-0.0, 1.0], [5.0, 5.0]], np.float32)
    with pytest.raises(CertificateError, match="1 of the 2 unlabelled inputs"):
        require_disjoint(from_arrays(fresh, None, name="u", role="unlabelled"), sample)
    require_disjoint(from_arrays(fresh[1:], None, name="u", role="unlabelled"), sample)
    words = [
        from_arrays(text_cells([each])[:, None], None, name="u", role="unlabelled") for each in ("a", "b")
    ]
    require_disjoint(*words)
    with pytest.raises(CertificateError):
        require_disjoint(words[0], words[0])
