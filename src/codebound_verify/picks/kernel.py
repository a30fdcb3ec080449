"""The kernel of vectors of integers, and its supports (docs/format.md, section 10.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..refusal import Refused
from .columns import ColumnMap, DirectionMap
from .exact import Doubles, Singles, Vectors, parts, product, side_by_side
from .filters import FilterMap
from .patches import PatchMap
from .pictures import copied
from .rule import MIRRORED, Columns, Filters, Rule

if TYPE_CHECKING:
    from ..sample import Inputs

NUMBERS = 1 << 23  # in the vectors that are made float32 at a time
AT_HAND = 2048  # supports whose vectors are float32 at a time
PIECE = 256  # of them, in one product
LARGEST_INPUT = 1e300


class FeatureMap(Protocol):
    """What makes vectors of inputs."""

    squared_scale: float

    def prepared(self, x: Inputs) -> Inputs:
        """Stored inputs, as copies are made of them."""

    def vectors(self, prepared: Inputs) -> Vectors:
        """The vectors of prepared inputs."""


def feature_map(rule: Rule, first: Inputs, *, divisor: float) -> FeatureMap:
    """The feature map of a rule, learned from the first examples."""
    features = rule.features
    if isinstance(features, Filters):
        return FilterMap(features, first, divisor=divisor)
    if not isinstance(features, Columns):
        return PatchMap(features, first, divisor=divisor, is_mirrored=rule.copies == MIRRORED)
    return DirectionMap(first[0].size) if features.normalised else ColumnMap(first)


def check_finite(x: Inputs) -> None:
    """Refuse inputs that no vector can be made of."""
    if x.dtype != np.uint8 and not all(
        np.all(np.abs(x[part], dtype=np.float64) <= LARGEST_INPUT) for part in parts(len(x), 1024)
    ):
        raise Refused(f"Data: an input has a number that is not finite, or above {LARGEST_INPUT:g}.")


class Kernel:
    """The kernel of a rule between examples and supports."""

    def __init__(self, rule: Rule, features: FeatureMap) -> None:
        self._number, self.features = rule.copies, features
        self._factor = rule.gamma / 4

    def supports_of(self, x: Inputs) -> Vectors:
        """The vectors of the supports of picks, in their order."""
        pictures = self.features.prepared(x)
        return np.concatenate([self.features.vectors(each) for each in copied(pictures, self._number)])

    def fill(self, out: Doubles, supports: Vectors, points: Vectors) -> None:
        """Write the kernel of supports and points to ``out``: (supports, points)."""
        for some in parts(len(supports), AT_HAND):
            self._fill(out[some], supports[some], points)

    def _fill(self, out: Doubles, supports: Vectors, points: Vectors) -> None:
        sides = [supports]
        if self._number == MIRRORED:
            assert isinstance(self.features, PatchMap)  # read_rule() refuses others
            sides.append(np.asarray(self.features.mirrored(supports), np.int16))
        single = [each.astype(np.float32) for each in sides]
        squares = [_squares(each) for each in single]

        def filled(part: slice) -> None:
            some = points[part].astype(np.float32)
            own = _squares(some)
            for piece in parts(len(supports), PIECE):
                found = [
                    self._values(product(side[piece], some.T), square[piece], own)
                    for side, square in zip(single, squares, strict=True)
                ]
                out[piece, part] = found[0] if len(found) == 1 else found[0] + found[1]

        step = max(64, min(4096, NUMBERS // points.shape[1]))
        for _ in side_by_side(filled, parts(len(points), step)):
            pass

    def _values(self, products: Singles, squares: Doubles, others: Doubles) -> Doubles:
        v = products.astype(np.float64)
        v *= -2
        v += squares[:, None]
        v += others
        v /= self.features.squared_scale
        v *= self._factor
        v += 1
        v *= v
        v *= v
        return np.divide(1, v, out=v)


def _squares(vectors: Singles) -> Doubles:
    return np.asarray(np.einsum("ij,ij->i", vectors, vectors)).astype(np.float64)
