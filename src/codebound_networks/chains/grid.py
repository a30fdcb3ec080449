"""Networks of a common pattern in few bits: docs/format.md, section 8.7.

Training straight to few bits takes groups of normalised convolutions on fixed features. Described operation
by operation such a network costs about a hundred bits; as a point of a fixed grid about thirty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound_networks.chains.operations import (
    SHIFT_KINDS,
    TABLES,
    AveragePool,
    Dictionary,
    GlobalAveragePool,
    Linear,
    MaxPool,
    NormalisedConv,
    Shifts,
)
from codebound_networks.codes.numbers import uniform

if TYPE_CHECKING:
    from codebound_networks.chains.operations import AbstractOperation
    from codebound_networks.codes.arithmetic import AbstractCoder

_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128)
_KERNELS = (1, 3, 5)
_MOST_GROUPS = 4
_MOST_CONVOLUTIONS = 3  # in a group
_POOLS: tuple[AbstractOperation | None, ...] = (None, MaxPool(2), AveragePool(2))
_ENDS: tuple[AbstractOperation | None, ...] = (None, AveragePool(2), AveragePool(4), GlobalAveragePool())
_DICTIONARY_POOLS = 4


@dataclass(frozen=True, slots=True)
class _Group:
    """``count`` equal convolutions and a pool. All but ``count`` are indices, ``change`` among (half, same,
    double) of the width before."""

    change: int
    count: int
    kernel: int
    pool: int


@dataclass(frozen=True, slots=True)
class GridPoint:
    """A point of the grid. Its fields are indices unless they are counts."""

    shifts: int
    table: int
    pool: int
    width: int
    groups: tuple[_Group, ...]
    end: int

    def code(self, coder: AbstractCoder) -> GridPoint:
        """Writes the point, or reads one in its place."""
        shifts = uniform(coder, self.shifts, 1 + SHIFT_KINDS)
        table = uniform(coder, self.table, 1 + TABLES)
        pool = uniform(coder, self.pool, _DICTIONARY_POOLS) if table else 0
        count = uniform(coder, len(self.groups) - 1, _MOST_GROUPS) + 1
        width = uniform(coder, self.width, len(_WIDTHS))
        given = (*self.groups, *(_BLANK,) * count)[:count]
        groups = []
        for position, group in enumerate(given):
            change = uniform(coder, group.change, 3) if position else 1
            convolutions = uniform(coder, group.count - 1, _MOST_CONVOLUTIONS) + 1
            kernel = uniform(coder, group.kernel, len(_KERNELS))
            groups.append(_Group(change, convolutions, kernel, uniform(coder, group.pool, len(_POOLS))))
        return GridPoint(shifts, table, pool, width, tuple(groups), uniform(coder, self.end, len(_ENDS)))

    def operations(self, classes: int) -> tuple[AbstractOperation, ...]:
        """The operations of the chain."""
        front: list[AbstractOperation | None] = [
            Shifts(self.shifts) if self.shifts else None,
            Dictionary(self.table, self.pool + 1) if self.table else None,
        ]
        width, body = _WIDTHS[self.width], []
        for group in self.groups:
            width = (width // 2, width, 2 * width)[group.change]
            body += [NormalisedConv(width, _KERNELS[group.kernel])] * group.count + [_POOLS[group.pool]]
        every = (*front, *body, _ENDS[self.end], Linear(classes, False))
        return tuple(each for each in every if each is not None)


_BLANK = _Group(1, 1, 0, 0)
BLANK_POINT = GridPoint(0, 0, 0, 0, (_BLANK,), 0)


def grid_point_of(operations: tuple[AbstractOperation, ...]) -> GridPoint | None:
    """The point that is this chain, or None if the grid has none.

    >>> grid_point_of((NormalisedConv(32, 3), MaxPool(2), Linear(10, False))).groups
    (_Group(change=1, count=1, kernel=1, pool=1),)
    >>> grid_point_of((Linear(10, True),)) is None
    True
    """
    try:
        point = _parse(list(operations))
    except ValueError:  # a size that the grid does not have
        return None
    fits = point.shifts <= SHIFT_KINDS and point.table <= TABLES and point.pool < _DICTIONARY_POOLS
    fits = fits and 1 <= len(point.groups) <= _MOST_GROUPS
    last = operations[-1]
    fits = fits and isinstance(last, Linear) and point.operations(last.out) == operations
    return point if fits else None


def _parse(rest: list[AbstractOperation]) -> GridPoint:
    """Takes the operations of a point off the front. ``ValueError`` where the grid lacks a size."""
    shifts, table, pool = 0, 0, 0
    if isinstance(rest[0], Shifts):
        shifts, rest = rest[0].kind, rest[1:]
    if isinstance(rest[0], Dictionary):
        table, pool = rest[0].table, rest[0].pool - 1
        rest = rest[1:]
    groups: list[_Group] = []
    first, width = 0, 0
    while isinstance(found := rest[0], NormalisedConv):
        count = 0
        while rest[0] == found and count < _MOST_CONVOLUTIONS:
            rest, count = rest[1:], count + 1
        if not groups:
            first, width = _WIDTHS.index(found.out), found.out
        change, width = (width // 2, width, 2 * width).index(found.out), found.out
        after = _POOLS.index(rest[0]) if rest[0] in _POOLS else 0
        rest = rest[1:] if after else rest
        groups.append(_Group(change, count, _KERNELS.index(found.kernel), after))
    end = _ENDS.index(rest[0]) if rest[0] in _ENDS else 0
    return GridPoint(shifts, table, pool, first, tuple(groups), end)
