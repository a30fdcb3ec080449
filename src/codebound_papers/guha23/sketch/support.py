"""Supports: which cells an entry of X reaches, and whether a sketch determines the values on a support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.coding.stream import Stream
from codebound_papers.guha23.sketch.operators import adjoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound_papers.guha23.sketch.operators import Bipartite

PRIME = (1 << 31) - 1
_LARGEST_CORE = 1000  # columns left for dense elimination; its cost is cubic
_SPARE_ROWS = 8


def cells_of(entries: NDArray[np.int64], a: Bipartite, b: Bipartite) -> NDArray[np.int64]:
    """The cells of Y, row-major, that each entry of X, row-major, is added to: (entries, most cells).

    Entries with fewer cells than others are filled up with the number one past the last cell.
    """
    left, right = _table(a)[entries // b.p][:, :, None], _table(b)[entries % b.p][:, None, :]
    cells = np.where((left == a.m) | (right == b.m), a.m * b.m, left * b.m + right)
    return np.asarray(cells.reshape(len(entries), left.shape[1] * right.shape[2]), dtype=np.int64)


def live_entries(nonzero: NDArray[np.bool_], a: Bipartite, b: Bipartite) -> NDArray[np.bool_]:
    """Entries of X none of whose cells is zero, (p1, p2); the others are zero unless values cancel."""
    touched = adjoint(torch.from_numpy(nonzero).float(), a, b).numpy()
    return np.asarray(touched == np.outer(a.degrees, b.degrees), dtype=bool)


def is_injective(entries: NDArray[np.int64], a: Bipartite, b: Bipartite) -> bool:
    """Whether the sketch determines the values on a support: exact, in integers.

    Entries that have a cell to themselves are taken away, again and again: such an order makes the matrix
    of the support triangular with ones on the diagonal. If a core is left, its columns are independent when
    they are so modulo a prime, which is checked on random combinations of its rows. ``True`` is therefore a
    proof; ``False`` also means that the core was too large to decide.
    """
    cells, outside = cells_of(entries, a, b), a.m * b.m
    while len(cells):
        covers = np.bincount(cells.ravel(), minlength=outside + 1)
        covers[outside] = 0
        alone = (covers[cells] == 1).any(axis=1)
        if not alone.any():
            break
        cells = cells[~alone]
    return len(cells) <= _LARGEST_CORE and _independent(cells, outside)


def _independent(cells: NDArray[np.int64], outside: int) -> bool:
    """Whether 0/1 columns given by the rows of their ones are independent modulo the prime."""
    rows, columns = np.unique(cells, return_inverse=True)
    columns, inside = columns.reshape(cells.shape), cells != outside
    stream = Stream(0, "sketch/rank")
    matrix = np.stack(
        [
            (_residues(stream, len(rows))[columns] * inside).sum(axis=1) % PRIME
            for _ in range(len(cells) + _SPARE_ROWS)
        ]
    )
    for k in range(len(cells)):
        pivots = np.flatnonzero(matrix[k:, k])
        if len(pivots) == 0:
            return False
        row = matrix[k + pivots[0], k:] * pow(int(matrix[k + pivots[0], k]), -1, PRIME) % PRIME
        matrix[k + pivots[0]] = matrix[k]
        matrix[k + 1 :, k:] = (matrix[k + 1 :, k:] - matrix[k + 1 :, k, None] * row % PRIME) % PRIME
    return True


def _residues(stream: Stream, count: int) -> NDArray[np.int64]:
    return (stream.words(count) % np.uint64(PRIME)).astype(np.int64)


def _table(graph: Bipartite) -> NDArray[np.int64]:
    """Rows of the ones as a (p, largest degree) table, filled up with m."""
    degrees = graph.degrees
    table = np.full((graph.p, int(degrees.max())), graph.m, dtype=np.int64)
    table[np.arange(table.shape[1]) < degrees[:, None]] = graph.rows
    return table
