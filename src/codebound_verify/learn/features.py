"""The map from inputs to vectors that a rule names, and its weights (docs/format.md, sections 7.3 to 7.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..refusal import Refused
from ..sample import Data, Inputs, parts
from .columns import ColumnMap, DirectionMap
from .exact import DOUBLE, Doubles, Integers
from .filters import FilterMap
from .maps import FeatureMap
from .patches import PatchMap
from .rule import Columns, Filters, Rule

DIVISORS = (1.0, 16.0, 255.0)  # of the levels of pictures
TOGETHER = 1 << 21  # numbers that are made at a time
LARGEST = 8  # weight


def feature_map(rule: Rule, data: Data, first: Integers) -> FeatureMap:
    """The feature map of a rule, learned from the first rows."""
    inputs = data.x[first]
    found = _plain_map(rule, inputs, is_cells=data.is_cells)
    if rule.weights:
        dimension = found.vectors(found.prepare(inputs[:1])).shape[1]
        found.weigh(weights_of(rule.weights, found, inputs, data.y[first], dimension))
    return found


def _plain_map(rule: Rule, first: Inputs, *, is_cells: bool) -> FeatureMap:
    features = rule.features
    if isinstance(features, Columns):
        if features.normalised:
            return DirectionMap(first[0].size)
        return ColumnMap(first, is_cells=is_cells)
    largest = float(first.max())
    divisor = next((divisor for divisor in DIVISORS if largest <= divisor), None)
    if divisor is None:
        raise Refused(f"Rule: pictures have values up to 255; a known row has {largest:g}.")
    if isinstance(features, Filters):
        return FilterMap(features, first, divisor=divisor)
    return PatchMap(features, first, divisor=divisor, is_mirrored=rule.is_mirrored)


def weights_of(number: int, features: FeatureMap, first: Inputs, labels: Integers, dimension: int) -> Doubles:
    """A weight for every number of a vector, by the number of 7.6. ``labels`` are those of the first rows."""
    step = max(1, TOGETHER // dimension)

    def numbers_of(chosen: Integers) -> Iterator[Doubles]:
        for part in parts(len(chosen), step):
            yield features.learned_from(features.prepare(first[chosen[part]]))

    return compute_weights(number, labels, numbers_of)


def compute_weights(
    number: int, labels: Integers, numbers_of: Callable[[Integers], Iterable[Doubles]]
) -> Doubles:
    """The weights, from integers of rows, some at a time. Their sums and those of squares are exact.

    One class is looked at after the other, so that one sum is kept for each number, however many classes are.
    """
    total, squares, between, seen = np.zeros(1), np.zeros(1), np.zeros(1), 0
    for label in np.unique(labels):
        own, count = np.zeros(1), 0
        for some in numbers_of(np.flatnonzero(labels == label)):
            own = own + some.sum(axis=0)
            squares = squares + np.einsum("ij,ij->j", some, some)
            count += len(some)
        between = between + own * own / count
        total, seen = total + own, seen + count
    if not np.all(squares < DOUBLE):
        raise Refused("Rule: the numbers that weights are computed from are too large for exact arithmetic.")
    common = total * total / seen
    between = between - common
    within = squares - common
    ratios = np.zeros_like(total)
    np.divide(between, within, out=ratios, where=(between > 0) & (within > 0))
    if not ratios.any():
        return np.ones_like(total)
    ratios /= ratios.max()
    for _ in range(3 - number):
        ratios = np.sqrt(ratios)
    return np.asarray(np.rint(LARGEST * ratios))
