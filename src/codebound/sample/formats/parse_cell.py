"""Rule from a table cell to a number, a word or nothing. It looks at no other cell."""

from __future__ import annotations

import hashlib
import re
from datetime import date, datetime, timedelta, timezone

MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "None", "?"}
)
"""Texts that stand for a value that is missing."""

BUCKETS = 16
"""Inputs that words without declared levels share."""

_TRUTH = {"true": 1.0, "false": 0.0}
_DAY = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6})\d*)?)?\s?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_MICROSECOND = timedelta(microseconds=1)
_A_DAY = timedelta(days=1) // _MICROSECOND


def is_number(cell: str) -> bool:
    """Return True if a text is a number in decimal digits."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def number_in(cell: str) -> float | None:
    """The number that a text stands for, or None: true is 1, and a day counts from 1 January 1970.

    Example:
        >>> number_in("2.5"), number_in("True"), number_in("1970-01-02 12:00"), number_in("red")
        (2.5, 1.0, 1.5, None)
    """
    if is_number(cell):
        return float(cell)
    if (truth := _TRUTH.get(cell.lower())) is not None:
        return truth
    return _day_in(cell) if "-" in cell else None


def is_day(cell: str) -> bool:
    """Return True if a text is a day, with a time or without."""
    return _day_in(cell) is not None


def _day_in(cell: str) -> float | None:
    if (found := _DAY.fullmatch(cell)) is None:
        return None
    *parts, fraction, zone = found.groups(default="0")
    try:
        year, month, day, hour, minute, second = map(int, parts)
        part = int(fraction.ljust(6, "0"))
        moment = datetime(year, month, day, hour, minute, second, part, _zone(zone))
    except ValueError:
        return None  # the thirtieth of February is a word
    return days(moment)


def _zone(text: str) -> timezone:
    if len(text) < 2:  # Z, or none
        return timezone.utc
    minutes = 60 * int(text[1:3]) + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def days(moment: date | timedelta) -> float:
    """A day, a time or a span in days, from the start of 1970; without a zone it is that of Greenwich."""
    if isinstance(moment, timedelta):
        return moment // _MICROSECOND / _A_DAY
    if not isinstance(moment, datetime):
        return float((moment - date(1970, 1, 1)).days)
    moment = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // _MICROSECOND / _A_DAY


def text_of(number: float) -> str:
    """A number as it would stand in a file: whole ones without a point."""
    return str(int(number)) if number == number // 1 and abs(number) < 1e15 else repr(float(number))


def bucket(column: str, word: str) -> float:
    """Return the shared input, by its number, of a word of a column."""
    return float(hashlib.sha256(f"{column}={word}".encode("utf-8", "surrogatepass")).digest()[0] % BUCKETS)
