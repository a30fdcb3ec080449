"""Features that are the numbers of an input (docs/format.md, section 10.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .exact import LONGEST, Doubles, Vectors, normalised, radius

if TYPE_CHECKING:
    from ..sample import Inputs


class ColumnMap:
    """Numbers between their quantiles in the first examples."""

    def __init__(self, first: Inputs) -> None:
        values = np.sort(_flat(first), axis=0)
        count, dimension = values.shape
        self._middle = values[count // 2]
        spread = values[9 * count // 10] - values[count // 10]
        spread = np.where(spread == 0, values[-1] - values[0], spread)
        self._spread = np.where(spread == 0, 1.0, spread)
        root = np.sqrt(np.float64(dimension))
        self._unit = np.floor((LONGEST - root / 2) / (4 * root))
        self.squared_scale = float(dimension * self._unit * self._unit)

    def prepared(self, x: Inputs) -> Inputs:
        """Inputs as stored."""
        return x

    def vectors(self, x: Inputs) -> Vectors:
        """The vectors of inputs."""
        with np.errstate(over="ignore"):
            z = (_flat(x) - self._middle) / self._spread
        return np.asarray(np.rint(np.clip(z, -4, 4) * self._unit)).astype(np.int16)


class DirectionMap:
    """Inputs, brought to the same length."""

    def __init__(self, dimension: int) -> None:
        self.squared_scale = float(radius(dimension) ** 2)

    def prepared(self, x: Inputs) -> Inputs:
        """Inputs as stored."""
        return x

    def vectors(self, x: Inputs) -> Vectors:
        """The vectors of inputs."""
        flat = _flat(x)
        largest = np.abs(flat).max(axis=1, keepdims=True)
        return normalised(np.rint(flat * 32767 / np.where(largest == 0, 1.0, largest)))


def _flat(x: Inputs) -> Doubles:
    return x.reshape(len(x), -1).astype(np.float64)
