"""Features that are the numbers of an input (section 10.4 of docs/format.md and docs/format-3.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..refusal import Refused
from .exact import LONGEST, Doubles, Vectors, radius
from .maps import FeatureMap

if TYPE_CHECKING:
    from ..sample import Inputs


class ColumnMap(FeatureMap):
    """Numbers between their quantiles in the first examples."""

    def __init__(self, first: Inputs) -> None:
        values = np.sort(_flat(first), axis=0)
        count, self._dimension = values.shape
        self._middle = values[count // 2]
        spread = values[9 * count // 10] - values[count // 10]
        spread = np.where(spread == 0, values[-1] - values[0], spread)
        self._spread = np.where(spread == 0, 1.0, spread)
        self.known = {"middle": self._middle, "spread": self._spread}
        self.weigh(np.ones(self._dimension))

    def weigh(self, weights: Doubles) -> None:
        """Give every column a weight."""
        total = np.square(weights).sum()
        longest = LONGEST - np.sqrt(np.float64(self._dimension)) / 2
        unit = np.floor(longest / (4 * np.sqrt(total)))
        if unit < 1:
            raise Refused(
                f"Rule: the squares of the weights of a layer add up to {total}, which is too much."
            )
        self._units = weights * unit
        self.squared_scale = float(total * unit * unit)

    def numbers(self, prepared: Inputs) -> Doubles:
        """Integers that weights are computed from."""
        return np.asarray(np.rint(self._parts(prepared) * 256))

    def vectors(self, prepared: Inputs) -> Vectors:
        """The vectors of inputs."""
        return np.asarray(np.rint(self._parts(prepared) * self._units)).astype(np.int16)

    def _parts(self, x: Inputs) -> Doubles:
        with np.errstate(over="ignore"):
            return np.asarray(np.clip((_flat(x) - self._middle) / self._spread, -4, 4))


class DirectionMap(FeatureMap):
    """Inputs, brought to the same length."""

    def __init__(self, dimension: int) -> None:
        self.known = {}
        self.squared_scale = float(radius(dimension) ** 2)

    def numbers(self, prepared: Inputs) -> Doubles:
        """Integers that weights are computed from."""
        flat = _flat(prepared)
        largest = np.abs(flat).max(axis=1, keepdims=True)
        return np.asarray(np.rint(flat * 32767 / np.where(largest == 0, 1.0, largest)))


def _flat(x: Inputs) -> Doubles:
    return x.reshape(len(x), -1).astype(np.float64)
