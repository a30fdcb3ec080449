"""Cells of a table as they are compared and hashed (docs/ledger.md, section 2)."""

from __future__ import annotations

import hashlib
import math
import re
from typing import TYPE_CHECKING

from ..refusal import Refused, quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WHOLE = re.compile(r"[+-]?[0-9]{1,15}(?:\.0*)?")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def canonical(cell: str) -> str:
    """The characters that a cell is compared by.

    Example:
        >>> [canonical(each) for each in (" yes ", "+01.0", "-0", "NaN", "1e3")]
        ['yes', '1', '0', '', '1e3']
    """
    cell = cell.strip(" \t\r\n")
    if WHOLE.fullmatch(cell):
        return str(int(cell.partition(".")[0]))
    return "" if cell.lower() == "nan" else cell


def number_of(cell: str) -> float:
    """The number that a canonical cell is, or one that equals no other (NaN)."""
    value = float(cell) if NUMBER.fullmatch(cell) else math.nan
    return value if math.isfinite(value) else math.nan


def column_hash(cells: Sequence[str]) -> str:
    """The hash of canonical cells.

    Example:
        >>> column_hash(["ham", "spam"]) == hashlib.sha256(b"3:ham4:spam").hexdigest()
        True
    """
    digest = hashlib.sha256()
    for each in cells:
        encoded = each.encode()
        digest.update(b"%d:%b" % (len(encoded), encoded))
    return digest.hexdigest()


def canonical_columns(table: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The canonical cells of all columns, which have to be equally long."""
    if len({len(cells) for cells in table.values()}) != 1:
        raise Refused("Data: the columns of the table are not equally long, or there are none.")
    for name, cells in table.items():
        if any(not each.isascii() and re.search("[\ud800-\udfff]", each) for each in cells):
            raise Refused(f"Data: column {quote(name)} has a character that is half of one.")
    return {name: [canonical(each) for each in cells] for name, cells in table.items()}
