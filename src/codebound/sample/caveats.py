"""Caveats of a sample: remarks on its labels, copies, scaling by its own statistics, and development.

The second program looks for the same copies and constants (docs/format.md, sections 6.1 and 6.2). Of the
samples that the format was developed on, parts, rescaled copies and tables are recognised.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.risk import count_of, rate
from codebound.run.errors import CertificateError, DataError
from codebound.sample.dataset import as_numbers, row_digests, row_parts
from codebound.sample.memmap import allocate, rows_in_blocks

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
_PARTS = 256
_FEW = 100
_PICTURE = 6  # pixels to a side, from which on a rule takes it for one
_MOST = 0.95
_SHORT_BITS = 25  # of a message that says nearly nothing
DEVELOPED = (
    "This format was developed on this very sample: choices among what it lists are paid for, its own design "
    "is not."
)
_DEVELOPMENT = {
    "d22e38850101f68adc84e9f356f78162646d7c52307dca0577fe23ca92e5960c": "digits",
    "b98a22f5f10987daca90a92b002c534ab2b9adfd56c62d12f1ad12ef9fac35b9": "mnist",
    "fddd55df4bf9137d7e42a8735dc4d26d0cdb543d359e849ee30b5c484a622f14": "fashion-mnist",
    "fff8faed6be6904782e23de72ba76d01c46b8aab6852f2561df24df2713b2f51": "cifar10",
}
_DEVELOPMENT_3 = _DEVELOPMENT | {
    "fbe387d1f393d5163c790f722c0453ec701206a865fffc6b138925f5eb815b25": "dna",
    "84110e3964343c2b06d4a3003ebe446934029f6f81547e85d980e53f62ec34fd": "italy-power",
    "e149879f2c4422478ca9c9b65ecc15879b350c9f0d3c56c035b61dc800d5cc99": "japanese-vowels",
    "ad216d090bd788ccf4760f633feb0e07dc0f6e7ae2f8976f7d5f25007dd2e010": "letter",
    "a2fec3baa0e09a7c7e6b874695b1a6d7567e764083b4c5e16f1b502ab8c6845a": "mfeat",
    "96b1fa6c240e7dc41b52b96cd1041d08274a74f3d24981b83f61670db78f4162": "newsgroups",
    "ce3daef585be9476ce75e2de7b627e1fc8369a85f6a1ed377c50ccd1cc406abe": "r8",
    "6ab00670da4da6b2307179569e804f843c61898cd5d2ba7c1eba0c606d142f5c": "satellite",
    "fe8d458016dca4c31f24bfb869b6a8242ed29215b1d1e2d95a50f75bd61f9e92": "shuttle",
    "ee2439416354aa432218362894436ff94efecbe47dc67ab1aaf08835aee04152": "sklearn-breast-cancer",
    "c2a1ded42f51394ed96b32f9804d08b77295ae14e844bb3d7fb7789e3cca17f8": "sklearn-wine",
}
LISTS = Path(__file__).with_name("developed.json")
"""``rows`` has for each sample the 1,024 smallest keys of its rows (``row_keys``), how many values a row has,
and in how many blocks they were scaled; ``tables`` has hashes of tables that were made of such samples."""
_KEY_BYTES = 6
_STEPS = 4096  # a multiple of 256: then no ratio of two bytes lies halfway between two steps

_RECOGNISED: dict[str, tuple[str, ...]] = {}
"""Answers by the hash of a sample: it is asked for several times."""


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


def _of_labels(sample: Dataset, delta: float) -> list[str]:
    found = []
    counts = np.bincount(sample.y, minlength=1)
    label = int(counts.argmax())
    share = counts[label] / sample.n
    if share == 1.0:
        found.append(
            f"{'the only example has' if sample.n == 1 else f'all {sample.n} examples have'} the label "
            f"{label}: who always says so is right, and no bound shows that classes can be told apart"
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


def count_copies(sample: Dataset, *, allow_copies: bool = False) -> RepeatedRows:
    """Counts the copies in a sample, and refuses more than one in a hundred that are equal as numbers.

    Args:
        sample: Labelled, or unlabelled: then equal inputs are copies.
        allow_copies: Whoever sets it declares that they are independent draws which happen to be equal.
    """
    copies, contradictions = _count_by_digest(sample, row_digests(sample))
    equal = copies
    if _has_minus_zeros(sample.x):
        equal, _ = _count_by_digest(sample, row_digests(sample, as_numbers))
    found = RepeatedRows(sample.n, copies, contradictions, equal)
    if MOST_COPIES * equal > sample.n and not allow_copies:
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
    return any(bool((np.signbit(x[rows]) & (x[rows] == 0)).any()) for rows in row_parts(x))


def _count_by_digest(sample: Dataset, digests: Iterator[tuple[bytes, int]]) -> tuple[int, int]:
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

    A large sample may lie on the disk, and so do they: a part of 256 is in memory.
    """
    rows = allocate((sample.n, 3), np.int64)
    for block in rows_in_blocks(sample.n):
        content = b"".join(digest for digest, _ in islice(digests, block.stop - block.start))
        rows[block, 0] = sample.y[block]
        rows[block, 1:] = np.frombuffer(content, dtype=np.int64).reshape(-1, 2)
    blocks = list(rows_in_blocks(sample.n))
    sizes = np.array([np.bincount(rows[block, 1] % _PARTS, minlength=_PARTS) for block in blocks])
    starts = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
    parted, ends = allocate((sample.n, 3), np.int64), starts[:-1].copy()
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
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in row_parts(x):
            values = x[rows].astype(np.float64)
            total += values.sum(axis=0)
            squares += np.square(values).sum(axis=0)
    return total, squares


def count_commonest(sample: Dataset) -> int:
    """Count the examples of the commonest label. Whoever always says it errs on the others alone."""
    return int(np.bincount(sample.y).max())


def development_sample(sample: Dataset, version: int) -> str:
    """The sample that this one is, or comes from, if that version was made with a view of it."""
    names = (_DEVELOPMENT_3 if version > 2 else _DEVELOPMENT).values()
    known = (find_by_name(sample.name), sample.development, *_by_content(sample))
    return next((each for each in known if each in names), "")


def find_by_name(name: str) -> str:
    """The sample that a name begins with, in ``name:part``; empty where it is none of them."""
    beginning = name.partition(":")[0]
    return beginning if beginning in _DEVELOPMENT_3.values() else ""


def _by_content(sample: Dataset) -> tuple[str, ...]:
    """Every sample that this one shares an example with, by what is stored."""
    sha256, width = sample.sha256, sample.x[0].size
    if sha256 not in _RECOGNISED:
        lists = _lists()
        whole = [each[sha256] for each in (_DEVELOPMENT_3, lists["tables"]) if sha256 in each]
        listed = {name: each for name, each in lists["rows"].items() if each["width"] == width}
        keys = {blocks: row_keys(sample.x, blocks) for blocks in {each["blocks"] for each in listed.values()}}
        shared = [name for name, each in listed.items() if each["keys"] & keys[each["blocks"]]]
        _RECOGNISED[sha256] = (*whole, *shared)
    return _RECOGNISED[sha256]


@cache
def _lists() -> dict[str, Any]:
    lists: dict[str, Any] = json.loads(LISTS.read_text())
    for each in lists["rows"].values():
        content = bytes.fromhex(each["keys"])
        each["keys"] = {content[at : at + _KEY_BYTES] for at in range(0, len(content), _KEY_BYTES)}
    return lists


def row_keys(x: NDArray[np.generic], blocks: int = 1) -> set[bytes]:
    """Hashes of rows that do not change when a block of them, such as a channel, is scaled or shifted.

    A row is cut into equal blocks; each is mapped to 0 to 4,096 and rounded. Rows with a constant block have
    no key: too many samples share them.
    """
    values = x.reshape(len(x), blocks, -1)
    keys: set[bytes] = set()
    for rows in row_parts(x):
        part = values[rows].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            part -= part.min(axis=2, keepdims=True)
            largest = part.max(axis=2, keepdims=True)
            part = np.rint(part / np.where(largest > 0, largest, 1.0) * _STEPS)
        varies = ((largest > 0) & np.isfinite(largest)).all(axis=(1, 2))
        for row in part[varies].astype("<u2"):
            keys.add(hashlib.sha256(row.tobytes()).digest()[:_KEY_BYTES])
    return keys
