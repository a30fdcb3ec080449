"""A slow, literal writer of tensors and their codes, in plain integers and strings of bits."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import dataclass, field
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


def zero(shape) -> Tensor:
    return Tensor(lambda coder, name: coder.gamma(2), np.zeros(shape), np.zeros(shape, int))


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


@dataclass(frozen=True)
class Subspace:
    """Section 5.4; ``q`` has one size and step index 0."""

    q: Tensor
    t: int = 0
    j: int = 0
    zero_head: bool = False
    seed: int = 0

    def write(self, coder: Coder, close: Callable[[str], None]) -> None:
        coder.gamma(len(self.q.q))
        coder.uniform(self.t, 3)
        coder.signed(self.j)
        coder.bit(self.zero_head)
        coder.gamma(self.seed + 1)
        close("subspace")
        self.q.write(coder, "integers")
        close("integers")

    def values(self, shapes: dict[str, tuple[int, ...]], *, has_base: bool = False) -> dict[str, np.ndarray]:
        """The float64 numbers of all tensors, before the base is added."""
        d, entries, count = len(self.q.q), 2**self.t, sum(math.prod(shape) for shape in shapes.values())
        words, integers = outputs(self.seed, "hash", count * entries), self.q.q.tolist()
        begins = popcounts(self.seed, "start", count)
        head = [name for name, shape in shapes.items() if len(shape) > 1][-1:] if self.zero_head else []
        found, e = {}, 0
        for name, shape in shapes.items():
            m = 0
            while len(shape) > 1 and 4 ** (m + 1) <= math.prod(shape[1:]):
                m += 1
            elements = []
            for _ in range(math.prod(shape)):
                mine = words[e * entries : (e + 1) * entries]
                total = sum((-1 if w % 2 else 1) * integers[(w >> 32) * d >> 32] for w in mine)
                g = 0 if has_base or len(shape) < 2 or name in head else begins[e]
                elements.append((g / 4 + total * step(self.j)) / 2**m)
                e += 1
            found[name] = np.array(elements).reshape(shape)
        return found


IDS = {
    "linear": 1,
    "conv": 2,
    "max pool": 3,
    "average pool": 4,
    "global average pool": 5,
    "residual": 6,
    "local conv": 7,
    "normalised conv": 8,
    "dictionary": 9,
    "views": 10,
}


def write_chain(coder: Coder, operations: list[list]) -> None:
    """``operations`` as in ``subject_chain`` of section 7."""
    coder.gamma(1)
    coder.gamma(len(operations))
    for position, (kind, *sizes) in enumerate(operations):
        coder.gamma(IDS[kind])
        if kind in ("linear", "residual"):
            if position < len(operations) - 1 or kind == "residual":
                coder.gamma(sizes[0])
            coder.bit(sizes[1])
        elif kind in ("conv", "local conv"):
            out, kernel, stride, padding, bias = sizes
            for size in (out, kernel, stride, padding + 1):
                coder.gamma(size)
            coder.bit(bias)
        elif kind == "views":
            coder.uniform(sizes[0] - 1, 15)
        elif kind == "dictionary":
            coder.uniform(sizes[0] - 1, 7)
            coder.gamma(sizes[1])
        else:
            for size in sizes:
                coder.gamma(size)


@dataclass(frozen=True)
class Stage:
    """One stage of a stack: the numbers of section 5.6; ``g`` says nothing in the first."""

    g: int = 1
    c: int = 1
    k: int = 1
    q: int = 0


@dataclass(frozen=True)
class Stack:
    """Section 5.6, with the letters of the page."""

    v: int = 0
    t: int = 0
    p: int = 1
    i: int = 0
    stages: tuple[Stage, ...] = (Stage(),)
    e: int = 0

    def write(self, coder: Coder) -> None:
        coder.gamma(3)
        coder.uniform(self.v, 16)
        coder.uniform(self.t, 8)
        if self.t:
            coder.uniform(self.p - 1, 4)
        coder.uniform(len(self.stages) - 1, 4)
        coder.uniform(self.i, 8)
        for position, stage in enumerate(self.stages):
            if position:
                coder.uniform(stage.g, 3)
            coder.uniform(stage.c - 1, 3)
            coder.uniform(stage.k, 3)
            coder.uniform(stage.q, 3)
        coder.uniform(self.e, 4)

    def chain(self, classes: int) -> list[list]:
        """The same operations, as a chain has them."""
        found: list[list] = [["views", self.v]] if self.v else []
        if self.t:
            found.append(["dictionary", self.t, self.p])
        width = Fraction([8, 16, 24, 32, 48, 64, 96, 128][self.i])
        for position, stage in enumerate(self.stages):
            if position:
                width *= [Fraction(1, 2), 1, 2][stage.g]
            assert width.denominator == 1
            found += [["normalised conv", int(width), [1, 3, 5][stage.k]]] * stage.c
            found += [[], [["max pool", 2]], [["average pool", 2]]][stage.q]
        found += [[], [["average pool", 2]], [["average pool", 4]], [["global average pool"]]][self.e]
        return [*found, ["linear", classes, False]]


def write_setting(coder: Coder, classes: int, scaling: dict) -> None:
    coder.gamma(classes - 1)
    write_scaling(coder, scaling)


def write_scaling(coder: Coder, scaling: dict) -> None:
    listed = [{"divisor": divisor, "mean": [0.0], "std": [1.0]} for divisor in (1, 255, 16)]
    if scaling in listed:
        coder.uniform(listed.index(scaling), 4)
    else:
        coder.uniform(3, 4)
        coder.uniform(len(scaling["mean"]) - 1, 4)
        for value in (scaling["divisor"], *scaling["mean"], *scaling["std"]):
            coder.float32(value)


def write_loss(coder: Coder, classes: int, loss: str) -> None:
    kind, *numbers = loss.split(":")
    if kind in ("abstain", "cost-above", "cost"):
        write_new_loss(coder, classes, kind, numbers)
        return
    named = [int(number) for number in numbers]
    coder.gamma(4)
    coder.uniform(("class", "confused", "false-alarm", "top").index(kind), 4)
    if kind == "top":
        coder.uniform(named[0] - 1, classes - 1)
        return
    coder.uniform(named[0], classes)
    if kind == "confused":
        coder.uniform(named[1] - (named[1] > named[0]), classes - 1)


GAPS = (
    "0.01 0.02 0.03 0.05 0.07 0.1 0.15 0.2 0.25 0.3 0.4 0.5 0.6 0.7 0.8 0.9 "
    "1 1.25 1.5 1.75 2 2.5 3 3.5 4 5 6 7 8 10 12 15"
)


def write_new_loss(coder: Coder, classes: int, kind: str, numbers: list[str]) -> None:
    """Section 5 of version 3."""
    coder.gamma(6)
    coder.uniform(("abstain", "cost-above", "cost").index(kind), 4)
    if kind == "abstain":
        coder.uniform(GAPS.split().index(numbers[0]), 32)
        return
    costs = numbers[-1]
    coder.bit(costs != "distance")
    largest = classes - 1
    if costs != "distance":
        rows = [[int(digit, 16) for digit in row] for row in costs.split(",")]
        largest = max(max(row) for row in rows)
        coder.uniform(largest - 1, 15)
        context = Context(largest + 1)
        for y, row in enumerate(rows):
            for j, cost in enumerate(row):
                if j != y:
                    context.code(coder, cost)
    if kind == "cost-above":
        coder.uniform(int(numbers[0]), largest)


@dataclass
class Message:
    """The message of section 5; ``operations`` None is a factory, a ``Subspace`` is method 2."""

    operations: list[list] | Stack | None
    tensors: dict[str, Tensor] | Subspace
    split: int | None = None
    theta: int | None = None
    has_base: bool = False
    classes: int | None = None  # those of the chain, else 3
    scaling: dict = field(default_factory=lambda: {"divisor": 16, "mean": [0.0], "std": [1.0]})
    loss: str = "wrong"
    version: int = 2
    bits: str = field(init=False)
    ledger: list[list] = field(init=False)

    def __post_init__(self) -> None:
        coder = Coder()
        self.ledger = []

        def close(part: str) -> None:
            self.ledger.append([part, coder.shifts - sum(bits for _, bits in self.ledger)])

        if self.classes is None:
            self.classes = self.operations[-1][1] if isinstance(self.operations, list) else 3
        if self.version > 1:
            write_setting(coder, self.classes, self.scaling)
            close("setting")
        if self.loss != "wrong":
            write_loss(coder, self.classes, self.loss)
            close("fault")
        is_subspace = isinstance(self.tensors, Subspace)
        coder.gamma(2 if is_subspace else 1)
        close("method")
        coder.bit(self.split is not None)
        if self.split is not None:
            coder.uniform(self.split - 1, 9)
        coder.bit(self.theta is not None)
        if self.theta is not None:
            coder.signed(self.theta)
        coder.bit(self.has_base)
        close("options")
        if self.operations is None:
            coder.gamma(2)
        elif isinstance(self.operations, Stack):
            self.operations.write(coder)
        else:
            write_chain(coder, self.operations)
        close("architecture")
        if is_subspace:
            self.tensors.write(coder, close)
        else:
            for name, tensor in self.tensors.items():
                tensor.write(coder, name)
                close(name)
        word = coder.end()
        self.ledger.append(["end", len(word) - coder.shifts])
        self.ledger += [[f"block {name}", len(bits)] for name, bits in coder.blocks]
        self.bits = word + "".join(bits for _, bits in coder.blocks)

    @property
    def witness(self) -> bytes:
        tensors = self.tensors if isinstance(self.tensors, dict) else {}
        return b"".join(tensor.witness for tensor in tensors.values())

    def packed(self) -> bytes:
        return pack_bits(self.bits)


def pack_bits(bits: str) -> bytes:
    padded = bits + "0" * (-len(bits) % 8)
    return bytes(int(padded[i : i + 8], 2) for i in range(0, len(padded), 8))


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def seal(head: bytes, message: bytes, *, witness: bytes = b"", version: int = 2) -> bytes:
    """The container of section 1 around any header and message."""
    body = b"CBOUND\0" + bytes([version]) + struct.pack("<I", len(head)) + head + message
    body += struct.pack("<I", len(witness)) + witness
    return body + hashlib.sha256(body).digest()


def write(message: Message, fields: dict, *, witness: bytes | None = None) -> bytes:
    return seal(canonical(fields), message.packed(), witness=message.witness if witness is None else witness)


def margins(logits: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Margins and largest absolute logits, for counting by section 6."""
    rows = np.arange(len(y))
    others = logits.copy()
    others[rows, y] = -np.inf
    return logits[rows, y] - others.max(1), np.abs(logits).max(1)


def count(logits: np.ndarray, y: np.ndarray, theta: float = 0.0) -> int:
    """Errors at the writer's tolerance."""
    margin, scale = margins(logits, y)
    return int((~(margin - theta > 1e-4 * scale)).sum())


WEIGHT = np.array([[1, 2, -1, -1], [-1, -1, 1, 2], [1, -2, 1, -2]])
