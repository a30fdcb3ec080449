"""The kernel of vectors of integers, and its supports (docs/format.md, sections 7.5 and 7.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..sample import Inputs, Progress, parts
from .exact import SINGLE, Doubles, Integers, Vectors, side_by_side
from .maps import FeatureMap, copies_of
from .patches import PatchMap
from .rule import COPIES

TOGETHER = 128  # copies of pictures whose vectors are made at a time
STEP = 256  # rows whose vectors are made at a time, or fewer
NUMBERS = 1 << 22  # in the vectors that are made at a time
PIECE = 1024  # supports in one product
POINTS = 512  # points in it
ROWS = 64  # supports whose values are made of it at a time: a core has them at hand
COLUMNS = 1024  # numbers of a vector that are made float32 at a time
BLOCK = 128  # supports whose terms are summed before they are added to the others
KEPT = 1 << 31  # bytes of a kernel that is kept as it is
ONE = torch.ones((), dtype=torch.float64)
Writer: TypeAlias = Callable[[Tensor, slice], None]


@dataclass(frozen=True)
class Points:
    """Vectors as the kernel takes them, in blocks of columns, and the squares of the lengths of the blocks.

    One block is the vector of the page. Four are its sums with the vector of the mirror image, in two blocks,
    and its differences from it, in two.
    """

    vectors: Vectors
    squares: Doubles  # (points, blocks)

    @staticmethod
    def empty(size: int, dimension: int, blocks: int) -> Points:
        """Room for so many."""
        return Points(np.empty((size, dimension), np.int16), np.empty((size, blocks)))

    @property
    def lengths(self) -> Tensor:
        """The squares of the lengths of the vectors of the page."""
        total = torch.from_numpy(self.squares.sum(axis=1))
        return total if self.squares.shape[1] == 1 else total / 2

    def set(self, where: slice, vectors: Vectors) -> None:
        """Write some of them."""
        self.vectors[where] = vectors
        blocks = vectors.reshape(len(vectors), self.squares.shape[1], -1).astype(np.float64)
        self.squares[where] = np.einsum("ijk,ijk->ij", blocks, blocks)

    def put(self, where: slice, others: Points) -> None:
        """Write others in the place of some of them."""
        self.vectors[where], self.squares[where] = others.vectors, others.squares

    def __getitem__(self, where: slice | Integers) -> Points:
        return Points(self.vectors[where], self.squares[where])

    def __len__(self) -> int:
        return len(self.vectors)


class Kernel:
    """The kernel of a rule between rows and supports."""

    def __init__(self, features: FeatureMap, *, copies: int, gamma: float) -> None:
        self.features, self.gamma, self._copies = features, gamma, copies
        self.blocks = 4 if isinstance(features, PatchMap) and features.is_mirrored else 1

    def points(self, x: Inputs, rows: Integers, progress: Progress | None = None) -> Points:
        """Some rows of the inputs as stored."""
        found = Points.empty(len(rows), dimension := self._vectors(x[rows[:1]]).shape[1], self.blocks)
        blocks = parts(len(rows), max(1, min(STEP, NUMBERS // dimension, -(-len(rows) // 8))))
        made = side_by_side(lambda part: self._vectors(x[rows[part]]), blocks)
        for block, some in zip(blocks, made, strict=True):
            found.set(block, some)
            if progress is not None:
                progress(block.stop, len(rows))
        return found

    def supports(self, x: Inputs, rows: Integers) -> Points:
        """The supports of rows: all for the first copy, then for the second, and so on."""
        if COPIES[self._copies] == 1:
            return self.points(x, rows)
        copies = copies_of(self.features.prepare(x[rows]), self._copies)
        pieces = [each[part] for each in copies for part in parts(len(rows), TOGETHER)]
        dimension, start = self._vectors(x[rows[:1]]).shape[1], 0
        found = Points.empty(len(rows) * len(copies), dimension, self.blocks)
        for some in side_by_side(self.features.vectors, pieces):
            found.set(slice(start, start + len(some)), some)
            start += len(some)
        return found

    def _vectors(self, x: Inputs) -> Vectors:
        """The vectors of stored inputs, in blocks."""
        found = self.features.vectors(self.features.prepare(x))
        if self.blocks == 1:
            return found
        assert isinstance(self.features, PatchMap)  # no others are mirrored
        return self.features.with_images(found)

    def allocate(self, supports: int, points: int) -> Kept:
        """Room for the kernel of so many."""
        is_short = self.blocks == 1 and 8 * supports * points > KEPT
        return Kept(self, torch.empty(supports, points, dtype=torch.int32 if is_short else torch.float64))

    def between(self, supports: Points, points: Points) -> Tensor:
        """The kernel of supports and points, (supports, points)."""
        found = torch.empty(len(supports), len(points), dtype=torch.float64)
        self.fill(found, supports, points)
        return found

    def fill(self, out: Tensor, supports: Points, points: Points) -> None:
        """Write the kernel to ``out``, (supports, points), or distances to integers."""
        for piece in parts(len(supports), PIECE):
            write = self._writer(supports[piece], points)

            def filled(part: slice, rows: Tensor = out[piece], write: Writer = write) -> None:
                write(rows[:, part], part)

            for _ in side_by_side(filled, parts(len(points), POINTS)):
                pass

    def sums(self, supports: Points, points: Points, coefficients: Doubles) -> Doubles:
        """Sums over supports, block by block (7.8), without keeping the kernel: (points, columns)."""
        found = torch.zeros(coefficients.shape[1], len(points), dtype=torch.float64)
        for piece in parts(len(supports), PIECE):
            self._add(found, coefficients[piece], supports[piece], points)
        return np.ascontiguousarray(found.numpy().T)

    def _add(self, found: Tensor, coefficients: Doubles, supports: Points, points: Points) -> None:
        """Add the terms of some supports to sums."""
        write, blocks = self._writer(supports, points), parts(len(supports), BLOCK)
        weights = [torch.from_numpy(coefficients[block].T.copy()) for block in blocks]

        def added(part: slice) -> None:
            values = torch.empty(len(supports), part.stop - part.start, dtype=torch.float64)
            write(values, part)
            for block, own in zip(blocks, weights, strict=True):
                found[:, part] += own @ values[block]

        for _ in side_by_side(added, parts(len(points), POINTS)):
            pass

    def _writer(self, supports: Points, points: Points) -> Writer:
        """A function that writes the kernel of supports and a part of the points."""
        largest = max(supports.squares.max(), points.squares.max())
        # no partial sum of a block's product is above the product of the lengths
        dtype = torch.float32 if largest <= SINGLE else torch.float64
        left, own = torch.from_numpy(supports.vectors).to(dtype), supports.lengths[:, None]

        def write(out: Tensor, part: slice) -> None:
            some = points[part]
            products, lengths = _products(left, torch.from_numpy(some.vectors), self.blocks), some.lengths
            for rows in parts(len(left), ROWS):
                self._write(out[rows], [each[rows] for each in products], own[rows] + lengths)

        return write

    def _write(self, out: Tensor, products: list[Tensor], squares: Tensor) -> None:
        """Write the kernel, or squared distances, from scalar products and sums of squared lengths."""
        if len(products) == 1:
            distances = squares.sub_(products[0], alpha=2)
            out.copy_(distances if out.dtype == torch.int32 else self.of_distances(distances))
            return
        first, second, third, fourth = (each.double() for each in products)
        even, odd = first.add_(second), third.add_(fourth)
        values = self.of_distances(squares - (even + odd))
        torch.add(values, self.of_distances(squares.sub_(even.sub_(odd))), out=out)

    def of_distances(self, squared: Tensor) -> Tensor:
        """The kernel of squared distances, which are overwritten."""
        return values_of(squared, self.features.squared_scale, self.gamma)


def values_of(squared: Tensor, squared_scale: float, gamma: float) -> Tensor:
    """1 / v^4 of squared distances, which are overwritten."""
    squared.div_(squared_scale)
    torch.add(ONE, squared, alpha=gamma / 4, out=squared)  # times a power of two: exact
    return squared.square_().square_().reciprocal_()


def squared_distances(vectors: Vectors) -> Tensor:
    """Squared distances of vectors of the page from each other. They are exact."""
    whole = torch.from_numpy(vectors)
    squares = torch.from_numpy(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    dtype = torch.float32 if squares.max() <= SINGLE else torch.float64
    (products,) = _products(whole.to(dtype), whole, 1)
    return (squares[:, None] + squares).sub_(products, alpha=2)


@dataclass(frozen=True)
class Kept:
    """The kernel of supports and points, (supports, points), as it is made and read, part by part.

    Many numbers are kept as squared distances, integers of half the size, and are made values when they are
    read.
    """

    kernel: Kernel
    numbers: Tensor

    def set(self, rows: slice, columns: slice, supports: Points, points: Points) -> None:
        """Write the kernel of some supports and points."""
        self.kernel.fill(self.numbers[rows, columns], supports, points)

    def __getitem__(self, where: tuple[slice, slice | Integers]) -> Tensor:
        some = self.numbers[where]
        return self.kernel.of_distances(some.double()) if some.dtype == torch.int32 else some


def _products(left: Tensor, right: Tensor, blocks: int) -> list[Tensor]:
    """Scalar products, block by block."""
    width = left.shape[1] // blocks
    found = []
    for block in range(blocks):
        total = left.new_zeros(len(left), len(right))
        for columns in parts(width, COLUMNS):
            where = slice(block * width + columns.start, block * width + columns.stop)
            total.addmm_(left[:, where], right[:, where].to(left.dtype).T)
        found.append(total)
    return found
