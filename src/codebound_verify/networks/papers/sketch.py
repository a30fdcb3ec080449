"""Sketches of integer matrices, and proofs that a matrix is the smallest one (docs/format.md, section 8.9).

Everything here is exact, and it is all that has to be right. Matrix and proof come from the witness of the
file. A rank modulo a prime is never above the rank over the rationals: an answer yes is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...refusal import Refused
from ...stream import Stream
from ..arithmetic import Witness

Doubles: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]

PRIME = 4194301  # 2^22 - 3
WIDTH = 128  # rows that are eliminated at a time
SUMMED = 512  # products of two remainders whose sum is below 2^53
CORE_LIMIT = 1000  # columns that are eliminated
UNIT = 1 << 48  # one, in a proof
WEIGHT_LIMIT = 1 << 54  # of an element of a proof: 16^2 of them add up to at most 2^62
ELEMENT_LIMIT = 1 << 30  # of an element of X: 2^23 of them add up to at most 2^53, exact in float64
CELLS_LIMIT = 1 << 24  # places of Y that the non-zeros of X add to, all counted: 128 MB
BATCH = 1 << 20  # outputs that are drawn at a time


def are_independent(cells: Whole) -> bool:
    """Return True if columns are independent. Each is given by the rows of its ones, as many in each.

    No is also the answer where too many are left to eliminate.

    Example:
        >>> are_independent(np.array([[0, 1], [1, 2], [2, 3]]))
        True
        >>> are_independent(np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))
        False
    """
    core = _peel(cells)
    return len(core) <= CORE_LIMIT and _has_full_rank(core)


def _peel(cells: Whole) -> Whole:
    """The columns that are left when those with a row of their own are taken away, again and again."""
    flat, each = cells.ravel(), cells.shape[1]
    touched = np.bincount(flat)
    owner = np.bincount(flat, np.repeat(np.arange(len(cells)), each)).astype(np.int64)  # sum of its columns
    is_left, rows = np.ones(len(cells), bool), np.flatnonzero(touched == 1)
    while len(rows):
        alone = np.unique(owner[rows])
        is_left[alone] = False
        rows = cells[alone].ravel()
        np.subtract.at(touched, rows, 1)
        np.subtract.at(owner, rows, np.repeat(alone, each))
        rows = rows[touched[rows] == 1]
    return cells[is_left]


def _has_full_rank(cells: Whole) -> bool:
    """Return True if the rank modulo the prime is the number of columns: rows are taken until it is."""
    count, (used, rows) = len(cells), np.unique(cells, return_inverse=True)
    ones = np.zeros((len(used), count), bool)
    ones[rows.reshape(cells.shape), np.arange(count)[:, None]] = True
    basis, pivots = np.zeros((0, count)), np.zeros(0, np.int64)  # in reduced echelon form
    for start in range(0, len(used), WIDTH):
        some = ones[start : start + WIDTH].astype(np.float64)
        for at in range(0, len(basis), SUMMED):
            some = (some - some[:, pivots[at : at + SUMMED]] @ basis[at : at + SUMMED]) % PRIME
        some, own = _reduced(some)
        basis = np.vstack([(basis - basis[:, own] @ some) % PRIME, some])
        pivots = np.concatenate([pivots, own])
        if len(basis) == count:
            break
    return len(basis) == count


def _reduced(rows: Doubles) -> tuple[Doubles, Whole]:
    """The reduced echelon form of rows of remainders, without zero rows, and its pivots."""
    pivots = []
    for at in range(len(rows)):
        if (pivot := int(np.argmax(rows[at] != 0))) or rows[at, 0]:
            rows[at] = rows[at] * pow(int(rows[at, pivot]), -1, PRIME) % PRIME
            factor = rows[:, pivot].copy()
            factor[at] = 0
            rows = (rows - np.outer(factor, rows[at])) % PRIME
            pivots.append(pivot)
    return rows[rows.any(axis=1)], np.array(pivots, np.int64)


@dataclass(frozen=True)
class Sketch:
    """The map X -> A X B^T, into matrices of the given shape.

    ``left`` has a line for each column of A, the rows of its ones in rising order; ``right`` has those of B.
    """

    left: Whole
    right: Whole
    shape: tuple[int, int]

    def cells(self, x: Whole) -> Whole:
        """Places of Y that each non-zero element of X adds to, both in C order."""
        rows, columns = np.nonzero(x)
        cells = self.left[rows][:, :, None] * self.shape[1] + self.right[columns][:, None, :]
        return cells.reshape(rows.size, self.left.shape[1] * self.right.shape[1])

    def adjoint(self, weights: Whole) -> Whole:
        """A^T W B: for each element of X, the sum of W over the places that it adds to."""
        return _gather(_gather(weights, self.left).T, self.right).T


def draw(stream: Stream, *, rows: int, columns: int, ones: int) -> Whole:
    """A random matrix of zeros and ones: a line for each of its columns, with the rows of its ones."""
    found: dict[bytes, None] = {}  # in the order of their first appearance
    together = max(1, min(columns, BATCH // rows))
    start = 0
    while len(found) < columns:
        words = stream.words(start, together * rows).reshape(together, rows)
        start += words.size
        smallest = np.argsort(words, axis=1, kind="stable")[:, :ones]
        candidates = np.sort(smallest, axis=1).astype(np.int32)
        found.update(dict.fromkeys(candidates.view(f"V{4 * ones}").ravel().tolist()))
    kept = b"".join(list(found)[:columns])
    return np.frombuffer(kept, np.int32).reshape(columns, ones).astype(np.int64)


def has_sketch(sketch: Sketch, x: Whole, y: Whole) -> bool:
    """Return True if A X B^T = Y."""
    cells = sketch.cells(x)
    values = np.repeat(x[x != 0].astype(np.float64), cells.shape[1])
    return np.array_equal(np.bincount(cells.ravel(), values, y.size), y.ravel())


def is_strict(sketch: Sketch, x: Whole, weights: Whole) -> bool:
    """Return True if W, in units of 2^-48, shows that X is smaller than matrices with other non-zeros.

    Say H is the difference to another matrix with the sketch of X, and its sum is not larger. The sketch of H
    is zero, hence its product with G = A^T W B, and the sum grows by slack |H off S| - eta |H on S| at least
    (in units of 2^-48). So slack |H off S| <= eta |H| <= 2 eta |X| < slack: H, of integers, is zero off S.
    """
    gradient = sketch.adjoint(weights)
    off = x == 0
    slack = UNIT - int(np.abs(gradient).max(initial=0, where=off))
    gradient -= UNIT * np.sign(x)
    eta = int(np.abs(gradient).max(initial=0, where=~off))
    return 2 * eta * int(np.abs(x).sum()) < slack


def _gather(matrix: Whole, places: Whole) -> Whole:
    """Sums of those rows of the matrix that each line of ``places`` names."""
    result = matrix[places[:, 0]]
    for column in places.T[1:]:
        result += matrix[column]
    return result


def proven(witness: Witness, sketch: Sketch, y: Whole) -> Whole:
    """The next matrix of the witness, proven to be the only one with the sketch Y and a sum as small.

    All that is computed here is exact.
    """
    x = _matrix(witness, sketch)
    weights = _numbers(witness, "<i8", sketch.shape[0] * sketch.shape[1]).reshape(sketch.shape)
    if max(int(weights.max()), -int(weights.min())) > WEIGHT_LIMIT:
        raise Refused("Witness: an element of W is above 2^54 in absolute value.")
    if not has_sketch(sketch, x, y):
        raise Refused("Witness: its matrix has another sketch than the one of the message.")
    if not is_strict(sketch, x, weights):
        raise Refused("Witness: it does not prove that its matrix is smaller than others with its sketch.")
    if x.any() and not are_independent(sketch.cells(x)):
        raise Refused("Witness: the non-zeros of its matrix are not shown to be independent.")
    return x


def _matrix(witness: Witness, sketch: Sketch) -> Whole:
    """The matrix X, from its non-zeros."""
    rows, columns = len(sketch.left), len(sketch.right)
    count = int.from_bytes(witness.take(4), "little")
    if count * sketch.left.shape[1] * sketch.right.shape[1] > CELLS_LIMIT:
        raise Refused(
            f"Witness: a matrix has {count} non-zeros, too many to check that they are independent."
        )
    places, values = (_numbers(witness, kind, count) for kind in ("<u4", "<i4"))
    if count and (np.diff(places).min(initial=1) < 1 or places[-1] >= rows * columns or not values.all()):
        raise Refused("Witness: the non-zeros of a matrix are not in rising order inside it, or one is 0.")
    if count and np.abs(values).max() > ELEMENT_LIMIT:
        raise Refused("Witness: an element of a matrix is above 2^30 in absolute value.")
    x = np.zeros((rows, columns), np.int64)
    x.flat[places] = values
    return x


def _numbers(witness: Witness, kind: str, count: int) -> Whole:
    return np.frombuffer(witness.take(count * int(kind[2])), kind).astype(np.int64)
