"""Ridge regression in closed form, and the choice of its widths (docs/format.md, sections 7.7 and 7.8)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..refusal import Refused
from ..sample import Data, parts
from .exact import Doubles, Integers, Vectors, side_by_side
from .kernel import BLOCK, Kept, squared_distances, values_of
from .maps import FeatureMap
from .rule import Columns, Rule

STEP = 4096  # points at a time
PIECE = 1024  # supports that are added to a factor at a time
LEFT_OUT_LIMIT = 1000  # rows that widths are chosen by
GAMMAS_OF_PICTURES = (0.25, 0.5, 1.0)
GAMMAS_OF_COLUMNS = (0.5, 1.0, 2.0, 4.0)
RIDGES = (2.0**-6, 2.0**-4, 2.0**-2)
ONE_MORE = 1.0  # ridge, for columns
ROOM = 0.5e-9  # relative; half of the writer's
TOGETHER = 128  # rows whose vectors are made at a time
RHO = {True: 1e-7, False: 1e-6}
"""The largest rounding error of a score, by whether the rule picks."""


class CholeskyFactor:
    """The lower triangle L of a matrix L L^T that grows by rows, some of them at a time."""

    def __init__(self) -> None:
        self._rows: list[Tensor] = []

    def append(self, cross: Tensor, own: Tensor) -> None:
        """Grow by some rows: ``cross`` is (some, all before), ``own`` (some, some)."""
        left = self.forward(cross.T).T
        corner, failed = torch.linalg.cholesky_ex(own - left @ left.T)
        if failed:
            raise Refused("Rule: the kernel of the supports cannot be factored.")
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


def outputs(values: Kept, coefficients: Doubles, points: int | Integers) -> Doubles:
    """Sums over supports, block by block, for some points or the first so many: (points, columns)."""
    where = np.arange(points) if isinstance(points, int) else points
    found = torch.zeros(coefficients.shape[1], len(where), dtype=torch.float64)
    blocks = parts(len(coefficients), BLOCK)
    weights = [torch.from_numpy(coefficients[block].T.copy()) for block in blocks]

    def summed(part: slice) -> None:
        columns = _join(where[part])
        for block, own in zip(blocks, weights, strict=True):
            found[:, part] += own @ values[block, columns]

    for _ in side_by_side(summed, parts(len(where), STEP)):
        pass
    return np.ascontiguousarray(found.numpy().T)


def _join(places: Integers) -> slice | Integers:
    """Places as a slice, which is read without being copied, if they follow each other."""
    follow = np.array_equal(places, np.arange(places[0], places[0] + len(places)))
    return slice(int(places[0]), int(places[-1]) + 1) if follow else places


def targets_of(labels: Integers, classes: Integers) -> Doubles:
    """A row for every label, all of which are classes: 1 at its class and -1 elsewhere."""
    return np.where(labels[:, None] == classes, 1.0, -1.0)


class Ridge:
    """Ridge regression on the supports so far. ``coefficients`` are A, one row a support."""

    def __init__(self, rule: Rule, classes: int, *, picks: bool) -> None:
        assert rule.ridge is not None  # it is chosen before
        self._ridge, self._kappa = rule.ridge, 2 if rule.is_mirrored else 1
        self._most = RHO[picks]
        self._factor = CholeskyFactor()
        self._targets = np.empty((0, classes))
        self.coefficients = np.empty((0, classes))

    def extend(self, values: Tensor, targets: Doubles) -> None:
        """Add some supports: ``values`` is their kernel with those before and with themselves."""
        old = len(self._targets)
        own = values[:, old:].clone()
        own.diagonal().add_(self._ridge)
        self._factor.append(values[:, :old], own)
        self._targets = np.concatenate([self._targets, targets])

    def solve(self) -> None:
        """Compute the coefficients."""
        self.coefficients = self._factor.backward(
            self._factor.forward(torch.from_numpy(self._targets))
        ).numpy()

    def check(self, values: Doubles, sizes: Doubles) -> float:
        """Rho, which is small enough, from the sums K A and K |A|."""
        residual = self._targets - self._ridge * self.coefficients - values
        rho = rounding(residual, self.coefficients, sizes, ridge=self._ridge, kappa=self._kappa)
        if not rho <= self._most:
            raise Refused(
                f"Rule: rounding can change a score by {rho:.2g}; at most {self._most:g} is allowed."
            )
        return rho


def rounding(residual: Doubles, coefficients: Doubles, sizes: Doubles, *, ridge: float, kappa: int) -> float:
    """Rho, a bound on a score's distance from exact arithmetic. ``sizes`` is K |A|."""
    absolute = np.abs(coefficients)
    v = 2.0**-52 * (BLOCK + math.ceil(len(absolute) / BLOCK) + 4)
    norms = np.linalg.norm(residual, axis=0) + v * np.linalg.norm(ridge * absolute + sizes, axis=0)
    found = 1.001 * norms * math.sqrt(kappa) / (2 * math.sqrt(ridge)) + v * kappa * absolute.sum(axis=0)
    return float(found.max())


def choose_widths(
    rule: Rule, features: FeatureMap, data: Data, first: Integers, *, inputs: Integers, targets: Doubles
) -> tuple[float, float]:
    """gamma and lambda of the smallest score. ``inputs`` has a number for each different input stored."""
    rows = first[:LEFT_OUT_LIMIT]
    vectors = np.concatenate(
        [features.vectors(features.prepare(data.x[rows[part]])) for part in parts(len(rows), TOGETHER)]
    )
    scores = score_widths(
        vectors,
        inputs[rows],
        targets[: len(rows)],
        squared_scale=features.squared_scale,
        has_columns=isinstance(rule.features, Columns),
    )
    (best, widths), (second, others) = sorted((score, pair) for pair, score in scores.items())[:2]
    if not second - best > ROOM * best:
        raise Refused(
            f"Rule: kernel and ridge {widths} and {others} do equally well on the known rows; "
            "form 1110 has to name one pair."
        )
    return widths


def score_widths(
    vectors: Vectors, inputs: Integers, targets: Doubles, *, squared_scale: float, has_columns: bool
) -> dict[tuple[float, float], float]:
    """The score of each pair: the mean of the squares of the errors of rows that are left out."""
    distances, groups = squared_distances(vectors), list(_groups_of(inputs))
    gammas = GAMMAS_OF_COLUMNS if has_columns else GAMMAS_OF_PICTURES
    ridges = (*RIDGES, ONE_MORE) if has_columns else RIDGES
    found, right = {}, torch.from_numpy(targets)
    for gamma in gammas:
        kernel = values_of(distances.clone(), squared_scale, gamma)
        for ridge in ridges:
            found[gamma, ridge] = _score(kernel, ridge, right, groups)
    return found


def _score(kernel: Tensor, ridge: float, targets: Tensor, groups: list[Integers]) -> float:
    """The mean of the squares of (H[G, G])^-1 (H Y)[G], over all groups G."""
    shifted = kernel.clone()
    shifted.diagonal().add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(shifted)
    if failed:
        raise Refused("Rule: the kernel of the known rows cannot be factored.")
    inverse = torch.cholesky_inverse(factor)
    errors = inverse @ targets
    alone = errors / inverse.diagonal()[:, None]
    for group in groups:
        own = torch.from_numpy(group)
        alone[own] = torch.linalg.solve(inverse[own][:, own], errors[own])
    return float(alone.square().mean())


def _groups_of(inputs: Integers) -> Iterator[Integers]:
    """The places of inputs that are equal. Those of inputs that are alone are left out."""
    order = np.argsort(inputs, kind="stable")
    starts = np.flatnonzero(np.diff(inputs[order], prepend=-1))
    return (group for group in np.split(order, starts[1:]) if len(group) > 1)
