"""The linear algebra of a sketch on one device: apply, transpose, and project on what Y can see.

With ``K X = A X B^T`` and G the pseudo-inverse of ``K K^T`` (a Kronecker product: two small factors), the
matrix ``P = K^T G K`` projects on the row space of K. Every step of every solver here is one P.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from codebound_papers.guha23.sketch.support import cells_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound_papers.guha23.sketch.operators import Bipartite

_ROUNDING = 1e-14


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

        Returns x and ``y - G K x``, when the miss is down by the factor ``reduction``, or is rounding error
        against the target, or after ``limit`` steps.
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
    """One factor of every pair, its index lists offset so that one gather serves the whole batch."""

    def __init__(self, graphs: Sequence[Bipartite], dtype: torch.dtype, device: torch.device) -> None:
        self._up = _lists(graphs, device)
        self._down = _lists([g.transposed for g in graphs], device)
        self.gram_inverse = torch.stack([g.gram_inverse[0] for g in graphs]).to(device=device, dtype=dtype)

    def up(self, y: Tensor) -> Tensor:
        return _gather(self._up, y)

    def down(self, x: Tensor) -> Tensor:
        return _gather(self._down, x)


def _lists(graphs: Sequence[Bipartite], device: torch.device) -> tuple[Tensor, Tensor]:
    rows = [g.rows + i * g.m for i, g in enumerate(graphs)]
    ones = np.cumsum([0] + [len(g.rows) for g in graphs])
    starts = [g.starts[:-1] + n for g, n in zip(graphs, ones, strict=False)]
    return torch.from_numpy(np.concatenate(rows)).to(device), torch.from_numpy(np.concatenate(starts)).to(
        device
    )


def _gather(lists: tuple[Tensor, Tensor], values: Tensor) -> Tensor:
    rows, starts = lists
    flat = values.reshape(-1, values.shape[2])
    summed = torch.nn.functional.embedding_bag(rows, flat, starts, mode="sum")
    return summed.view(len(values), -1, values.shape[2])
