"""A slow, literal writer of tensors and their codes, in plain integers and strings of bits."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

if TYPE_CHECKING:
    from collections.abc import Callable

ROOTS = (8388608, 9147842, 9975792, 10878679, 11863283, 12937002, 14107901, 15384775)
COUNT_LIMIT = 2**20


def step(j: int) -> float:
    return math.ldexp(ROOTS[j % 8], j // 8 - 23)


class Coder:
    """Section 3.1 with ``low`` as one big integer."""

    def __init__(self) -> None:
        self.low, self.range, self.shifts = 0, 2**48, 0
        self.blocks: list[tuple[str, str]] = []

    def symbol(self, cum: int, freq: int, total: int) -> None:
        assert freq >= 1
        assert cum + freq <= total <= 2**24
        r = self.range // total
        self.low += r * cum
        self.range = r * freq if cum + freq < total else self.range - r * cum
        while self.range < 2**47:
            self.low, self.range, self.shifts = 2 * self.low, 2 * self.range, self.shifts + 1

    def end(self) -> str:
        """Section 3.2, by exact fractions."""
        unit = Fraction(1, 2 ** (48 + self.shifts))
        start, stop = self.low * unit, (self.low + self.range) * unit
        for length in range(max(0, self.shifts - 2), self.shifts + 49):
            v = math.ceil(start * 2**length)
            if Fraction(v + 1, 2**length) <= stop:
                return format(v, f"0{length}b") if length else ""
        raise AssertionError

    def bit(self, b: int) -> None:
        self.symbol(int(b), 1, 2)

    def uniform(self, v: int, total: int) -> None:
        assert 0 <= v < total
        if total == 1:
            return
        if total <= 2**24:
            self.symbol(v, 1, total)
            return
        self.uniform(v >> 16, ((total - 1) >> 16) + 1)
        self.uniform(v % 2**16, (total - 1) % 2**16 + 1 if v >> 16 == (total - 1) >> 16 else 2**16)

    def gamma(self, k: int) -> None:
        digits = format(k, "b")
        for _ in digits[1:]:
            self.bit(0)
        for digit in digits:
            self.bit(int(digit))

    def signed(self, j: int) -> None:
        self.gamma(2 * j + 1 if j >= 0 else -2 * j)

    def float32(self, value: float) -> None:
        pattern = struct.unpack(">I", struct.pack(">f", value))[0]
        self.uniform(pattern >> 16, 2**16)
        self.uniform(pattern % 2**16, 2**16)

    def mask(self, flags: list[bool]) -> None:
        m, k = len(flags), sum(flags)
        self.uniform(k, m + 1)
        for flag in flags:
            if 0 < k < m:
                self.symbol(*((m - k, k, m) if flag else (0, m - k, m)))
            m, k = m - 1, k - flag


class Context:
    """Section 4.2."""

    def __init__(self, size: int) -> None:
        self.counts = [0] * size

    def code(self, coder: Coder, s: int) -> None:
        freqs = [2 * n + 1 for n in self.counts]
        coder.symbol(sum(freqs[:s]), freqs[s], sum(freqs))
        self.counts[s] += 1
        if sum(self.counts) == COUNT_LIMIT:
            self.counts = [(n + 1) // 2 for n in self.counts]


@dataclass(frozen=True)
class Tensor:
    """How to write one tensor, and the real numbers that its elements stand for."""

    write: Callable[[Coder, str], None]
    values: np.ndarray
    q: np.ndarray | None = None  # the integers, their step index and their limit, for inner tensors
    j: int = 0
    limit: int = 1
    witness: bytes = b""


def adaptive(q, j=0, *, limit=None, rows=False, columns=False, kind=0, stride=1) -> Tensor:
    q = np.asarray(q)
    matrix = q.reshape(q.shape[0] if q.ndim > 1 else 1, -1)
    limit = limit or max(1, int(np.abs(q).max()))

    def write(coder: Coder, name: str) -> None:
        coder.gamma(1)
        coder.signed(j)
        coder.gamma(limit)
        coder.bit(rows)
        coder.bit(columns)
        live = [np.ones(size, bool) for size in matrix.shape]
        for axis, flagged in enumerate((rows, columns)):
            if flagged:
                context = Context(2)
                live[axis] = (matrix != 0).any(axis=1 - axis)
                for flag in live[axis]:
                    context.code(coder, int(flag))
        coder.uniform(kind, 4)
        if kind == 3:
            coder.gamma(stride)
        zero: dict[int, Context] = {}
        sign, size = Context(2), Context(limit)

        def at(r: int, c: int) -> bool:
            return r >= 0 and c >= 0 and bool(matrix[r, c])

        for r in range(matrix.shape[0]):
            for c in range(matrix.shape[1]):
                if not (live[0][r] and live[1][c]):
                    continue
                near = at(r, c - 1) + 2 * at(r, c - stride) + 4 * at(r - 1, c)
                zero.setdefault((0, c, r, near)[kind], Context(2)).code(coder, int(matrix[r, c] != 0))
                if matrix[r, c]:
                    sign.code(coder, int(matrix[r, c] < 0))
                    if limit > 1:
                        size.code(coder, abs(int(matrix[r, c])) - 1)

    return Tensor(write, q * step(j), q, j, limit)


def dense(q, j=0, *, limit=None) -> Tensor:
    q = np.asarray(q)
    limit = limit or max(1, int(np.abs(q).max()))

    def write(coder: Coder, name: str) -> None:
        coder.gamma(3)
        coder.signed(j)
        coder.gamma(limit)
        for value in q.ravel().tolist():
            coder.uniform(value + limit, 2 * limit + 1)

    return Tensor(write, q * step(j), q, j, limit)


def outputs(seed: int, name: str, count: int) -> list[int]:
    """Section 8: Philox 4x64 of ten rounds, from its definition."""
    digest = hashlib.sha256(f"codebound/{seed}/{name}".encode("ascii")).digest()
    key = [int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")]
    found: list[int] = []
    for counter in range(1, 2 + count // 4):
        x, k = [counter, 0, 0, 0], list(key)
        for _ in range(10):
            left, right = 0xD2E7470EE14C6C93 * x[0], 0xCA5A826395121157 * x[2]
            x = [(right >> 64) ^ x[1] ^ k[0], right % 2**64, (left >> 64) ^ x[3] ^ k[1], left % 2**64]
            k = [(k[0] + 0x9E3779B97F4A7C15) % 2**64, (k[1] + 0xBB67AE8584CAA73B) % 2**64]
        found += x
    return found[:count]


def sign_rows(seed: int, name: str, count: int, n: int) -> list[list[int]]:
    """Rows of n signs; every row starts with a new output."""
    width = -(-n // 64)
    words = outputs(seed, name, count * width)
    return [[1 - 2 * (words[i * width + e // 64] >> e % 64 & 1) for e in range(n)] for i in range(count)]


def popcounts(seed: int, name: str, count: int) -> list[int]:
    """Popcounts less 32."""
    return [bin(word).count("1") - 32 for word in outputs(seed, name, count)]


def real(integers: list[int], shape, j: int) -> np.ndarray:
    """Exact integers, as float64, times the step."""
    return np.array([float(q) * step(j) for q in integers]).reshape(shape)


def matrix_of(shape) -> tuple[int, int]:
    return (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))


def mixed(shape, z: Tensor, *, mixes: int, seed=0) -> Tensor:
    """Section 4.12."""
    (b,) = z.q.shape
    locations, n = shape[0], math.prod(shape[1:])

    def write(coder: Coder, name: str) -> None:
        coder.gamma(12)
        coder.gamma(b)
        coder.gamma(mixes)
        coder.gamma(seed + 1)
        z.write(coder, name)

    basis = sign_rows(seed, "basis", b, n)
    drawn = popcounts(seed, "mix", locations * mixes * b)
    weights, elements = z.q.tolist(), []
    for t in range(locations):
        rows = [drawn[start : start + b] for start in range(t * mixes * b, (t + 1) * mixes * b, b)]
        projections = [sum(row[i] * weights[i] for i in range(b)) for row in rows]
        w = [sum(row[i] * p for row, p in zip(rows, projections, strict=True)) for i in range(b)]
        elements += [sum(w[i] * basis[i][e] for i in range(b)) for e in range(n)]
    return Tensor(write, real(elements, shape, z.j))


def sketch_columns(seed: int, name: str, m: int, p: int, t: int) -> list[list[int]]:
    """Section 4.13: the rows of the ones of every column of an m x p matrix."""
    found: list[list[int]] = []
    start = 0
    while len(found) < p:
        words = outputs(seed, name, start + m)[start:]
        column = sorted(sorted(range(m), key=lambda r: (words[r], r))[:t])
        if column not in found:
            found.append(column)
        start += m
    return found


def sketch_of(x, sizes, *, t: int, seed=0) -> np.ndarray:
    """A X B^T, of sizes (m1, m2)."""
    x = np.asarray(x)
    left = sketch_columns(seed, "sketch/left", sizes[0], x.shape[0], t)
    right = sketch_columns(seed, "sketch/right", sizes[1], x.shape[1], t)
    y = np.zeros(sizes, int)
    for r, c in zip(*np.nonzero(x), strict=True):
        for i in left[r]:
            for k in right[c]:
                y[i, k] += x[r, c]
    return y


def sketched(shape, y: Tensor, *, t: int, x=None, seed=0) -> Tensor:
    """Section 4.13; whoever writes knows the matrix ``x`` behind the sketch ``y``, if there is one."""
    if x is not None:
        x = np.asarray(x).reshape(matrix_of(shape))
        assert (sketch_of(x, y.q.shape, t=t, seed=seed) == y.q).all()

    def write(coder: Coder, name: str) -> None:
        coder.gamma(13)
        coder.gamma(y.q.shape[0])
        coder.gamma(y.q.shape[1])
        coder.gamma(t)
        coder.gamma(seed + 1)
        y.write(coder, name)

    if x is None:
        return Tensor(write, np.zeros(shape))
    proof = dual_of(x, y.q.shape, t=t, seed=seed)
    return Tensor(write, real(x.ravel().tolist(), shape, y.j), witness=witness_of(x, proof))


def dual_of(x, sizes, *, t: int, seed=0) -> np.ndarray:
    """A matrix W of section 4.13 that proves X, in units of 2^-48, by linear programming."""
    left = sketch_columns(seed, "sketch/left", sizes[0], x.shape[0], t)
    right = sketch_columns(seed, "sketch/right", sizes[1], x.shape[1], t)
    gradient = np.zeros((x.size, math.prod(sizes)))  # the matrix of W -> A^T W B
    for e, (r, c) in enumerate(np.ndindex(x.shape)):
        for i in left[r]:
            for k in right[c]:
                gradient[e, i * sizes[1] + k] = 1
    on = x.ravel() != 0
    steepest = np.hstack([gradient[~on], -np.ones((int((~on).sum()), 1))])  # gradient - height <= 0
    both = np.vstack([steepest, steepest * np.append(-np.ones(gradient.shape[1]), 1)])
    exact = np.hstack([gradient[on], np.zeros((int(on.sum()), 1))])
    found = linprog(
        np.append(np.zeros(gradient.shape[1]), 1.0),
        A_ub=both,
        b_ub=np.zeros(len(both)),
        A_eq=exact,
        b_eq=np.sign(x.ravel()[on]),
        bounds=[(-50, 50)] * gradient.shape[1] + [(0, None)],
    )
    assert found.status == 0
    assert found.fun < 1
    return np.rint(found.x[:-1] * 2.0**48).astype(np.int64).reshape(sizes)


def witness_of(x: np.ndarray, w: np.ndarray) -> bytes:
    """The witness of section 4.13."""
    places = np.flatnonzero(x)
    return (
        struct.pack("<I", len(places))
        + places.astype("<u4").tobytes()
        + x.ravel()[places].astype("<i4").tobytes()
        + w.astype("<i8").tobytes()
    )


def pack_bits(bits: str) -> bytes:
    padded = bits + "0" * (-len(bits) % 8)
    return bytes(int(padded[i : i + 8], 2) for i in range(0, len(padded), 8))
