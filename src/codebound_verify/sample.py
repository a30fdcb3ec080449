"""Samples: form, hash, order, copies and statistics (docs/format.md, sections 2, 6.1, 6.2, 7 and 8)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .refusal import Refused
from .stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .header import Scaling

Inputs: TypeAlias = NDArray[Any]
Labels: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Callable[[int, int], None]  # called with the examples done and their total

CLOSE = 1e-3
NUMBERS = 1 << 22  # that are in float64 at a time
CHUNK = 1 << 24  # bytes of rows that are hashed from one copy
PARTS = 16  # of the keys, compared one after the other
PIECE = 1 << 18  # keys that are looked at together


def canonical_inputs(x: Inputs) -> Inputs:
    """Inputs as uint8, float32 or float64, images with an axis for channels."""
    if x.ndim < 2 or not x.size or x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
        raise Refused(
            f"Data: the inputs must be numbers of shape (n, ...) without empty axes; "
            f"found {x.dtype} of shape {x.shape}."
        )
    if x.dtype != np.uint8 and x.dtype.name not in ("float32", "float64"):
        x = x.astype(np.float32 if x.dtype.itemsize <= 2 else np.float64)
    return x[:, None] if x.ndim == 3 else x


def canonical_labels(y: Inputs, n: int) -> Labels:
    """Labels as int64, one for each of n inputs."""
    if y.shape != (n,) or y.dtype.kind not in "biu":
        raise Refused(f"Data: the labels must be {n} integers; found {y.dtype} of shape {y.shape}.")
    return y.astype(np.int64)


def sample_sha256(x: Inputs, y: Inputs) -> str:
    """The hash that names a sample."""
    digest = hashlib.sha256()
    for values in (x, y):
        digest.update(f"{values.dtype.name}|{','.join(map(str, values.shape))}|".encode("ascii"))
        digest.update(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data.cast("B"))
    return digest.hexdigest()


def permutation(n: int) -> NDArray[np.int64]:
    """The fixed order in which C-10 splits a sample: by the stream "split" of seed 0."""
    return np.argsort(Stream(0, "split").words(0, n), kind="stable")


@dataclass(frozen=True)
class Repeats:
    """Examples that occur before, byte for byte: with their label, or with other labels only.

    ``equal`` are copies as numbers, of which one is minus zero and the other zero.
    """

    n: int
    copies: int
    contradictions: int
    equal: int


def count_repeats(x: Inputs, y: Labels) -> Repeats:
    """Copies and contradictions, by hashes of rows; of a row that nothing is like, eight bytes are kept."""
    short = _beginnings(_keys(x), len(x))
    copies, contradictions = _count(short, y, lambda place: _key(x[place]))
    equal = copies
    if x.dtype.kind == "f" and any(bool(np.signbit(part[part == 0]).any()) for part in parts(x)):
        again = _beginnings(_keys(x, _without_minus), len(x))
        equal, _ = _count(again, y, lambda place: _key(_without_minus(x[place])))
    return Repeats(len(x), copies, contradictions, equal)


def _beginnings(keys: Iterator[bytes], n: int) -> NDArray[np.uint64]:
    return np.fromiter((int.from_bytes(key[:8], "big") for key in keys), np.uint64, n)


def _count(short: NDArray[np.uint64], y: Labels, key: Callable[[int], bytes]) -> tuple[int, int]:
    """Copies and contradictions: where keys begin alike, the whole key decides."""
    alike = np.sort(np.concatenate([_alike(short, part) for part in range(PARTS)]))
    labels: dict[bytes, set[int]] = {}
    copies = contradictions = 0
    for place in alike.tolist():
        before, label = labels.setdefault(key(place), set()), int(y[place])
        copies += label in before
        contradictions += bool(before) and label not in before
        before.add(label)
    return copies, contradictions


def _without_minus(rows: Inputs) -> Inputs:
    """Floating point numbers of the same type, minus zero as zero."""
    return np.asarray(rows + rows.dtype.type(0))


def _alike(short: NDArray[np.uint64], part: int) -> NDArray[np.int64]:
    """Places of keys that occur twice, among those of one remainder: more at a time take more memory."""
    pieces = range(0, len(short), PIECE)
    places = np.concatenate([at + np.flatnonzero(short[at : at + PIECE] % PARTS == part) for at in pieces])
    places = places[np.argsort(short[places])]
    is_like_next = short[places[1:]] == short[places[:-1]]
    return np.union1d(places[1:][is_like_next], places[:-1][is_like_next])


def count_shared(x: Inputs, other: Inputs) -> int:
    """Number of inputs of ``other`` that occur in ``x``, whatever their types."""
    known = {_key(row.astype(np.float64) + 0.0) for row in x}  # minus zero becomes zero
    return sum(_key(row.astype(np.float64) + 0.0) in known for row in other)


def _keys(x: Inputs, form: Callable[[Inputs], Inputs] = np.asarray) -> Iterator[bytes]:
    """The key of every row in a form; bytes are taken from the array many rows at a time."""
    size = x[:1].nbytes
    rows = max(1, CHUNK // max(1, size))
    for start in range(0, len(x), rows):
        content = memoryview(form(x[start : start + rows]).tobytes())
        for at in range(0, len(content), size):
            yield hashlib.sha256(content[at : at + size]).digest()


def _key(row: Inputs) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(row).tobytes()).digest()


def statistics_in(scaling: Scaling, x: Inputs) -> list[str]:
    """The constants of a scaling that are statistics of this very sample, in words."""
    if {*scaling.mean} == {0.0} and {*scaling.std} == {1.0}:
        return []
    total, squares = _sums(x, scaling.divisor)
    found = []
    for name, trivial, constants in (("mean", 0.0, scaling.mean), ("std", 1.0, scaling.std)):
        pixels = None if len(constants) == 1 else tuple(range(1, total.ndim))
        mean = np.atleast_1d(total.mean(pixels)) / len(x)
        deviation = _deviation(mean, np.atleast_1d(squares.mean(pixels)) / len(x))
        for constant, own, spread in zip(
            constants, mean if name == "mean" else deviation, deviation, strict=True
        ):
            if constant != trivial and spread > 0 and abs(constant - own) <= CLOSE * spread:
                found.append(f"{name} {constant!r} (of the sample: {own:.6g})")
    return found


def is_standardised(x: Inputs) -> bool:
    """Return True if all floating point features that vary have mean 0 and deviation 1 here."""
    if x.dtype.kind != "f" or len(x) < 2:
        return False
    total, squares = _sums(x, 1.0)
    mean = total / len(x)
    deviation = _deviation(mean, squares / len(x))
    varies = deviation > 1e-6
    return bool(
        varies.any()
        and (np.abs(mean[varies]) <= CLOSE).all()
        and (np.abs(deviation[varies] - 1) <= CLOSE + 1 / len(x)).all()
    )


def _deviation(mean: Inputs, power: Inputs) -> Inputs:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(np.maximum(power - mean**2, 0)))


def _sums(x: Inputs, divisor: float) -> tuple[Inputs, Inputs]:
    """Sums over the examples of x / divisor and of its square, in float64."""
    total, squares = np.zeros(x.shape[1:]), np.zeros(x.shape[1:])
    with np.errstate(over="ignore", invalid="ignore"):
        for part in parts(x):
            values = part.astype(np.float64) / divisor
            total += values.sum(0)
            squares += (values**2).sum(0)
    return total, squares


def parts(x: Inputs) -> Iterator[Inputs]:
    """The rows, as many at a time as fit into memory in float64."""
    size = max(1, NUMBERS // max(1, x[0].size))
    return (x[start : start + size] for start in range(0, len(x), size))
