"""Ridge regression in closed form that grows, with a bound on its rounding (docs/format.md, section 10.6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from ..cores import side_by_side
from ..refusal import Refused
from .exact import Doubles, Integers, parts
from .rule import MIRRORED

if TYPE_CHECKING:
    from .rule import Rule

BLOCK = 128  # supports whose terms are summed before they are added to the others
STEP = 4096  # points at a time
PIECE = 1024  # supports that are added to a factor at a time
RHO = 1e-7  # the largest rounding error of an output


class Rows(Protocol):
    """A kernel, (supports, points), of which a part is read at a time."""

    def __getitem__(self, where: tuple[slice, slice | Integers]) -> Tensor: ...


class CholeskyFactor:
    """The lower triangle L of a matrix L L^T that grows by rows, some of them at a time."""

    def __init__(self) -> None:
        self._rows: list[Tensor] = []

    def append(self, cross: Tensor, own: Tensor) -> None:
        """Grow by some rows: ``cross`` is (some, all before), ``own`` (some, some)."""
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


def outputs(kernel: Rows, coefficients: Doubles, points: int | Integers) -> Doubles:
    """Sums over supports, block by block, for some points or the first so many: (points, columns)."""
    where = np.arange(points) if isinstance(points, int) else points
    found = torch.zeros(coefficients.shape[1], len(where), dtype=torch.float64)
    blocks = parts(len(coefficients), BLOCK)
    weights = [torch.from_numpy(coefficients[block].T.copy()) for block in blocks]

    def summed(part: slice) -> None:
        columns = _join(where[part])
        for block, own in zip(blocks, weights, strict=True):
            found[:, part] += own @ kernel[block, columns]

    for _ in side_by_side(summed, parts(len(where), STEP)):
        pass
    return np.ascontiguousarray(found.numpy().T)


def _join(places: Integers) -> slice | Integers:
    """Places as a slice, which is read without being copied, if they follow each other."""
    follow = np.array_equal(places, np.arange(places[0], places[0] + len(places)))
    return slice(int(places[0]), int(places[-1]) + 1) if follow else places


class Ridge:
    """Ridge regression on the supports so far.

    ``kernel`` has a row for every support that there will be and a column for every point: the examples, and
    whatever supports are no examples. ``coefficients`` are A', one row a support.
    """

    def __init__(self, kernel: Rows, *, ridge: float, classes: int, kappa: int) -> None:
        self._kernel, self._ridge, self._classes, self._kappa = kernel, ridge, classes, kappa
        self._factor = CholeskyFactor()
        self._where = np.empty(0, np.int64)  # the points that are supports
        self._targets = np.empty((0, classes))
        self.coefficients = np.empty((0, classes))

    def learn(self, where: Integers, labels: Integers, points: int) -> Doubles:
        """Add supports, the points ``where``, and give the outputs of so many points, all that there are."""
        self._extend(where)
        self._targets = np.concatenate([self._targets, _targets(labels, self._classes)])
        solved = self._factor.backward(self._factor.forward(torch.from_numpy(self._targets)))
        self.coefficients = solved.numpy()
        values = outputs(self._kernel, self.coefficients, points)
        rho = rounding(
            self._targets - self._ridge * self.coefficients - values[self._where],
            self.coefficients,
            outputs(self._kernel, np.abs(self.coefficients), self._where),
            ridge=self._ridge,
            kappa=self._kappa,
        )
        if not rho <= RHO:
            raise Refused(f"Rule: rounding can change an output by {rho:.2g}; at most {RHO:g} is allowed.")
        return values

    def _extend(self, where: Integers) -> None:
        """Add supports to the factor."""
        for piece in parts(len(where), PIECE):
            some, old = where[piece], len(self._where)
            rows = self._kernel[slice(old + len(some)), some].T
            own = rows[:, old:].clone()
            own.diagonal().add_(self._ridge)
            self._factor.append(rows[:, :old], own)
            self._where = np.concatenate([self._where, some])


def check_solution(kernel: Rows, solution: Doubles, labels: Integers, rule: Rule) -> None:
    """Refuse a solution that somebody else computed if outputs can be far from those of exact arithmetic."""
    found = outputs(kernel, np.concatenate([solution, np.abs(solution)], axis=1), len(solution))
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
    """Rho, a bound on an output's distance from exact arithmetic; ``sizes`` is K |A'|."""
    absolute = np.abs(coefficients)
    u = 2.0**-52 * (BLOCK + math.ceil(len(absolute) / BLOCK) + 4)
    norms = np.linalg.norm(residual, axis=0) + u * np.linalg.norm(ridge * absolute + sizes, axis=0)
    found = 1.001 * norms * math.sqrt(kappa) / (2 * math.sqrt(ridge)) + u * kappa * absolute.sum(axis=0)
    return float(found.max())
