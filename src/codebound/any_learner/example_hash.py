"""The hash of an example: of its input and its label as they are stored, whatever stands beside it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_DOMAIN = b"codebound example 1"


def digests(inputs: Any, labels: NDArray[Any]) -> list[bytes]:
    """SHA-256 of every example.

    Numbers count with their bytes and other values as Python writes them: never with the padding of an array,
    which depends on the longest text in it.

    Args:
        inputs: An array, a sparse matrix, a data frame or a list, examples along the first axis.
        labels: The labels, one for each.

    Example:
        >>> short, both = ["a"], ["a", "longer"]
        >>> digests(short, np.array(short)) == digests(both, np.array(both))[:1]
        True
    """
    return [
        hashlib.sha256(b"%b %d %b%b" % (_DOMAIN, len(content), content, label)).digest()
        for content, label in zip(_rows(inputs), _rows(labels), strict=True)
    ]


def sample_sha256(contents: Sequence[bytes]) -> str:
    """Hash of a whole sample, in its order."""
    return hashlib.sha256(b"".join(contents)).hexdigest()


def _rows(values: Any) -> Iterator[bytes]:
    if hasattr(values, "tocsr"):
        return _sparse_rows(values.tocsr())
    if hasattr(values, "iloc") and values.ndim == 1:
        values = values.to_numpy()
    elif hasattr(values, "iloc"):
        is_plain = len(set(values.dtypes)) == 1  # then it counts like the array that it holds
        values = values.to_numpy() if is_plain else values.to_numpy(dtype=object)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufc":
        kind = values.dtype.str.encode()
        return (kind + np.ascontiguousarray(row).tobytes() for row in values)
    return (
        repr(row.tolist() if isinstance(row, np.ndarray | np.generic) else row).encode() for row in values
    )


def _sparse_rows(matrix: Any) -> Iterator[bytes]:
    matrix = matrix.copy()
    matrix.sum_duplicates()
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        places = matrix.indices[start:stop].astype(np.int64)
        values = matrix.data[start:stop]
        yield b"%d %b%b" % (len(places), places.tobytes(), np.ascontiguousarray(values).tobytes())
