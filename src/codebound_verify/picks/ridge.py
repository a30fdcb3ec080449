"""Ridge regression in closed form that grows, with a bound on its rounding (docs/format.md, section 10.6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..refusal import Refused
from .exact import Doubles, Integers, parts, side_by_side
from .rule import MIRRORED

if TYPE_CHECKING:
    from .rule import Rule

BLOCK = 128  # supports whose terms are summed before they are added to the others
STEP = 4096  # points at a time
RHO = 1e-7  # the largest rounding error of an output


class Factor:
    """The lower triangle L of a matrix L L^T that grows by rows, one block of them for every batch."""

    def __init__(self) -> None:
        self._rows: list[Tensor] = []

    def append(self, cross: Tensor, own: Tensor) -> None:
        """Grow by a batch: ``cross`` is (batch, all before), ``own`` (batch, batch)."""
        left = self.forward(cross.T).T
        corner, failed = torch.linalg.cholesky_ex(own - left @ left.T)
        if failed:
            raise Refused("Rule: the kernel of the picks cannot be factored.")
        self._rows.append(torch.cat([left, corner], dim=1))

    def forward(self, right: Tensor) -> Tensor:
        """L^-1 of a matrix."""
        found = right.clone()
        for start, row in self._blocks():
            stop = row.shape[1]
            found[start:stop] -= row[:, :start] @ found[:start]
            found[start:stop] = torch.linalg.solve_triangular(row[:, start:], found[start:stop], upper=False)
        return found

    def backward(self, right: Tensor) -> Tensor:
        """L^-T of a matrix."""
        found = right.clone()
        for start, row in reversed(self._blocks()):
            stop = row.shape[1]
            found[start:stop] = torch.linalg.solve_triangular(row[:, start:].T, found[start:stop], upper=True)
            found[:start] -= row[:, :start].T @ found[start:stop]
        return found

    def _blocks(self) -> list[tuple[int, Tensor]]:
        return [(row.shape[1] - len(row), row) for row in self._rows]


def outputs(kernel: Doubles, coefficients: Doubles) -> Doubles:
    """Sums over supports, block by block: ``kernel`` is (supports, points), the result (points, columns)."""
    values = torch.from_numpy(kernel)
    found = torch.zeros(coefficients.shape[1], kernel.shape[1], dtype=torch.float64)
    blocks = parts(len(kernel), BLOCK)
    weights = [torch.from_numpy(coefficients[block].T.copy()) for block in blocks]

    def summed(part: slice) -> None:
        for block, own in zip(blocks, weights, strict=True):
            found[:, part] += own @ values[block, part]

    for _ in side_by_side(summed, parts(kernel.shape[1], STEP)):
        pass
    return np.ascontiguousarray(found.numpy().T)


class Ridge:
    """What is learned from the supports so far.

    ``kernel`` has a row for every support that there will be and a column for every point: the examples, and
    whatever supports are no examples. ``coefficients`` are A', one row a support.
    """

    def __init__(self, kernel: Doubles, *, ridge: float, classes: int, kappa: int) -> None:
        self._kernel, self._ridge, self._classes, self._kappa = kernel, ridge, classes, kappa
        self._factor = Factor()
        self._where = np.empty(0, np.int64)  # the points that are supports
        self._targets = np.empty((0, classes))
        self.coefficients = np.empty((0, classes))

    def learn(self, where: Integers, labels: Integers) -> Doubles:
        """Add supports, the points ``where``, and give the outputs of all points."""
        old = len(self._where)
        self._where = np.concatenate([self._where, where])
        targets = _targets(labels, self._classes)
        self._targets = np.concatenate([self._targets, targets])
        rows = torch.from_numpy(self._kernel[: len(self._where), where].T.copy())
        own = rows[:, old:] + self._ridge * torch.eye(len(where), dtype=torch.float64)
        self._factor.append(rows[:, :old], own)
        solved = self._factor.backward(self._factor.forward(torch.from_numpy(self._targets)))
        self.coefficients = solved.numpy()
        both = np.concatenate([self.coefficients, np.abs(self.coefficients)], axis=1)
        found = outputs(self._kernel[: len(self._where)], both)
        values, sizes = found[:, : self._classes], found[:, self._classes :]
        rho = rounding(
            self._targets - self._ridge * self.coefficients - values[self._where],
            self.coefficients,
            sizes[self._where],
            ridge=self._ridge,
            kappa=self._kappa,
        )
        if not rho <= RHO:
            raise Refused(f"Rule: rounding can change an output by {rho:.2g}; at most {RHO:g} is allowed.")
        return values


def check_solution(kernel: Doubles, solution: Doubles, labels: Integers, rule: Rule) -> None:
    """Refuse a solution that somebody else computed if outputs can be far from those of exact arithmetic."""
    found = outputs(kernel, np.concatenate([solution, np.abs(solution)], axis=1))
    classes = solution.shape[1]
    residual = _targets(labels, classes) - rule.ridge * solution - found[:, :classes]
    kappa = 2 if rule.copies == MIRRORED else 1
    rho = rounding(residual, solution, found[:, classes:], ridge=rule.ridge, kappa=kappa)
    if not rho <= RHO:
        raise Refused(f"Weights: their outputs can be off by {rho:.2g}; at most {RHO:g} is allowed.")


def _targets(labels: Integers, classes: int) -> Doubles:
    """A row for every support: 1 at its label and -1 elsewhere."""
    found = np.full((len(labels), classes), -1.0)
    found[np.arange(len(labels)), labels] = 1.0
    return found


def rounding(residual: Doubles, coefficients: Doubles, sizes: Doubles, *, ridge: float, kappa: int) -> float:
    """Rho: how far an output can be from that of exact arithmetic; ``sizes`` is K |A'|."""
    absolute = np.abs(coefficients)
    u = 2.0**-52 * (BLOCK + math.ceil(len(absolute) / BLOCK) + 4)
    norms = np.linalg.norm(residual, axis=0) + u * np.linalg.norm(ridge * absolute + sizes, axis=0)
    found = 1.001 * norms * math.sqrt(kappa) / (2 * math.sqrt(ridge)) + u * kappa * absolute.sum(axis=0)
    return float(found.max())
