"""The first word of a message, which names its form, and the choice of a table (docs/format.md, 5.1 and 5.3).

Functions that take a coder write with a ``PlainWriter`` and read with a ``PlainReader``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bits.plain_code import PlainWriter

if TYPE_CHECKING:
    from codebound.bits.bitstring import Bits
    from codebound.bits.plain_code import Ledger, PlainCoder

USUAL_SPLIT, SPLIT, PICKS = "usual split", "another split", "picks"
FIRST_TABLE, TABLE, NETWORK = "first table", "another table", "network"
FORMS = (USUAL_SPLIT, FIRST_TABLE, TABLE, SPLIT, PICKS, NETWORK)
"""The form of every word: as many ones as its place says, and a zero."""
RULES = (USUAL_SPLIT, SPLIT, PICKS)
"""Forms whose classifier the second program learns from the sample."""
TABLES = (FIRST_TABLE, TABLE)
OTHER_LOSS, RESERVED = 6, 7
"""Words that name no form."""
_BIAS = 12


def bits_of(form: str) -> int:
    """Length of the word of a form.

    Example:
        >>> [bits_of(form) for form in FORMS]
        [1, 2, 3, 4, 5, 6]
    """
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
    """A declared table, with biases of 0 or a unit on its columns.

    Attributes:
        table: Its place in the list, from 1.
        exponent: The unit is 2^(exponent - 12); None without biases.
        signs: 0, 1 or -1 for each column; empty without biases.
    """

    table: int = 1
    exponent: int | None = None
    signs: tuple[int, ...] = ()

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
        signs = tuple(_code_sign(coder, sign) for sign in signs or (0,) * columns[table - 1])
    coder.note("biases")
    return TableChoice(table, exponent, signs)


def _code_sign(coder: PlainCoder, sign: int) -> int:
    return 0 if not coder.flag(sign) else -1 if coder.flag(sign < 0) else 1
