"""Which elements are non-zero: enumerative masks and live rows or columns (docs/format.md, 4.5 and 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.coding.numbers import FlagContexts, uniform

if TYPE_CHECKING:
    from codebound.coding.arithmetic import AbstractCoder


def code_mask(coder: AbstractCoder, mask: list[int]) -> list[int]:
    """A 0/1 list of known length: the number of ones, then which of the subsets of that size."""
    length = len(mask)
    ones = uniform(coder, sum(mask), length + 1)
    result: list[int] = []
    for left in range(length, 0, -1):
        if ones in (0, left):
            return result + [int(ones > 0)] * left
        flag = coder.split(mask[length - left], left - ones, left)
        result.append(flag)
        ones -= flag
    return result


def code_live(coder: AbstractCoder, live: list[int]) -> list[int]:
    """The indices of the rows (or columns) whose flag is 1: those that may have non-zeros."""
    context = FlagContexts()
    return [i for i, flag in enumerate(live) if context.code(coder, flag)]
