"""Codes of single numbers and adaptive contexts: docs/format.md, section 8.2.

Every function takes a coder and a value and returns the value; a reader ignores the value it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.run.references import implements
from codebound_networks.codes.arithmetic import MAX_TOTAL

if TYPE_CHECKING:
    from codebound_networks.codes.arithmetic import AbstractCoder

MAX_GAMMA_BITS = 40
_MAX_COUNT = 1 << 20


def bit(coder: AbstractCoder, value: int) -> int:
    """One bit."""
    return coder.split(value, 1, 2)


def uniform(coder: AbstractCoder, value: int, total: int) -> int:
    """One of ``total`` equally likely values, 0 .. total - 1; beyond 2^24 in digits of 16 bits."""
    if total <= MAX_TOTAL:
        slot = coder.locate(value, total)
        coder.narrow(slot, 1, total)
        return slot
    last = total - 1
    high = uniform(coder, value >> 16, (last >> 16) + 1)
    low = uniform(coder, value & 0xFFFF, (last & 0xFFFF) + 1 if high == last >> 16 else 1 << 16)
    return high << 16 | low


@implements("K-HDR", kind="algorithm")
def gamma(coder: AbstractCoder, value: int) -> int:
    """Elias gamma code of an integer of at least 1: every size, count and choice of a header.

    Example:
        >>> from codebound_networks.codes.arithmetic import Reader, Writer
        >>> writer = Writer()
        >>> gamma(writer, 5)
        5
        >>> print(writer.finish())
        00101
        >>> gamma(Reader(writer.finish()), 0)
        5
    """
    coder.require(value >= 0, f"a gamma code is that of a positive integer. Got {value}.")
    length = 0
    while bit(coder, int(value.bit_length() == length + 1)) == 0:
        length += 1
        coder.require(length <= MAX_GAMMA_BITS, "a gamma code is that of an integer from 1 to 2^41 - 1.")
    result = 1
    for i in reversed(range(length)):
        result = result << 1 | bit(coder, value >> i & 1)
    return result


def signed(coder: AbstractCoder, value: int) -> int:
    """An integer of either sign by the gamma code: 0, -1, 1, -2, 2, ... are 1, 2, 3, 4, 5, ..."""
    code = gamma(coder, 2 * value + 1 if value >= 0 else -2 * value)
    return code >> 1 if code & 1 else -(code >> 1)


def float32(coder: AbstractCoder, pattern: int) -> int:
    """A finite float32, as the unsigned integer of its 32 bits."""
    pattern = uniform(coder, pattern >> 16, 1 << 16) << 16 | uniform(coder, pattern & 0xFFFF, 1 << 16)
    coder.require(pattern >> 23 & 0xFF != 0xFF, "a weight is NaN or infinite.")
    return pattern


class FlagContexts:
    """Krichevsky-Trofimov contexts of two symbols, numbered from 0.

    ``zero`` is the weight 2 n_0 + 1 of each context and ``total`` the sum of its two weights.
    """

    __slots__ = ("_total", "_zero")

    def __init__(self, contexts: int = 1) -> None:
        self._zero = [1] * contexts
        self._total = [2] * contexts

    def code(self, coder: AbstractCoder, value: int, context: int = 0) -> int:
        """A flag in its context, which learns from it."""
        zero, total = self._zero[context], self._total[context]
        value = coder.split(value, zero, total)
        if not value:
            self._zero[context] = zero + 2
        total += 2
        if total == 2 * _MAX_COUNT + 2:
            zero, one = _halve(self._zero[context]), _halve(total - self._zero[context])
            self._zero[context], total = zero, zero + one
        self._total[context] = total
        return value


class SymbolContext:
    """A Krichevsky-Trofimov context of ``size`` symbols. Its weights 2 n + 1 form a Fenwick tree."""

    __slots__ = ("_size", "_top", "_total", "_tree")

    def __init__(self, size: int) -> None:
        self._size = size
        self._top = 1 << size.bit_length() - 1
        self._build([1] * size)

    def code(self, coder: AbstractCoder, value: int) -> int:
        """A symbol 0 .. size - 1, which the context learns."""
        coder.require(0 <= value < self._size, f"the symbol {value} is not among {self._size} symbols.")
        slot = coder.locate(self._below(value), self._total)
        value, cum = self._find(slot)
        coder.narrow(cum, self._below(value + 1) - cum, self._total)
        self._total += 2
        node = value + 1
        while node <= self._size:
            self._tree[node] += 2
            node += node & -node
        if self._total == 2 * _MAX_COUNT + self._size:
            below = [self._below(i) for i in range(self._size + 1)]
            self._build([_halve(below[i + 1] - below[i]) for i in range(self._size)])
        return value

    def _build(self, weights: list[int]) -> None:
        self._total = sum(weights)
        self._tree = [0, *weights]
        for node in range(1, self._size + 1):
            parent = node + (node & -node)
            if parent <= self._size:
                self._tree[parent] += self._tree[node]

    def _below(self, symbol: int) -> int:
        """Sum of the weights of the symbols before ``symbol``."""
        total = 0
        while symbol:
            total += self._tree[symbol]
            symbol &= symbol - 1
        return total

    def _find(self, slot: int) -> tuple[int, int]:
        """The symbol whose weights cover ``slot``, and the sum of the weights before it."""
        node, cum, step = 0, 0, self._top
        while step:
            ahead = node + step
            if ahead <= self._size and cum + self._tree[ahead] <= slot:
                node, cum = ahead, cum + self._tree[ahead]
            step >>= 1
        return node, cum


def _halve(weight: int) -> int:
    """The weight 2 n + 1 after n became (n + 1) // 2."""
    return 2 * ((weight - 1) // 2 + 1 >> 1) + 1
