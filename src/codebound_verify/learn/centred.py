"""Common part of the maps of pictures: integers, less their mean over the first (docs/format.md, 10.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from .exact import Doubles, Vectors, centre_of, normalised, radius
from .pictures import Pictures, levels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..sample import Inputs


class CentredMap(ABC):
    """A map of pictures to integers, whose mean over the first pictures is taken away."""

    def __init__(self, divisor: float) -> None:
        self._divisor = divisor
        self._weights: Doubles | None = None

    @abstractmethod
    def _values(self, pictures: Pictures) -> Doubles:
        """The integers of pictures, in new memory."""

    def _centre_at(self, values: Iterable[Doubles], dimension: int) -> None:
        """Take the mean of values away from now on."""
        self._centre = centre_of(values, dimension)
        self.squared_scale = float(radius(dimension) ** 2)

    def prepared(self, x: Inputs) -> Pictures:
        """Pictures of which copies can be made."""
        return levels(x, self._divisor)

    def weigh(self, weights: Doubles) -> None:
        """Give every number a weight."""
        self._weights = weights

    def numbers(self, pictures: Pictures) -> Doubles:
        """Integers that weights are computed from."""
        found = self._values(pictures)
        found -= self._centre
        return found

    def vectors(self, pictures: Pictures) -> Vectors:
        """The vectors of pictures."""
        return normalised(self.numbers(pictures), self._weights)
