"""Independence of the columns of a sparse matrix of zeros and ones (docs/format.md, section 8.9).

A rank modulo a prime is never above the rank over the rationals: an answer yes is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

PRIME = 4194301  # 2^22 - 3
WIDTH = 128  # rows that are eliminated at a time
SUMMED = 512  # products of two remainders whose sum is below 2^53
CORE_LIMIT = 1000  # columns that are eliminated


def are_independent(cells: NDArray[np.int64]) -> bool:
    """Return True if columns are independent; each is given by the rows of its ones, as many in each.

    No is also the answer where too many are left to eliminate.

    Example:
        >>> are_independent(np.array([[0, 1], [1, 2], [2, 3]]))
        True
        >>> are_independent(np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))
        False
    """
    core = _peel(cells)
    return len(core) <= CORE_LIMIT and _has_full_rank(core)


def _peel(cells: NDArray[np.int64]) -> NDArray[np.int64]:
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


def _has_full_rank(cells: NDArray[np.int64]) -> bool:
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


def _reduced(rows: Doubles) -> tuple[Doubles, NDArray[np.int64]]:
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
