"""Every code of a tensor beside a second one, written from docs/format.md with big integers and fractions.

The reference lists the symbols (cum, freq, total) of a tensor and codes them with an interval of unbounded
integers; golden bytes pin both.
"""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits import numbers
from codebound.bits.arithmetic import Reader, Writer
from codebound.bits.bitstring import Bits, join
from codebound.bits.numbers import FlagContexts, SymbolContext
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.codes.tensors import Adaptive, Codebook, Dense, Enumerative, Raw, Static, Zero

# ---------------------------------------------------------------- the code of docs/format.md, section 3


def interval(symbols):
    low, width, shifts = 0, 2**48, 0
    for cum, freq, total in symbols:
        r = width // total
        low, width = low + r * cum, (r * freq if cum + freq < total else width - r * cum)
        while width < 2**47:
            low, width, shifts = 2 * low, 2 * width, shifts + 1
    unit = Fraction(1, 2 ** (48 + shifts))
    return low * unit, (low + width) * unit


def shortest(start, stop):
    """Brute force: the first length at which a dyadic interval fits, then the first one that does."""
    for length in range(10_000):
        v = math.ceil(start * 2**length)
        if Fraction(v + 1, 2**length) <= stop:
            return format(v, f"0{length}b") if length else ""
    raise AssertionError


def reference_word(symbols):
    return shortest(*interval(symbols))


# ---------------------------------------------------------------- sections 4.1 to 4.7, as lists of symbols


def bit(b):
    return [(b, 1, 2)]


def uniform(v, T):
    if T == 1:
        return []
    if T <= 2**24:
        return [(v, 1, T)]
    top = (T - 1) // 2**16
    return uniform(v // 2**16, top + 1) + uniform(
        v % 2**16, (T - 1) % 2**16 + 1 if v // 2**16 == top else 2**16
    )


def gamma(k):
    binary = bin(k)[2:]
    return [s for c in "0" * (len(binary) - 1) + binary for s in bit(int(c))]


def signed(j):
    return gamma(2 * j + 1) if j >= 0 else gamma(-2 * j)


def float32(x):
    high, low = struct.unpack(">HH", struct.pack(">f", x))
    return uniform(high, 2**16) + uniform(low, 2**16)


class Context:
    def __init__(self, r):
        self.n = [0] * r

    def code(self, s):
        w = [2 * n + 1 for n in self.n]
        self.n[s] += 1
        if sum(self.n) == 2**20:
            self.n = [(n + 1) // 2 for n in self.n]
        return [(sum(w[:s]), w[s], sum(w))]


def mask(flags):
    out, k = uniform(sum(flags), len(flags) + 1), sum(flags)
    for i, flag in enumerate(flags):
        m = len(flags) - i
        if 0 < k < m:
            out.append((m - k, k, m) if flag else (0, m - k, m))
        k -= flag
    return out


def dense(q, j, L):
    return (
        gamma(3) + signed(j) + gamma(L) + [s for x in q.ravel().tolist() for s in uniform(x + L, 2 * L + 1)]
    )


def enumerative(q, j, L):
    values = [x for x in q.ravel().tolist() if x]
    out = gamma(4) + signed(j) + gamma(L) + mask([int(x != 0) for x in q.ravel().tolist()])
    return out + [s for x in values for s in uniform(x + L if x < 0 else x + L - 1, 2 * L)]


def codebook(index, table):
    out = gamma(5) + gamma(len(table)) + [s for x in table for s in float32(x)]
    out += mask([int(i > 0) for i in index.ravel().tolist()])
    return out + [s for i in index.ravel().tolist() if i for s in uniform(i - 1, len(table))]


def raw(values):
    return gamma(6) + [s for x in values.ravel().tolist() for s in float32(x)]


def adaptive(q, j, L, row_flags, column_flags, kind, stride):
    M = q.reshape(q.shape[0], -1).tolist() if q.ndim > 1 else [q.tolist()]
    R, C = len(M), len(M[0])
    out = gamma(1) + signed(j) + gamma(L) + bit(row_flags) + bit(column_flags)
    rows, columns = [1] * R, [1] * C
    if row_flags:
        rows = [int(any(row)) for row in M]
        context = Context(2)
        out += [s for f in rows for s in context.code(f)]
    if column_flags:
        columns = [int(any(row[c] for row in M)) for c in range(C)]
        context = Context(2)
        out += [s for f in columns for s in context.code(f)]
    out += uniform(kind, 4) + (gamma(stride) if kind == 3 else [])

    def is_nonzero(r, c):
        return int(r >= 0 and c >= 0 and M[r][c] != 0)

    flags = {}
    sign, size = Context(2), Context(L)
    for r in range(R):
        for c in range(C):
            if not (rows[r] and columns[c]):
                continue
            around = is_nonzero(r, c - 1) + 2 * is_nonzero(r, c - stride) + 4 * is_nonzero(r - 1, c)
            number = (0, c, r, around)[kind]
            x = M[r][c]
            out += flags.setdefault(number, Context(2)).code(int(x != 0))
            if x:
                out += sign.code(int(x < 0))
                if L > 1:
                    out += size.code(abs(x) - 1)
    return out


def static(q, j, L, F, log2):
    out = gamma(7) + signed(j) + gamma(L) + [s for f in F for s in gamma(f + 1)] + uniform(log2, 13)
    state, words = [2**24] * 2**log2, []
    for i, x in reversed(list(enumerate(q.ravel().tolist()))):
        lane, f, before = i % 2**log2, F[x + L], sum(F[: x + L])
        if state[lane] >= f * 2**24:
            words.insert(0, state[lane] % 2**16)
            state[lane] //= 2**16
        state[lane] = state[lane] // f * 2**16 + state[lane] % f + before
    return reference_word(out) + "".join(f"{s:040b}" for s in state) + "".join(f"{w:016b}" for w in words)


# ---------------------------------------------------------------- golden bytes

Q = np.array([[0, 2, 0, -1], [0, 0, 0, 0], [1, 0, -2, 0]], dtype=np.int32)
F = [8192, 8192, 40000, 4096, 5056]
TABLE = np.array([-0.5, 0.75, 3.0], dtype=np.float32)
INDEX = np.array([[0, 3, 0], [1, 0, 2]], dtype=np.int32)
VALUES = np.array([1.0, -0.0, 3.5e38 / 2], dtype=np.float32)

GOLDEN = {
    "adaptive": (
        Adaptive(Q, -21, 2, row_flags=1, column_flags=1, kind=3, stride=2),
        reference_word(adaptive(Q, -21, 2, 1, 1, 3, 2)),
        "47:82a5cf9e5a88",
    ),
    "zero": (Zero((3, 4)), reference_word(gamma(2)), "3:40"),
    "dense": (Dense(Q, -21, 2), reference_word(dense(Q, -21, 2)), "46:60a94a0906d0"),
    "enumerative": (Enumerative(Q, 5, 2), reference_word(enumerative(Q, 5, 2)), "36:20b4b31690"),
    "codebook": (
        Codebook(INDEX, TABLE),
        reference_word(codebook(INDEX, TABLE.tolist())),
        "117:2bbf0000003f400000404000007828",
    ),
    "raw": (Raw(VALUES), reference_word(raw(VALUES)), "101:31fc00000400000003f81d3e30"),
    "static": (
        Static(Q, -21, 2, table=np.array(F), lanes_log2=1),
        static(Q, -21, 2, F, 1),
        "239:382a4000800400100080009c410008008004f0460734badd0005d71de100",
    ),
}


def text(golden):
    """``length:hex``, the bits that fill the last byte being zero."""
    return (
        str(len(golden))
        + ":"
        + "".join(f"{int(golden[i : i + 8].ljust(8, '0'), 2):02x}" for i in range(0, len(golden), 8))
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name):
    code, expected, pinned = GOLDEN[name]
    assert text(expected) == pinned
    message = encode_tensors([code])
    assert f"{message.length}:{message.data.hex()}" == pinned
    (decoded,) = decode_tensors(message, [code.shape])
    assert type(decoded) is type(code)
    assert decoded.weights().tobytes() == code.weights().tobytes()


# ---------------------------------------------------------------- the same, for all tensors

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
    assert str(encode_tensors([Dense(q, step, limit)])) == reference_word(dense(q, step, limit))
    assert str(encode_tensors([Enumerative(q, step, limit)])) == reference_word(enumerative(q, step, limit))


@given(st.integers(1, 3).flatmap(lambda limit: st.tuples(levels(limit), st.just(limit))), STEPS, st.data())
def test_adaptive(pair, step, data):
    q, limit = pair
    rows, columns = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    kind, stride = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 9))
    ours = Adaptive(q, step, limit, row_flags=rows, column_flags=columns, kind=kind, stride=stride)
    assert str(encode_tensors([ours])) == reference_word(
        adaptive(q, step, limit, rows, columns, kind, stride)
    )


@given(levels(2), STEPS, st.integers(0, 4))
def test_static(q, step, log2):
    ours = Static(q, step, 2, table=np.array(F), lanes_log2=log2)
    assert str(encode_tensors([ours])) == static(q, step, 2, F, log2)


# ---------------------------------------------------------------- coder and end rule


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
    assert str(word) == reference_word(symbols)
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
        assert str(writer.finish()) == reference_word(case)


def test_contexts_halve_their_counts():
    writer, flags, sizes = Writer(), FlagContexts(), SymbolContext(3)
    flags._zero, flags._total = [2 * (2**20 - 9) + 1], [2 * (2**20 - 2) + 2]
    sizes._build([2 * 5 + 1, 2 * (2**20 - 9) + 1, 2 * 2 + 1])
    binary, ternary = Context(2), Context(3)
    binary.n, ternary.n = [2**20 - 9, 7], [5, 2**20 - 9, 2]
    symbols = []
    for value in (1, 0, 1, 1, 0, 2, 1, 0):
        symbols += binary.code(value % 2) + ternary.code(value)
        flags.code(writer, value % 2)
        sizes.code(writer, value)
    assert max(binary.n) < 2**19 + 9
    assert max(ternary.n) < 2**19 + 9
    assert str(writer.finish()) == reference_word(symbols)


@given(st.integers(0, 2**70), st.integers(1, 2**70))
def test_uniform_beyond_24_bits(value, total):
    value %= total
    writer = Writer()
    numbers.uniform(writer, value, total)
    word = writer.finish()
    assert str(word) == reference_word(uniform(value, total))
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
