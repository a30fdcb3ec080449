"""Arrays with a number for every example of a large sample: beyond a megabyte they lie in a file.

The file has no name, lies in the temporary folder (``TMPDIR``), and is gone with the array or the process.
What is computed from such arrays is computed block by block, so that memory does not grow with the sample.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import DTypeLike, NDArray

MEMORY = 1 << 20
"""Bytes of an array that is kept in memory."""
BLOCK = 1 << 17
"""Examples that are looked at together."""


def allocate(shape: int | tuple[int, ...], dtype: DTypeLike, *, memory: int | None = None) -> NDArray[Any]:
    """An array of zeros to be written to: in memory up to so many bytes (``MEMORY``), else in a file."""
    sizes = (shape,) if isinstance(shape, int) else shape
    size = int(np.prod(sizes)) * np.dtype(dtype).itemsize
    if size <= (MEMORY if memory is None else memory):
        return np.zeros(sizes, dtype)
    try:
        with tempfile.TemporaryFile() as file:
            for start in range(0, size, MEMORY):
                file.write(bytes(min(MEMORY, size - start)))
            file.flush()
            return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=sizes))
    except OSError as error:
        raise DataError(
            f"{tempfile.gettempdir()}: no room for {size / 1e6:,.0f} MB of values ({error.strerror}). Set "
            "the variable TMPDIR to a folder on a disk that has it."
        ) from error


def rows_in_blocks(n: int) -> Iterator[slice]:
    """All rows of ``n``, a block at a time."""
    return (slice(start, min(n, start + BLOCK)) for start in range(0, n, BLOCK))


def sort_blocks(blocks: Iterable[NDArray[Any]], n: int, dtype: DTypeLike) -> NDArray[Any]:
    """All ``n`` numbers of some blocks in ascending order, NaN last.

    Example:
        >>> sort_blocks([np.array([3.0, 1.0]), np.array([2.0])], 3, np.float64)
        array([1., 2., 3.])
    """
    numbers, done = allocate(n, dtype), 0
    for block in blocks:
        numbers[done : done + block.size] = block.reshape(-1)
        done += block.size
    numbers.sort()  # in place: the system keeps in memory what there is room for
    return numbers
