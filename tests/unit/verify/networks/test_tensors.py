"""Every mode of a tensor, written by hand and read by two programs; modes 8 to 13 against plain integers."""

import hashlib
import math
import struct

import certificate_reader
import network_reader
import numpy as np
import pytest
from code_writer import encoded, packed, within
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import linprog

from codebound_verify.message import Bits
from codebound_verify.networks.arithmetic import Decoder, Witness, grid
from codebound_verify.networks.papers.sketch import Sketch, proven
from codebound_verify.networks.tensors import Blocks, Static, read_tensor, to_float32
from codebound_verify.refusal import Refused

SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, max_side=5)
STEPS = st.integers(-1000, 800)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def integers(limit: int):
    return arrays.arrays(np.int64, SHAPES, elements=st.integers(-limit, limit) | st.just(0), fill=st.just(0))


def signed(j: int) -> int:
    """The number whose gamma code is that of an integer with a sign."""
    return 2 * j + 1 if j >= 0 else -2 * j


def matrix(q) -> np.ndarray:
    return q.reshape(q.shape[0] if q.ndim > 1 else 1, -1)


def adaptive(q, j=0, *, limit=None, rows=False, columns=False, kind=0, stride=1) -> list:
    q = matrix(np.asarray(q))
    limit = limit or max(1, int(np.abs(q).max(initial=1)))
    steps = [1, signed(j), limit, f"{int(rows)}{int(columns)}"]
    flags = [0, 0]
    for is_flagged, axis in ((rows, 1), (columns, 0)):
        steps += [within(flags, int(any_of)) for any_of in q.any(axis)] if is_flagged else []
    steps += [(kind, 4)] + ([stride] if kind == 3 else [])
    zeros = [[0, 0] for _ in range((1, q.shape[1], q.shape[0], 8)[kind])]
    signs, sizes = [0, 0], [0] * limit
    for (row, column), value in np.ndenumerate(q):
        if (rows and not q[row].any()) or (columns and not q[:, column].any()):
            continue
        near = [
            column >= 1 and q[row, column - 1],
            column >= stride and q[row, column - stride],
            row and q[row - 1, column],
        ]
        place = (0, column, row, sum(bool(each) << bit for bit, each in enumerate(near)))[kind]
        steps.append(within(zeros[place], int(value != 0)))
        if value:
            steps.append(within(signs, int(value < 0)))
            if limit > 1:
                steps.append(within(sizes, abs(int(value)) - 1))
    return steps


def dense(q, j=0, limit=None) -> list:
    limit = limit or max(1, int(np.abs(q).max(initial=1)))
    return [3, signed(j), limit, *((int(value) + limit, 2 * limit + 1) for value in np.ravel(q))]


def mask(where) -> list:
    where = [bool(each) for each in np.ravel(where)]
    left, steps = sum(where), [(sum(where), len(where) + 1)]
    for place, is_on in enumerate(where):
        to_go = len(where) - place
        if 0 < left < to_go:
            steps.append((to_go - left, left, to_go) if is_on else (0, to_go - left, to_go))
        left -= is_on
    return steps


def enumerative(q, j=0) -> list:
    limit = max(1, int(np.abs(q).max(initial=1)))
    values = [int(value) for value in np.ravel(q) if value]
    return [4, signed(j), limit, *mask(q), *((v + limit - (v > 0), 2 * limit) for v in values)]


def codebook(book, index) -> list:
    kept = [int(i) for i in np.ravel(index) if i >= 0]
    return [5, len(book), *map(float, book), *mask(np.ravel(index) >= 0), *((i, len(book)) for i in kept)]


def bell(q, j=0, width=20) -> list:
    freqs = network_reader.bell(width)
    return [
        14,
        signed(j),
        (width, 64),
        *((sum(freqs[: v + 255]), freqs[v + 255], sum(freqs)) for v in np.ravel(q)),
    ]


def static(q, j=0, lanes_log=2, more=0, last=1 << 24) -> tuple[list, str]:
    """A table with frequencies for what occurs, and the block, written from its end."""
    flat = [int(value) for value in np.ravel(q)]
    limit = max(1, max(map(abs, flat))) + more
    values = sorted({*flat})
    freqs = dict.fromkeys(values, 1)
    freqs[values[0]] += (1 << 16) - len(values)
    table = [freqs.get(value, 0) for value in range(-limit, limit + 1)]
    below, lanes = np.cumsum([0, *table]).tolist(), 1 << lanes_log
    states, words = [last] * lanes, []
    groups = [range(start, min(start + lanes, len(flat))) for start in range(0, len(flat), lanes)]
    for group in reversed(groups):
        for i in reversed(group):  # words are taken in the order of lanes, so given in the other one
            freq, cum, lane = table[flat[i] + limit], below[flat[i] + limit], i % lanes
            if states[lane] >= freq << 24:
                words.append(states[lane] & 0xFFFF)
                states[lane] >>= 16
            states[lane] = (states[lane] // freq << 16) + states[lane] % freq + cum
    bits = "".join(f"{state:040b}" for state in states) + "".join(f"{word:016b}" for word in reversed(words))
    return [7, signed(j), limit, *(each + 1 for each in table), (lanes_log, 13)], bits


def read(steps, shape, *, block="", base=None, front="", witness=b""):
    """The tensor that this program reads; nothing may be left over."""
    word = front + encoded(*steps)
    bits = Bits(*packed(word + block))
    bits.bits(len(front))
    proofs = Witness(witness)
    decoder = Decoder(bits, proofs)
    recipe = read_tensor(decoder, shape)
    decoder.note("t")
    decoder.finish()
    assert bits.place == len(word)
    blocks = Blocks(bits)
    parts = [blocks.read(part, "t") if isinstance(part, Static) else part for part in recipe.parts]
    values = to_float32(recipe.make(*parts), shape, base)
    bits.finish()
    proofs.finish()
    assert sum(count for _, count in bits.ledger) == len(word) - len(front) + len(block)
    return values


def expect(steps, values, *, block="", is_known=True, **others) -> None:
    """Both programs, and what the test says; one bit more or less is no longer the code word of this."""
    found = read(steps, values.shape, block=block, **others)
    np.testing.assert_array_equal(found, values.astype(np.float32))
    assert found.dtype == np.float32
    if is_known:
        plain = certificate_reader.Bits(*packed(encoded(*steps) + block))
        decoder = network_reader.Decoder(plain)
        tensor = decoder.tensor(values.shape)
        decoder.end()
        other = tensor(plain) if callable(tensor) else tensor
        np.testing.assert_array_equal(found, other.astype(np.float32))


@given(integers(9), STEPS, st.booleans(), st.booleans(), st.integers(0, 3), st.integers(1, 4))
def test_mode_1(q, j, rows, columns, kind, stride):
    expect(adaptive(q, j, rows=rows, columns=columns, kind=kind, stride=stride), q * grid(j))


def test_flags_of_rows_and_columns_share_one_context():
    q = np.zeros((4, 3), int)
    q[1, 2] = 1
    word = encoded(*adaptive(q, rows=True, columns=True))
    flags, apart = [0, 0], []
    for axis in (1, 0):
        apart += [within(flags, int(each)) for each in q.any(axis)]
        flags = [0, 0]
    steps = adaptive(q, rows=True, columns=True)
    other = encoded(*steps[:4], *apart, *steps[4 + len(apart) :])
    assert word != other
    expect(adaptive(q, rows=True, columns=True), q)


def test_mode_1_with_the_largest_alphabet_and_counts_that_are_halved():
    expect(adaptive([4096, -4096, 1, 0], limit=4096), np.array([4096, -4096, 1, 0]))


def test_mode_2():
    expect([2], np.zeros((3, 2)))


@given(integers(2**20), STEPS)
def test_mode_3(q, j):
    expect(dense(q, j), q * grid(j))


@given(integers(2**20), STEPS)
def test_mode_4(q, j):
    expect(enumerative(q, j), q * grid(j))


@given(st.lists(FLOATS, min_size=1, max_size=9), st.data())
def test_mode_5(book, data):
    index = data.draw(arrays.arrays(np.int64, SHAPES, elements=st.integers(-1, len(book) - 1)))
    expect(codebook(book, index), np.where(index < 0, 0, np.array([*book, 0.0])[index]))


@given(arrays.arrays(np.float32, SHAPES, elements=FLOATS))
def test_mode_6(values):
    expect([6, *map(float, values.ravel())], values)


@given(integers(30), STEPS, st.integers(0, 12), st.integers(0, 3))
def test_mode_7(q, j, lanes_log, more):
    steps, block = static(q, j, lanes_log, more)
    expect(steps, q * grid(j), block=block)


@pytest.mark.parametrize("lanes_log", [0, 3, 5, 7])
def test_long_blocks_begin_at_any_bit(lanes_log):
    q = np.random.default_rng(lanes_log).integers(-3, 4, 700)
    steps, block = static(q, 0, lanes_log)
    for front in ("", "1", "111110"):
        np.testing.assert_array_equal(read(steps, (700,), block=block, front=front), q)


@given(integers(255), STEPS, st.integers(0, 63))
def test_mode_14(q, j, width):
    expect(bell(q, j, width), q * grid(j))


# Modes 8 to 13, from the outputs of numpy's Philox and loops over integers.


def outputs(seed: int, name: str, count: int) -> list[int]:
    key = np.frombuffer(hashlib.sha256(f"codebound/{seed}/{name}".encode()).digest()[:16], "<u8")
    return [int(word) for word in np.random.Philox(key=key, counter=0).random_raw(count)]


def popcounts(seed: int, name: str, count: int) -> list[int]:
    return [bin(word).count("1") - 32 for word in outputs(seed, name, count)]


def sign_rows(seed: int, name: str, count: int, n: int) -> np.ndarray:
    width = -(-n // 64)
    words = outputs(seed, name, count * width)
    return np.array(
        [[1 - 2 * (words[i * width + e // 64] >> e % 64 & 1) for e in range(n)] for i in range(count)]
    )


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("gaussian", [0, 1])
def test_mode_8(rows, gaussian):
    shape = (3, 5, 14)
    v, n = (3, 70) if rows else (1, 210)
    z = np.random.default_rng(0).integers(-4, 5, (v, 6))
    helper = (
        np.array(popcounts(11, "project", 6 * n)).reshape(6, n)
        if gaussian
        else sign_rows(11, "project", 6, n)
    )
    steps = [8, f"{rows}{gaussian}", 6, 12, *dense(z, -9)]
    expect(steps, (z @ helper).reshape(shape) * grid(-9), is_known=False)


def test_mode_8_with_a_block_inside():
    inner, block = static(np.array([[2, -1, 0, 2]]), 3)
    helper = sign_rows(0, "project", 4, 6)
    expect([8, "00", 4, 1, *inner], ([2, -1, 0, 2] @ helper) * grid(3), block=block, is_known=False)


def test_mode_9():
    random = np.random.default_rng(1)
    u, v = random.integers(-9, 10, (4, 3)), random.integers(-9, 10, (3, 6))
    steps = [9, 3, *bell(u, -12), *enumerative(v, 7)]
    expect(steps, (u @ v).reshape(4, 2, 3) * grid(-5), is_known=False)


def test_steps_of_mode_9_add_up_to_at_most_1000():
    u, v = np.ones((2, 1), int), np.ones((1, 2), int)
    expect([9, 1, *dense(u, 600), *dense(v, -1000)], u @ v * grid(-400), is_known=False)
    with pytest.raises(Refused, match="index -1001"):
        read([9, 1, *dense(u, -600), *dense(v, -401)], (2, 2))


@pytest.mark.parametrize("everywhere", [0, 1])
def test_mode_10(everywhere):
    q = np.array([[0, 3, 0], [-2, 0, 1]])
    filling = (16 * np.array(popcounts(4, "fill", 6)).reshape(2, 3) - 7.0) * grid(-50)
    expected = q * grid(-3) + np.where((q == 0) | bool(everywhere), filling, 0.0)
    steps = [10, *adaptive(q, -3), "1", str(everywhere), signed(-50), signed(-7), 5]
    expect(steps, expected, is_known=False)
    expect([10, *adaptive(q, -3), "0"], q * grid(-3), is_known=False)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_mode_11(kind):
    q = np.random.default_rng(2).integers(-2, 3, 70)
    words = outputs(8, "ticket", 70)
    helper = (
        sign_rows(8, "ticket", 1, 70)[0],
        np.array(popcounts(8, "ticket", 70)),
        np.array([2 * (words[e // 4] >> 16 * (e % 4) & 0xFFFF) - 65535 for e in range(70)]),
    )[kind]
    expect([11, (kind, 3), 9, *dense(q, -6)], q * helper * grid(-6), is_known=False)


def test_mode_12():
    shape, b, k = (3, 2, 35), 4, 2
    z = np.array([1, -2, 0, 3])
    basis = sign_rows(6, "basis", b, 70)
    mix = np.array(popcounts(6, "mix", 3 * k * b)).reshape(3, k, b)
    expected = np.stack([c.T @ (c @ z) @ basis for c in mix]).reshape(shape)
    expect([12, b, k, 7, *dense(z, -20)], expected * grid(-20), is_known=False)
    with pytest.raises(Refused, match="two sizes"):
        read([12, b, k, 7, *dense(z)], (70,))


def test_sums_of_mode_12_stay_exact():
    z = np.zeros(64, int)
    with pytest.raises(Refused, match=r"2\^53"):  # 2^10 2^12 2^12 2^20 = 2^54
        read([12, 64, 4096, 1, *dense(z, limit=2**20)], (2, 8))


class TestMode13:
    """Sketches and the proofs that a witness holds."""

    shape, sizes, t = (6, 5), (5, 5), 2

    def columns(self, name: str, m: int, p: int) -> np.ndarray:
        found: list[list[int]] = []
        words = outputs(2, f"sketch/{name}", 200 * m)
        for start in range(0, len(words), m):
            ones = sorted(sorted(range(m), key=lambda r: (words[start + r], r))[: self.t])
            if ones not in found and len(found) < p:
                found.append(ones)
        result = np.zeros((m, p), int)
        for column, ones in enumerate(found):
            result[ones, column] = 1
        return result

    @property
    def maps(self) -> tuple[np.ndarray, np.ndarray]:
        return self.columns("left", self.sizes[0], 6), self.columns("right", self.sizes[1], 5)

    def proof(self, x) -> np.ndarray:
        """A matrix W by linear programming: A^T W B is sign(x) where x is not zero, and small elsewhere."""
        a, b = self.maps
        gradient = np.einsum("ir,kc->rcik", a, b).reshape(x.size, -1)
        on = x.ravel() != 0
        off = np.hstack([gradient[~on], -np.ones((int((~on).sum()), 1))])
        found = linprog(
            np.append(np.zeros(gradient.shape[1]), 1.0),
            A_ub=np.vstack([off, off * np.append(-np.ones(gradient.shape[1]), 1)]),
            b_ub=np.zeros(2 * len(off)),
            A_eq=np.hstack([gradient[on], np.zeros((int(on.sum()), 1))]),
            b_eq=np.sign(x.ravel()[on]),
            bounds=[(-50, 50)] * gradient.shape[1] + [(0, None)],
        )
        assert found.status == 0
        assert found.fun < 1
        return np.rint(found.x[:-1] * 2.0**48).astype(np.int64)

    def witness(self, x, w) -> bytes:
        places = np.flatnonzero(x)
        parts = [places.astype("<u4"), x.ravel()[places].astype("<i4"), w.astype("<i8")]
        return struct.pack("<I", len(places)) + b"".join(part.tobytes() for part in parts)

    def case(self):
        x = np.zeros(self.shape, np.int64)
        x[0, 0], x[4, 3] = 3, -2
        a, b = self.maps
        return x, [13, *self.sizes, self.t, 3, *dense(a @ x @ b.T, -4)], self.proof(x)

    def test_accepted(self):
        x, steps, w = self.case()
        expect(steps, x * grid(-4), is_known=False, witness=self.witness(x, w))

    def test_refused(self):
        x, steps, w = self.case()
        other = x.copy()
        other[0, 0] = 2
        steep = w.copy()
        steep[0] += 2**48
        large = w.copy()
        large[0] = 2**54 + 1
        whole = self.witness(x, w)
        swapped = bytearray(whole)
        swapped[4:12] = whole[8:12] + whole[4:8]
        for witness, why in (
            (b"", "needs more"),
            (whole[:-1], "needs more"),
            (whole + b"\0", "has"),
            (self.witness(other, w), "another sketch"),
            (self.witness(x, -w), "does not prove"),
            (self.witness(x, steep), "does not prove"),
            (self.witness(x, large), r"2\^54"),
            (bytes(swapped), "rising order"),
            (struct.pack("<I", 2**31), "too many"),
        ):
            with pytest.raises(Refused, match=why):
                read(steps, self.shape, witness=witness)

    def test_a_place_beyond_the_matrix(self):
        _, steps, w = self.case()
        witness = struct.pack("<IIi", 1, 30, 1) + w.tobytes()
        with pytest.raises(Refused, match="inside"):
            read(steps, self.shape, witness=witness)

    def test_a_support_that_is_not_independent(self):
        """1 1 1 1 and 2 0 2 0 have one sketch and one sum of absolute values."""
        left, right = np.array([[0]]), np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
        x, w = np.ones((1, 4), np.int64), np.full(4, 2**47)
        witness = Witness(self.witness(x, w))
        with pytest.raises(Refused, match="independent"):
            proven(witness, Sketch(left, right, (1, 4)), np.full((1, 4), 2))
        sketch, y = Sketch(left, right[:3], (1, 4)), np.array([[1, 2, 2, 1]])
        np.testing.assert_array_equal(proven(Witness(self.witness(x[:, :3], w)), sketch, y), x[:, :3])

    @pytest.mark.parametrize(("eta", "off", "is_fine"), [(2**46 - 1, 0, 1), (2**46, 0, 0), (2**45, 2**47, 0)])
    def test_how_sharp_a_proof_has_to_be(self, eta, off, is_fine):
        """Of a sketch that changes nothing G is W: 2 eta |X| < slack, here of |X| = 2."""
        sketch, x = Sketch(np.array([[0]]), np.array([[0], [1]]), (1, 2)), np.array([[2, 0]])
        for sign in (1, -1):
            witness = Witness(self.witness(x, np.array([2**48 - eta, sign * off])))
            if is_fine:
                np.testing.assert_array_equal(proven(witness, sketch, x), x)
                continue
            with pytest.raises(Refused, match="does not prove"):
                proven(witness, sketch, x)

    def test_too_few_columns(self):
        with pytest.raises(Refused, match="all different"):
            read([13, 4, 5, 1, 1, *dense(np.zeros((4, 5), int))], self.shape)
        with pytest.raises(Refused, match="ones"):
            read([13, 32, 32, 17, 1, *dense(np.zeros((32, 32), int))], self.shape)


# What is refused, before anything is allocated.

HUGE = (2**12, 2**13)  # 2^25 elements, the most that a tensor may have

REFUSED = {
    "mode 15": ([15], (3,), "no tensor mode 15"),
    "coded elements": ([3, 1, 1], HUGE, "coded inside"),
    "raw elements": ([6], HUGE, "coded inside"),
    "bell": ([14, 1, (0, 64)], HUGE, "coded inside"),
    "adaptive elements": ([1, 1, 1], HUGE, "coded inside"),
    "largest element of mode 1": ([1, 1, 4097], (3,), "largest element"),
    "largest element of mode 3": ([3, 1, 2**20 + 1], (3,), "largest element"),
    "largest element of mode 4": ([4, 1, 2**20 + 1], (3,), "largest element"),
    "largest element of mode 7": ([7, 1, 4097], (3,), "largest element"),
    "codebook": ([5, 257], (3,), "codebook"),
    "step": ([3, signed(1001)], (3,), "index of a step"),
    "step below": ([3, signed(-1001)], (3,), "index of a step"),
    "frequencies": ([7, 1, 1, 1, 65536, 1], (3,), "65535"),
    "groups of a block": ([7, 1, 1, 1, 65537, 1, (0, 13)], HUGE, "multiplications"),
    "random vectors": ([8, "00", 2**16 + 1], (3,), "random vectors"),
    "work of mode 8": ([8, "00", 2**12], HUGE, "multiplications"),
    "work of Gaussians": ([8, "01", 2**12], (2**20,), "multiplications"),
    "rank": ([9, 4], (3, 5), "rank"),
    "work of mode 9": ([9, 2**12], HUGE, "multiplications"),
    "inner elements": ([8, "10", 2**10, 1], (2**17, 2), "inner tensor"),
    "inner mode": ([11, (0, 3), 1, 6], (3,), "inner tensor has mode 6"),
    "inner mode of mode 10": ([10, 10], (3,), "inner tensor has mode 10"),
    "mean of a filling": ([10, 2, "10", 1, signed(2**20 + 1)], (3,), "mean"),
    "basis": ([12, 4097], (3, 3), "basis"),
    "mixtures": ([12, 1, 4097], (3, 3), "rows of C"),
    "work of mode 12": ([12, 2**12, 1], (2**12, 2**12), "multiplications"),
    "sketch": ([13, 8193], (3, 3), "m1"),
    "sketched": ([13], (8193, 1), "8193"),
    "work of mode 13": ([13, 4096, 4096, 2], (4096, 4096), "multiplications"),
    "number": (["0" * 41], (3,), "41 binary digits"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_sizes(name):
    steps, shape, why = REFUSED[name]
    with pytest.raises(Refused, match=why):
        read(steps, shape)


def test_a_float_that_is_not_finite():
    for pattern in (0x7F80, 0xFF80, 0x7FC0):
        with pytest.raises(Refused, match="not finite"):
            read([6, (pattern, 1 << 16), (0, 1 << 16)], (1,))


def test_an_element_too_large_for_float32():
    with pytest.raises(Refused, match="too large"):
        read(dense(np.array([2**20]), 8 * 108), (1,))


def test_a_base_is_added_in_float64_and_rounded_once():
    base = np.array([1.0, 1.0], np.float32)
    found = read(dense(np.array([1, 3]), -8 * 25), (2,), base=base)
    np.testing.assert_array_equal(found, np.float32([1 + 2.0**-25, 1 + 3 * 2.0**-25]))


def test_a_base_is_no_float32_before_the_sum():
    random = np.random.default_rng(0)
    q, base = random.integers(-1000, 1000, 500), random.normal(size=500).astype(np.float32)
    numbers = q * grid(-79)
    expected = (base.astype(float) + numbers).astype(np.float32)
    assert (expected != base + numbers.astype(np.float32)).any()
    np.testing.assert_array_equal(read(dense(q, -79), (500,), base=base), expected)


def test_inner_elements_of_one_message():
    word = encoded(*[11, (0, 3), 1, 2] * 3)
    decoder = Decoder(Bits(*packed(word)), Witness(b""))
    read_tensor(decoder, HUGE)
    read_tensor(decoder, HUGE)
    with pytest.raises(Refused, match="inner tensors are more"):
        read_tensor(decoder, (2,))


class TestBlocks:
    """What a block has to be."""

    def damaged(self, block: str, why: str) -> None:
        steps, _ = static(np.array([1, 1, 0, -1]), 0, 1)
        with pytest.raises(Refused, match=why):
            read(steps, (4,), block=block)

    def test_refused(self):
        _, block = static(np.array([1, 1, 0, -1]), 0, 1)
        self.damaged(block[:-1], "ends inside|does not end")
        self.damaged(block[:79], "ends inside")
        self.damaged("0" * 17 + block[17:], "below|does not end")
        self.damaged("0" * 80, "below")
        self.damaged(block + "0" * 16, "ends after")
        _, other = static(np.array([1, 1, 0, -1]), 0, 1, last=(1 << 24) + 5)
        self.damaged(other, "does not end in the state")


def test_a_code_word_that_is_not_the_shortest():
    word = encoded(*dense(np.array([5, -3, 0])))
    for bits in (word[:-1], word[:-1] + str(1 - int(word[-1])) + "0"):
        plain = Bits(*packed(bits))
        decoder = Decoder(plain, Witness(b""))
        with pytest.raises(Refused):  # noqa: PT012  wherever it is found out
            read_tensor(decoder, (3,))
            decoder.finish()
            raise Refused("something else was read")


def test_the_grid_is_that_of_eighths_of_octaves():
    for j in range(-8000, 8001, 7):
        assert abs(math.log2(grid(j)) - j / 8) < 1e-6
    assert grid(-800) == network_reader.STEPS[0] * 2.0**-123
