"""Peeling: an exact decoder that reads single entries off a sketch, and whether a support has one value."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codebound_papers.guha23.sketch.operators import Bipartite, cells_of, live_entries

Reals = NDArray[np.float64]
Indices = NDArray[np.int64]

PRIME = (1 << 22) - 3
_MOST_CELLS = 1 << 24  # of a support, all counted
_LARGEST_CORE = 1000  # columns left for dense elimination; its cost is cubic
_ROWS = 256  # eliminated together: so many products of two residues are added exactly
_RELATIVE_TOLERANCE = 1e-12  # of the largest cell: what rounding leaves of a zero
_BLOCK = 1 << 15  # entries looked at together: bounds the memory


@dataclass(frozen=True, eq=False)
class Peeled:
    """Result of peeling."""

    value: Reals  # the entries found so far, (p1, p2)
    rest: Reals  # the sketch of what is not found yet; zero everywhere when peeling is complete
    live: NDArray[np.bool_]  # entries that may still be non-zero, (p1, p2), bool

    @property
    def complete(self) -> bool:
        """Return True if nothing is left in the sketch."""
        return not self.rest.any()


def peel(y: Reals, a: Bipartite, b: Bipartite) -> Peeled:
    """Reads entries off a sketch until no more can be read.

    An entry is live while none of its cells is zero. A live entry is read, with value v, when it is the only
    one that covers every cell that holds v. For generic values (no two different sums of entries are equal)
    that is never wrong: the cells that hold v then have the same entries in them. Where values collide, as
    integers do, it may stall or err, and the caller's checks of the result decide.
    """
    rest = y.copy()
    tolerance = _RELATIVE_TOLERANCE * float(np.abs(y).max())
    found = np.zeros((a.p, b.p))
    unread = np.ones((a.p, b.p), dtype=bool)
    while True:
        rest[np.abs(rest) <= tolerance] = 0
        live = live_entries(rest != 0, a, b) & unread
        entries, values = _alone(rest.ravel(), np.flatnonzero(live), a, b, tolerance)
        if len(entries) == 0:
            return Peeled(found, rest, live)
        found.flat[entries] = values
        unread.flat[entries] = False
        cells = cells_of(entries, a, b)
        flat, amounts = cells.ravel(), np.repeat(values, cells.shape[1])
        inside = flat < rest.size
        np.subtract.at(rest.reshape(-1), flat[inside], amounts[inside])


def _alone(
    rest: Reals, entries: Indices, a: Bipartite, b: Bipartite, tolerance: float
) -> tuple[Indices, Reals]:
    """Entries that alone cover all cells of some value, and that value."""
    group, sizes, values = _groups(rest, tolerance)
    too_large = len(a.rows) * len(b.rows) + 1
    group, sizes = np.append(group, len(sizes)), np.append(sizes, too_large)  # of the cell that is none
    # A group that one entry covers has that entry as the sum of the entries that cover it.
    count, owner = np.zeros(len(sizes), dtype=np.int64), np.zeros(len(sizes))
    for start in range(0, len(entries), _BLOCK):
        block = entries[start : start + _BLOCK]
        row, covered = _find_covered(group[cells_of(block, a, b)], sizes)
        count += np.bincount(covered, minlength=len(sizes))
        owner += np.bincount(covered, weights=block[row], minlength=len(sizes))
    single = np.flatnonzero(count == 1)
    found, times = np.unique(owner[single].astype(np.int64), return_counts=True)
    once = np.isin(owner[single], found[times == 1])
    return owner[single[once]].astype(np.int64), values[single[once]]


def _find_covered(groups: Indices, sizes: Indices) -> tuple[Indices, Indices]:
    """Pairs (row, group) such that the row of group numbers has all cells of the group in it.

    In a sorted row a group's run is as long as the group exactly then; it cannot be longer.
    """
    groups = np.sort(groups, axis=1)
    starts = np.ones(groups.shape, dtype=bool)
    starts[:, 1:] = groups[:, 1:] != groups[:, :-1]
    row, position = np.nonzero(starts)
    group = groups[row, position]
    end = position + sizes[group] - 1
    last = groups.shape[1] - 1
    whole = (end <= last) & (groups[row, np.minimum(end, last)] == group)
    return row[whole], group[whole]


def _groups(rest: Reals, tolerance: float) -> tuple[Indices, Indices, Reals]:
    """Numbers of the groups of cells by the value they hold; sizes and values of the groups."""
    ordered = rest[order := np.argsort(rest, kind="stable")]
    new = np.ones(len(rest), dtype=bool)
    new[1:] = ordered[1:] - ordered[:-1] > tolerance
    number = np.cumsum(new) - 1
    group = np.empty(len(rest), dtype=np.int64)
    group[order] = number
    return group, np.bincount(number), ordered[new]


def is_injective(entries: Indices, a: Bipartite, b: Bipartite) -> bool:
    """Return True if the sketch determines the values on a support: a proof, in integers.

    Entries that have a cell to themselves are taken away, again and again, as they are no part of any other.
    The columns of the core that is left have to be independent modulo a prime, and so are over the integers.
    ``False`` also means that support or core are too large to decide (docs/format.md, section 8.9).
    """
    cells, outside, count = cells_of(entries, a, b), a.m * b.m, -1
    if cells.size > _MOST_CELLS:
        return False
    while count != len(cells):
        count, covers = len(cells), np.bincount(cells.ravel(), minlength=outside + 1)
        covers[outside] = 0
        cells = cells[(covers[cells] != 1).all(axis=1)]
    return count <= _LARGEST_CORE and _independent(cells, outside)


def _independent(cells: Indices, outside: int) -> bool:
    """Return True if 0/1 columns, given by the rows of their ones, are independent modulo the prime."""
    rows, places = np.unique(cells, return_inverse=True)
    matrix = np.zeros((len(rows), len(cells)), np.uint8)
    matrix[places.reshape(cells.shape), np.arange(len(cells))[:, None]] = 1
    found, left = np.zeros((0, len(cells))), matrix[rows != outside]
    while len(left) and len(found) < len(cells):  # where a row of ``found`` leads, all others are 0
        block, left = left[:_ROWS].astype(np.float64), left[_ROWS:]
        for part in np.split(found, range(_ROWS, len(found), _ROWS)):
            block = (block - block[:, _leads(part)] @ part) % PRIME
        for k in range(len(block)):
            for lead in _leads(block[[k]]):  # none, if it is zero
                block[k] = block[k] * pow(int(block[k, lead]), -1, PRIME) % PRIME
                others = block[:, lead] * (np.arange(len(block)) != k)
                block = (block - np.outer(others, block[k])) % PRIME
        block = block[block.any(axis=1)]
        found = np.vstack([(found - found[:, _leads(block)] @ block) % PRIME, block])
    return len(found) == len(cells)


def _leads(rows: Reals) -> Indices:
    """Places of the first numbers that are not 0, of rows that have some."""
    return np.asarray((rows[rows.any(axis=1)] != 0).argmax(axis=1))
