"""Independence of the columns of a sparse matrix of zeros and ones, by elimination modulo a prime.

A rank modulo a prime is never above the rank over the rationals, and neither is that of combinations of
rows: an answer yes is right, whatever was drawn at random on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRIME = 4194301  # 2^22 - 3
WIDTH = 128  # columns eliminated at a time: sums of so many products of two remainders are below 2^52
ROUNDS = 256
CORE_LIMIT = 1 << 12  # columns that are eliminated densely: 128 MB
SHARES = 8  # combinations that a row takes part in


def are_independent(cells: NDArray[np.int64]) -> bool:
    """Return True if columns are independent; each is given by the rows of its ones, as many in each.

    No is also the answer where the elimination would be too long.

    Example:
        >>> are_independent(np.array([[0, 1], [1, 2], [2, 3]]))
        True
        >>> are_independent(np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))
        False
    """
    core = _peel(cells)
    if not len(core):
        return True
    return len(core) <= CORE_LIMIT and _is_invertible(_combine(core))


def _peel(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The columns that are left when those with a row of their own are taken away, again and again."""
    touched = np.bincount(cells.ravel())
    for _ in range(ROUNDS):
        alone = (touched[cells] == 1).any(axis=1)
        if not alone.any():
            break
        touched -= np.bincount(cells[alone].ravel(), minlength=touched.size)
        cells = cells[~alone]
    return cells


def _combine(cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """As many random combinations of the rows, modulo the prime, as there are columns."""
    random, count = np.random.default_rng(0), len(cells)
    used, rows = np.unique(cells, return_inverse=True)
    rows = rows.reshape(cells.shape)
    columns = np.broadcast_to(np.arange(count)[:, None], cells.shape)
    result = np.zeros(count * count)
    for _ in range(SHARES):
        target = random.integers(count, size=used.size)
        factor = random.integers(1, PRIME, size=used.size).astype(np.float64)
        place = target[rows] * count + columns
        result += np.bincount(place.ravel(), factor[rows].ravel(), result.size)
    return result.reshape(count, count) % PRIME


def _is_invertible(matrix: NDArray[np.float64]) -> bool:
    """Return True if a matrix of remainders is invertible modulo the prime, by block elimination.

    No is also the answer if a corner of whole blocks is not, which happens by chance alone.
    """
    while len(matrix):
        corner = _inverse(matrix[:WIDTH, :WIDTH])
        if corner is None:
            return False
        above = corner @ matrix[:WIDTH, WIDTH:] % PRIME
        matrix = (matrix[WIDTH:, WIDTH:] - matrix[WIDTH:, :WIDTH] @ above) % PRIME
    return True


def _inverse(block: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The inverse modulo the prime; None if there is none."""
    size = len(block)
    both = np.hstack([block, np.eye(size)]).astype(np.int64)
    for step in range(size):
        pivot = step + int(np.argmax(both[step:, step] != 0))
        if both[pivot, step] == 0:
            return None
        both[[step, pivot]] = both[[pivot, step]]
        both[step] = both[step] * pow(int(both[step, step]), -1, PRIME) % PRIME
        factor = both[:, step].copy()
        factor[step] = 0
        both = (both - np.outer(factor, both[step])) % PRIME
    return both[:, size:].astype(np.float64)
