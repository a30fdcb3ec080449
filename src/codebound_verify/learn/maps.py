"""Common parts of the maps from inputs to vectors (docs/format.md, sections 7.3 and 7.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from ..cores import side_by_side
from ..sample import parts
from .exact import Doubles, Vectors, normalise, radius
from .pictures import Pictures, levels

if TYPE_CHECKING:
    from ..sample import Inputs

TOGETHER = 16  # pictures at a time


class FeatureMap(ABC):
    """A map from inputs to vectors, learned from the first rows; ``squared_scale`` is s^2 of 7.7."""

    squared_scale: float
    weights: Doubles | None = None
    _centre: Doubles | float = 0.0

    def weigh(self, weights: Doubles) -> None:
        """Give every number of a vector a weight (7.6)."""
        self.weights = weights

    def prepare(self, x: Inputs) -> Inputs:
        """Stored inputs, as copies are made of them."""
        return x

    @abstractmethod
    def raw(self, prepared: Inputs) -> Doubles:
        """Integers that weights are computed from, and vectors made of; in new memory."""

    def learned_from(self, prepared: Inputs) -> Doubles:
        """The same of all that is learned from where these are: for some maps of mirror images too."""
        return self.raw(prepared)

    def vectors(self, prepared: Inputs) -> Vectors:
        """The vectors of prepared inputs."""
        found = self.raw(prepared)
        found -= self._centre
        return normalise(found, self.weights)


class CentredMap(FeatureMap):
    """A map of pictures to integers, whose mean over the first pictures is taken away."""

    def __init__(self, divisor: float) -> None:
        self._divisor = divisor

    def _centre_at(self, pictures: Pictures, dimension: int) -> None:
        """Take the mean over pictures, rounded down, away from now on."""
        total, count = np.zeros(dimension), 0
        blocks = parts(len(pictures), TOGETHER)
        for some in side_by_side(lambda part: self.learned_from(pictures[part]), blocks):
            total += some.sum(axis=0)
            count += len(some)
        self._centre = np.floor(total / count)
        self.squared_scale = float(radius(dimension) ** 2)

    def prepare(self, x: Inputs) -> Pictures:
        """Pictures of which copies can be made."""
        return levels(x, self._divisor)
