"""Kernel ridge regression on vectors of integers, which grows by batches (docs/format.md, 10.5).

The kernel's values are the same on every machine. What is solved is not, but ``rounding`` bounds by how much.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

_ROWS = 1024  # vectors at a time
_PART = 128  # supports that are summed at a time
_SLACK = 1.001  # for the rounding of the kernel's values


@contextmanager
def exact_products() -> Iterator[None]:
    """Float32 products are those of float32 here, whatever the program around allows for speed."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def kernel(a: Tensor, b: Tensor, *, gamma: float, unit: float, known: Tensor | None = None) -> Tensor:
    """1 / (1 + gamma |a - b|^2 / (4 unit))^4 for all rows of a and b, the same floats everywhere.

    Where they are ``known``, the squared lengths of the rows of a are not computed again.

    Example:
        >>> kernel(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), gamma=4.0, unit=2.0)
        tensor([[1.0000, 0.0625]], dtype=torch.float64)
    """
    found = (a @ b.T).double().mul_(-2.0)
    found.add_((squares(a) if known is None else known)[:, None]).add_(squares(b)[None])
    found.div_(unit).mul_(gamma / 4.0).add_(1.0)
    found.square_().square_()
    return found.reciprocal_()


def squares(vectors: Tensor) -> Tensor:
    """Squares of the lengths of the rows."""
    return vectors.double().square_().sum(1)


class KernelRidge:
    """What is learned from supports: copies of picks, with +1 for their class and -1 for the others.

    Args:
        vectors: Features of all examples of the sample, one a row, in 16 bits.
        labels: Their classes.
        classes: Number of classes.
        gamma: Width of the kernel, inverted.
        unit: Length that differences are measured in, squared.
        ridge: What is added to the diagonal.
        is_joined: Whether the copies of an example are one support, of the sum of their kernels.
        capacity: Most supports that there will be.
    """

    def __init__(
        self,
        vectors: Tensor,
        labels: Tensor,
        *,
        classes: int,
        gamma: float,
        unit: float,
        ridge: float,
        is_joined: bool,
        capacity: int,
    ) -> None:
        self.supports: list[tuple[Tensor, ...]] = []
        self._vectors, self._labels, self._classes = vectors, labels, classes
        self._gamma, self._unit, self._ridge, self._is_joined = gamma, unit, ridge, is_joined
        self._rows_at_once = _ROWS if vectors.device.type == "cpu" else 16 * _ROWS
        self._squares = torch.cat([squares(vectors[at : at + _ROWS]) for at in range(0, len(vectors), _ROWS)])
        self._blocks: list[Tensor] = []  # kernel of all examples with the supports of each batch
        self._rows: list[Tensor] = []  # which examples these are
        self._ends = [0]
        self._factor = _square(capacity, vectors.device)
        self._inner: Tensor | None = None  # kernel of supports, where they are no rows of the blocks
        self._capacity = capacity
        self._solved = torch.empty(capacity, classes, dtype=torch.float64, device=vectors.device)
        self._targets = torch.empty_like(self._solved)

    def add(self, rows: Tensor, copies: Sequence[Tensor]) -> None:
        """Adds examples of the sample with the features of their copies, the first of them their own."""
        groups = [tuple(copies)] if self._is_joined else [(each,) for each in copies]
        block = torch.cat([self._with_all(group) for group in groups], dim=1)
        old, new = self._ends[-1], self._ends[-1] + block.shape[1]
        targets = torch.full((len(rows), self._classes), -1.0, dtype=torch.float64, device=rows.device)
        targets[torch.arange(len(rows)), self._labels[rows]] = 1.0
        targets = targets.repeat(len(groups), 1)
        if len(groups) == 1:
            across, corner = block[torch.cat(self._rows)] if self._rows else block[:0], block[rows]
        else:
            across, corner = self._among_copies([each for (each,) in groups], old, new)
        self._rows.append(rows)
        self._blocks.append(block)
        self.supports.append(tuple(copies))
        self._ends.append(new)
        self._extend(across, corner, targets, old, new)

    def _with_all(self, group: tuple[Tensor, ...]) -> Tensor:
        """The kernel of every example with supports whose copies are given."""
        found = torch.empty(len(self._vectors), len(group[0]), dtype=torch.float64, device=group[0].device)
        for start in range(0, len(found), self._rows_at_once):
            rows = slice(start, start + self._rows_at_once)
            part, known = self._vectors[rows].float(), self._squares[rows]
            total = kernel(part, group[0], gamma=self._gamma, unit=self._unit, known=known)
            for copy in group[1:]:
                total += kernel(part, copy, gamma=self._gamma, unit=self._unit, known=known)
            found[rows] = total
        return found

    def _among_copies(self, copies: Sequence[Tensor], old: int, new: int) -> tuple[Tensor, Tensor]:
        if self._inner is None:
            self._inner = _square(self._capacity, copies[0].device)
        added = torch.cat(list(copies))
        before = [torch.cat(batch) for batch in self.supports]
        among = torch.cat(
            [kernel(part, added, gamma=self._gamma, unit=self._unit) for part in (*before, added)]
        )
        self._inner[:new, old:new], self._inner[old:new, :old] = among, among[:old].T
        return among[:old], among[old:]

    def _extend(self, across: Tensor, corner: Tensor, targets: Tensor, old: int, new: int) -> None:
        """Appends rows to the Cholesky factor and to the half-solved targets."""
        factor, solved = self._factor, self._solved
        corner = corner + self._ridge * torch.eye(len(corner), dtype=corner.dtype, device=corner.device)
        rest = targets
        if old:
            below = torch.linalg.solve_triangular(factor[:old, :old], across, upper=False).T
            corner, rest = corner - below @ below.T, targets - below @ solved[:old]
            factor[old:new, :old] = below
        factor[old:new, old:new] = torch.linalg.cholesky(corner)
        solved[old:new] = torch.linalg.solve_triangular(factor[old:new, old:new], rest, upper=False)
        self._targets[old:new] = targets

    def coefficients(self, batches: int | None = None) -> Tensor:
        """The solution from all supports, or from those of the first batches."""
        end = self._ends[-1 if batches is None else batches]
        solved: Tensor = torch.linalg.solve_triangular(
            self._factor[:end, :end].T, self._solved[:end], upper=True
        )
        return solved

    def outputs(self, coefficients: Tensor) -> Tensor:
        """What the network says of every example of the sample."""
        total = torch.zeros(
            len(self._vectors), self._classes, dtype=torch.float64, device=coefficients.device
        )
        for part, low, high in self._parts(len(coefficients)):
            total += part @ coefficients[low:high]
        return total

    def _parts(self, end: int) -> Iterator[tuple[Tensor, int, int]]:
        """The kernel of all examples with the supports, a few of them at a time: short sums are safe."""
        for block, start, stop in zip(self._blocks, self._ends, self._ends[1:], strict=False):
            if stop > end:
                return
            for low in range(start, stop, _PART):
                high = min(stop, low + _PART)
                yield block[:, low - start : high - start], low, high

    def rounding(self, coefficients: Tensor) -> float:
        """By how much outputs of exact arithmetic can differ from those computed with these coefficients."""
        end = len(coefficients)
        rows = torch.cat(self._rows)[:end]
        both = torch.cat([coefficients, coefficients.abs()], dim=1)
        products, parts = torch.zeros_like(both), 0
        for part, low, high in self._parts(end):
            inner = part[rows] if self._inner is None else self._inner[:end, low:high]
            products += inner @ both[low:high]
            parts += 1
        products, magnitudes = products.chunk(2, dim=1)
        residual = self._targets[:end] - self._ridge * coefficients - products
        magnitudes = magnitudes + self._ridge * coefficients.abs()
        unit, kappa = 2.0**-52 * (_PART + parts + 4), 2.0 if self._is_joined else 1.0
        norms = residual.norm(dim=0) + unit * magnitudes.norm(dim=0)
        per_class = _SLACK * norms * math.sqrt(kappa) / (2.0 * math.sqrt(self._ridge))
        return float((per_class + unit * kappa * coefficients.abs().sum(0)).max())


def _square(side: int, device: torch.device) -> Tensor:
    return torch.empty(side, side, dtype=torch.float64, device=device)
