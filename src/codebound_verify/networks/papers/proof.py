"""The matrix behind a sketch, and its proof, as the witness of a file has them (docs/format.md, 4.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...refusal import Refused
from .rank import are_independent
from .sketch import Sketch, Whole, has_sketch, is_strict

if TYPE_CHECKING:
    from ...arithmetic import Witness


def proven(witness: Witness, sketch: Sketch, y: Whole) -> Whole:
    """The next matrix of the witness, proven to be the only one with the sketch Y and a sum as small.

    All that is computed here is exact.
    """
    x = _matrix(witness, len(sketch.left), len(sketch.right))
    weights = _numbers(witness, "<i8", sketch.shape[0] * sketch.shape[1]).reshape(sketch.shape)
    if not has_sketch(sketch, x, y):
        raise Refused("Witness: its matrix has another sketch than the one of the message.")
    if not is_strict(sketch, x, weights):
        raise Refused("Witness: it does not prove that its matrix is smaller than others with its sketch.")
    if x.any() and not are_independent(sketch.cells(x)):
        raise Refused("Witness: the non-zeros of its matrix are not shown to be independent.")
    return x


def _matrix(witness: Witness, rows: int, columns: int) -> Whole:
    """The matrix X, from its non-zeros."""
    count = int.from_bytes(witness.take(4), "little")
    places, values = (_numbers(witness, kind, count) for kind in ("<u4", "<i4"))
    if count and (np.diff(places).min(initial=1) < 1 or places[-1] >= rows * columns or not values.all()):
        raise Refused("Witness: the non-zeros of a matrix are not in rising order inside it, or one is 0.")
    x = np.zeros((rows, columns), np.int64)
    x.flat[places] = values
    return x


def _numbers(witness: Witness, kind: str, count: int) -> Whole:
    return np.frombuffer(witness.take(count * int(kind[2])), kind).astype(np.int64)
