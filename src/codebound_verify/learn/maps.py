"""Common parts of the maps from inputs to vectors (docs/format.md, section 10.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from .exact import Doubles, Vectors, centre_of, normalise, radius
from .pictures import Pictures, levels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ..sample import Inputs


class FeatureMap(ABC):
    """A map from inputs to vectors; ``known`` was taken from the first examples, by its names in a file."""

    squared_scale: float
    known: dict[str, NDArray[Any]]
    _weights: Doubles | None = None

    def weigh(self, weights: Doubles) -> None:
        """Give every number of a vector a weight."""
        self._weights = weights

    def prepare(self, x: Inputs) -> Inputs:
        """Stored inputs, as copies are made of them."""
        return x

    @abstractmethod
    def numbers(self, prepared: Inputs) -> Doubles:
        """Integers that vectors are made of, before they are weighted; in new memory."""

    def vectors(self, prepared: Inputs) -> Vectors:
        """The vectors of prepared inputs."""
        return normalise(self.numbers(prepared), self._weights)


class CentredMap(FeatureMap):
    """A map of pictures to integers, whose mean over the first pictures is taken away."""

    def __init__(self, divisor: float) -> None:
        self._divisor = divisor

    @abstractmethod
    def _values(self, pictures: Pictures) -> Doubles:
        """The integers of pictures, in new memory."""

    def _centre_at(self, values: Iterable[Doubles], dimension: int) -> None:
        """Take the mean of values away from now on."""
        self._centre = centre_of(values, dimension)
        self.squared_scale = float(radius(dimension) ** 2)

    def prepare(self, x: Inputs) -> Pictures:
        """Pictures of which copies can be made."""
        return levels(x, self._divisor)

    def numbers(self, prepared: Inputs) -> Doubles:
        """Integers of pictures, less their mean."""
        found = self._values(prepared)
        found -= self._centre
        return found
