"""Bits and words of messages: all but networks (docs/format.md, 5); ``FORMS`` has the word of each form.

Writer and reader have the same verbs, which return the value: a function that is given either codes in both
directions. A reader looks at no value it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from codebound.run.errors import FormatError


@dataclass(frozen=True, slots=True)
class Bits:
    """A bit string: the first bit is the most significant of ``data``, unused bits of the last byte are zero.

    Example:
        >>> Bits(b"\\xa0", 3)
        Bits(data=b'\\xa0', length=3)
        >>> print(Bits(b"\\xa0", 3))
        101
    """

    data: bytes
    length: int

    def __post_init__(self) -> None:
        spare = 8 * len(self.data) - self.length
        if not 0 <= spare <= 7:
            raise FormatError(f"{self.length} bits do not fill {len(self.data)} bytes.")
        if spare and self.data[-1] & ((1 << spare) - 1):
            raise FormatError(f"the {spare} bits after the last of {self.length} bits are not zero.")

    def __len__(self) -> int:
        return self.length

    def __str__(self) -> str:
        return "".join(f"{byte:08b}" for byte in self.data)[: self.length]

    def whole_bytes(self, start: int, most: int) -> bytes:
        """At most ``most`` whole bytes from bit ``start`` on, fewer where the string ends."""
        count = min(most, (self.length - start) // 8)
        if count <= 0:
            return b""
        chunk = self.data[start // 8 : start // 8 + count + 1]
        window = int.from_bytes(chunk, "big") >> 8 * (len(chunk) - count) - start % 8
        return (window & ((1 << 8 * count) - 1)).to_bytes(count, "big")


def join(*parts: Bits) -> Bits:
    """The parts one after the other, without padding between them.

    Example:
        >>> print(join(Bits(b"\\xa0", 3), Bits(b"\\xc0", 2)))
        10111
    """
    data, length = bytearray(), 0
    for part in parts:
        used = length % 8
        if used:
            shifted = (int.from_bytes(part.data, "big") << 8 - used).to_bytes(len(part.data) + 1, "big")
            data[-1] |= shifted[0]
            data += shifted[1:]
        else:
            data += part.data
        length += part.length
        del data[(length + 7) // 8 :]
    return Bits(bytes(data), length)


MOST_ZEROS = 40
"""In front of a number of the code ``gamma``."""

Ledger = tuple[tuple[str, int], ...]


class PlainCoder(ABC):
    """The verbs of writer and reader.

    ``place`` counts the bits until here, those in front included; the ledger has those of each part.
    """

    def __init__(self, start: int = 0) -> None:
        self.place = self._noted = start
        self.ledger: Ledger = ()

    @abstractmethod
    def code(self, value: int, width: int) -> int:
        """Write the value in ``width`` bits, the highest first, or return what is read."""

    def flag(self, value: object = False) -> bool:
        """One bit."""
        return bool(self.code(int(bool(value)), 1))

    def ones(self, count: int = 0, most: int | None = None) -> int:
        """As many ones and a zero; ``most`` ones are behind the last choice and have no zero."""
        self.require(most is None or count <= most, f"there are at most {most} ones. Got {count}.")
        found = 0
        while found != most and self.flag(found < count):
            found += 1
        return found

    def gamma(self, value: int = 1) -> int:
        """A number from 1 to 2^41 - 1, of which no range is known."""
        self.require(1 <= value < 2 << MOST_ZEROS, f"a number is from 1 to 2^41 - 1. Got {value}.")
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
        self.ledger += ((part, self.place - self._noted),)
        self._noted = self.place


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

    def bits(self, width: int) -> int:
        """Return the next ``width`` bits as a number."""
        return self.code(0, width)

    def code(self, value: int, width: int) -> int:
        """Return the next ``width`` bits as a number."""
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


USUAL_SPLIT, SPLIT, PICKS = "usual split", "another split", "picks"
FIRST_TABLE, TABLE, NETWORK = "first table", "another table", "network"
FORMS = (USUAL_SPLIT, FIRST_TABLE, TABLE, SPLIT, PICKS, NETWORK)
"""Of each word, as many ones as its place says; ``RuleChoice``, ``TableChoice`` and ``Message`` write it."""
RULES = (USUAL_SPLIT, SPLIT, PICKS)
"""Forms whose classifier the second program learns from the sample."""
TABLES = (FIRST_TABLE, TABLE)
OTHER_LOSS, RESERVED = 6, 7
"""Words that name no form."""
_BIAS = 12


def bits_of(form: str) -> int:
    """Length of the word of a form."""
    return FORMS.index(form) + 1


def code_form(coder: PlainCoder, form: str = USUAL_SPLIT) -> str:
    """The word of a form."""
    return FORMS[code_word(coder, FORMS.index(form), OTHER_LOSS)]


def code_word(coder: PlainCoder, word: int, end: int) -> int:
    """As many ones as ``word`` says, and a zero; ``end`` of them are none."""
    found = coder.ones(word, RESERVED)
    coder.require(found < end, "this word is reserved, or stands behind a loss where a form was expected.")
    coder.note("form")
    return found


@dataclass(frozen=True, slots=True)
class TableChoice:
    """A declared table, by its place from 1, with biases of 0 or a unit on its columns."""

    table: int = 1
    exponent: int | None = None  # the unit is 2^(exponent - 12)
    signs: tuple[int, ...] = ()  # 0, 1 or -1 for each column

    @property
    def form(self) -> str:
        """The form of its message."""
        return FIRST_TABLE if self == TableChoice() else TABLE

    @property
    def biases(self) -> tuple[float, ...]:
        """Numbers that are added to the scores of each column."""
        return tuple(sign * 2.0 ** ((self.exponent or 0) - _BIAS) for sign in self.signs)

    def encode(self) -> tuple[Bits, Ledger]:
        """The message from its word on."""
        writer = PlainWriter()
        code_table(writer, code_form(writer, self.form), self, columns=())
        return writer.finish(), writer.ledger


def code_table(
    coder: PlainCoder, form: str, choice: TableChoice | None = None, *, columns: tuple[int, ...]
) -> TableChoice:
    """Numbers behind the word of a table; ``columns`` of each declared table, for a reader."""
    given = choice or TableChoice()
    if form == FIRST_TABLE:
        return TableChoice()
    table = coder.gamma(given.table)
    if choice is None:
        coder.require(table <= len(columns), f"there are {len(columns)} tables. Got number {table}.")
    coder.note("table")
    exponent, signs = None, given.signs
    if coder.flag(given.exponent is not None):
        exponent = coder.code(given.exponent or 0, 4)
        signs = tuple(
            0 if not coder.flag(sign) else -1 if coder.flag(sign < 0) else 1
            for sign in signs or (0,) * columns[table - 1]
        )
    coder.note("biases")
    return TableChoice(table, exponent, signs)
