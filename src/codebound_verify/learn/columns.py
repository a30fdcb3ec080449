"""Features that are the numbers of an input, or its cells (docs/format.md, sections 3.2 and 7.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..refusal import Refused
from ..sample import Inputs, parts
from .exact import LONGEST, Doubles, Integers, Vectors, radius
from .maps import FeatureMap

Patterns: TypeAlias = NDArray[np.uint64]

GAP = np.uint64(0x7FF8 << 48)
TEXT = np.uint64(0x7FF9)  # the first 16 bits of a text
BITS_OF_NUMBER = np.uint64(48)  # behind them
MINUS_ZERO = np.uint64(1 << 63)
WORDS = 256  # the most of one column
TOGETHER = 256  # columns that are looked at at a time
STEPS = 256  # of z, for weights
LONGEST_VECTOR = 1 << 16


@dataclass(frozen=True)
class Cells:
    """Columns of a table as numbers: plain ones, gaps that are told, and words."""

    plain: Integers  # columns
    told: Integers  # places in ``plain``
    columns: Integers  # of each word
    patterns: Patterns  # of each word

    @property
    def dimension(self) -> int:
        """Numbers in all."""
        return len(self.plain) + len(self.told) + len(self.columns)


class ColumnMap(FeatureMap):
    """Numbers between their quantiles in the first rows; for cells also words, and gaps."""

    def __init__(self, first: Inputs, *, is_cells: bool) -> None:
        size = first[0].size
        self._cells = read_cells(first) if is_cells else None
        self._plain = slice(None) if self._cells is None else self._cells.plain
        self._dimension = size if self._cells is None else self._cells.dimension
        if not self._dimension:
            raise Refused("Rule: no column has anything in the known rows.")
        flat, columns = first.reshape(len(first), -1), np.arange(size)[self._plain]
        self._middle, self._spread = np.empty(len(columns)), np.empty(len(columns))
        for part in parts(len(columns), TOGETHER):
            own = flat[:, columns[part]].astype(np.float64)
            self._middle[part], self._spread[part] = _quantiles(own)
        self.weigh(np.ones(self._dimension))

    def weigh(self, weights: Doubles) -> None:
        """Give every number a weight (7.6)."""
        total = np.square(weights).sum()
        longest = LONGEST - np.sqrt(np.float64(self._dimension)) / 2
        unit = np.floor(longest / (4 * np.sqrt(total)))
        if unit < 1:
            raise Refused(f"Rule: the squares of the weights add up to {total:.0f}, which is too much.")
        self.weights, self._units = weights, weights * unit
        self.squared_scale = float(total * unit * unit)

    def raw(self, prepared: Inputs) -> Doubles:
        """Integers that weights are computed from."""
        return np.asarray(np.rint(self._parts(prepared) * STEPS))

    def vectors(self, prepared: Inputs) -> Vectors:
        """The vectors of inputs."""
        found = self._parts(prepared)
        found *= self._units
        return np.rint(found, out=found).astype(np.int16)

    def _parts(self, x: Inputs) -> Doubles:
        """z, a row for each input."""
        found = np.empty((len(x), self._dimension))
        plain = found[:, : len(self._middle)]
        plain[:] = _flat(x)[:, self._plain]
        missing = np.isnan(plain)  # all of them cells
        with np.errstate(over="ignore"):
            plain -= self._middle
            plain /= self._spread
        np.clip(plain, -4, 4, out=plain)
        plain[missing] = 0  # the number of the middle
        if self._cells is not None:
            told = len(self._middle) + len(self._cells.told)
            found[:, len(self._middle) : told] = missing[:, self._cells.told]
            found[:, told:] = patterns_of(x)[:, self._cells.columns] == self._cells.patterns
        return found


class DirectionMap(FeatureMap):
    """Inputs, brought to the same length."""

    def __init__(self, dimension: int) -> None:
        self.squared_scale = float(radius(dimension) ** 2)

    def raw(self, prepared: Inputs) -> Doubles:
        """Integers that weights are computed from, and vectors are made of."""
        flat = _flat(prepared)
        largest = np.abs(flat).max(axis=1, keepdims=True)
        return np.asarray(np.rint(flat * 32767 / np.where(largest == 0, 1.0, largest)))


def patterns_of(x: Inputs) -> Patterns:
    """The bits of cells, with 0.0 in place of -0.0: equality is by value (3.3)."""
    found = np.ascontiguousarray(x, np.float64).view(np.uint64)
    return np.where(found == MINUS_ZERO, np.uint64(0), found)


def read_cells(first: Inputs) -> Cells:
    """Numbers for the columns of a table, by what the first rows hold, refused above the limit of 7.10."""
    size = first.shape[1]
    plain, told, columns = (np.empty(0, np.int64) for _ in range(3))
    patterns = np.empty(0, np.uint64)
    for part in parts(size, TOGETHER):
        cells = patterns_of(first[:, part])
        has_words = (cells >> BITS_OF_NUMBER == TEXT).any(axis=0)
        gaps = (cells == GAP).sum(axis=0)
        kept = np.flatnonzero(~has_words & (gaps < len(first)))
        told = np.concatenate([told, np.flatnonzero(gaps[kept]) + len(plain)])
        plain = np.concatenate([plain, kept + part.start])
        for column in np.flatnonzero(has_words):
            words = _commonest(cells[:, column])
            patterns = np.concatenate([patterns, words])
            columns = np.concatenate([columns, np.full(len(words), column + part.start)])
        found = Cells(plain, told, columns, patterns)
        if found.dimension > LONGEST_VECTOR:
            raise Refused(
                f"Rule: the length of a vector would be above {found.dimension - 1}; "
                f"at most {LONGEST_VECTOR} is allowed."
            )
    return found


def _commonest(cells: Patterns) -> Patterns:
    """The patterns that most cells have, gaps left out; of equally many the smaller one."""
    patterns, counts = np.unique(cells[cells != GAP], return_counts=True)
    return patterns[np.lexsort((patterns, -counts))[:WORDS]]


def _quantiles(values: Doubles) -> tuple[Doubles, Doubles]:
    """Middle and spread of each column, of the numbers that are there."""
    values = np.sort(values, axis=0)  # gaps come last
    there = len(values) - np.isnan(values).sum(axis=0)

    def at(places: Integers) -> Doubles:
        return np.asarray(np.take_along_axis(values, places[None], axis=0)[0])

    spread = at(9 * there // 10) - at(there // 10)
    spread = np.where(spread == 0, at(there - 1) - values[0], spread)
    return at(there // 2), np.where(spread == 0, 1.0, spread)


def _flat(x: Inputs) -> Doubles:
    return x.reshape(len(x), -1).astype(np.float64)
