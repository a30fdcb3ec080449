"""The kernel of vectors of integers, and its supports (docs/format.md, section 10.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..cores import side_by_side
from ..refusal import Refused
from .columns import ColumnMap, DirectionMap
from .exact import SINGLE, Doubles, Integers, Vectors, parts
from .filters import FilterMap
from .patches import PatchMap
from .pictures import copies_of
from .rule import MIRRORED, Columns, Filters, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..sample import Inputs, Labels
    from .maps import FeatureMap

TOGETHER = 128  # copies of pictures whose vectors are made at a time
PIECE = 1024  # supports in one product
POINTS = 512  # points in it
ROWS = 64  # supports whose values are made of it at a time: a core has them at hand
COLUMNS = 1024  # numbers of a vector that are made float32 at a time
WEIGHED = 32  # examples whose numbers are made at a time, where weights are computed
KEPT = 1 << 32  # bytes of a kernel that is kept as it is
LARGEST_INPUT = 1e300
LARGEST_WEIGHT = 8  # that is computed
ONE = torch.ones((), dtype=torch.float64)


def feature_map(rule: Rule, first: Inputs, *, divisor: float, labels: Labels | None = None) -> FeatureMap:
    """The feature map of a rule, learned from the first examples; labels are needed to compute weights."""
    found = _plain_map(rule, first, divisor=divisor)
    if rule.layer is None:
        return found
    if isinstance(rule.layer, int):
        assert labels is not None  # of the first examples
        weights = compute_weights(rule.layer, labels, lambda chosen: _numbers(found, first[chosen]))
        found.known["labels"] = labels
    else:
        weights = np.array(rule.layer, np.float64)
    found.weigh(weights)
    found.known["weights"] = weights
    return found


def _plain_map(rule: Rule, first: Inputs, *, divisor: float) -> FeatureMap:
    features = rule.features
    if isinstance(features, Filters):
        return FilterMap(features, first, divisor=divisor)
    if not isinstance(features, Columns):
        return PatchMap(features, first, divisor=divisor, is_mirrored=rule.copies == MIRRORED)
    return DirectionMap(first[0].size) if features.normalised else ColumnMap(first)


def _numbers(features: FeatureMap, inputs: Inputs) -> Iterator[Doubles]:
    """The numbers of inputs, some at a time, with those of mirror images where these are one with them."""
    for part in parts(len(inputs), WEIGHED):
        numbers = features.numbers(features.prepare(inputs[part]))
        yield numbers
        if isinstance(features, PatchMap) and features.is_mirrored:
            yield features.mirror(numbers)


def compute_weights(
    power: int, labels: Labels, numbers_of: Callable[[Integers], Iterable[Doubles]]
) -> Doubles:
    """A weight for every number of a vector: the larger, the further the classes lie apart in it.

    ``numbers_of`` makes integers of examples, some at a time; their sums and those of squares are exact. One
    class is looked at after the other, so that one sum is kept for each number, however many classes are.
    """
    total, squares, between, seen = np.zeros(1), np.zeros(1), np.zeros(1), 0
    for label in np.unique(labels):
        own, count = np.zeros(1), 0
        for some in numbers_of(np.flatnonzero(labels == label)):
            own = own + some.sum(axis=0)
            squares = squares + (some * some).sum(axis=0)
            count += len(some)
        between = between + own * own / count
        total, seen = total + own, seen + count
    common = total * total / seen
    between = between - common
    within = squares - common
    ratios = np.zeros_like(total)
    np.divide(between, within, out=ratios, where=(between > 0) & (within > 0))
    if not ratios.any():
        return np.ones_like(total)
    ratios /= ratios.max()
    for _ in range(3 - power):
        ratios = np.sqrt(ratios)
    return np.asarray(np.rint(LARGEST_WEIGHT * ratios))


def check_finite(x: Inputs) -> None:
    """Refuse inputs that no vector can be made of."""
    if x.dtype != np.uint8 and not all(
        np.all(np.abs(x[part], dtype=np.float64) <= LARGEST_INPUT) for part in parts(len(x), 1024)
    ):
        raise Refused(f"Data: an input has a number that is not finite, or above {LARGEST_INPUT:g}.")


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

    def __getitem__(self, where: slice) -> Points:
        return Points(self.vectors[where], self.squares[where])

    def __len__(self) -> int:
        return len(self.vectors)


class Kernel:
    """The kernel of a rule between examples and supports."""

    def __init__(self, rule: Rule, features: FeatureMap) -> None:
        self._number, self.features = rule.copies, features
        self._factor = rule.gamma / 4
        self.blocks = 4 if rule.copies == MIRRORED else 1

    def vectors(self, x: Inputs) -> Vectors:
        """The vectors of stored inputs, in blocks."""
        found = self.features.vectors(self.features.prepare(x))
        if self.blocks == 1:
            return found
        assert isinstance(self.features, PatchMap)  # read_rule() refuses others
        return self.features.with_images(found)

    def supports_of(self, x: Inputs) -> Vectors:
        """The vectors of the supports of picks, in their order."""
        copies = copies_of(self.features.prepare(x), self._number)
        pieces = [each[part] for each in copies for part in parts(len(x), TOGETHER)]
        return np.concatenate(list(side_by_side(self.features.vectors, pieces)))

    def allocate(self, supports: int, points: int) -> Kept:
        """Room for the kernel of so many."""
        is_short = self.blocks == 1 and 8 * supports * points > KEPT
        return Kept(self, torch.empty(supports, points, dtype=torch.int32 if is_short else torch.float64))

    def fill(self, out: Tensor, supports: Points, points: Points) -> None:
        """Write the kernel of supports and points to ``out``, (supports, points); to integers, distances."""
        largest = max(supports.squares.max(), points.squares.max())
        # no partial sum of a block's product is above the product of the lengths
        dtype = torch.float32 if largest <= SINGLE else torch.float64
        for piece in parts(len(supports), PIECE):
            self._fill(out[piece], supports[piece], points, dtype)

    def _fill(self, out: Tensor, supports: Points, points: Points, dtype: torch.dtype) -> None:
        left = torch.from_numpy(supports.vectors).to(dtype)
        own = supports.lengths[:, None]

        def filled(part: slice) -> None:
            some = points[part]
            products, lengths = _products(left, torch.from_numpy(some.vectors), self.blocks), some.lengths
            for rows in parts(len(left), ROWS):
                self._write(out[rows, part], [each[rows] for each in products], own[rows] + lengths)

        for _ in side_by_side(filled, parts(len(points), POINTS)):
            pass

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
        squared.div_(self.features.squared_scale)
        torch.add(ONE, squared, alpha=self._factor, out=squared)  # times a power of two: exact
        return squared.square_().square_().reciprocal_()


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
