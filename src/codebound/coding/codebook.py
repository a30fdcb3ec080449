"""Codebooks: the K values that stand best for a set of weights, found without randomness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CODEBOOK = 256
_CELLS = 1024  # values, or groups of neighbouring values, among which the optimum is exact
_REFINEMENTS = 100


def fit_codebook(weights: NDArray[Any], size: int) -> NDArray[np.float32]:
    """At most ``size`` values, in rising order, for the non-zero weights: least squared error.

    The optimum, by dynamic programming, for up to 1024 different weights. More are first put into 1024 groups
    of neighbours; the optimum of the groups is then refined on all weights until it no longer improves.

    Example:
        >>> fit_codebook(np.array([0.0, 1.0, 1.0, 4.0, 6.0]), 2).tolist()
        [1.0, 5.0]
    """
    if not 1 <= size <= MAX_CODEBOOK:
        raise UsageError(f"a codebook has 1 to {MAX_CODEBOOK} values. Got {size}.")
    values, counts = np.unique(np.asarray(weights, dtype=np.float64), return_counts=True)
    if not bool(np.isfinite(values).all()):
        raise UsageError("weights of a codebook must be finite; some are NaN or infinite.")
    counts, values = counts[values != 0.0], values[values != 0.0]
    if not len(values):
        return np.zeros(1, dtype=np.float32)
    mass = np.concatenate([[0.0], np.cumsum(counts)])
    first = np.concatenate([[0.0], np.cumsum(counts * values)])
    cells = np.unique(np.linspace(0, len(values), min(len(values), _CELLS) + 1).astype(np.int64))
    second = np.concatenate([[0.0], np.cumsum(counts * values**2)])
    borders = cells[_optimal_borders(mass[cells], first[cells], second[cells], min(size, len(cells) - 1))]
    for _ in range(_REFINEMENTS):
        centres = np.diff(first[borders]) / np.diff(mass[borders])
        inner = np.searchsorted(values, 0.5 * (centres[1:] + centres[:-1]), side="right")
        moved = np.concatenate([[0], inner, [len(values)]])
        if bool((moved == borders).all()) or bool((np.diff(moved) == 0).any()):
            break
        borders = moved
    return np.unique((np.diff(first[borders]) / np.diff(mass[borders])).astype(np.float32))


def assign_codebook(weights: NDArray[Any], table: NDArray[np.float32]) -> NDArray[np.int32]:
    """0 for a zero weight, else 1 + the index of the nearest value of a rising table; ties go down."""
    middles = 0.5 * (table[1:].astype(np.float64) + table[:-1].astype(np.float64))
    nearest = np.searchsorted(middles, np.asarray(weights, dtype=np.float64), side="left") + 1
    return np.where(np.asarray(weights) == 0, 0, nearest).astype(np.int32)


def _optimal_borders(
    mass: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64], size: int
) -> NDArray[np.int64]:
    """Borders of the ``size`` intervals of cells with the least sum of squares, from cumulative moments."""
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = (
            second[None, :]
            - second[:, None]
            - (first[None, :] - first[:, None]) ** 2 / (mass[None, :] - mass[:, None])
        )
    cost[np.tri(len(mass), dtype=bool)] = np.inf  # an interval is not empty
    best = cost[0].copy()
    origins = []
    for _ in range(size - 1):
        total = best[:, None] + cost
        origin = np.argmin(total, axis=0)
        origins.append(origin)
        best = total[origin, np.arange(len(mass))]
    borders = [len(mass) - 1]
    for origin in reversed(origins):
        borders.append(int(origin[borders[-1]]))
    return np.array([0, *reversed(borders)])
