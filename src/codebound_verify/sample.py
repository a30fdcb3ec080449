"""Samples: what is stored, cells and hashes (docs/format.md, sections 3.1 and 3.2)."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .header import Header
from .refusal import Lacking, Refused, quote

Inputs: TypeAlias = NDArray[Any]
Labels: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Callable[[int, int], None]  # called with the rows done and their total

LABELS_LIMIT = 2**16
NUMBERS_LIMIT = 2**32  # of clusters and groups
LARGEST = 1e300
MISSING, TEXT = 0x7FF8 << 48, 0x7FF9  # the pattern of a gap, and the upper 16 bits of that of a text
NUMBERS = 1 << 22  # that are in float64 at a time


@dataclass(frozen=True)
class Data:
    """A sample as stored: cells are float64, some of them patterns that are no numbers."""

    x: Inputs
    y: Labels
    is_cells: bool = False


def as_stored(x: Inputs, *, is_cells: bool = False) -> Inputs:
    """Inputs as uint8, float32, float64 or cells, images with an axis for channels."""
    if is_cells:
        x = _as_cells(x)
    if x.ndim < 2 or not x.size or x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
        raise Refused(
            f"Data: the inputs must be numbers of shape (n, ...) without empty axes; "
            f"found {x.dtype} of shape {x.shape}."
        )
    name = x.dtype.name
    if name not in ("uint8", "float32", "float64"):
        name = "float32" if x.dtype.itemsize <= 2 else "float64"
    x = x.astype(name, copy=False)
    if not is_cells and x.ndim == 3:
        x = x[:, None]
    some = parts(len(x), rows_at_a_time(x[0].size))
    if x.dtype != np.uint8 and not all(_is_allowed(x[part], is_cells=is_cells) for part in some):
        raise Refused("Data: an input is not finite, above 1e300, or a cell that is none.")
    return x


def cell(value: object) -> np.float64:
    """The number that stands for a cell: a number for itself, a pattern for a gap (None) or a text.

    Example:
        >>> hex(int(cell(None).view(np.uint64)))
        '0x7ff8000000000000'
    """
    if value is None or isinstance(value, str):
        pattern = MISSING
        if value is not None:
            text = unicodedata.normalize("NFC", value.strip()).encode()
            pattern = TEXT << 48 | int(hashlib.sha256(text).hexdigest()[:12], 16)
        return np.uint64(pattern).view(np.float64)
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return np.float64(value)
    raise Refused(f"Data: {quote(value)} is no cell: neither a number nor a text nor None.")


def _as_cells(x: Inputs) -> Inputs:
    if x.ndim != 2:
        raise Refused(f"Data: cells have the shape (rows, columns); found {x.shape}.")
    if x.dtype.kind in "OU":
        try:
            return np.array([cell(value) for value in x.ravel().tolist()], np.float64).reshape(x.shape)
        except ValueError as error:  # surrogates, and numbers of no letter
            raise Refused(f"Data: a cell is no text ({error}).") from None
    if x.dtype != np.float64:
        raise Refused(f"Data: cells are float64; found {x.dtype}.")
    return x


def _is_allowed(part: Inputs, *, is_cells: bool) -> bool:
    is_fine = np.abs(part) <= min(LARGEST, float(np.finfo(part.dtype).max))  # not of what is no number
    if is_cells and not is_fine.all():
        patterns = np.ascontiguousarray(part).view(np.uint64)
        is_fine |= (patterns == MISSING) | (patterns >> np.uint64(48) == TEXT)
    return bool(is_fine.all())


def as_labels(y: Inputs, n: int) -> Labels:
    """Labels as int64, one for each of n inputs."""
    return _as_numbers(y, n, LABELS_LIMIT, "labels")


def _as_numbers(values: Inputs, n: int, limit: int, what: str) -> Labels:
    if values.shape != (n,) or values.dtype.kind not in "biu":
        raise Refused(f"Data: the {what} must be {n} integers; found {values.dtype} of shape {values.shape}.")
    numbers = values.astype(np.int64)
    if n and not 0 <= int(numbers.min()) <= int(numbers.max()) < limit:
        raise Refused(f"Data: the {what} must lie between 0 and {limit - 1}.")
    return numbers


def hash_arrays(*arrays: Inputs, is_cells: bool = False) -> str:
    """The hash of arrays (section 3.1): for each its type, its shape and its bytes. Cells come first."""
    digest = hashlib.sha256()
    for place, values in enumerate(arrays):
        name = "cells" if is_cells and place == 0 else values.dtype.name
        digest.update(f"{name}|{','.join(map(str, values.shape))}|".encode("ascii"))
        digest.update(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data.cast("B"))
    return digest.hexdigest()


def check_sample(x: Inputs, y: Inputs, header: Header, *, is_cells: bool = False) -> Data:
    """The arrays as stored, if they are those that the header names."""
    x = as_stored(x, is_cells=is_cells)
    sample = header.sample
    if (len(x), x.shape[1:]) != (sample.rows, sample.input_shape):
        raise Refused(
            f"Data: {len(x)} inputs of shape {x.shape[1:]} are given; the file is about {sample.rows} "
            f"of shape {sample.input_shape}."
        )
    data = Data(x, as_labels(y, len(x)), is_cells)
    if (found := hash_arrays(data.x, data.y, is_cells=is_cells)) != sample.sha256:
        raise Refused(f"Data: the sample has SHA-256 {found}; sample.sha256 is {sample.sha256}.")
    return data


def check_numbers(values: Inputs | None, sha256: str | None, rows: int, what: str) -> Labels | None:
    """Numbers of clusters or groups, if they are those that the header names. None if it names none."""
    if sha256 is None:
        return None
    if values is None:
        raise Lacking(f"the {what} of its rows")
    numbers = _as_numbers(values, rows, NUMBERS_LIMIT, what)
    if (found := hash_arrays(numbers)) != sha256:
        raise Refused(f"Data: the {what} have SHA-256 {found}; sample.{what} is {sha256}.")
    return numbers


def parts(size: int, step: int) -> list[slice]:
    """Consecutive parts of a range.

    Example:
        >>> parts(5, 2)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def rows_at_a_time(numbers: int) -> int:
    """Number of rows, of so many numbers each, that are made float64 together."""
    return max(1, NUMBERS // numbers)
