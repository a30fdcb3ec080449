"""Numbers in plain bits (docs/format.md, 5.2): all of a message but networks.

Writer and reader have the same verbs, which return the value: a function that is given either codes in both
directions. A reader looks at no value it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from codebound.bits.bitstring import Bits
from codebound.run.errors import FormatError

MOST_ZEROS = 40
"""In front of a number of the code ``gamma``."""

Ledger = tuple[tuple[str, int], ...]


class PlainCoder(ABC):
    """The verbs of writer and reader. ``place`` counts the bits until here, those in front included."""

    def __init__(self, start: int = 0) -> None:
        self.place = self._noted = start
        self._parts: list[tuple[str, int]] = []

    @abstractmethod
    def code(self, value: int, width: int) -> int:
        """Write the value in ``width`` bits, the highest first, or return what is read."""

    def flag(self, value: object = False) -> bool:
        """One bit."""
        return bool(self.code(int(bool(value)), 1))

    def ones(self, count: int = 0, most: int | None = None) -> int:
        """As many ones and a zero; ``most`` ones are behind the last choice and have no zero."""
        found = 0
        while found != most and self.flag(found < count):
            found += 1
        return found

    def gamma(self, value: int = 1) -> int:
        """A number from 1 to 2^41 - 1, of which no range is known."""
        zeros = 0
        while not self.flag(zeros >= value.bit_length() - 1):
            zeros += 1
            self.require(zeros <= MOST_ZEROS, f"a number has more than {MOST_ZEROS} zeros in front.")
        return 1 << zeros | self.code(value & ((1 << zeros) - 1), zeros)

    def require(self, condition: object, text: str) -> None:
        """Refuse what is no message."""
        if not condition:
            raise FormatError(text)

    def note(self, part: str) -> None:
        """Enter all bits since the last entry under this name."""
        self._parts.append((part, self.place - self._noted))
        self._noted = self.place

    @property
    def ledger(self) -> Ledger:
        """The bits of each part."""
        return tuple(self._parts)


class PlainWriter(PlainCoder):
    """A message that is written.

    Example:
        >>> writer = PlainWriter()
        >>> writer.bits(5, 4), writer.gamma(6), writer.ones(2)
        (5, 6, 2)
        >>> print(writer.finish())
        010100110110
    """

    def __init__(self) -> None:
        super().__init__()
        self._digits: list[str] = []

    def code(self, value: int, width: int) -> int:
        """Write the value in ``width`` bits."""
        self.require(0 <= value < 1 << width, f"{value} does not fit {width} bits.")
        if width:
            self._digits.append(f"{value:0{width}b}")
        self.place += width
        return value

    bits = code

    def ones(self, count: int = 0, most: int | None = None) -> int:
        """As many ones, and a zero unless they are ``most``."""
        self.require(most is None or count <= most, f"there are at most {most} ones. Got {count}.")
        return super().ones(count, most)

    def gamma(self, value: int = 1) -> int:
        """A number from 1 to 2^41 - 1."""
        self.require(1 <= value < 2 << MOST_ZEROS, f"a number is from 1 to 2^41 - 1. Got {value}.")
        return super().gamma(value)

    @property
    def length(self) -> int:
        """Bits so far."""
        return self.place

    def finish(self) -> Bits:
        """Return the message."""
        text = "".join(self._digits)
        spare = -len(text) % 8
        return Bits(int(text + "0" * spare or "0", 2).to_bytes((len(text) + spare) // 8, "big"), len(text))


class PlainReader(PlainCoder):
    """A message that is read, from bit ``start`` on.

    Example:
        >>> reader = PlainReader(Bits(bytes([0b01010011, 0b01100000]), 12))
        >>> reader.bits(4), reader.gamma(), reader.ones()
        (5, 6, 2)
        >>> reader.finish()
    """

    def __init__(self, bits: Bits, start: int = 0) -> None:
        super().__init__(start)
        self._message = bits

    def code(self, value: int, width: int) -> int:
        """Return the next ``width`` bits as a number."""
        return self.bits(width)

    def bits(self, width: int) -> int:
        """The next ``width`` bits as a number."""
        end = self.place + width
        self.require(end <= self._message.length, f"the message ends after {self._message.length} bits.")
        low, high = self.place // 8, -(-end // 8)
        self.place = end
        window = int.from_bytes(self._message.data[low:high], "big") >> 8 * high - end
        return window & ((1 << width) - 1)

    def finish(self) -> None:
        """Refuse bits behind the last field."""
        length = self._message.length
        self.require(
            self.place == length, f"the message ends after {self.place} bits, the file has {length}."
        )
