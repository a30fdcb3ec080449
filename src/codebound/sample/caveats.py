"""Caveats of a sample: remarks on its labels, copies, and scaling by its own statistics.

The second program looks for the same constants (docs/format.md, 8.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codebound.bounds.risk import count_of, rate
from codebound.run.errors import DataError
from codebound.sample.dataset import number_inputs, row_parts
from codebound.sample.order import count_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.sample.dataset import Sample

STANDARDISED = (
    "the inputs look standardised on this very sample (mean 0 and standard deviation 1): those constants "
    "depend on the sample, so a certificate would have to pay for them. Store unscaled values, or scale by "
    "constants fixed in advance"
)
_CLOSE = 1e-3  # of a deviation
_PICTURE = 3  # pixels to a side, from which on a rule takes it for one
_WHITE = 255
_MOST = 0.95
_SHOWN_CLASSES = 6
DEVELOPED = (
    "This format was developed on this very sample: choices among what it lists are paid for, its own design "
    "is not."
)


def remarks(sample: Sample) -> tuple[str, ...]:
    """The warnings of a sample, and what its inputs and labels show.

    Example:
        >>> from codebound.sample.arrays import from_arrays
        >>> remarks(from_arrays(np.zeros((200, 1)), [1] * 200, name="ones"))[0]
        'every label is 1 (200 examples): who always says so is right, and no bound shows that classes can be
        told apart'
    """
    labels = [] if sample.role == "unlabelled" else _of_labels(sample)
    return (*sample.warnings, *_of_pictures(sample), *labels, *_of_copies(sample))


def _of_pictures(sample: Sample) -> list[str]:
    """Remark on values that a rule for pictures cuts off (docs/format.md, 7.4)."""
    is_picture = len(sample.input_shape) == 3 and sample.input_shape[0] in (1, 3) and not sample.features
    if sample.x.dtype == np.uint8 or not is_picture or min(sample.input_shape[1:]) < _PICTURE:
        return []
    low, high = float(sample.x.min(initial=0.0)), float(sample.x.max(initial=0.0))
    if low >= 0.0 and high <= _WHITE:
        return []
    remark = (
        f"the pictures hold values from {low:g} to {high:g}: what learns from pictures reads 0 as black, "
        f"cuts off what is below, and reads none above {_WHITE}: store them as bytes (uint8, from 0 to "
        f"{_WHITE}), or divide by the largest value that there can be"
    )
    return [remark]


def _of_labels(sample: Sample) -> list[str]:
    """Remarks on common and absent labels."""
    n, counts, found = sample.n, np.bincount(sample.y, minlength=1), []
    label = int(counts.argmax())
    share = counts[label] / n
    if share == 1.0:
        found.append(
            f"every label is {label} ({count_of(n, 'example')}): who always says so is right, and no bound "
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
    return found


def _of_copies(sample: Sample) -> list[str]:
    """Number of copies, and their rates by label."""
    is_copy = count_before(*number_inputs(sample.x), sample.y) > 0  # input and label are those of one before
    copies = int(is_copy.sum())
    if not copies:
        return []
    verb = "is a copy of an earlier one" if copies == 1 else "are copies of earlier ones"
    remark = f"{copies} of {sample.n} examples {verb}"
    if sample.role == "unlabelled":
        return [remark]
    sizes = np.bincount(sample.y)
    rates = np.bincount(sample.y[is_copy], minlength=len(sizes)) / np.maximum(sizes, 1)
    most = np.argsort(-rates, kind="stable")[:_SHOWN_CLASSES].tolist()
    by_label = ", ".join(f"{rate(rates[label], 1)} of label {label}" for label in most if rates[label])
    remark += (
        f" ({by_label}): wrong ones all count and right ones once, unless they are declared as draws "
        "(independent) or as records stored again (repeated); how often one is repeated must not depend on "
        "what it holds"
    )
    return [remark]


def looks_standardised(x: NDArray[np.generic]) -> bool:
    """Return True if features or channels have mean 0 and deviation 1.

    Constant features are ignored; whole bytes are never standardised.
    """
    if x.dtype.kind != "f" or len(x) < 2:
        return False
    total, squares = _sums(x)
    pixels = tuple(range(1, x.ndim - 1))
    channels = total.mean(axis=pixels), squares.mean(axis=pixels)
    return _is_standard(total, squares, len(x)) or _is_standard(*channels, len(x))


def _is_standard(total: NDArray[np.float64], squares: NDArray[np.float64], n: int) -> bool:
    mean = total / n
    deviation = _deviation(mean, squares / n)
    varying = deviation > 1e-6
    return bool(
        varying.any()
        and (np.abs(mean[varying]) <= _CLOSE).all()
        # two conventions for a deviation, over n and over n - 1
        and (np.abs(deviation[varying] - 1.0) <= _CLOSE + 1.0 / n).all()
    )


def require_fixed_scaling(sample: Sample) -> None:
    """Refuse constants that are statistics of this very sample: no declaration could call them fixed."""
    scaling = sample.scaling
    if sample.is_cells:
        return
    if not any(scaling.mean) and set(scaling.std) == {1.0} and sample.x.dtype.kind != "f":
        return
    total, squares = _sums(sample.x)
    for constants, trivial, what in ((scaling.mean, 0.0, "mean"), (scaling.std, 1.0, "std")):
        axes = None if len(constants) == 1 else tuple(range(1, total.ndim))
        mean = np.atleast_1d(total.mean(axis=axes)) / sample.n / scaling.divisor
        power = np.atleast_1d(squares.mean(axis=axes)) / sample.n / scaling.divisor**2
        deviation = _deviation(mean, power)
        own = mean if what == "mean" else deviation
        for constant, found, spread in zip(constants, own, deviation, strict=True):
            if constant != trivial and spread > 0.0 and abs(constant - found) <= _CLOSE * spread:
                raise DataError(
                    f"{sample.name}: the {what} {constant:g} of the scaling is that of this very sample "
                    f"({found:.6g}), so it was not fixed before the sample was seen. Leave it out, or give a "
                    "round number or a constant of other data."
                )
    if sample.x.dtype.kind == "f" and sample.n > 1 and _is_standard(total, squares, sample.n):
        raise DataError(
            f"{sample.name}: every feature has mean 0 and deviation 1 on this very sample: it was "
            "standardised with statistics of the sample, which nobody paid for. Store unscaled values, or "
            "scale by constants that were fixed before the sample was seen."
        )


def _deviation(mean: NDArray[np.float64], power: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(np.maximum(power - np.square(mean), 0.0))


def _sums(x: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Over the examples, of values and of squares."""
    total, squares = np.zeros(x.shape[1:]), np.zeros(x.shape[1:])
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in row_parts(x):
            values = x[rows].astype(np.float64)
            total += values.sum(axis=0)
            squares += np.square(values).sum(axis=0)
    return total, squares
