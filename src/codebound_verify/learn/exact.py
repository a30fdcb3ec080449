"""Exact arithmetic of rules, on the cores of a machine (docs/format.md, section 7).

Products of matrices of integers are torch's: in float32 below 2^24 and in float64 below 2^53 they are exact
whatever the order. Quotients and roots are numpy's, one operation at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..refusal import Refused

Doubles: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int64]
Vectors: TypeAlias = NDArray[np.int16]  # (rows, D): what feature maps make

SINGLE = 2**24  # below it, float32 has every integer
DOUBLE = 2**53
LONGEST = 4095  # a vector is at most this long

Reals = TypeVar("Reals", Singles, Doubles)
Given = TypeVar("Given")
Result = TypeVar("Result")


def product(a: Reals, b: Reals) -> Reals:
    """The product of two matrices of the same type."""
    return torch.mm(torch.from_numpy(a), torch.from_numpy(b)).numpy()


@contextmanager
def full_precision() -> Iterator[None]:
    """Forbid the shortcuts that torch may take in float32 when a program has asked for them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def radius(dimension: int) -> int:
    """s(D), the length of vectors before they are rounded.

    Example:
        >>> radius(64), radius(65)
        (4091, 4090)
    """
    return LONGEST - int(np.ceil(np.sqrt(np.float64(dimension)) / 2))


def normalise(y: Doubles, weights: Doubles | None) -> Vectors:
    """Vectors of integers, weighted where there are weights, brought to the same length and rounded."""
    if weights is not None:
        y *= weights
    squares = np.einsum("ij,ij->i", y, y)
    if not np.all(squares < DOUBLE):
        raise Refused("Rule: a vector is too long for exact arithmetic.")
    lengths = np.sqrt(np.maximum(squares, 1))  # a vector of zeros stays one
    y *= radius(y.shape[1])
    y /= lengths[:, None]
    return np.rint(y, out=y).astype(np.int16)


def windows(pixels: tuple[int, int], ranges: tuple[list[range], list[range]]) -> Singles:
    """A matrix of zeros and ones that sums over windows: (pixels, windows), both in the order of rows."""
    found = np.zeros((*pixels, len(ranges[0]), len(ranges[1])), np.float32)
    for i, rows in enumerate(ranges[0]):
        for j, columns in enumerate(ranges[1]):
            found[rows.start : rows.stop, columns.start : columns.stop, i, j] = 1
    return found.reshape(pixels[0] * pixels[1], -1)


def patches_of(pictures: Reals, size: int) -> Reals:
    """All patches: (channels x size x size, pictures x places), places in the order of rows."""
    seen = np.lib.stride_tricks.sliding_window_view(pictures, (size, size), axis=(2, 3))
    d = pictures.shape[1] * size * size
    return np.ascontiguousarray(seen.transpose(1, 4, 5, 0, 2, 3)).reshape(d, -1)


def side_by_side(
    function: Callable[[Given], Result], parts: Iterable[Given], workers: int | None = None
) -> Iterator[Result]:
    """Results of ``function`` for all parts, in order, on so many cores (None: all of torch).

    Cores that share every small operation wait for each other; on a busy machine that takes many times longer
    than one core alone. So each part has one core, until the last one is done.
    """
    workers = workers or torch.get_num_threads()
    with one_core(), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def one_core() -> Iterator[None]:
    """Every operation on one core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
