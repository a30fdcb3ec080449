"""Features that are the numbers of an input (section 10.4 of docs/format.md and docs/format-3.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..refusal import Refused
from .exact import LONGEST, Doubles, Vectors, normalised, radius

if TYPE_CHECKING:
    from ..sample import Inputs


class ColumnMap:
    """Numbers between their quantiles in the first examples."""

    def __init__(self, first: Inputs, layer: tuple[int, ...] | None = None) -> None:
        values = np.sort(_flat(first), axis=0)
        count, dimension = values.shape
        self._middle = values[count // 2]
        spread = values[9 * count // 10] - values[count // 10]
        spread = np.where(spread == 0, values[-1] - values[0], spread)
        self._spread = np.where(spread == 0, 1.0, spread)
        total = dimension if layer is None else sum(weight * weight for weight in layer)
        longest = LONGEST - np.sqrt(np.float64(dimension)) / 2
        unit = np.floor(longest / (4 * np.sqrt(np.float64(total))))
        if unit < 1:
            raise Refused(
                f"Rule: the squares of the weights of the layer add up to {total}, which is too much."
            )
        self._units = unit if layer is None else unit * np.array(layer, np.float64)
        self.squared_scale = float(total * unit * unit)

    def prepared(self, x: Inputs) -> Inputs:
        """Inputs as stored."""
        return x

    def vectors(self, x: Inputs) -> Vectors:
        """The vectors of inputs."""
        with np.errstate(over="ignore"):
            z = (_flat(x) - self._middle) / self._spread
        return np.asarray(np.rint(np.clip(z, -4, 4) * self._units)).astype(np.int16)


class DirectionMap:
    """Inputs, brought to the same length."""

    def __init__(self, dimension: int, layer: tuple[int, ...] | None = None) -> None:
        self._layer = layer
        self.squared_scale = float(radius(dimension) ** 2)

    def prepared(self, x: Inputs) -> Inputs:
        """Inputs as stored."""
        return x

    def vectors(self, x: Inputs) -> Vectors:
        """The vectors of inputs."""
        flat = _flat(x)
        largest = np.abs(flat).max(axis=1, keepdims=True)
        return normalised(np.rint(flat * 32767 / np.where(largest == 0, 1.0, largest)), self._layer)


def _flat(x: Inputs) -> Doubles:
    return x.reshape(len(x), -1).astype(np.float64)
