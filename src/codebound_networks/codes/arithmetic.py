"""The arithmetic code of docs/format.md, section 8.2: integers only, exact end, no implied bit.

A writer and a reader offer the same methods. Every method takes the value and returns it; the reader ignores
what it is given and returns what the message says. One description of a format therefore serves both
directions: ``value = coder.split(value, zero, total)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from codebound.bits.plain_code import Bits
from codebound.run.errors import CodeboundError, FormatError, UsageError

PRECISION = 48
MAX_TOTAL = 1 << 24
MAX_ELEMENTS = 1 << 24
MAX_INNER = 1 << 26
MAX_WORK = 1 << 36
_FULL = 1 << PRECISION
_HALF = _FULL >> 1
_CHUNK = 64


class AbstractCoder(ABC):
    """Either direction of the code.

    Attributes:
        shifts: Doublings of the interval so far: the bits of a part are the shifts made while coding it.
    """

    __slots__ = ("_elements", "_inner", "_range", "_work", "shifts")
    _error: ClassVar[type[CodeboundError]]

    def __init__(self) -> None:
        self.shifts = 0
        self._range = _FULL
        self._elements = 0
        self._inner = 0
        self._work = 0

    @abstractmethod
    def split(self, value: int, zero: int, total: int) -> int:
        """One of two symbols: 0 with probability ``zero / total``, 0 < zero < total, or 1."""

    @abstractmethod
    def locate(self, cum: int, total: int) -> int:
        """A slot of the next symbol, among ``total`` <= 2^24. For the writer it is ``cum``. Then narrow."""

    @abstractmethod
    def narrow(self, cum: int, freq: int, total: int) -> None:
        """Codes the symbol of slots ``cum .. cum + freq - 1``."""

    def require(self, condition: bool, message: str) -> None:
        """Refuses a message (reading) or a value (writing) that the format does not allow."""
        if not condition:
            raise self._error(message)

    def charge(self, elements: int) -> None:
        """Announces a tensor of the code word, before anything is allocated for it."""
        self._elements += elements
        what = "elements in the tensors of a code word (longer ones need the static code)"
        self._require_at_most(MAX_ELEMENTS, self._elements, what)

    def charge_inner(self, elements: int) -> None:
        """Announces a tensor inside another one, before anything is allocated for it."""
        self._inner += elements
        self._require_at_most(MAX_INNER, self._inner, "elements in the inner tensors of a message")

    def charge_work(self, products: int) -> None:
        """Announces what the decoder of a tensor has to compute, before it does."""
        self._work += products
        self._require_at_most(MAX_WORK, self._work, "products to decode the tensors of a message")

    def _require_at_most(self, most: int, found: int, what: str) -> None:
        self.require(found <= most, f"at most {most:,} {what}, not {found:,}.")


class Writer(AbstractCoder):
    """Writes symbols; ``finish`` returns the code word.

    Example:
        >>> writer = Writer()
        >>> [writer.split(bit, 1, 2) for bit in (1, 0, 1)]
        [1, 0, 1]
        >>> print(writer.finish())
        101
    """

    __slots__ = ("_chunks", "_low", "_pending")
    _error = UsageError

    def __init__(self) -> None:
        super().__init__()
        self._low = 0  # the low end, less the chunks already put aside: 48 + _pending bits and a carry
        self._pending = 0
        self._chunks: list[int] = []

    def split(self, value: int, zero: int, total: int) -> int:  # noqa: D102
        cut = self._range // total * zero
        if value:
            self._low += cut
            cut = self._range - cut
        self._range = cut
        if cut < _HALF:
            self._renormalise()
        return value

    def locate(self, cum: int, total: int) -> int:  # noqa: D102
        if not 0 <= cum < total:
            raise UsageError(f"the value {cum} is not among the {total} values that can be coded here.")
        return cum

    def narrow(self, cum: int, freq: int, total: int) -> None:  # noqa: D102
        unit = self._range // total
        self._low += unit * cum
        self._range = unit * freq if cum + freq < total else self._range - unit * cum
        if self._range < _HALF:
            self._renormalise()

    def finish(self) -> Bits:
        """The code word: the shortest dyadic interval inside the final one."""
        extra, gap = _shortest_end(self._low, self._range)
        tail = self._low + gap
        size = PRECISION + self._pending
        if tail >> size:
            self._carry()
            tail -= 1 << size
        length = self.shifts + extra
        body = b"".join(chunk.to_bytes(_CHUNK // 8, "big") for chunk in self._chunks)
        spare = -size % 8
        body += (tail << spare).to_bytes((size + spare) // 8, "big")
        return Bits(body[: (length + 7) // 8], length)

    def _renormalise(self) -> None:
        shift = PRECISION - self._range.bit_length()
        self._range <<= shift
        self._low <<= shift
        self.shifts += shift
        self._pending += shift
        if self._pending >= _CHUNK:
            self._pending -= _CHUNK
            size = PRECISION + self._pending
            chunk = self._low >> size
            self._low -= chunk << size
            if chunk >> _CHUNK:
                self._carry()
                chunk -= 1 << _CHUNK
            self._chunks.append(chunk)

    def _carry(self) -> None:
        # A chunk of ones is turned to zeros at most once after it was put aside: constant work on average.
        last = len(self._chunks) - 1
        while self._chunks[last] == (1 << _CHUNK) - 1:
            self._chunks[last] = 0
            last -= 1
        self._chunks[last] += 1


class Reader(AbstractCoder):
    """Reads what a writer wrote, from bit ``start`` on. Whatever follows a code word is ignored; zeros follow
    the end of ``bits``.

    Example:
        >>> reader = Reader(Bits(b"\\xa0", 3))
        >>> [reader.split(0, 1, 2) for _ in range(3)], reader.finish()
        ([1, 0, 1], 3)
    """

    __slots__ = ("_bits", "_data", "_offset", "_start")
    _error = FormatError

    def __init__(self, bits: Bits, start: int = 0) -> None:
        super().__init__()
        self._bits, self._start = bits, start
        self._data = bits.data + bytes(7)  # so that a window is complete, or all zeros
        self._offset = self._window(0, PRECISION)  # target - low, below the range

    def split(self, value: int, zero: int, total: int) -> int:  # noqa: D102
        cut = self._range // total * zero
        if self._offset < cut:
            value = 0
        else:
            value = 1
            self._offset -= cut
            cut = self._range - cut
        self._range = cut
        if cut < _HALF:
            self._renormalise()
        return value

    def locate(self, cum: int, total: int) -> int:  # noqa: D102
        return min(self._offset // (self._range // total), total - 1)

    def narrow(self, cum: int, freq: int, total: int) -> None:  # noqa: D102
        unit = self._range // total
        self._offset -= unit * cum
        self._range = unit * freq if cum + freq < total else self._range - unit * cum
        if self._range < _HALF:
            self._renormalise()

    def finish(self) -> int:
        """The bit behind the code word. Refuses one that is not the shortest, or not complete."""
        low = self._window(self.shifts, PRECISION) - self._offset
        extra, gap = _shortest_end(low, self._range)
        self.require(
            gap <= self._offset < gap + (_FULL >> extra), "the code word does not end as the code prescribes."
        )
        end = self._start + self.shifts + extra
        self.require(
            end <= self._bits.length,
            f"the code word ends after {end} bits, the message has {self._bits.length}.",
        )
        return end

    def _renormalise(self) -> None:
        shift = PRECISION - self._range.bit_length()
        self._range <<= shift
        self._offset = self._offset << shift | self._window(self.shifts + PRECISION, shift)
        self.shifts += shift

    def _window(self, start: int, count: int) -> int:
        """``count`` <= 48 bits from bit ``start`` of the code word on."""
        start += self._start
        window = int.from_bytes(self._data[start >> 3 : (start >> 3) + 7], "big")
        return window >> 56 - (start & 7) - count & (1 << count) - 1


def _shortest_end(low: int, width: int) -> tuple[int, int]:
    """Bits beyond the shifts, and the distance from ``low`` to the dyadic interval that ends the code word.

    With ``2^47 <= width <= 2^48`` the bits are 0, 1 or 2, so that only ``low`` modulo 2^48 matters.
    """
    for extra in (0, 1):
        unit = _FULL >> extra
        gap = -low % unit
        if gap + unit <= width:
            return extra, gap
    return 2, -low % (_FULL >> 2)
