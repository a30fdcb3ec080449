"""Columns of a table, and the fixed rule that turns them into inputs.

Numbers enter as they are; so do true and false, as 1 and 0, and days, counted from 1970. A column
of words enters by its levels where these are declared with the column: two levels become one input of 0 and
1, more become an input of 0 and 1 each, in the order of the levels. Other words enter as 1 in one of 16
inputs, which their SHA-256 chooses. A column in which values can be missing has another input that is 1 where
one is; its others are 0 then. So an example's inputs depend on that example and on what its columns can hold,
never on the values in other rows; what the columns can hold is declared, or the sample comes with a remark
that says what was taken for declared.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from codebound.run.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
_MAX_VALUES = 1 << 28
_MAX_LEVELS = 1_000_000
_SHOWN_LEVELS = 12
_NUMBERS, _WORDS, _NONE = "#", "*", "?"
_WITH_COMMA = re.compile(r"[+-]?\d[\d. ]*(,\d+)+(\.\d+)?", re.ASCII)
_DECLARED = re.compile(r"(?P<name>.+?)\s*\{(?P<levels>.*)\}")


@dataclass(frozen=True, slots=True)
class Title:
    """Name of a column, and what it declares: ``age{?}``, ``shape{flat|tall|?}``, ``town{*}``, ``size{#|*}``.

    Attributes:
        name: The name.
        levels: The words that it can hold, in order; empty where they are not declared.
        can_miss: Whether values can be missing.
        has_numbers: Whether it is declared to hold numbers.
        has_words: Whether it is declared to hold any words.
    """

    name: str
    levels: tuple[str, ...] = ()
    can_miss: bool = False
    has_numbers: bool = False
    has_words: bool = False

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
        levels = tuple(each for each in words if each not in (_NUMBERS, _WORDS, _NONE))
        if levels and not {_NUMBERS, _WORDS}.isdisjoint(words):
            raise DataError(
                f"{source}: the header {title!r} declares levels, so it can hold neither numbers (#) nor "
                "other words (*)."
            )
        return cls(declared["name"], levels, _NONE in words, _NUMBERS in words, _WORDS in words)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name in the header.
        values: Numbers, 0 where a word stands, or positions in ``levels``; NaN where a value is missing.
        levels: What a column of declared words can hold, in order; empty for others.
        words: What other words are hashed to, -1 where there is none; None in a column without them.
        has_numbers: Whether it has an input for numbers.
        can_miss: Whether it is declared that values can be missing.
        has_type: Whether its levels are those of a categorical type, and not written into its name.
        open_word: The first word in it, where it was not declared that it holds words.
        different: How many words it holds that are hashed.
    """

    name: str
    values: NDArray[np.float64]
    levels: tuple[str, ...] = ()
    words: NDArray[np.float64] | None = None
    has_numbers: bool = True
    can_miss: bool = False
    has_type: bool = False
    open_word: str = ""
    different: int = 0

    @property
    def title(self) -> Title:
        """Title that would declare all that became of the column."""
        has_words = self.words is not None
        has_numbers = self.has_numbers and not self.levels
        return Title(self.name, self.levels, _has_indicator(self), has_numbers, has_words)


@dataclass(frozen=True, slots=True)
class Coded:
    """The cells of a categorical type: positions in its levels, NaN where one is missing."""

    levels: tuple[str, ...]
    codes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.codes)


Values: TypeAlias = "NDArray[np.float64] | Coded | Sequence[str]"
"""Values of a column before the rule: numbers (NaN: missing), coded levels, or texts."""


def column_of(title: Title, values: Values, *, name: str) -> Column:
    """Build a column of declared levels, numbers or hashed words. Words can be beside numbers.

    Raises:
        DataError: It holds what its title rules out.
    """
    if title.levels or (isinstance(values, Coded) and not (title.has_numbers or title.has_words)):
        return column_by_levels(title, values, name)
    if isinstance(values, np.ndarray) and not title.has_words:
        return Column(title.name, values, can_miss=title.can_miss)
    cells = _texts_of(values)
    numbers = [None if cell is None else number_in(cell) for cell in cells]
    is_word = [cell is not None and number is None for cell, number in zip(cells, numbers, strict=True)]
    is_declared = title.has_numbers or title.has_words
    has_words = title.has_words if is_declared else any(is_word)
    has_numbers = title.has_numbers if is_declared else not has_words or any(n is not None for n in numbers)
    if any(is_word) and not has_words:
        at = is_word.index(True)
        raise DataError(
            f"{name}: example {at + 1} has {cells[at]!r} in column {title.name!r}, which holds numbers. To "
            f"allow words, declare it in the sample: {title.name}{{#|*}}."
        )
    if has_words and not is_declared:
        _require_no_commas(title, cells, is_word, name=name)
    hashed = [
        cell if has_words and (word or not has_numbers) else None
        for cell, word in zip(cells, is_word, strict=True)
    ]
    return Column(
        title.name,
        np.array(
            [
                np.nan if cell is None else number if number is not None and has_numbers else 0.0
                for cell, number in zip(cells, numbers, strict=True)
            ]
        ),
        words=np.array([-1.0 if cell is None else bucket(title.name, cell) for cell in hashed])
        if has_words
        else None,
        has_numbers=has_numbers,
        can_miss=title.can_miss,
        open_word="" if is_declared or not has_words else cells[is_word.index(True)] or "",
        different=len({*hashed} - {None}),
    )


def _require_no_commas(
    title: Title, cells: Sequence[str | None], is_word: Sequence[bool], *, name: str
) -> None:
    """Refuses a column of numbers of which some have commas: nobody means them as words."""
    words = [cell for cell, word in zip(cells, is_word, strict=True) if cell and word]
    if all(map(_WITH_COMMA.fullmatch, words)):
        raise DataError(
            f"{name}: column {title.name!r} holds numbers with commas, such as {words[0]!r:.40}, which would "
            "be taken for words. A number is written 1234.5: write a point for a decimal comma and nothing "
            "between thousands, as pandas.read_csv(file, decimal=',', thousands='.') reads them; or declare "
            f"that they are words: {title.name}{{*}}."
        )


def _texts_of(values: Values) -> list[str | None]:
    """Cells as texts; None where one is missing."""
    if isinstance(values, Coded):
        return [None if np.isnan(code) else values.levels[int(code)] for code in values.codes.tolist()]
    if isinstance(values, np.ndarray):
        return [None if np.isnan(number) else text_of(number) for number in values.tolist()]
    return [None if cell in MISSING else cell for cell in values]


def words_of(values: Values) -> list[str]:
    """Cells as they would stand in a file; empty where one is missing."""
    if isinstance(values, Coded | np.ndarray):
        return [cell or "" for cell in _texts_of(values)]
    return list(values)


def column_by_levels(title: Title, values: Values, name: str) -> Column:
    """A column by its levels, which are declared or those of its type."""
    has_type = isinstance(values, Coded) and not title.levels
    levels = title.levels or (values.levels if isinstance(values, Coded) else ())
    if len(levels) > _MAX_LEVELS:
        raise DataError(f"{name}: column {title.name!r} has {len(levels)} levels, more than {_MAX_LEVELS}.")
    if isinstance(values, Coded) and values.levels == levels:
        return Column(title.name, values.codes, levels, can_miss=title.can_miss, has_type=has_type)
    known: dict[str | None, float] = {level: float(i) for i, level in enumerate(levels)}
    if isinstance(values, Coded | np.ndarray):
        cells = _texts_of(values)
    else:
        cells = [None if cell in MISSING and cell not in known else cell for cell in values]
    known[None] = np.nan
    by_number = {float(level): known[level] for level in levels if is_number(level)}
    for number, cell in enumerate(cells, start=1):
        if cell not in known and cell is not None:
            if not is_number(cell) or float(cell) not in by_number:
                raise DataError(
                    f"{name}: example {number} has {cell!r} in column {title.name!r}, which declares "
                    f"{', '.join(levels[:_SHOWN_LEVELS])}."
                )
            known[cell] = by_number[float(cell)]
    return Column(title.name, np.array([known[cell] for cell in cells]), levels, can_miss=title.can_miss)


def admit(title: Title, values: Values) -> Values:
    """The cells that a title admits; the others are missing."""
    if isinstance(values, np.ndarray) and not (title.levels or title.has_words):
        return values
    cells = words_of(values)
    if title.levels:
        numbers = {float(level) for level in title.levels if is_number(level)}
        known = {*title.levels}
        return [
            cell if cell in known or (is_number(cell) and float(cell) in numbers) else "" for cell in cells
        ]
    return [cell if title.has_words or number_in(cell) is not None else "" for cell in cells]


def inputs_with_gaps(columns: Sequence[Column]) -> NDArray[np.float64]:
    """Inputs of rows that may lack what the sample never lacked: all inputs of such a column are NaN."""
    parts = []
    for column in columns:
        missing = np.isnan(column.values) & (not column.can_miss)
        part = _encode(replace(column, values=np.where(missing, 0.0, column.values)))
        part[missing] = np.nan
        parts.append(part)
    return np.concatenate(parts, axis=1)


def inputs_of(columns: Sequence[Column], *, name: str) -> NDArray[np.float64]:
    """Inputs ``(n, features)`` from all columns.

    Raises:
        DataError: There are none, or too many.
    """
    width = sum(map(_width, columns))
    if not columns or width * len(columns[0].values) > _MAX_VALUES:
        raise DataError(
            f"{name} becomes {width} inputs an example; 1 to {_MAX_VALUES} values in all are read."
        )
    return np.concatenate([_encode(column) for column in columns], axis=1)


def _has_indicator(column: Column) -> bool:
    return column.can_miss or bool(np.isnan(column.values).any())


def _width(column: Column) -> int:
    own = len(column.levels) if len(column.levels) > 2 else int(column.has_numbers)
    return own + _has_indicator(column) + (0 if column.words is None else BUCKETS)


def _encode(column: Column) -> NDArray[np.float64]:
    missing = np.isnan(column.values)
    parts = []
    if len(column.levels) > 2:
        parts.append(_one_hot(column.values, len(column.levels)))
    elif column.has_numbers:
        parts.append(np.where(missing, 0.0, column.values)[:, None])
    if _has_indicator(column):
        parts.append(missing[:, None].astype(np.float64))
    if column.words is not None:  # behind what is beside them, before what says that there is none
        parts.insert(len(parts) if column.has_numbers else 0, _one_hot(column.words, BUCKETS))
    return np.concatenate(parts, axis=1)


def _one_hot(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.equal.outer(values, np.arange(count)).astype(np.float64)


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
