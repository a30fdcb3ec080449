"""Every code of a tensor, the coder and its end rule beside the literal writer and its big integers."""

import math

import cbound_writer as reference
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits import numbers
from codebound.bits.arithmetic import Reader, Writer
from codebound.bits.bitstring import Bits, join
from codebound.bits.numbers import FlagContexts, SymbolContext
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.codes.tensors import Adaptive, Dense, Enumerative, Static

F = [8192, 8192, 40000, 4096, 5056]


def word_of(symbols):
    """The word of a list of (cum, freq, total)."""
    coder = reference.Coder()
    for symbol in symbols:
        coder.symbol(*symbol)
    return coder.end()


def bits_of(tensor):
    coder = reference.Coder()
    tensor.write(coder, "")
    return coder.end() + "".join(block for _, block in coder.blocks)


SHAPES = st.sampled_from([(1,), (5,), (2, 3), (4, 1), (1, 4), (3, 2, 2)])


@st.composite
def levels(draw, limit):
    shape = draw(SHAPES)
    size = math.prod(shape)
    values = draw(st.lists(st.integers(-limit, limit), min_size=size, max_size=size))
    return np.array(values, dtype=np.int32).reshape(shape)


STEPS = st.sampled_from([-1000, -17, 0, 3, 1000])


@given(levels(3), STEPS, st.integers(3, 5))
def test_dense_and_enumerative(q, step, limit):
    for ours, theirs in ((Dense, reference.dense), (Enumerative, reference.enumerative)):
        assert str(encode_tensors([ours(q, step, limit)])) == bits_of(theirs(q, step, limit=limit))


@given(st.integers(1, 3).flatmap(lambda limit: st.tuples(levels(limit), st.just(limit))), STEPS, st.data())
def test_adaptive(pair, step, data):
    q, limit = pair
    rows, columns = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    kind, stride = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 9))
    ours = Adaptive(q, step, limit, row_flags=rows, column_flags=columns, kind=kind, stride=stride)
    theirs = reference.adaptive(q, step, limit=limit, rows=rows, columns=columns, kind=kind, stride=stride)
    assert str(encode_tensors([ours])) == bits_of(theirs)


@given(levels(2), STEPS, st.integers(0, 4))
def test_static(q, step, log2):
    ours = Static(q, step, 2, table=np.array(F), lanes_log2=log2)
    assert str(encode_tensors([ours])) == bits_of(reference.static(q, step, limit=2, lanes_log=log2, table=F))


@st.composite
def triples(draw):
    total = draw(st.sampled_from([2, 3, 7, 255, 2**20, 2**24 - 1, 2**24]))
    cum = draw(st.integers(0, total - 1))
    return cum, draw(st.integers(1, total - cum)), total


@given(st.lists(triples(), max_size=60))
def test_writer_and_reader_follow_the_page(symbols):
    writer = Writer()
    for cum, freq, total in symbols:
        writer.locate(cum, total)
        writer.narrow(cum, freq, total)
    word = writer.finish()
    assert str(word) == word_of(symbols)
    reader = Reader(word)
    for cum, freq, total in symbols:
        assert cum <= reader.locate(0, total) < cum + freq
        reader.narrow(cum, freq, total)
    assert reader.finish() == word.length
    assert reader.shifts == writer.shifts <= word.length <= writer.shifts + 2


def test_a_long_carry_reaches_the_front():
    # Ones until the low end is just below a power of two, then a symbol that pushes it over.
    symbols = [(0, 1, 2)] + [(1, 1, 2)] * 500 + [(2**24 - 1, 1, 2**24), (1, 2, 3)] * 3
    lower = [(0, 2, 3)] + [(2**23 - 1, 2**23, 2**24)] * 300
    for case in (symbols, lower):
        writer = Writer()
        for cum, freq, total in case:
            writer.narrow(cum, freq, total)
        assert str(writer.finish()) == word_of(case)


def test_contexts_halve_their_counts():
    writer, flags, sizes = Writer(), FlagContexts(), SymbolContext(3)
    flags._zero, flags._total = [2 * (2**20 - 9) + 1], [2 * (2**20 - 2) + 2]
    sizes._build([2 * 5 + 1, 2 * (2**20 - 9) + 1, 2 * 2 + 1])
    coder, binary, ternary = reference.Coder(), reference.Context(2), reference.Context(3)
    binary.counts, ternary.counts = [2**20 - 9, 7], [5, 2**20 - 9, 2]
    for value in (1, 0, 1, 1, 0, 2, 1, 0):
        binary.code(coder, value % 2)
        ternary.code(coder, value)
        flags.code(writer, value % 2)
        sizes.code(writer, value)
    assert max(binary.counts) < 2**19 + 9
    assert max(ternary.counts) < 2**19 + 9
    assert str(writer.finish()) == coder.end()


@given(st.integers(0, 2**70), st.integers(1, 2**70))
def test_uniform_beyond_24_bits(value, total):
    value %= total
    writer = Writer()
    numbers.uniform(writer, value, total)
    word = writer.finish()
    coder = reference.Coder()
    coder.uniform(value, total)
    assert str(word) == coder.end()
    assert numbers.uniform(Reader(word), 0, total) == value
    assert word.length <= math.log2(total) + 3


@given(st.binary(max_size=12), st.binary(max_size=12), st.data())
def test_whole_bytes_and_join_against_strings(first, second, data):
    def cut(octets):
        length = data.draw(st.integers(max(0, 8 * len(octets) - 7), 8 * len(octets)))
        string = "".join(f"{b:08b}" for b in octets)[:length]
        whole = int(string.ljust(8 * len(octets), "0") or "0", 2).to_bytes(len(octets), "big")
        return string, Bits(whole, length)

    (a, x), (b, y) = cut(first), cut(second)
    both = join(x, y)
    assert str(both) == a + b
    start, most = data.draw(st.integers(0, 100)), data.draw(st.integers(0, 30))
    rest = (a + b)[start:]
    count = min(len(rest) // 8, most)
    assert both.whole_bytes(start, most) == bytes(int(rest[8 * i : 8 * i + 8], 2) for i in range(count))
