"""The random stream against Philox in plain integers, and what its outputs stand for."""

import hashlib

import cbound_writer
import numpy as np
import pytest
from certificate_reader import PAGE
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.stream import Stream as ProductStream
from codebound_verify.networks.draws import quarters, signs, uniforms
from codebound_verify.networks.papers.random_tensors import _stream_rows
from codebound_verify.stream import Stream

MASK = 2**64 - 1


def philox(seed: int, name: str, block: int) -> list[int]:
    """Four outputs: Philox 4x64 with ten rounds (Salmon et al., 2011), for the counter ``block``."""
    digest = hashlib.sha256(f"codebound/{seed}/{name}".encode()).digest()
    key = [int.from_bytes(digest[i : i + 8], "little") for i in (0, 8)]
    c = [block, 0, 0, 0]
    for _ in range(10):
        first, second = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = [second >> 64 ^ c[1] ^ key[0], second & MASK, first >> 64 ^ c[3] ^ key[1], first & MASK]
        key = [key[0] + 0x9E3779B97F4A7C15 & MASK, key[1] + 0xBB67AE8584CAA73B & MASK]
    return c


SEEDS = st.integers(0, 2**41 - 2)
NAMES = st.sampled_from(["project", "fill", "ticket", "basis", "mix", "atoms", "hash", "sketch/left"])


@given(SEEDS, NAMES, st.integers(0, 2**40), st.integers(1, 30))
def test_outputs_at_any_place(seed, name, start, count):
    blocks = range(start // 4, (start + count) // 4 + 1)
    expected = [word for block in blocks for word in philox(seed, name, block + 1)]
    assert Stream(seed, name).words(start, count).tolist() == expected[start % 4 :][:count]


def test_the_numbers_of_the_page():
    """The counter of the first block is 1."""
    first = [0x8D386784A7B4FF0B, 0x5E063B57989EB9DE]
    assert Stream(0, "atoms").words(0, 2).tolist() == ProductStream(0, "atoms").words(2).tolist() == first
    assert cbound_writer.outputs(0, "atoms", 2) == philox(0, "atoms", 1)[:2] == first
    assert " ".join(f"{each:x}" for each in first) in PAGE


@given(SEEDS, NAMES, st.integers(0, 9), st.integers(1, 9), st.integers(1, 9), st.data())
def test_rows(seed, name, first, count, width, data):
    start = data.draw(st.integers(0, width - 1))
    stop = data.draw(st.integers(start + 1, width))
    stream = Stream(seed, name)
    whole = stream.words(0, (first + count) * width).reshape(-1, width)
    found = _stream_rows(stream, first, first + count, width=width, part=slice(start, stop))
    np.testing.assert_array_equal(found, whole[first:, start:stop])


WORDS = st.lists(st.integers(0, MASK), min_size=1, max_size=6)


@given(WORDS)
def test_what_outputs_stand_for(words):
    outputs = np.array([words, words[::-1]], np.uint64)
    assert signs(outputs)[0].tolist() == [1 - 2 * (word >> i & 1) for word in words for i in range(64)]
    assert quarters(outputs)[1].tolist() == [word.bit_count() - 32 for word in words[::-1]]
    parts = [word >> i & 0xFFFF for word in words for i in (0, 16, 32, 48)]
    assert uniforms(outputs)[0].tolist() == [2 * u - 65535 for u in parts]


@given(WORDS)
def test_popcounts_with_an_older_numpy(words):
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(np, "bitwise_count", raising=False)
        assert quarters(np.array(words, np.uint64)).tolist() == [word.bit_count() - 32 for word in words]
