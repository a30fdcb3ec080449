"""Choices of a rule: features, weights, copies, kernel and ridge (docs/format.md, sections 7.3 to 7.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..refusal import Refused
from .dictionaries import tables

MIRRORED = 1  # the number of "x and its mirror image as one support"
MOVED = 2  # the number of "x, moved by one pixel"
COPIES = (1, 1, 5, 9, 7, 11, 10, 3)  # supports of one row, by the number of 7.5
SIDES = range(3, 129)


def is_picture(shape: tuple[int, ...]) -> bool:
    """Return True for inputs of 1 or 3 channels with sides from 3 to 128 (7.2).

    Example:
        >>> is_picture((1, 28, 28)), is_picture((2, 28, 28)), is_picture((64,))
        (True, False, False)
    """
    return len(shape) == 3 and shape[0] in (1, 3) and shape[1] in SIDES and shape[2] in SIDES


@dataclass(frozen=True)
class Columns:
    """The numbers of an input (7.3)."""

    normalised: bool


@dataclass(frozen=True)
class Filters:
    """Maps of fixed filters, summed over windows (7.4)."""

    straight: bool
    dictionary: int
    pool: int

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Length of a vector."""
        channels, height, width = shape
        if self.pool > min(height, width):
            raise Refused(f"Rule: windows of {self.pool} do not fit into pictures of {height} x {width}.")
        filters = sum(len(table.filters) for table in tables(self.dictionary))
        return channels * (filters + 1) * (height // self.pool) * (width // self.pool)


@dataclass(frozen=True)
class Patches:
    """Cosines with whitened patches of the first pictures, summed over windows (7.4)."""

    size: int
    filters: int
    threshold: int
    grid: int
    whitening: float
    seed: int

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Length of a vector."""
        _, height, width = shape
        if self.size > min(height, width):
            raise Refused(f"Rule: patches of {self.size} do not fit into pictures of {height} x {width}.")
        if self.grid > min(height, width) - self.size + 1:
            raise Refused(f"Rule: there are fewer patches than the {self.grid} windows of a side.")
        return 2 * self.filters * self.grid**2


Features: TypeAlias = Columns | Filters | Patches


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule that learns from some rows: features, weights, copies, kernel and ridge."""

    features: Features
    copies: int  # the number of 7.5
    weights: int = 0  # the number of 7.6, 0 for none
    gamma: float | None = None  # both None: chosen by leaving out (7.7)
    ridge: float | None = None

    @property
    def is_mirrored(self) -> bool:
        """True if a row and its mirror image are one support."""
        return self.copies == MIRRORED

    def supports(self, rows: int) -> int:
        """Number of supports that so many rows make."""
        return rows * COPIES[self.copies]
