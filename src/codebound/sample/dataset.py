"""Samples as they are stored, and their hashes (docs/format.md, 3.1 and 4.3)."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from codebound.bounds.risk import count_of
from codebound.run.errors import CertificateError, DataError, UsageError
from codebound.run.extensions import LazyModule
from codebound.sample.columns import are_cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch
    from numpy.typing import DTypeLike, NDArray
    from torch import Tensor

    from codebound.sample.columns import Title
else:
    torch = LazyModule("torch")

LARGEST = 1e300
"""The largest number of a sample (docs/format.md, 3.1)."""
ROLES = ("train", "prior", "certify", "test", "unlabelled")
STORED_DTYPES = ("uint8", "float32", "float64")
_PART_VALUES = 1 << 22  # of an array, computed with at a time
_AXES = 4  # of inputs, the examples' own included (docs/format.md)
_MANY_CLASSES = 1000
_EACH = 100  # examples of each of so many classes
_SOME = 100  # examples from which on their labels show that they are no classes


def row_parts(x: NDArray[np.generic]) -> Iterator[slice]:
    """The rows of an array, a few megabytes at a time."""
    rows = max(1, _PART_VALUES // max(1, x[:1].size))
    return (slice(start, start + rows) for start in range(0, len(x), rows))


def arrays_sha256(*arrays: NDArray[np.generic], cells: bool = False) -> str:
    """SHA-256 over type, shape and stored-order bytes of arrays; the first may hold ``cells``."""
    digest = hashlib.sha256()
    names = [array.dtype.name for array in arrays]
    for name, array in zip(["cells", *names[1:]] if cells else names, arrays, strict=True):
        digest.update(f"{name}|{','.join(map(str, array.shape))}|".encode())
        for rows in row_parts(array):  # which bound the copy of a non-contiguous or big-endian array
            little = np.ascontiguousarray(array[rows], dtype=array.dtype.newbyteorder("<"))
            digest.update(little.data.cast("B"))
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Scaling:
    """Map stored values to network inputs: ``(x / divisor - mean) / std``, per channel.

    The constants are literal and part of the data description. They must not be estimated from the
    sample: a constant computed on the sample depends on it and would have to be paid for.

    Example:
        >>> Scaling(divisor=16.0).apply(torch.tensor([[0, 4, 16]], dtype=torch.uint8))
        tensor([[0.0000, 0.2500, 1.0000]])
    """

    divisor: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        positive = (self.divisor, *self.std)
        if not self.mean or not self.std or any(not (v > 0.0 and math.isfinite(v)) for v in positive):
            raise DataError(f"scaling needs a positive divisor and positive std. Got {self}.")
        if not all(math.isfinite(v) for v in self.mean):
            raise DataError(f"scaling needs finite means. Got {self}.")

    def check(self, channels: int, *, name: str) -> None:
        """Refuse constants that are not one for all or one per channel."""
        for constants in (self.mean, self.std):
            if len(constants) not in (1, channels):
                raise DataError(
                    f"{name}: scaling has {len(constants)} constants for {channels} channels. Give one for "
                    "all, or one per channel."
                )

    def apply(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Network inputs for stored values ``x`` of shape ``(batch, channels, ...)``; ``x`` is left alone."""
        dtype = dtype or torch.float32
        inputs = x.to(dtype, copy=True).div_(self.divisor)
        if any(self.mean):
            inputs.sub_(_per_channel(self.mean, dtype, x.device, x.dim()))
        if any(value != 1.0 for value in self.std):
            inputs.div_(_per_channel(self.std, dtype, x.device, x.dim()))
        return inputs


@lru_cache(maxsize=64)
def _per_channel(values: tuple[float, ...], dtype: torch.dtype, device: torch.device, axes: int) -> Tensor:
    """Constants along axis 1, kept: a copy to the device for every batch would make each step wait."""
    return torch.tensor(values, dtype=dtype, device=device).view(1, -1, *([1] * (axes - 2)))


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample with its labels, in stored order.

    Attributes:
        role: What it may be used for: ``train``, ``prior``, ``certify``, ``test`` or ``unlabelled``.
        x: Inputs, ``(n, channels, height, width)`` or ``(n, features)``, as uint8, float32 or float64;
            uint8 where the source has bytes. Cells are float64, with patterns for words and gaps.
        y: Labels, ``(n,)`` int64 in ``[0, classes)``; all zero when the role is ``unlabelled``.
        source: Where the bytes came from, in words.
        features: What made the inputs of others, where something did.
        class_names: In the order of labels, where they are known.
        columns: What became the inputs, where they come from a table: another table is read by the same.
        texts: The texts themselves, where an encoder is to read them.

    Example:
        >>> import codebound as cb
        >>> digits = cb.load_sample("digits")
        >>> digits.select(range(300), role="train").n
        300
    """

    name: str
    role: str
    x: NDArray[np.generic] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    classes: int
    scaling: Scaling = field(default_factory=Scaling)
    source: str = ""
    warnings: tuple[str, ...] = ()
    features: Made | None = None
    class_names: tuple[str, ...] = ()
    columns: tuple[Title, ...] = ()
    is_cells: bool = False
    texts: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.x.ndim < 2 or self.x.size == 0:
            raise DataError(
                f"{self.name}: inputs need shape (n, ...) with at least one example and one feature. "
                f"Got shape {self.x.shape}."
            )
        if self.x.dtype.name not in STORED_DTYPES:
            raise DataError(
                f"{self.name}: inputs are stored as {', '.join(STORED_DTYPES)}. Got {self.x.dtype.name}. "
                "codebound.sample.arrays.from_arrays converts other types."
            )
        if self.y.shape != (len(self.x),) or self.y.dtype != np.int64:
            raise DataError(
                f"{self.name}: {len(self.x)} inputs, and {self.y.dtype.name} labels of shape {self.y.shape}. "
                "Give int64 labels, one per input."
            )
        most = LARGEST if self.x.dtype.kind != "f" else min(LARGEST, float(np.finfo(self.x.dtype.name).max))
        if self.x.dtype.kind == "f" and not all(
            ((np.abs(self.x[rows]) <= most) | (self.is_cells & np.isnan(self.x[rows]))).all()
            for rows in row_parts(self.x)
        ):
            raise DataError(
                f"{self.name}: inputs contain NaN, infinity or numbers beyond {LARGEST:g}, which no rule "
                "computes with. Remove or replace those examples, or rescale them by a constant, or give a "
                "data frame, in which NaN is a value that is missing."
            )
        if self.is_cells and not all(are_cells(self.x[rows]) for rows in row_parts(self.x)):
            raise DataError(
                f"{self.name}: cells are float64 of shape (n, columns): numbers, and patterns of gaps and "
                "words. Others were found; give a data frame or a file, which is read as cells."
            )
        low, high = int(self.y.min()), int(self.y.max())
        if low < 0 or high >= self.classes:
            raise DataError(
                f"{self.name}: labels must lie in [0, {self.classes - 1}] for {self.classes} classes. "
                f"Got labels from {low} to {high}; numpy.unique(labels, return_inverse=True)[1] numbers "
                "them from 0."
            )
        if len(self.class_names) not in (0, self.classes):
            raise DataError(
                f"{self.name}: {count_of(len(self.class_names), 'name')} for {self.classes} classes. "
                "Give one for each."
            )
        self.scaling.check(self.x.shape[1], name=self.name)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def dtype(self) -> str:
        """Type of the stored inputs: uint8, float32, float64 or cells."""
        return "cells" if self.is_cells else self.x.dtype.name

    @property
    def inputs_sha256(self) -> str:
        """SHA-256 of the inputs alone, as of an unlabelled sample."""
        return arrays_sha256(self.x, cells=self.is_cells)

    @property
    def sha256(self) -> str:
        """SHA-256 over shape, dtype and stored-order bytes of inputs, then of labels (docs/format.md, 3.1).

        Example:
            >>> sample = Sample("two pixels", "train", np.array([[1, 2]], dtype="uint8"), np.array([3]), 4)
            >>> layout = b"uint8|1,2|" + bytes([1, 2]) + b"int64|1|" + bytes([3, 0, 0, 0, 0, 0, 0, 0])
            >>> sample.sha256 == hashlib.sha256(layout).hexdigest()
            True
        """
        return arrays_sha256(self.x, self.y, cells=self.is_cells)

    def select(self, indices: Sequence[int] | NDArray[np.int64], *, role: str) -> Sample:
        """The examples at ``indices``, in that order, with a new role; ``unlabelled`` drops the labels."""
        picked = np.asarray(indices, dtype=np.int64)
        y = np.zeros(len(picked), dtype=np.int64) if role == "unlabelled" else self.y[picked]
        texts = tuple(self.texts[i] for i in picked) if self.texts else ()
        return replace(self, x=self.x[picked], y=y, role=role, texts=texts)

    def on(self, device: torch.device | str) -> DeviceData:
        """Tensors of the sample on a device, in its stored dtype.

        On the CPU it is shared, not copied, where its layout allows.
        """
        x, y = (torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in (self.x, self.y))
        return DeviceData(x=x, y=y, scaling=self.scaling)


def require_certifiable(sample: Sample) -> None:
    """Refuse a sample that no certificate or no classifier can be about."""
    if sample.x.ndim > _AXES:
        raise DataError(
            f"{sample.name}: inputs of shape {sample.input_shape} have {len(sample.input_shape)} axes, and a "
            "certificate is about inputs with one to three: (features), (channels, length) or (channels, "
            "height, width). Join axes, as in x.reshape(len(x), -1), before anything is learned."
        )
    labels = len(np.unique(sample.y))
    are_singles = sample.n >= _SOME and 2 * labels > sample.n
    if are_singles or (labels > _MANY_CLASSES and labels * _EACH > sample.n):
        raise DataError(
            f"{sample.name}: {sample.n} examples have {labels} different labels. So many are no classes that "
            "can be learned: this may be a number, a day or a name. Name the column with the classes, or "
            "make classes of a quantity by limits that were fixed in advance; for a quantity itself there is "
            "codebound holdout seal with the loss residual:TAU."
        )


def align_labels(dataset: Sample, names: tuple[str, ...]) -> Sample:
    """Reorder the labels of a sample by the names of classes."""
    own = dataset.class_names
    if not names or not own or own == names:
        return dataset
    strange = [each for each in own if each not in names]
    if strange and dataset.role != "unlabelled":
        raise DataError(
            f"{dataset.name} has classes that the sample has not: {', '.join(strange[:8])}. Those of the "
            f"sample are {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}."
        )
    y = dataset.y if strange else np.array([names.index(each) for each in own], dtype=np.int64)[dataset.y]
    return replace(dataset, y=y, classes=len(names), class_names=names)


def permutation(n: int, *, seed: int = 0) -> NDArray[np.int64]:
    """The fixed order in which a sample of ``n`` examples is cut.

    Positions are sorted by the outputs of Philox4x64-10 with key ``(seed mod 2^64, seed div 2^64)`` and a
    counter that starts at 1, equal ones by position: integers alone, the same on every machine.

    Example:
        >>> permutation(5).tolist()
        [0, 2, 1, 4, 3]
    """
    if not 0 <= seed < 1 << 128:
        raise UsageError(f"a split seed lies in [0, 2^128). Got {seed}.")
    keys = np.random.Philox(key=seed).random_raw(n)
    return np.argsort(keys, kind="stable").astype(np.int64)


@dataclass(frozen=True, slots=True)
class DeviceData:
    """A sample that lives on a device; inputs are scaled batch by batch."""

    x: Tensor
    y: Tensor
    scaling: Scaling

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.y)

    def batch(self, indices: Tensor, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Scaled inputs and labels of the examples at ``indices``."""
        return self.scaling.apply(self.x[indices], dtype), self.y[indices]

    def part(self, start: int, stop: int) -> DeviceData:
        """The examples from ``start`` to ``stop``, without the others: a part can be sent elsewhere."""
        return DeviceData(self.x[start:stop].clone(), self.y[start:stop].clone(), self.scaling)

    def chunks(self, chunk_size: int, dtype: torch.dtype | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Scaled inputs and labels, ``chunk_size`` examples at a time."""
        for start in range(0, self.n, chunk_size):
            stop = start + chunk_size
            yield self.scaling.apply(self.x[start:stop], dtype), self.y[start:stop]


def count_shared(unlabelled: Sample, sample: Sample) -> int:
    """Count the unlabelled inputs that occur in a sample, by value."""
    known, fresh = number_inputs(sample.x, unlabelled.x, dtype="<f8")
    return int(np.isin(fresh, known).sum())


def count_copies(sample: Sample, test_set: Sample) -> int:
    """Count the examples of a test sample whose inputs also occur in the sample."""
    if sample.input_shape != test_set.input_shape or sample.dtype != test_set.dtype:
        raise DataError(
            f"{sample.name} and {test_set.name} cannot be compared: inputs are {sample.dtype} of "
            f"{sample.input_shape} and {test_set.dtype} of {test_set.input_shape}."
        )
    return count_shared(test_set, sample)


def require_disjoint(unlabelled: Sample, sample: Sample) -> None:
    """Refuse unlabelled inputs that occur in the sample: they are not fresh."""
    if shared := count_shared(unlabelled, sample):
        raise CertificateError(
            f"{shared} of the {unlabelled.n} unlabelled inputs occur in the sample; they have to be a fresh "
            "draw, used for no choice. Leave them out, or draw others."
        )


def seen_rows(dataset: Sample) -> NDArray[np.uint64]:
    """Eight bytes for each input, as networks read it: the memory of a network that saw them."""
    with np.errstate(over="ignore"):
        digests = digest_rows(dataset.x, dtype="<f8" if dataset.is_cells else "<f4")
    return digests.view("<u8")[:, 0].astype(np.uint64)


def digest_rows(
    x: NDArray[np.generic],
    *,
    dtype: DTypeLike | None = None,
    salt: bytes = b"",
    tails: NDArray[np.int64] | None = None,
) -> NDArray[np.uint8]:
    """SHA-256 of salt, stored row (-0.0 as 0.0) and tail."""
    digests, salted = bytearray(), hashlib.sha256(salt)
    for rows in row_parts(x):
        part = np.array(x[rows], dtype=dtype or x.dtype.newbyteorder("<"), order="C")
        part[part == 0] = 0  # a sum would touch the patterns of words
        content, size = memoryview(part.tobytes()), part[:1].nbytes
        for at in range(len(part)):
            digest = salted.copy()
            digest.update(content[at * size : (at + 1) * size])
            if tails is not None:
                digest.update(tails[rows.start + at].tobytes())
            digests += digest.digest()
    return np.frombuffer(bytes(digests), np.uint8).reshape(-1, hashlib.sha256().digest_size)


def number_rows(digests: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Number of the distinct digest of each row."""
    whole = digests.view(f"V{digests.shape[1]}").reshape(-1)
    return np.unique(whole, return_inverse=True)[1].reshape(-1).astype(np.int64)


def number_inputs(*inputs: NDArray[np.generic], dtype: DTypeLike | None = None) -> list[NDArray[np.int64]]:
    """Number of the distinct input of each row of arrays; equality is by value."""
    numbers = number_rows(np.concatenate([digest_rows(each, dtype=dtype) for each in inputs]))
    return np.split(numbers, np.cumsum([len(each) for each in inputs])[:-1])


MAX_CHARACTERS = 400
LICENCE = " (licence: "
"""In front of the licence of an encoder, behind its name."""


@dataclass(frozen=True, slots=True)
class Made:
    """Something that was made before."""

    by: str  # a learner's class, parameters, seed and versions
    of: str  # name of the data that it was made of
    rows: int  # how many of the first rows of the sample are among these
    sha256: str  # of its file

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", printable(self.by))
        object.__setattr__(self, "of", printable(self.of))

    @property
    def name(self) -> str:
        """Name of an encoder, without its licence."""
        return self.by.partition(LICENCE)[0]


def printable(text: str) -> str:
    """The text as a header can have it."""
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text)[:MAX_CHARACTERS]


def require_printable(name: str, text: object) -> None:
    """Refuse a text that no header can have."""
    if not isinstance(text, str) or text != printable(text):
        raise UsageError(f"{name}: at most {MAX_CHARACTERS} printable ASCII characters. Got {text!r:.80}.")


def whole(name: str, value: object) -> int:
    """Python's own integer for that of a library; others are refused."""
    if not isinstance(value, Integral):
        raise UsageError(f"{name} is a whole number. Got {value!r:.80}.")
    return int(value)


def integers(name: str, values: object) -> NDArray[np.int64]:
    """Array of integers in a list, a series or another array; others are refused."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "biu"):
        raise DataError(f"{name} must be integers in a row. Got {found.dtype} of shape {found.shape}.")
    return found.astype(np.int64, copy=False)
