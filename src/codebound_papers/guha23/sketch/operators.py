"""Sketches ``Y = A X B^T`` with sparse 0/1 matrices A and B that any program can draw again from a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from codebound.errors import UsageError
from codebound.refs import implements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.coding.stream import Stream

LARGEST_SIDE = 1 << 16  # of a matrix that is sketched: bounds what a file can make a reader allocate
_WORDS_AT_ONCE = 1 << 22
_RELATIVE_RANK = 1e-10  # eigenvalues of A A^T below this share of the largest are zeros


@dataclass(frozen=True, eq=False)
class Bipartite:
    """An m x p matrix of zeros and ones, stored as the sorted rows of the ones of each column.

    Attributes:
        m: Number of rows: the small side.
        p: Number of columns: the side of the matrix that is sketched.
        rows: Row of each one, column after column, ascending within a column; int64.
        starts: Where each column begins in ``rows``, and its length at the end; p + 1 numbers, int64.
    """

    m: int
    p: int
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        _check_sides(self.m, self.p)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of ones in each column."""
        return np.diff(self.starts)

    @cached_property
    def transposed(self) -> Bipartite:
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
    The columns are the first p candidates that differ from all earlier ones. Two equal columns would make
    two rows of X indistinguishable; a column without ones would make a row invisible.

    Example:
        >>> from codebound.coding.stream import Stream
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

    Row r consumes the next ``degree`` words; its ones are the words modulo p, repetitions once. Columns
    stay empty, about a share exp(-degree m / p) of them, and the rows of X that belong to them leave no trace
    in the sketch: it does not recover.
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
    """``A X B^T``, exact for integers; the Kronecker product of A and B is never formed.

    Args:
        x: Matrix (p1, p2), int64 or floating point, on any device.
        a: Left matrix, m1 x p1.
        b: Right matrix, m2 x p2.

    Returns:
        The sketch (m1, m2).
    """
    check_shape("the matrix", x, (a.p, b.p))
    return _sum_rows(_sum_rows(x, a.transposed).T, b.transposed).T


def adjoint(y: Tensor, a: Bipartite, b: Bipartite) -> Tensor:
    """``A^T Y B``, exact for integers.

    Example:
        >>> from codebound.coding.stream import Stream
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
