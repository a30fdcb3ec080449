"""Whitening and filters made of patches, rounded to integers beyond doubt (docs/format.md, section 7.4).

The inverse root of a matrix is no finite sum: what float64 makes of it is off a little. Here every matrix
comes with a bound of how much, which follows from its residual; products are as good as exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..refusal import Refused
from .exact import Doubles, Singles

ROOM = 0.5e-7  # of a unit: half of the writer's
RESIDUAL = 1e-9  # the largest |W A W - 1|
DOUBT = 0.25e-7  # of a unit: how far the numbers may be off
LARGEST = 65_000  # row sum of a matrix of integers
SLICE = 21  # bits: products of slices, summed over up to 2^9 columns, are below 2^53


@dataclass(frozen=True)
class Bounded:
    """A matrix, and how far each of its rows is from the exact one, at most (Euclidean norm)."""

    values: Doubles
    off: float


@dataclass(frozen=True)
class RoundedMatrix:
    """Integers that stand for a matrix times 2^exponent."""

    integers: Singles
    exponent: int


def whitening_of(shifted: Doubles, ridge: float) -> Bounded:
    """The inverse root of moments that a ridge was added to.

    With E = W A W - 1, W differs from the root by D with D A^(1/2) + A^(1/2) D = E, up to E^2: by at most
    |E| / 2 times the norm of the root, which is at most 1 / sqrt(ridge). One step of Newton's method makes
    E as small as float64 allows.
    """
    values, vectors = np.linalg.eigh(shifted)
    if not values.min() > 0:
        raise Refused("Rule: the patches of the first pictures cannot be whitened.")
    scales = 1 / np.sqrt(values)
    root = _symmetric((vectors * scales) @ vectors.T)
    harmonic = scales[:, None] * scales / (scales[:, None] + scales)
    change = vectors @ (harmonic * (vectors.T @ _residual(root, shifted) @ vectors)) @ vectors.T
    root = _symmetric(root - change)
    residual = float(np.linalg.norm(_residual(root, shifted)))
    if not residual <= RESIDUAL:
        raise Refused(f"Rule: the whitening is off by {residual:.2g}; at most {RESIDUAL:g} is allowed.")
    return Bounded(root, 0.51 * residual / math.sqrt(ridge))


def filters_of(root: Bounded, atoms: Doubles, ridge: float) -> Bounded:
    """The filters of atoms, one a row: W x / |x| with x = W e / 1024."""
    x = _product(atoms, root.values) / 1024
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    found = _product(x, root.values) / lengths
    turn = (root.off * np.linalg.norm(atoms, axis=1, keepdims=True) / 1024 / lengths).max()
    off = root.off + 2.01 * (turn + 1e-15) / math.sqrt(ridge) + 1e-13 * np.linalg.norm(found, axis=1).max()
    return Bounded(found, float(off))


def quantise(matrix: Bounded, what: str) -> RoundedMatrix:
    """A matrix as integers, if none of them is in doubt."""
    power = math.log2(LARGEST / np.abs(matrix.values).sum(axis=1).max())
    exponent = math.floor(power)
    if not matrix.off * 2.0**exponent <= DOUBT:
        raise Refused(f"Rule: {what} is off by {matrix.off * 2.0**exponent:.2g} units; {DOUBT} are allowed.")
    scaled = matrix.values * 2.0**exponent
    room = min(np.abs(scaled - np.floor(scaled) - 0.5).min(), abs(power - round(power)))
    if not room >= ROOM:
        raise Refused(
            f"Rule: {what} cannot be rounded beyond doubt: {room:.2g} of a unit is too little room."
        )
    return RoundedMatrix(np.rint(scaled).astype(np.float32), exponent)


def _symmetric(matrix: Doubles) -> Doubles:
    return np.asarray((matrix + matrix.T) / 2)


def _residual(root: Doubles, shifted: Doubles) -> Doubles:
    """W A W - 1."""
    first, *others = (_parts(root, part) for part in _parts(shifted, root))
    leading = first[0] - np.eye(len(root))
    return np.asarray(sum(sum(parts) for parts in others) + (leading + sum(first[1:])))


def _product(a: Doubles, b: Doubles) -> Doubles:
    """A product with errors far below those of float64."""
    return np.asarray(sum(reversed(_parts(a, b))))


def _parts(a: Doubles, b: Doubles) -> list[Doubles]:
    """A product as a sum of four matrices, each about 2^21 times smaller than the one before it.

    All but the last are sums of integers, in units of their own, and exact.
    """
    left, right = _slices(a), _slices(b)
    return [np.asarray(sum(left[i] @ right[k - i] for i in range(k + 1))) for k in range(4)]


def _slices(matrix: Doubles) -> list[Doubles]:
    """A matrix as a sum of four: three of few bits, and the rest."""
    unit = 2.0 ** math.ceil(math.log2(max(np.abs(matrix).max(), 1e-300)))
    found, rest = [], matrix
    for _ in range(3):
        unit /= 2**SLICE
        found.append(np.rint(rest / unit) * unit)
        rest = rest - found[-1]
    return [*found, rest]
