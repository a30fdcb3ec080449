"""Cells of a table's columns, by a fixed rule (docs/format.md, 3.2).

Numbers enter as they are; so do true and false, as 1 and 0, and days, from 1970. Other texts are words
and become a pattern of their own, and what is missing becomes another. So what a cell becomes depends on that
cell, and on what the name of its column declares, never on other rows: which columns hold words, and which
words, a learner reads from the rows that it learns from.
"""

from __future__ import annotations

import hashlib
import re
import struct
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from codebound.run.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "None", "?"}
)
"""Texts that stand for a value that is missing."""
GAP = 0x7FF8 << 48
"""Pattern of a cell that is missing."""
WORD = 0x7FF9
"""The first 16 bits of the pattern of a text."""

TEXTS: dict[int, str] = {}
"""Texts that this process read, by their patterns: learners need them, and no hash leads back."""

_TRUTH = {"true": 1.0, "false": 0.0}
_DAY = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6})\d*)?)?\s?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_MICROSECOND = timedelta(microseconds=1)
_A_DAY = timedelta(days=1) // _MICROSECOND
_SHOWN_LEVELS = 12
_WITH_COMMA = re.compile(r"[+-]?\d[\d. ]*(,\d+)+(\.\d+)?", re.ASCII)
_OTHER_DAY = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{4}(?:[ T].*)?", re.ASCII)
_DECLARED = re.compile(r"(?P<name>.+?)\s*\{(?P<levels>.*)\}")


@dataclass(frozen=True, slots=True)
class Title:
    """Name of a column, and what it declares: ``shape{flat|tall}``, ``postcode{*}``."""

    name: str
    levels: tuple[str, ...] = ()  # words that it can hold, in order: those of labels are the classes
    is_words: bool = False  # its numbers are words, too

    @classmethod
    def read(cls, text: str, *, source: str) -> Title:
        """Parse the header of a column."""
        title = text.strip()
        declared = _DECLARED.fullmatch(title)
        if declared is None:
            return cls(title)
        words = [each.strip() for each in declared["levels"].split("|")]
        if len(set(words)) != len(words) or "" in words:
            raise DataError(f"{source}: the levels in the header {title!r} must be different words.")
        return cls(declared["name"], () if words == ["*"] else tuple(words), True)


@dataclass(frozen=True, slots=True)
class Coded:
    """Cells of a categorical type: positions in its levels, NaN where one is missing."""

    levels: tuple[str, ...]
    codes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.codes)


Values: TypeAlias = "NDArray[np.float64] | Coded | Sequence[str]"
"""Values of a column before the rule: numbers (NaN: missing), coded levels, or texts."""


def title_of(title: Title, values: Values) -> Title:
    """Return the title that reads other values alike: a level stays a word."""
    if not isinstance(values, Coded):
        return title
    return Title(title.name, title.levels or tuple(each for each in values.levels if each in MISSING), True)


def cells_of(title: Title, values: Values, *, name: str) -> NDArray[np.float64]:
    """Cells of a column."""
    if isinstance(values, np.ndarray) and not title.is_words:
        return _view(np.where(np.isnan(values), GAP, values.astype(np.float64).view(np.uint64)))
    texts = texts_of(values)
    patterns = {text: _pattern(title, text) for text in set(texts)}
    words = [text for text, pattern in patterns.items() if text is not None and pattern >> 48 == WORD]
    if words and not title.is_words:
        _require_plain(words, title, name=name)
    return _view([patterns[text] for text in texts])


def _require_plain(words: list[str], title: Title, *, name: str) -> None:
    """Refuse numbers and days in a form that makes them words."""
    if all(map(_WITH_COMMA.fullmatch, words)):
        found = "numbers with commas"
        remedy = (
            "A number is written 1234.5: write a point for a decimal comma and nothing between thousands, as "
            "pandas.read_csv(file, decimal=',', thousands='.') reads them"
        )
    elif all(map(_OTHER_DAY.fullmatch, words)):
        found = "days in a local form"
        remedy = "A day is written 2020-02-29, as pandas.to_datetime(column, dayfirst=True) makes it"
    else:
        return
    raise DataError(
        f"{name}: column {title.name!r} holds {found}, such as {words[0]!r:.40}, which would be taken for "
        f"words. {remedy}; or declare that they are words: {title.name}{{*}}."
    )


def text_cells(texts: Iterable[str]) -> NDArray[np.float64]:
    """Cells of texts, whatever they say.

    Example:
        >>> [f"{each:x}" for each in text_cells(["red ", "red"]).view(np.uint64).tolist()]
        ['7ff9b1f51a511f1d', '7ff9b1f51a511f1d']
    """
    return _view([_text_pattern(text) for text in texts])


def _view(patterns: NDArray[np.uint64] | list[int]) -> NDArray[np.float64]:
    return np.asarray(patterns, dtype=np.uint64).view(np.float64)


def _pattern(title: Title, text: str | None) -> int:
    if text is None or (text in MISSING and text not in title.levels):
        return GAP
    number = None if title.is_words else number_in(text)
    if number is None:
        return _text_pattern(text)
    pattern: int = struct.unpack("<Q", struct.pack("<d", number))[0]
    return pattern if number == number else GAP


def _text_pattern(text: str) -> int:
    content = unicodedata.normalize("NFC", text.strip()).encode("utf-8", "surrogatepass")
    pattern = WORD << 48 | int.from_bytes(hashlib.sha256(content).digest()[:6], "big")
    TEXTS[pattern] = text
    return pattern


def as_cells(x: NDArray[np.generic]) -> NDArray[np.float64]:
    """Numbers as cells: NaN is a gap unless it is the pattern of a word."""
    found = np.array(x, dtype=np.float64, order="C")
    patterns = found.view(np.uint64)
    patterns[np.isnan(found) & (patterns >> 48 != WORD)] = GAP
    return found


def are_cells(x: NDArray[np.generic]) -> bool:
    """Return True if these are numbers, gaps and texts alone."""
    if x.dtype != np.float64 or x.ndim != 2:
        return False
    is_number = np.isfinite(x)
    patterns = np.ascontiguousarray(x).view(np.uint64)
    return bool((is_number | (patterns == GAP) | (patterns >> 48 == WORD)).all())


def texts_of(values: Values) -> list[str | None]:
    """Cells as texts; None where a number or a level is missing."""
    if isinstance(values, Coded):
        return [None if np.isnan(code) else values.levels[int(code)] for code in values.codes.tolist()]
    if isinstance(values, np.ndarray):
        return [None if np.isnan(number) else text_of(number) for number in values.tolist()]
    return list(values)


def codes_of(title: Title, values: Values, *, name: str) -> NDArray[np.float64]:
    """Places of labels among the levels of a title; NaN where one is missing."""
    known: dict[str | None, float] = {level: float(i) for i, level in enumerate(title.levels)}
    by_number = {float(level): known[level] for level in title.levels if is_number(level)}
    codes = []
    for number, text in enumerate(texts_of(values), start=1):
        code = known.get(text)
        if code is None and text is not None and text not in MISSING:
            code = by_number.get(float(text)) if is_number(text) else None
            if code is None:
                raise DataError(
                    f"{name}: example {number} has {text!r} in column {title.name!r}, which declares "
                    f"{', '.join(title.levels[:_SHOWN_LEVELS])}."
                )
        codes.append(np.nan if code is None else code)
    return np.array(codes)


def is_number(cell: str) -> bool:
    """Return True if a text is a number in decimal digits."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def number_in(cell: str) -> float | None:
    """Return the number in a text, or None: true is 1, and a day counts from 1 January 1970.

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
    """Return True if a text is a day, in any usual form."""
    return _day_in(cell) is not None or _OTHER_DAY.fullmatch(cell) is not None


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
    """Days since the start of 1970, in Greenwich where no zone is given."""
    if isinstance(moment, timedelta):
        return moment // _MICROSECOND / _A_DAY
    if not isinstance(moment, datetime):
        return float((moment - date(1970, 1, 1)).days)
    moment = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // _MICROSECOND / _A_DAY


def text_of(number: float) -> str:
    """A number as it would stand in a file: whole ones without a point."""
    return str(int(number)) if number == number // 1 and abs(number) < 1e15 else repr(float(number))
