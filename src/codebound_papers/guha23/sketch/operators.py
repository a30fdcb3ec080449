"""Sketches ``Y = A X B^T`` with sparse 0/1 matrices A and B that any program can draw again from a seed.

With ``K X = A X B^T`` and G the pseudo-inverse of ``K K^T`` (a Kronecker product: two small factors), the
matrix ``P = K^T G K`` projects on the row space of K. Every step of every solver of sketches is one P.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from codebound.bits.stream import Stream
from codebound.run.errors import UsageError
from codebound.run.references import implements

LARGEST_SIDE = 1 << 16  # of a matrix that is sketched: bounds what a file can make a reader allocate
_WORDS_AT_ONCE = 1 << 22
_ROUNDING = 1e-14
_RELATIVE_RANK = 1e-10  # eigenvalues of A A^T below this share of the largest are zeros


@dataclass(frozen=True, eq=False)
class Bipartite:
    """An m x p matrix of zeros and ones, stored as the sorted rows of the ones of each column."""

    m: int  # number of rows: the small side
    p: int  # number of columns: the side of the matrix that is sketched
    rows: NDArray[np.int64]  # row of each one, column after column, ascending within a column; int64
    starts: NDArray[np.int64]  # where each column begins in rows, and the end of the last; p + 1 numbers

    def __post_init__(self) -> None:
        _check_sides(self.m, self.p)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of ones in each column."""
        return np.diff(self.starts)

    @cached_property
    def transposed(self) -> "Bipartite":
        """The same matrix seen from its rows: p x m."""
        columns = np.repeat(np.arange(self.p, dtype=np.int64), self.degrees)
        order = np.argsort(self.rows, kind="stable")
        starts = np.zeros(self.m + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.rows, minlength=self.m), out=starts[1:])
        return Bipartite(self.p, self.m, columns[order], starts)

    def dense(self) -> NDArray[np.int64]:
        """The matrix written out, (m, p)."""
        matrix = np.zeros((self.m, self.p), dtype=np.int64)
        matrix[self.rows, np.repeat(np.arange(self.p), self.degrees)] = 1
        return matrix

    @cached_property
    def gram_inverse(self) -> tuple[Tensor, int]:
        """Pseudo-inverse of ``A A^T``, (m, m) in float64, and the rank of A."""
        dense = torch.from_numpy(self.dense()).double()
        values, vectors = torch.linalg.eigh(dense @ dense.T)
        kept = values > _RELATIVE_RANK * values[-1]
        return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, int(kept.sum())


@implements("G-E19", kind="algorithm")
def column_ensemble(stream: Stream, *, m: int, p: int, degree: int = 5) -> Bipartite:
    """A matrix with exactly ``degree`` ones in every column, no two columns alike.

    The draw uses integers only. A candidate consumes the next m words of the stream: its ones are the
    positions of the ``degree`` smallest words (of equal words the one at the lower position is smaller).
    The columns are the first p candidates that differ from all earlier ones.

    >>> a = column_ensemble(Stream(0, "sketch/left"), m=6, p=8, degree=2)
    >>> a.degrees.tolist()
    [2, 2, 2, 2, 2, 2, 2, 2]
    """
    _check_sides(m, p)
    if not 1 <= degree <= m or math.comb(m, degree) < p:
        raise UsageError(
            f"{p} different columns with {degree} ones among {m} rows do not exist. "
            "Take more rows, or a degree nearer to half of them."
        )
    columns = np.empty((0, degree), dtype=np.int64)
    while len(columns) < p:
        candidates = min(p - len(columns), max(1, _WORDS_AT_ONCE // m))
        words = stream.words(candidates * m).reshape(-1, m)
        drawn = np.sort(np.argsort(words, axis=1, kind="stable")[:, :degree], axis=1)
        columns = np.concatenate([columns, drawn])
        first = np.unique(columns, axis=0, return_index=True)[1]
        columns = columns[np.sort(first)]
    return Bipartite(m, p, columns.ravel(), np.arange(p + 1, dtype=np.int64) * degree)


@implements("G-DefE.1", kind="published-form")
def row_ensemble(stream: Stream, *, m: int, p: int, degree: int) -> Bipartite:
    """The ensemble as printed, for demonstration: every *row* has at most ``degree`` ones.

    Row r consumes the next ``degree`` words; its ones are the words modulo p, repetitions once. About a share
    exp(-degree m / p) of the columns stays empty, and rows of X leave no trace in the sketch.
    """
    _check_sides(m, p)
    if degree < 1:
        raise UsageError(f"a row has at least 1 one. Got degree {degree}.")
    words = stream.words(m * degree).reshape(m, degree)
    columns = [np.unique((row % np.uint64(p)).astype(np.int64)) for row in words]
    starts = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
    return Bipartite(p, m, np.concatenate(columns), starts).transposed


@implements("G-Sk", kind="algorithm")
def sketch(x: Tensor, a: Bipartite, b: Bipartite) -> Tensor:
    """``A X B^T``, exact for integers; X is (p1, p2), A is m1 x p1 and B is m2 x p2."""
    check_shape("the matrix", x, (a.p, b.p))
    return _sum_rows(_sum_rows(x, a.transposed).T, b.transposed).T


def adjoint(y: Tensor, a: Bipartite, b: Bipartite) -> Tensor:
    """``A^T Y B``, exact for integers.

    >>> a, b = (column_ensemble(Stream(0, side), m=4, p=6, degree=2) for side in ("left", "right"))
    >>> x, y = torch.arange(36).reshape(6, 6), torch.arange(16).reshape(4, 4)
    >>> bool((sketch(x, a, b) * y).sum() == (x * adjoint(y, a, b)).sum())
    True
    """
    check_shape("the sketch", y, (a.m, b.m))
    return _sum_rows(_sum_rows(y.T, b).T, a)


def check_shape(what: str, matrix: Tensor, shape: tuple[int, int]) -> None:
    """Refuses a matrix that does not fit its ensembles."""
    if tuple(matrix.shape) != shape:
        raise UsageError(f"{what} has shape {tuple(matrix.shape)}, but its ensembles need {shape}.")


def _sum_rows(values: Tensor, graph: Bipartite) -> Tensor:
    """For each column of the graph the sum of the rows of ``values`` at its ones, (p, ...)."""
    rows = torch.from_numpy(graph.rows).to(values.device)
    if values.is_floating_point():
        starts = torch.from_numpy(graph.starts[:-1]).to(values.device)
        return torch.nn.functional.embedding_bag(rows, values.contiguous(), starts, mode="sum")
    column = torch.from_numpy(np.repeat(np.arange(graph.p), graph.degrees)).to(values.device)
    return values.new_zeros(graph.p, values.shape[1]).index_add_(0, column, values[rows])


def _check_sides(m: int, p: int) -> None:
    if not (1 <= m <= LARGEST_SIDE and 1 <= p <= LARGEST_SIDE):
        raise UsageError(f"a sketch has sides from 1 to {LARGEST_SIDE}. Got {m} x {p}.")


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


def _table(graph: Bipartite) -> NDArray[np.int64]:
    """Rows of the ones as a (p, largest degree) table, filled up with m."""
    degrees = graph.degrees
    table = np.full((graph.p, int(degrees.max())), graph.m, dtype=np.int64)
    table[np.arange(table.shape[1]) < degrees[:, None]] = graph.rows
    return table


class Projector:
    """K, its transpose and its projection for a batch of pairs (A, B) of equal shapes.

    Matrices have a leading batch dimension: X is (batch, p1, p2), Y is (batch, m1, m2).
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Bipartite, Bipartite]],
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> None:
        self.dtype, self.device = dtype, torch.device(device)
        left, right = zip(*pairs, strict=True)
        self._left, self._right = _Side(left, dtype, self.device), _Side(right, dtype, self.device)

    def apply(self, x: Tensor) -> Tensor:
        """``A X B^T``."""
        return self._right.down(self._left.down(x).transpose(1, 2)).transpose(1, 2)

    def transpose(self, y: Tensor) -> Tensor:
        """``A^T Y B``."""
        return self._left.up(self._right.up(y.transpose(1, 2)).transpose(1, 2))

    def whiten(self, y: Tensor) -> Tensor:
        """``G Y``."""
        return self._left.gram_inverse @ y @ self._right.gram_inverse

    def lift(self, y: Tensor) -> Tensor:
        """``K^T G Y``: the smallest X in the Euclidean norm whose sketch is Y."""
        return self.transpose(self.whiten(y))

    def project(self, x: Tensor) -> Tensor:
        """``P X``."""
        return self.lift(self.apply(x))


class Restricted:
    """K on the matrices with a given support, each given by the vector of its values there."""

    def __init__(self, projector: Projector, entries: Tensor, a: Bipartite, b: Bipartite) -> None:
        """``entries`` are row-major positions in X; the projector is that of (a, b) alone."""
        self._projector = projector
        self._shape = (1, a.m, b.m)
        self._cells = torch.from_numpy(cells_of(entries.cpu().numpy(), a, b)).to(projector.device)

    def apply(self, values: Tensor) -> Tensor:
        """``K X``, (1, m1, m2)."""
        flat = values.new_zeros(math.prod(self._shape) + 1)
        flat.index_add_(0, self._cells.flatten(), values.repeat_interleave(self._cells.shape[1]))
        return flat[:-1].view(self._shape)

    def transpose(self, y: Tensor) -> Tensor:
        """The values of ``K^T Y`` on the support."""
        return torch.nn.functional.pad(y.flatten(), (0, 1))[self._cells].sum(dim=1)

    def solve(
        self, y: Tensor, target: Tensor, *, reduction: float, limit: int = 200
    ) -> tuple[Tensor, Tensor]:
        """Conjugate gradients for x with ``K^T (y - G K x) = target`` on the support.

        Returns x and ``y - G K x``, when the miss is down by the factor ``reduction``, or is rounding.
        """
        residual = self.transpose(y) - target
        x, direction = torch.zeros_like(residual), residual
        square = float(residual @ residual)
        enough = max(reduction**2 * square, _ROUNDING**2 * float(target @ target))
        for _ in range(limit):
            if square <= enough:
                break
            image = self.apply(direction)
            white = self._projector.whiten(image)
            curvature = float((image * white).sum())
            if curvature <= _ROUNDING * square:  # a direction that the sketch does not see
                break
            length = square / curvature
            x = torch.add(x, direction, alpha=length)
            y = torch.sub(y, white, alpha=length)
            residual = self.transpose(y) - target
            previous, square = square, float(residual @ residual)
            direction = torch.add(residual, direction, alpha=square / previous)
        return x, y


class _Side:
    """One factor of every pair."""

    def __init__(self, graphs: Sequence[Bipartite], dtype: torch.dtype, device: torch.device) -> None:
        self.up = _gatherer(graphs, device)
        self.down = _gatherer([g.transposed for g in graphs], device)
        self.gram_inverse = torch.stack([g.gram_inverse[0] for g in graphs]).to(device=device, dtype=dtype)


def _gatherer(graphs: Sequence[Bipartite], device: torch.device) -> Callable[[Tensor], Tensor]:
    """Sums rows at the ones of each column; index lists are offset, so that one call serves a whole batch."""
    ones = np.cumsum([0] + [len(g.rows) for g in graphs])
    rows = np.concatenate([g.rows + i * g.m for i, g in enumerate(graphs)])
    starts = np.concatenate([g.starts[:-1] + n for g, n in zip(graphs, ones, strict=False)])
    lists = torch.from_numpy(rows).to(device), torch.from_numpy(starts).to(device)

    def gather(values: Tensor) -> Tensor:
        flat = values.reshape(-1, values.shape[2])
        summed = torch.nn.functional.embedding_bag(lists[0], flat, lists[1], mode="sum")
        return summed.view(len(values), -1, values.shape[2])

    return gather
