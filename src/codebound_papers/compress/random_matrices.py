"""Random matrices that are never stored, and the products with them (docs/format.md, section 4.8).

A helper matrix has up to 2^36 numbers, so it is made again wherever it is needed, in the order of its stream:
a strip of random words at a time, and of the strip a tile that stays in the cache, which BLAS multiplies.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codebound.bits.stream import Stream, popcounts
from codebound.run.errors import UsageError

Words = NDArray[np.uint64]
Reals = NDArray[np.floating[Any]]

_STRIP = 1 << 23  # words of a strip: 64 MiB
_DEPTH = 256  # rows of a strip at most: enough to keep a matrix product busy
_TILE = 1 << 19  # elements of a tile: 2 or 4 MiB
_WIDTH = 1 << 13  # columns of a tile: dot products of this length are taken without threads


@dataclass(frozen=True, slots=True)
class _Digits:
    """Map from words of the stream to numbers."""

    per_word: int
    largest: int
    offset: int
    factor: int


_BITS = _Digits(per_word=64, largest=1, offset=1, factor=-2)
_POPCOUNTS = _Digits(per_word=1, largest=64, offset=-32, factor=1)


@dataclass(frozen=True, slots=True)
class RandomMatrix:
    """A matrix of signs or coded Gaussians from a named stream, row by row.

    Its numbers are ``offset + factor * digit``, the digits being the bits or the popcounts of the words.
    Products are taken with the digits, and corrected for the offset at the end.
    """

    rows: int
    columns: int
    name: str
    seed: int
    gaussian: bool = False

    @property
    def _digits(self) -> _Digits:
        return _POPCOUNTS if self.gaussian else _BITS

    def onto(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The products ``values @ H.T`` of vectors with every row, accurate to float64."""
        products = np.zeros((len(values), self.rows))
        for rows, columns, digits in self._tiles(np.float64):
            products[:, rows] += _onto(values[:, columns], digits)
        products *= self._digits.factor
        products += self._digits.offset * values.sum(axis=1, keepdims=True)
        return products

    def combine(self, weights: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The weighted sums ``weights @ H`` of the rows, exactly: floats add small integers without error."""
        largest = max(int(weights.max()), -int(weights.min()))
        most = self._digits.largest * self.rows * largest
        if most > 1 << 53:
            raise UsageError(
                f"{self.rows} weights up to {largest:,} have sums beyond 2^53, which are not exact."
            )
        exact: type[np.floating[Any]] = np.float32 if most <= 1 << 24 else np.float64
        factors: Reals = weights.astype(exact)
        sums = np.zeros((len(weights), self.columns), dtype=exact)
        for rows, columns, digits in self._tiles(exact):
            sums[:, columns] += _combine(factors[:, rows], digits)
        exact_sums = sums.astype(np.int64)
        exact_sums *= self._digits.factor
        exact_sums += self._digits.offset * weights.sum(axis=1, dtype=np.int64, keepdims=True)
        return exact_sums

    def _tiles(self, dtype: type[np.floating[Any]]) -> Iterator[tuple[slice, slice, Reals]]:
        """All digits once: rows, columns and digits of a tile, which is overwritten by the next one."""
        buffer = np.empty(_TILE, dtype=dtype)
        per_word = self._digits.per_word
        for top, left, strip in self._strips():
            height, width = strip.shape
            step = max(min(_TILE // height, _WIDTH) // per_word, 1)
            for start in range(0, width, step):
                words, column = strip[:, start : start + step], (left + start) * per_word
                found = popcounts(words) if self.gaussian else _bits(words)[:, : self.columns - column]
                tile = buffer[: found.size].reshape(found.shape)
                np.copyto(tile, found)
                yield slice(top, top + height), slice(column, column + found.shape[1]), tile

    def _strips(self) -> Iterator[tuple[int, int, Words]]:
        """The words of the matrix in the order of the stream: first row, first word in the row, words."""
        stream = Stream(self.seed, self.name)
        width = -(-self.columns // self._digits.per_word)
        depth = min(_STRIP // width, _DEPTH)
        if depth == 0:
            for row in range(self.rows):
                for start in range(0, width, _STRIP):
                    yield row, start, stream.words(min(_STRIP, width - start))[None, :]
            return
        for row in range(0, self.rows, depth):
            height = min(depth, self.rows - row)
            yield row, 0, stream.words(height * width).reshape(height, width)


# On a busy machine BLAS can take a thousand times longer to wake its threads than to multiply one vector with
# a tile, so these products stay in the thread that asks: short dot products, and a loop of numpy's own.


def _onto(values: Reals, digits: Reals) -> Reals:
    """``values @ digits.T``."""
    if len(values) == 1:
        products: Reals = np.matmul(digits[:, None, :], values[0, :, None])
        return products.reshape(1, -1)
    return values @ digits.T


def _combine(factors: Reals, digits: Reals) -> Reals:
    """``factors @ digits``."""
    if len(factors) == 1:
        return np.asarray(np.einsum("vi,ij->vj", factors, digits))
    return factors @ digits


def _bits(words: Words) -> NDArray[np.uint8]:
    return np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), axis=1, bitorder="little")


def project_onto(
    values: NDArray[np.float64], *, count: int, seed: int, gaussian: bool
) -> NDArray[np.float64]:
    """Products ``values @ H.T``, H the helper of mode 8: signs, or coded Gaussians times 4 (variance 16).

    >>> signs = combine(np.eye(3, dtype=np.int64), 5, seed=0, gaussian=False)
    >>> values = np.arange(10.0).reshape(2, 5)
    >>> np.allclose(project_onto(values, count=3, seed=0, gaussian=False), values @ signs.T)
    True
    """
    return RandomMatrix(count, values.shape[1], "project", seed, gaussian).onto(values)


def combine(z: NDArray[np.int64], n: int, *, seed: int, gaussian: bool) -> NDArray[np.int64]:
    """Sums of random vectors: ``z @ H``, H the helper of mode 8; exact.

    >>> combine(np.array([[3, -1]]), 4, seed=7, gaussian=False).shape
    (1, 4)
    """
    return RandomMatrix(z.shape[1], n, "project", seed, gaussian).combine(z)
