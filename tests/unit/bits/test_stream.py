"""The stream of helpers beside Philox4x64-10 in plain integers."""

import hashlib

import numpy as np
import pytest

from codebound.bits.stream import Stream

MASK = 2**64 - 1
GOLDEN = ["ee4c9d1a7ef2d534", "5e7986fdc83b100e", "0c92c6284872a7be", "3d6984a5affea021"]


def philox_block(counter, key):
    """Ten rounds of Philox 4x64 on one counter."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [right >> 64 ^ c[1] ^ k0, right & MASK, left >> 64 ^ c[3] ^ k1, left & MASK]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return c


def words(seed, name, count):
    digest = hashlib.sha256(b"codebound/%d/%s" % (seed, name.encode())).digest()
    key = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")
    blocks = [philox_block([i + 1, 0, 0, 0], key) for i in range(-(-count // 4))]
    return [w for block in blocks for w in block][:count]


@pytest.mark.parametrize(("seed", "name"), [(0, "split"), (12345678901234567890, "signs"), (7, "")])
def test_words_signs_and_gaussians(seed, name):
    expected = words(seed, name, 11)
    assert Stream(seed, name).words(11).tolist() == expected
    bits = [w >> i & 1 for w in expected for i in range(64)]
    assert Stream(seed, name).signs(650).tolist() == [1 - 2 * b for b in bits[:650]]
    assert Stream(seed, name).gaussian_quarters(11).tolist() == [bin(w).count("1") - 32 for w in expected]


def test_golden_words():
    assert [f"{w:016x}" for w in words(0, "split", 4)] == GOLDEN
    assert [f"{w:016x}" for w in Stream(0, "split").words(4).tolist()] == GOLDEN


def test_the_published_known_answer():
    # Random123, kat_vectors: philox4x64, 10 rounds, counter and key zero.
    assert [f"{w:016x}" for w in philox_block([0] * 4, (0, 0))] == [
        "16554d9eca36314c",
        "db20fe9d672d0fdc",
        "d7e772cee186176b",
        "7e68b68aec7ba23b",
    ]


def test_a_stream_continues():
    stream = Stream(0, "split")
    parts = np.concatenate([stream.words(3), stream.words(6)])
    assert parts.tolist() == words(0, "split", 9)
