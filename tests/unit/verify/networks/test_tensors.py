"""Every mode of a tensor is read as it was written; the bell-shaped law against mpmath and by hand."""

import itertools
import time

import cbound_writer as writer
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from codebound_verify.arithmetic import Decoder, grid
from codebound_verify.networks.papers.random_tensors import READERS
from codebound_verify.networks.tensors import (
    BELL_LIMIT,
    CODES,
    DECAYS,
    OF_THE_PAPERS,
    Blocks,
    Content,
    Static,
    borders,
    frequencies,
    read_tensor,
    to_float32,
)
from codebound_verify.refusal import Refused

SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, max_side=5)
STEPS = st.integers(-1000, 900)


def sparse(limit: int):
    return arrays.arrays(np.int64, SHAPES, elements=st.integers(-limit, limit) | st.just(0), fill=st.just(0))


def read(tensor: writer.Tensor, shape=None, base=None):
    coder = writer.Coder()
    tensor.write(coder, "t")
    word = coder.end()
    bits = word + "".join(block for _, block in coder.blocks)
    message = writer.pack_bits(bits)
    decoder = Decoder(message, len(bits))
    shape = tensor.values.shape if shape is None else shape
    (content,) = read_tensor(decoder, shape).parts
    assert decoder.finish() == len(word)
    if isinstance(content, Static):
        content, used = Blocks(message, len(word), len(bits)).read(content)
        assert len(word) + used == len(bits)
    return to_float32(content.values(), shape, base)


def expect(tensor: writer.Tensor) -> None:
    np.testing.assert_array_equal(read(tensor), tensor.values.astype(np.float32))


@given(sparse(9), STEPS, st.booleans(), st.booleans(), st.integers(0, 3), st.integers(1, 4))
def test_adaptive(q, j, rows, columns, kind, stride):
    expect(writer.adaptive(q, j, rows=rows, columns=columns, kind=kind, stride=stride))


@given(sparse(4000), STEPS)
def test_adaptive_with_a_large_alphabet(q, j):
    expect(writer.adaptive(q, j, limit=4096))


@given(sparse(2**20), st.integers(-1000, 800))
def test_dense(q, j):
    expect(writer.dense(q, j))


@given(sparse(2**20), st.integers(-1000, 800))
def test_enumerative(q, j):
    expect(writer.enumerative(q, j))


@pytest.mark.parametrize("limit", [1, 127, 128, 4096, 2**15 - 1, 2**15, 2**20])
def test_the_largest_elements_of_every_limit_fit(limit):
    """Elements are held in integers of 8, 16 or 32 bits, whichever are enough."""
    q = np.array([-limit, limit, 0, 1 - limit])
    expect(writer.dense(q))
    expect(writer.enumerative(q))
    if limit <= 4096:
        expect(writer.adaptive(q))
        expect(writer.static(q))
        expect(writer.static(np.tile(q, 40), lanes_log=5))


@pytest.mark.parametrize("where", [[1, 1, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0]])
def test_the_last_value_of_the_largest_codebook(where):
    expect(writer.codebook(np.arange(1, 257), [255 if here else -1 for here in where]))


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9), st.data()
)
def test_codebook(book, data):
    index = data.draw(arrays.arrays(np.int64, SHAPES, elements=st.integers(-1, len(book) - 1)))
    expect(writer.codebook(book, index))


@given(arrays.arrays(np.float32, SHAPES, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_raw(values):
    expect(writer.raw(values))


@given(SHAPES)
def test_zero(shape):
    expect(writer.zero(shape))


@given(sparse(255), STEPS, st.integers(0, 63))
def test_bell(q, j, width):
    expect(writer.bell(q, j, width=width))


@given(sparse(30), STEPS, st.integers(0, 12))
def test_static(q, j, lanes_log):
    expect(writer.static(q, j, lanes_log=lanes_log))


def test_static_of_one_value_takes_no_words():
    expect(writer.static(np.full(100, 3), lanes_log=3))


def test_two_blocks_follow_each_other_at_any_bit():
    random = np.random.default_rng(0)
    first, second = (writer.static(random.integers(-3, 4, size), lanes_log=2) for size in (50, 71))
    coder = writer.Coder()
    first.write(coder, "a")
    second.write(coder, "b")
    word = coder.end()
    bits = word + "".join(block for _, block in coder.blocks)
    decoder = Decoder(writer.pack_bits(bits), len(bits))
    tables = [*read_tensor(decoder, (50,)).parts, *read_tensor(decoder, (71,)).parts]
    blocks = Blocks(writer.pack_bits(bits), decoder.finish(), len(bits))
    for table, tensor in zip(tables, (first, second), strict=True):
        content, _ = blocks.read(table)
        np.testing.assert_array_equal(to_float32(content.values(), tensor.values.shape, None), tensor.values)


@given(st.integers(-8000, 8000))
def test_the_grid_is_that_of_eighths_of_octaves(j):
    assert grid(j) == writer.step(j)
    assert abs(np.log2(grid(j)) - j / 8) < 1e-6


def test_rounding_is_once_and_to_even():
    # 2^24 + 1 lies between two float32 numbers; with a base of one half the sum lies above the middle.
    values = Content(np.array([2**24 + 1, 2**24 + 3], np.int32)).values()
    np.testing.assert_array_equal(to_float32(values, (2,), None), np.float32([2**24, 2**24 + 4]))
    base = np.float32([0.5, -0.5])
    np.testing.assert_array_equal(to_float32(values, (2,), base), np.float32([2**24 + 2, 2**24 + 2]))


def test_an_overflow_is_refused():
    with pytest.raises(Refused, match="too large"):
        read(writer.dense([8], 1000))
    with pytest.raises(Refused, match="too large"):
        read(writer.raw([3e38]), base=np.float32([3e38]))


def number(*values: int):
    """A tensor of gamma-coded numbers, to say what no writer would."""

    def write(coder: writer.Coder, name: str) -> None:
        for value in values:
            coder.gamma(value)

    return writer.Tensor(write, np.zeros(1))


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ((15,), "no tensor mode 15"),
        ((3, 2 * 1001 + 1), "exponent 1001"),
        ((3, 2 * 1001), "exponent -1001"),
        ((3, 1, 2**20 + 1), "largest element L is 1048577"),
        ((1, 1, 2**12 + 1), "largest element L is 4097"),
        ((7, 1, 2**12 + 1), "largest element L is 4097"),
        ((14, 2 * 1001), "exponent -1001"),
        ((5, 257), "codebook is 257"),
        ((7, 1, 1, 1, 2**16, 1), "add up to 65535"),
    ],
)
def test_what_the_page_forbids_is_refused(numbers, reason):
    with pytest.raises(Refused, match=reason):
        read(number(*numbers))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda block: block[:-16], "ends inside a block"),
        (lambda block: block[:79], "ends inside a block"),
        (lambda block: "0" * 17 + block[17:], "state below"),
        (lambda block: block[:-1] + ("1" if block[-1] == "0" else "0"), "does not end in the state"),
    ],
)
def test_a_damaged_block_is_refused(damage, reason):
    tensor = writer.static(np.arange(200) % 7 - 3, lanes_log=1)
    coder = writer.Coder()
    tensor.write(coder, "t")
    word, bits = coder.end(), damage(coder.blocks[0][1])
    decoder = Decoder(writer.pack_bits(word + bits), len(word + bits))
    (table,) = read_tensor(decoder, (200,)).parts
    with pytest.raises(Refused, match=reason):
        Blocks(writer.pack_bits(word + bits), len(word), len(word + bits)).read(table)


def test_a_long_block_is_read_quickly():
    """2.5 million elements in 4096 lanes; the writer here is a vectorised copy of the literal one."""
    random = np.random.default_rng(0)
    q = np.clip(np.round(random.normal(0, 1.5, 2_500_000)), -8, 8).astype(np.int64)
    table = np.array(writer.frequencies(q, 8), np.uint64)
    below = np.cumsum(table) - table
    lanes = 4096
    state, words = np.full(lanes, 2**24, np.uint64), []
    for start in reversed(range(0, q.size, lanes)):
        symbol = q[start : start + lanes] + 8
        active, freq = state[: symbol.size], table[symbol]
        full = np.flatnonzero(active >= freq << np.uint64(24))
        words.append((active[full] & np.uint64(0xFFFF))[::-1])
        active[full] >>= np.uint64(16)
        active[:] = (active // freq << np.uint64(16)) + below[symbol] + active % freq
    states = state.astype(">u8").view(np.uint8).reshape(lanes, 8)[:, 3:]
    stream = states.tobytes() + np.concatenate(words)[::-1].astype(">u2").tobytes()
    blocks = Blocks(stream, 0, 8 * len(stream))
    start = time.perf_counter()
    content, used = blocks.read(Static(q.size, 8, table.astype(np.uint32), lanes, 0))
    assert time.perf_counter() - start < 2
    assert used == 8 * len(stream)
    np.testing.assert_array_equal(content.data, q)


def test_every_mode_has_one_reader():
    assert list(READERS) == list(OF_THE_PAPERS)
    assert sorted([*CODES, *READERS]) == list(range(1, 15))


WIDTHS = range(64)


def scale(width: int) -> mpmath.mpf:
    return mpmath.mpf(2) ** (mpmath.mpf(width) / 8 - 2)


def is_logistic(weights: list[int], width: int) -> bool:
    """W_k - 1 is 2^16 sech^2(k / 2s), rounded down, up to the rounding of r."""
    decay = mpmath.exp(-1 / scale(width))
    for k, weight in enumerate(weights):
        exact = 2**16 * mpmath.sech(k / (2 * scale(width))) ** 2
        allowed = exact * ((1 + mpmath.mpf(2) ** -17 / decay) ** k - 1) + 0.02
        if not -1 - allowed < weight - 1 - exact < allowed:
            return False
    return True


@pytest.mark.thorough
def test_the_decays_are_exponentials():
    assert len(DECAYS) == 64
    with mpmath.workdps(40):
        assert [int(mpmath.nint(2**16 * mpmath.exp(-1 / scale(i)))) for i in WIDTHS] == list(DECAYS)


@pytest.mark.few(3)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_weights_are_those_of_a_logistic_density(width):
    weights = frequencies(width)
    assert len(weights) == BELL_LIMIT + 1
    with mpmath.workdps(40):
        assert is_logistic(weights, width)
        assert not is_logistic(frequencies((width + 1) % 64), width)  # teeth
        assert not is_logistic([weight + 2 for weight in weights], width)


@pytest.mark.few(25)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_integer_has_an_interval_and_so_has_its_negative(width):
    starts = borders(width)
    sizes = [stop - start for start, stop in itertools.pairwise(starts)]
    assert len(sizes) == 2 * BELL_LIMIT + 1
    assert min(sizes) >= 1
    assert sizes == sizes[::-1]
    assert sizes[BELL_LIMIT:] == frequencies(width)
    assert starts[0] == 0
    assert starts[-1] <= 2**24


# Width 0 has W = 65537, 4629, 88, 2 and 252 ones: the total is 75479, and 0 has the part [0.0659, 0.9341) of
# the interval, 1 has [0.9341, 0.9955), 255 the last 1/75479 and -255 the first; 2^-17 < 1/75479 < 2^-16.
@pytest.mark.parametrize(
    ("integers", "word"),
    [
        ([0], "01"),
        ([0, 0], "01"),  # [0.1231, 0.8770)
        ([1], "11110"),
        ([-1], "00001"),
        ([255], "1" * 17),
        ([-255], "0" * 17),
    ],
)
def test_code_words_computed_by_hand(integers, word):
    word = "1" + "000000" + word  # signed(0), then uniform(0, 64)
    decoder = Decoder(writer.pack_bits(word), len(word))
    assert CODES[14](decoder, 1, len(integers)).data.tolist() == integers
    assert decoder.finish() == len(word)


def test_a_message_that_ends_is_refused():
    with pytest.raises(Refused, match="ends inside its code word"):
        CODES[14](Decoder(b"\x80", 1), 1, 1)


def test_the_limit_of_a_bell_is_that_of_the_law_and_not_of_its_integers():
    """2^10 k b^2 255 is above 2^53 for k = b = 2^12, and below it for k = 2^11 (4.12)."""
    zeros = writer.bell([0] * 2**12, width=0)
    for mixes in (2**11, 2**12):
        coder = writer.Coder()
        for number in (12, 2**12, mixes, 1):
            coder.gamma(number)
        zeros.write(coder, "t")
        word = coder.end()
        decoder = Decoder(writer.pack_bits(word), len(word))
        if mixes == 2**11:
            (part,) = read_tensor(decoder, (3, 4)).parts
            assert part.limit == BELL_LIMIT
        else:
            with pytest.raises(Refused, match=r"at most 2\^53"):
                read_tensor(decoder, (3, 4))
