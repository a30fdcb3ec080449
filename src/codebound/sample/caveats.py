"""Warnings about a sample, one sentence each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from codebound.bounds.risk import rate

if TYPE_CHECKING:
    from codebound.sample.dataset import Dataset

_FEW = 100
_PICTURE = 6  # pixels to a side, from which on a rule takes it for one
_MOST = 0.95
_SHORT_BITS = 25  # of a message that says nearly nothing


def remarks(sample: Dataset, *, delta: float = 0.05) -> tuple[str, ...]:
    """The warnings of a sample, and what its inputs and labels show.

    Example:
        >>> from codebound.sample.arrays import from_arrays
        >>> remarks(from_arrays(np.zeros((200, 1)), [1] * 200, name="ones"))[0]
        'all 200 examples have the label 1: who always says so is right, and no bound shows that classes can
        be told apart'
    """
    labels = [] if sample.role == "unlabelled" else _of_labels(sample, delta)
    return (*sample.warnings, *_of_pictures(sample), *labels)


def _of_pictures(sample: Dataset) -> list[str]:
    """Values that a rule for pictures cuts off: it reads 0 as black and the divisor as white."""
    white = sample.scaling.divisor
    if sample.x.dtype == np.uint8 or sample.input_shape[:-2] not in ((1,), (3,)) or sample.encoder:
        return []
    if min(sample.input_shape[1:]) < _PICTURE:
        return []
    low, high = float(sample.x.min(initial=0.0)), float(sample.x.max(initial=0.0))
    if low >= 0.0 and high <= white:
        return []
    said = (
        f"the pictures hold values from {low:g} to {high:g}, and what learns from pictures (picks, split) "
        f"reads 0 as black, {white:g} as white and cuts off the rest: store them as bytes (uint8, from 0 to "
        "255), or divide by the largest value that there can be"
    )
    return [said]


def _all_of(n: int) -> str:
    return "the only example has" if n == 1 else f"all {n} examples have"


def _of_labels(sample: Dataset, delta: float) -> list[str]:
    found = []
    counts = np.bincount(sample.y, minlength=1)
    label = int(counts.argmax())
    share = counts[label] / sample.n
    if share == 1.0:
        found.append(
            f"{_all_of(sample.n)} the label {label}: who always says so is right, and no bound "
            "shows that classes can be told apart"
        )
    elif share >= _MOST:
        found.append(
            f"{rate(share, 1)} of the examples have the label {label}: who always says so errs on "
            f"{rate(1 - share, 1)}, and a bound above that is called vacuous; errors on each class show more "
            "(by_class)"
        )
    if counts[0] == 0 and share < 1.0:
        from_one = "; if yours are counted from 1, subtract 1" if counts[1] and not sample.class_names else ""
        found.append(
            f"no example has the label 0: labels are counted from 0, so class 0 is one of the "
            f"{sample.classes} classes and never occurs here{from_one}"
        )
    if sample.n < _FEW:
        least = -math.expm1((math.log(delta) - _SHORT_BITS * math.log(2.0)) / sample.n)
        found.append(
            f"{'1 example is' if sample.n == 1 else f'{sample.n} examples are'} few: without a single error, "
            f"a message of {_SHORT_BITS} bits bounds the error by {rate(least, 0)}"
        )
    if sample.n >= _FEW and share < 1.0 and (np.diff(sample.y) >= 0).all():
        found.append(
            "the examples are sorted by their labels: that changes nothing here, but a sample that was drawn "
            "at random is not sorted"
        )
    return found
