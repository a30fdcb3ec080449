"""Whitening and filters made of patches, rounded to integers (docs/format.md, section 10.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..refusal import Refused

if TYPE_CHECKING:
    from .exact import Doubles, Singles

ROOM = 0.5e-6  # of a unit: half of the writer's
RESIDUAL = 1e-9
LARGEST = 65_000  # row sum of a matrix of integers


@dataclass(frozen=True)
class Rounded:
    """Integers that stand for a matrix times 2^exponent."""

    integers: Singles
    exponent: int


def whitening_of(moments: Doubles, ridge: float) -> Doubles:
    """The symmetric inverse root of moments + ridge."""
    shifted = moments + ridge * np.eye(len(moments))
    values, vectors = np.linalg.eigh(shifted)
    if not values.min() > 0:
        raise Refused("Rule: the patches of the first pictures cannot be whitened.")
    half = (vectors / np.sqrt(values)) @ vectors.T
    root: Doubles = (half + half.T) / 2
    if not np.linalg.norm(root @ shifted @ root - np.eye(len(root))) < RESIDUAL:
        raise Refused("Rule: the whitening of the patches is too inexact.")
    return root


def filters_of(root: Doubles, atoms: Doubles) -> Doubles:
    """The filters of atoms, one a row."""
    x = atoms @ root / 1024
    found: Doubles = x @ root / np.linalg.norm(x, axis=1, keepdims=True)
    return found


def rounded(matrix: Doubles, what: str) -> Rounded:
    """A matrix as integers, if none of them is in doubt."""
    power = math.log2(LARGEST / np.abs(matrix).sum(axis=1).max())
    exponent = math.floor(power)
    scaled = matrix * 2.0**exponent
    room = np.abs(scaled - np.floor(scaled) - 0.5).min()
    if not (room >= ROOM and abs(power - round(power)) >= ROOM):
        raise Refused(
            f"Rule: {what} cannot be rounded beyond doubt: a number is within {ROOM} of a unit of the next."
        )
    return Rounded(np.rint(scaled).astype(np.float32), exponent)
