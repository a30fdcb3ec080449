"""Caveats of a sample: remarks on its labels, copies, and scaling by its own statistics.

The second program looks for the same copies and constants (docs/format.md, sections 6.1 and 6.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from codebound.bounds.risk import count_of, rate
from codebound.run.errors import CertificateError, DataError
from codebound.sample.dataset import as_numbers, row_digests
from codebound.sample.memmap import room_for, rows_in_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from codebound.sample.dataset import Dataset

STANDARDISED = (
    "the inputs look standardised on this very sample (mean 0 and standard deviation 1): those constants "
    "depend on the sample, so a certificate would have to pay for them. Store unscaled values, or scale by "
    "constants fixed in advance"
)
MOST_COPIES = 100
"""One copy in so many examples is let pass."""
_CLOSE = 1e-3  # of a deviation
_CHUNK_NUMBERS = 1 << 22
_PARTS = 256
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


@dataclass(frozen=True, slots=True)
class RepeatedRows:
    """Rows that occur more than once.

    Attributes:
        n: Examples in all.
        copies: Those whose input and label occur before, byte for byte: what a certificate states.
        contradictions: Those whose input occurs before, with other labels only.
        equal: Those whose input and label occur before as numbers, where minus zero is zero.
    """

    n: int
    copies: int
    contradictions: int
    equal: int

    @property
    def sentence(self) -> str:
        """Number of copies, in words."""
        return count_of(
            self.equal,
            f"of {self.n} examples is an exact copy of an earlier one",
            f"of {self.n} examples are exact copies of earlier ones",
        )


def rows_of(sample: Dataset, *, allow_copies: bool = False) -> RepeatedRows:
    """Counts the copies in a sample, and refuses more than one in a hundred that are equal as numbers.

    Args:
        sample: Labelled, or unlabelled: then equal inputs are copies.
        allow_copies: Whoever sets it declares that they are independent draws which happen to be equal.
    """
    copies, contradictions = _counted(sample, row_digests(sample))
    equal = copies
    if _has_minus_zeros(sample.x):
        equal, _ = _counted(sample, row_digests(sample, as_numbers))
    found = RepeatedRows(sample.n, copies, contradictions, equal)
    if MOST_COPIES * equal > sample.n and not (allow_copies or sample.has_equal_draws):
        raise CertificateError(
            f"{sample.name}: {found.sentence}, more than one in {MOST_COPIES}. Where examples were "
            "repeated no bound holds: leave out what was repeated. Where they are independent draws that "
            "happen to be equal, as rows of coarse numbers and few words are, declare that (allow_copies), "
            "since to leave such rows out would change what the sample was drawn from."
        )
    return found


def _has_minus_zeros(x: NDArray[np.generic]) -> bool:
    if x.dtype.kind != "f":
        return False
    rows = max(1, _CHUNK_NUMBERS // x[0].size)
    parts = (x[start : start + rows] for start in range(0, len(x), rows))
    return any(bool((np.signbit(part) & (part == 0)).any()) for part in parts)


def _counted(sample: Dataset, digests: Iterator[tuple[bytes, int]]) -> tuple[int, int]:
    """Copies and contradictions, by digests of the inputs."""
    copies = contradictions = 0
    for rows in _alike(sample, digests):
        rows = rows[np.lexsort(rows.T)]
        is_new_input = (rows[1:, 1:] != rows[:-1, 1:]).any(axis=1)
        is_new = is_new_input | (rows[1:, 0] != rows[:-1, 0])
        copies += int((~is_new).sum())
        contradictions += int((is_new & ~is_new_input).sum())
    return copies, contradictions


def _alike(sample: Dataset, digests: Iterator[tuple[bytes, int]]) -> Iterator[NDArray[np.int64]]:
    """Rows of a label and both halves of the digest of its input, in parts: equal inputs are in one of them.

    A large sample may lie on the disk, and so do they (``data.large``): a part of 256 is in memory.
    """
    rows = room_for((sample.n, 3), np.int64)
    for block in rows_in_blocks(sample.n):
        content = b"".join(digest for digest, _ in islice(digests, block.stop - block.start))
        rows[block, 0] = sample.y[block]
        rows[block, 1:] = np.frombuffer(content, dtype=np.int64).reshape(-1, 2)
    blocks = list(rows_in_blocks(sample.n))
    sizes = np.array([np.bincount(rows[block, 1] % _PARTS, minlength=_PARTS) for block in blocks])
    starts = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
    parted, ends = room_for((sample.n, 3), np.int64), starts[:-1].copy()
    for block, counts in zip(blocks, sizes, strict=True):
        order = np.argsort(rows[block, 1] % _PARTS, kind="stable")
        places = np.repeat(ends - np.cumsum(counts) + counts, counts) + np.arange(len(order))
        parted[places] = rows[block][order]
        ends += counts
    return (parted[start:stop] for start, stop in pairwise(starts))


def require_disjoint(unlabelled: Dataset, sample: Dataset) -> None:
    """Refuses unlabelled inputs that occur in the sample: they are not fresh."""
    known = {digest for digest, _ in row_digests(sample, as_numbers)}
    shared = sum(digest in known for digest, _ in row_digests(unlabelled, as_numbers))
    if shared:
        raise CertificateError(
            f"{shared} of the {unlabelled.n} unlabelled inputs occur in the sample; they have to be a fresh "
            "draw, used for no choice. Leave them out, or draw others."
        )


def looks_standardised(x: NDArray[np.generic]) -> bool:
    """Return True if all features, or all channels, have mean 0 and deviation 1 on this sample.

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


def require_fixed_scaling(sample: Dataset) -> None:
    """Refuses constants that are statistics of this very sample: no declaration could call them fixed."""
    scaling = sample.scaling
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
    rows = max(1, _CHUNK_NUMBERS // total.size)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(x), rows):
            values = x[start : start + rows].astype(np.float64)
            total += values.sum(axis=0)
            squares += np.square(values).sum(axis=0)
    return total, squares


def commonest(sample: Dataset) -> int:
    """Count the examples of the commonest label. Whoever always says it errs on the others alone."""
    return int(np.bincount(sample.y).max())
