"""Unlabelled inputs on which f and g are compared (docs/format.md, section 9.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .claim import DISAGREEMENT
from .counting import Tally
from .order import by_input, count_shared, number_of
from .refusal import Refused
from .sample import as_stored, hash_arrays
from .tables import read_answers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .header import Unlabelled
    from .sample import Data
    from .tables import Source

    Array = NDArray[Any]
    Mask = NDArray[np.bool_]


def check_unlabelled(stated: Unlabelled, x: Array, data: Data) -> Array:
    """The unlabelled inputs as stored, if they are those of the header and none is in the sample."""
    x = as_stored(x, is_cells=data.is_cells)
    if (len(x), x.shape[1:]) != (stated.rows, data.x.shape[1:]):
        raise Refused(
            f"Unlabelled inputs: {len(x)} of shape {x.shape[1:]} are given; the file is about {stated.rows} "
            f"of shape {data.x.shape[1:]}."
        )
    if (found := hash_arrays(x, is_cells=data.is_cells)) != stated.sha256:
        raise Refused(f"Unlabelled inputs: their SHA-256 is {found}; the header names {stated.sha256}.")
    if shared := count_shared(data.x, x):
        raise Refused(f"Unlabelled inputs: {shared} of them are inputs of the sample too.")
    return x


def read_labels(source: Source, sha256: str, rows: int) -> tuple[NDArray[np.int64], Mask]:
    """Predictions of f by declared answers, and a mask of those where two scores are the largest."""
    scores = read_answers(source, sha256, rows)
    is_best = scores == scores.max(axis=1, keepdims=True)
    return is_best.argmax(axis=1), is_best.sum(axis=1) > 1


def count_disagreements(is_different: Mask, x: Array, copies: str) -> Tally:
    """Count the inputs on which f and g differ or either is in doubt, and copies as in 6.3."""
    inputs = number_of(by_input(x))
    wrong, right = inputs[is_different], inputs[~is_different]
    if copies != "independent":
        right = np.unique(right)
    if copies == "repeated":
        wrong = np.unique(wrong)
        right = np.setdiff1d(right, wrong)
    return Tally(DISAGREEMENT, len(wrong), len(wrong) + len(right))
