"""Sparsity of a matrix, and the size of its sketch."""

import math
from dataclasses import dataclass

from torch import Tensor

from codebound.run.errors import UsageError
from codebound.run.references import implements

EMPIRICAL_CONSTANT = 1.3  # l1 recovers from about 1.17 on: 18 sizes, p = 100 to 1000, degree 5 or more
THEOREM_CONSTANT = 1.0  # the theorem leaves it open


@dataclass(frozen=True, slots=True)
class DistributedSparsity:
    """Distribution of a matrix's non-zeros. Index fields name the fullest line."""

    nonzeros: int  # their number
    j_r: int  # most non-zeros in a column
    j_c: int  # most non-zeros in a row
    column: int  # a column that has j_r of them
    row: int  # a row that has j_c of them
    full_diagonal: bool  # whether no diagonal entry is zero

    def name_crowded(self, m: int) -> str:
        """Names the line that a sketch of side m cannot recover from m sums, or is empty."""
        lines = (f"row {self.row}", self.j_c), (f"column {self.column}", self.j_r)
        told = (
            f"{line} has {count} non-zeros, more than half of m = {m}"
            for line, count in lines
            if 2 * count > m
        )
        return next(told, "")


@implements("G-Def5.1", kind="measure")
def distributed_sparsity(x: Tensor) -> DistributedSparsity:
    """Counts the non-zeros of a matrix by row, by column and on the diagonal.

    >>> import torch
    >>> distributed_sparsity(torch.eye(3)).j_c
    1
    """
    if x.ndim != 2 or x.numel() == 0:
        raise UsageError(f"distributed sparsity is of a matrix. Got shape {tuple(x.shape)}.")
    kept = x != 0
    by_row, by_column = kept.sum(dim=1), kept.sum(dim=0)
    return DistributedSparsity(
        nonzeros=int(by_row.sum()),
        j_r=int(by_column.max()),
        j_c=int(by_row.max()),
        column=int(by_column.argmax()),
        row=int(by_row.argmax()),
        full_diagonal=bool(kept.diagonal().all()),
    )


@implements("G-Thm5.1", kind="published-form")
def published_sketch_size(j_r: int, j_c: int, *, d1: int, d2: int, constant: float = THEOREM_CONSTANT) -> int:
    """The theorem's m = constant x sqrt(max(j_c d1, j_r d2)) ln max(d1, d2), rounded up.

    The constant is open and the statement is for one given X, so it promises nothing for a number: run the
    decoder and compare. Measured, the constant drifts from 0.55 to 0.30.

    >>> published_sketch_size(8, 8, d1=784, d2=784)
    528
    """
    return math.ceil(constant * math.sqrt(max(j_c * d1, j_r * d2)) * math.log(max(d1, d2)))


def sketch_size(nonzeros: int, *, d1: int, d2: int, constant: float = EMPIRICAL_CONSTANT) -> int:
    """The measured law m = constant x sqrt(N ln(d1 d2 / N)) for N non-zeros, rounded up.

    It was fitted to non-zeros spread evenly, degree 5 to 8, l1 recovery. At high densities, where the law
    turns down, sqrt(2 N) is returned: fewer than 2 N numbers never sufficed.

    >>> sketch_size(6240, d1=784, d2=784)
    221
    """
    if not 0 < nonzeros <= d1 * d2:
        raise UsageError(f"a {d1} x {d2} matrix has from 1 to {d1 * d2} non-zeros. Got {nonzeros}.")
    law = constant * math.sqrt(nonzeros * math.log(d1 * d2 / nonzeros))
    return math.ceil(max(law, math.sqrt(2 * nonzeros)))


def column_degree(nonzeros: int, *, m: int) -> int:
    """The largest degree of 5, 4, 3 at which a known support of that size can still be peeled.

    A hypergraph of edges of degree^2 random cells loses that at 4.27, 3.04 and 2.02 cells per edge.
    """
    ratio = m * m / max(nonzeros, 1)
    return 5 if ratio >= 4.7 else 4 if ratio >= 3.4 else 3
