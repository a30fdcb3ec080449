"""Networks of a common pattern in few bits: docs/format.md, section 5.6.

Training straight to few bits takes stages of normalised convolutions on fixed features. Described operation
by operation such a network costs about a hundred bits; as a point of a fixed grid about thirty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.chains.chain import (
    AveragePool,
    Dictionary,
    GlobalAveragePool,
    Linear,
    MaxPool,
    NormalisedConv,
    Views,
)
from codebound.coding.numbers import uniform

if TYPE_CHECKING:
    from codebound.chains.chain import Operation
    from codebound.coding.arithmetic import AbstractCoder

_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128)
_KERNELS = (1, 3, 5)
_MOST_STAGES = 4
_MOST_CONVOLUTIONS = 3  # in a stage
_POOLS: tuple[Operation | None, ...] = (None, MaxPool(2), AveragePool(2))
_ENDS: tuple[Operation | None, ...] = (None, AveragePool(2), AveragePool(4), GlobalAveragePool())
_DICTIONARY_POOLS = 4
VIEW_KINDS, TABLES = 15, 7
"""Kinds of views and dictionaries that have a code word: those that were tried and dropped included."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """``count`` equal convolutions and a pool; all but ``count`` are indices, ``change`` among (half, same,
    double) of the width before."""

    change: int
    count: int
    kernel: int
    pool: int


@dataclass(frozen=True, slots=True)
class Stack:
    """A point of the grid; its fields are indices unless they are counts."""

    views: int
    table: int
    pool: int
    width: int
    stages: tuple[_Stage, ...]
    end: int

    def code(self, coder: AbstractCoder) -> Stack:
        """Writes the stack, or reads one in its place."""
        views = uniform(coder, self.views, 1 + VIEW_KINDS)
        table = uniform(coder, self.table, 1 + TABLES)
        pool = uniform(coder, self.pool, _DICTIONARY_POOLS) if table else 0
        count = uniform(coder, len(self.stages) - 1, _MOST_STAGES) + 1
        width = uniform(coder, self.width, len(_WIDTHS))
        given = (*self.stages, *(_BLANK,) * count)[:count]
        stages = []
        for position, stage in enumerate(given):
            change = uniform(coder, stage.change, 3) if position else 1
            convolutions = uniform(coder, stage.count - 1, _MOST_CONVOLUTIONS) + 1
            kernel = uniform(coder, stage.kernel, len(_KERNELS))
            stages.append(_Stage(change, convolutions, kernel, uniform(coder, stage.pool, len(_POOLS))))
        return Stack(views, table, pool, width, tuple(stages), uniform(coder, self.end, len(_ENDS)))

    def operations(self, classes: int) -> tuple[Operation, ...]:
        """The operations of the chain."""
        front: list[Operation | None] = [
            Views(self.views) if self.views else None,
            Dictionary(self.table, self.pool + 1) if self.table else None,
        ]
        width, body = _WIDTHS[self.width], []
        for stage in self.stages:
            width = (width // 2, width, 2 * width)[stage.change]
            body += [NormalisedConv(width, _KERNELS[stage.kernel])] * stage.count + [_POOLS[stage.pool]]
        every = (*front, *body, _ENDS[self.end], Linear(classes, False))
        return tuple(each for each in every if each is not None)


_BLANK = _Stage(1, 1, 0, 0)
BLANK_STACK = Stack(0, 0, 0, 0, (_BLANK,), 0)


def stack_of(operations: tuple[Operation, ...]) -> Stack | None:
    """The stack that is this chain, or None if the grid has none.

    Example:
        >>> stack_of((NormalisedConv(32, 3), MaxPool(2), Linear(10, False))).stages
        (_Stage(change=1, count=1, kernel=1, pool=1),)
        >>> stack_of((Linear(10, True),)) is None
        True
    """
    try:
        stack = _parsed(list(operations))
    except ValueError:  # a size that the grid does not have
        return None
    fits = stack.views <= VIEW_KINDS and stack.table <= TABLES and stack.pool < _DICTIONARY_POOLS
    fits = fits and 1 <= len(stack.stages) <= _MOST_STAGES
    last = operations[-1]
    fits = fits and isinstance(last, Linear) and stack.operations(last.out) == operations
    return stack if fits else None


def _parsed(rest: list[Operation]) -> Stack:
    """Takes the operations of a stack off the front; ``ValueError`` where the grid lacks a size."""
    views, table, pool = 0, 0, 0
    if isinstance(rest[0], Views):
        views, rest = rest[0].kind, rest[1:]
    if isinstance(rest[0], Dictionary):
        table, pool = rest[0].table, rest[0].pool - 1
        rest = rest[1:]
    stages: list[_Stage] = []
    first, width = 0, 0
    while isinstance(found := rest[0], NormalisedConv):
        count = 0
        while rest[0] == found and count < _MOST_CONVOLUTIONS:
            rest, count = rest[1:], count + 1
        if not stages:
            first, width = _WIDTHS.index(found.out), found.out
        change, width = (width // 2, width, 2 * width).index(found.out), found.out
        after = _POOLS.index(rest[0]) if rest[0] in _POOLS else 0
        rest = rest[1:] if after else rest
        stages.append(_Stage(change, count, _KERNELS.index(found.kernel), after))
    end = _ENDS.index(rest[0]) if rest[0] in _ENDS else 0
    return Stack(views, table, pool, first, tuple(stages), end)
