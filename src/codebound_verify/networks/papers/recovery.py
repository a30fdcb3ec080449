"""Recovery of the matrix behind a sketch, with its proof (docs/format.md, section 4.13).

This is floating-point work and may fail, but it cannot err: what ``recover`` returns has been proven with
integers (``sketch``, ``rank``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import embedding_bag, softshrink

from ...arithmetic import Budget
from ...refusal import Refused
from .rank import are_independent
from .sketch import CELLS_LIMIT, UNIT, WEIGHT_LIMIT, Sketch, Whole, has_sketch, is_strict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from ..tensors import Doubles

SIDE_LIMIT = 1 << 11  # of a sketch: A A^T and B B^T are inverted densely
WORK_LIMIT = 1 << 39  # multiplications of one search
LEAST_WORK = 1 << 28  # that a step counts, however small it is
THRESHOLD = 2.0  # relative to the mean of the first guess
STAGES, SHRINKING = 4, 0.2  # how often the threshold shrinks: smaller elements need a smaller one
STEPS = 400  # of a stage
RELAXATION = 1.8
LOOK = 10  # steps from one look at the result to the next
FITS = (50, 100, 200, 390)  # steps after which the non-zeros are fitted to the sketch
MARGINS = (0.1, 0.03, 0.01, 0.003)  # that a proof is to have, tried in turn
ATTEMPTS = (10, 25, 50, 100)  # steps with one margin, after which a proof is tried
CORRECTIONS = 300  # steps of conjugate gradients
ACCURACY = 1e-12
GATHERING = 64  # multiplications in whose time one number is gathered and spread


def recover(sketch: Sketch, y: Whole) -> Whole:
    """The matrix X behind a sketch Y, proven to be the only one with a sum as small.

    Raises:
        Refused: if none is found for which there is a proof.
    """
    if not y.any():  # nothing is smaller than zero
        return np.zeros((len(sketch.left), len(sketch.right)), np.int64)
    if max(sketch.shape) > SIDE_LIMIT:
        raise Refused(f"Message: a sketch has the sizes {sketch.shape}; more than {SIDE_LIMIT} is too large.")
    operator = _Operator(sketch)
    for x, gradient in _minimisers(operator, y):
        cells = sketch.cells(x)
        for weights in _proofs(operator, x, cells, gradient):
            if is_strict(sketch, x, weights):
                if not are_independent(cells):
                    raise Refused("Message: the non-zeros behind a sketch are not proven to be independent.")
                return x
    raise Refused("Message: no matrix is found that is proven to be the smallest one behind its sketch.")


class _Side:
    """One of the matrices A and B."""

    def __init__(self, places: Whole, rows: int) -> None:
        order = np.argsort(places.ravel(), kind="stable")
        counts = np.bincount(places.ravel(), minlength=rows)
        self._places = torch.from_numpy(places)
        self._members = torch.from_numpy(order // places.shape[1])  # columns with a one, row by row
        self._starts = torch.from_numpy(np.cumsum(counts) - counts)
        gram = self.down(self.up(torch.eye(rows, dtype=torch.float64)))
        self.inverse = torch.linalg.pinv(gram, rtol=1e-10, hermitian=True)

    def down(self, matrix: Tensor) -> Tensor:
        """A times a matrix."""
        return embedding_bag(self._members, matrix.contiguous(), self._starts, mode="sum")

    def up(self, matrix: Tensor) -> Tensor:
        """A^T times a matrix."""
        return embedding_bag(self._places, matrix.contiguous(), mode="sum")


class _Operator:
    """The map X -> A X B^T on real numbers."""

    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        m1, m2 = sketch.shape
        self._left, self._right = _Side(sketch.left, m1), _Side(sketch.right, m2)
        elements, ones = len(sketch.left) * len(sketch.right), sketch.left.shape[1]
        self._cost = max(LEAST_WORK, 16 * ones * elements + 4 * m1 * m2 * (m1 + m2))
        self.work = Budget(WORK_LIMIT, "the multiplications of a search for the matrix behind a sketch")

    def forward(self, x: Tensor) -> Tensor:
        """A X B^T."""
        return self._right.down(self._left.down(x).T).T

    def adjoint(self, weights: Tensor) -> Tensor:
        """A^T W B."""
        return self._left.up(self._right.up(weights.T).T)

    def weights(self, y: Tensor) -> Tensor:
        """W for which A^T W B is the smallest matrix, by its sum of squares, whose sketch is nearest to Y."""
        self.work.spend(self._cost)
        result: Tensor = self._left.inverse @ y @ self._right.inverse
        return result


def _minimisers(operator: _Operator, y: Whole) -> Iterator[tuple[Whole, Tensor]]:
    """Integer matrices with the sketch Y whose sum may be the smallest, by Douglas-Rachford splitting.

    With each comes a matrix A^T W B that is near to its signs where it is not zero.
    """
    target = torch.from_numpy(y.reshape(operator.sketch.shape).astype(np.float64))
    guess = operator.adjoint(operator.weights(target))
    if (operator.forward(guess) - target).abs().max() > 0.5:  # no matrix at all has this sketch
        return
    x = guess.round().long().numpy()
    if has_sketch(operator.sketch, x, y):  # as where no other matrix has this sketch
        yield x, torch.from_numpy(np.sign(x).astype(np.float64))
    last = x
    limit = THRESHOLD * float(guess.abs().mean())
    state = guess
    for _ in range(STAGES):
        for step in range(STEPS):
            move = operator.adjoint(operator.weights(target - operator.forward(state)))
            sparse = softshrink(torch.add(state, move, alpha=2), limit)
            if step % LOOK == 0:
                rounded = (_fit(operator, sparse, y) if step in FITS else sparse).round()
                if torch.equal(operator.forward(rounded), target):
                    x = rounded.long().numpy()
                    if np.array_equal(x, last):  # it has settled, and there was no proof
                        return
                    if has_sketch(operator.sketch, x, y):
                        yield x, move / limit
                    last = x
            state.lerp_(sparse.sub_(move), RELAXATION)
        state.add_(move, alpha=1 - SHRINKING)
        limit *= SHRINKING


def _proofs(operator: _Operator, x: Whole, cells: Whole, gradient: Tensor) -> Iterator[Whole]:
    """Matrices W that may prove X, by Douglas-Rachford splitting between two sets of gradients.

    One has all A^T W B, the other all that are the sign of X where it is not zero and, by a margin, inside
    -1 .. 1 elsewhere.
    """
    signs = torch.from_numpy(np.sign(x)).double()
    is_zero = signs == 0
    columns = _Columns(operator, cells)
    for margin in MARGINS:
        for step in range(1, ATTEMPTS[-1] + 1):
            weights = operator.weights(operator.forward(gradient))
            possible = operator.adjoint(weights)
            wanted = torch.sub(2 * possible, gradient).clamp_(margin - 1, 1 - margin)
            gradient += torch.where(is_zero, wanted, signs).sub_(possible)
            if step in ATTEMPTS:
                w = weights.numpy()
                change = columns.spread(columns.solve(np.sign(x[x != 0]) - columns.gather(w)))
                limit, found = WEIGHT_LIMIT // UNIT, np.nan_to_num(w + change.reshape(w.shape))
                yield np.rint(np.clip(found, -limit, limit) * UNIT).astype(np.int64)


def _fit(operator: _Operator, sparse: Tensor, y: Whole) -> Tensor:
    """The matrix with the same non-zeros whose sketch is nearest to Y."""
    support = sparse.numpy() != 0
    if 2 * np.count_nonzero(support) > y.size or operator.sketch.places(support) > CELLS_LIMIT:
        return sparse
    columns = _Columns(operator, operator.sketch.cells(support))
    result = torch.zeros_like(sparse)
    result[torch.from_numpy(support)] = torch.from_numpy(columns.solve(columns.gather(y)))
    return result


class _Columns:
    """The columns K of the map X -> A X B^T that belong to some elements of X."""

    def __init__(self, operator: _Operator, cells: Whole) -> None:
        self._cells, self._size = cells, math.prod(operator.sketch.shape)
        self._work, self._cost = operator.work, GATHERING * cells.size

    def gather(self, y: NDArray[Any]) -> Doubles:
        """K^T y."""
        result: Doubles = np.take(y, self._cells).sum(axis=1, dtype=np.float64)
        return result

    def spread(self, values: Doubles) -> Doubles:
        """K times values."""
        each = np.repeat(values, self._cells.shape[1])
        return np.bincount(self._cells.ravel(), each, self._size).astype(np.float64, copy=False)

    def solve(self, right: Doubles) -> Doubles:
        """c with K^T K c = right, by conjugate gradients."""
        solution, residual, direction = np.zeros_like(right), right.copy(), right.copy()
        square = start = float(right @ right)
        for _ in range(CORRECTIONS):
            if square <= ACCURACY**2 * start:
                break
            self._work.spend(self._cost)
            image = self.gather(self.spread(direction))
            if (curvature := float(direction @ image)) <= 0:  # dependent columns, which have no such c
                break
            step = square / curvature
            solution += step * direction
            residual -= step * image
            before, square = square, float(residual @ residual)
            direction = residual + square / before * direction
        return solution
