"""Tables with named columns, and the fixed rule that turns one into a sample.

Numbers enter as they are. A column of words enters by its levels where these are declared with the column:
two levels become one input of 0 and 1, more become an input of 0 and 1 each, in the order of the levels.
Other words enter as 1 in one of 16 inputs, which their SHA-256 chooses. A column in which values can be
missing has another input that is 1 where one is; its others are 0 then. So an example's inputs depend on that
example and on what its columns can hold, never on the values in other rows; what the columns can hold is
declared, or the sample comes with a remark that says what was taken for declared.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from codebound.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from codebound.data.dataset import Dataset

TARGETS = ("y", "label", "target", "class")
"""Names of the column with the labels, in any case, that need not be given."""

MISSING = frozenset({"", "NA", "NaN", "nan", "?"})
"""Texts that stand for a value that is missing."""

_MAX_VALUES = 1 << 28
_BUCKETS = 16
_MAX_LEVELS = 1_000_000
_SHOWN = 3
_SHOWN_LEVELS = 12
_DECLARED = re.compile(r"(?P<name>.+?)\s*\{(?P<levels>.*)\}")


@dataclass(frozen=True, slots=True)
class Title:
    """Name of a column, and what it declares: ``age{?}``, ``shape{flat|tall}``, ``shape{flat|tall|?}``."""

    name: str
    levels: tuple[str, ...] = ()
    can_miss: bool = False

    @classmethod
    def read(cls, text: str, *, source: str) -> Title:
        """What the header of a column says."""
        title = text.strip()
        declared = _DECLARED.fullmatch(title)
        if declared is None:
            return cls(title)
        words = [each.strip() for each in declared["levels"].split("|")]
        if len(set(words)) != len(words) or "" in words:
            raise DataError(f"{source}: the levels in the header {title!r} must be different words.")
        return cls(declared["name"], tuple(each for each in words if each != "?"), "?" in words)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name in the header.
        values: Numbers, or positions in ``levels``; NaN where a value is missing, -1 for none of the levels.
        levels: What a column of words can hold, in order; empty for a column of numbers.
        is_hashed: Whether the levels are not words but what words are hashed to.
        can_miss: Whether it is declared that values can be missing.
    """

    name: str
    values: NDArray[np.float64]
    levels: tuple[str, ...] = ()
    is_hashed: bool = False
    can_miss: bool = False


Values: TypeAlias = "NDArray[np.float64] | Sequence[str]"
"""What a column holds before the rule: numbers, NaN where one is missing, or texts."""


def split_table(
    table: Sequence[tuple[Title, Values]],
    target: str | None,
    *,
    name: str,
    role: str,
    class_names: tuple[str, ...] = (),
) -> tuple[list[Column], Column | None]:
    """The columns of inputs, and that of the labels, which an unlabelled table need not have.

    Raises:
        DataError: The table leaves something open; the message says what to write.
    """
    at = position([title.name for title, _ in table], target, name=name, role=role)
    labels = None
    if at is not None and role != "unlabelled":
        labels = column_of_labels(*table[at], name=name, role=role, class_names=class_names)
    columns = [
        column
        for i, (title, values) in enumerate(table)
        if i != at
        for column in _columns_of(title, values, name=name)
    ]
    return columns, labels


def position(names: Sequence[str], target: str | None, *, name: str, role: str) -> int | None:
    """Where the labels are; an unlabelled table need not have any."""
    if role == "unlabelled" and target is None and not any(each.lower() in TARGETS for each in names):
        return None
    return find_target(names, target, name=name)


def column_of_labels(
    title: Title, values: Values, *, name: str, role: str, class_names: tuple[str, ...] = ()
) -> Column:
    """The labels; words that are neither declared nor among ``class_names`` are numbered in their order.

    Those of a test sample are not: their order must be that of the sample.
    """
    if isinstance(values, np.ndarray):
        return Column(title.name, values)
    words = sorted(set(values) - MISSING)
    if not title.levels and class_names and set(words) <= set(class_names):
        title = replace(title, levels=class_names)
    elif not title.levels and not all(map(is_number, words)):
        if class_names:
            strange = ", ".join(word for word in words if word not in class_names)
            raise DataError(
                f"{name}: column {title.name!r} holds classes that the sample has not: {strange}. Those of "
                f"the sample are {', '.join(class_names[:_SHOWN_LEVELS])}."
            )
        if role == "test":
            cell = f"{title.name}{{{'|'.join(words[:_SHOWN_LEVELS])}}}"
            raise DataError(
                f"{name}: column {title.name!r} holds words. A test sample needs its classes in the order of "
                f"the sample's: write that into the header, as in {cell}."
            )
        title = replace(title, levels=tuple(words))
    if len(title.levels) > _MAX_LEVELS:
        raise DataError(
            f"{name}: column {title.name!r} has {len(title.levels)} levels, more than {_MAX_LEVELS}."
        )
    (column,) = _columns_of(title, values, name=name)
    return column


def _columns_of(title: Title, values: Values, *, name: str) -> list[Column]:
    """What a column becomes: numbers, declared levels, or words that are hashed, beside numbers or not.

    Raises:
        DataError: A word is not among the levels that are declared.
    """
    if isinstance(values, np.ndarray):
        return [Column(title.name, values, can_miss=title.can_miss)]
    if title.levels:
        return [_leveled(title, values, name)]
    is_missing = np.array([cell in MISSING for cell in values])
    is_word = np.array([not is_number(cell) for cell in values]) & ~is_missing
    columns = []
    if not is_word.any() or (~is_word & ~is_missing).any():
        numbers = [
            0.0 if word else np.nan if cell in MISSING else float(cell)
            for cell, word in zip(values, is_word, strict=True)
        ]
        columns.append(Column(title.name, np.array(numbers), can_miss=title.can_miss))
    if is_word.any():
        none = -1.0 if columns else np.nan  # beside numbers, these say what is missing
        buckets = [
            _bucket(title.name, cell) if word else none if cell in MISSING else -1.0
            for cell, word in zip(values, is_word, strict=True)
        ]
        levels = tuple(map(str, range(_BUCKETS)))
        columns.append(Column(title.name, np.array(buckets), levels, True, title.can_miss and not columns))
    return columns


def _leveled(title: Title, cells: Sequence[str], name: str) -> Column:
    levels = title.levels
    if len(levels) > _MAX_LEVELS:
        raise DataError(f"{name}: column {title.name!r} has {len(levels)} levels, more than {_MAX_LEVELS}.")
    known = {**dict.fromkeys(MISSING, np.nan), **{level: float(i) for i, level in enumerate(levels)}}
    for number, cell in enumerate(cells, start=1):
        if cell not in known:
            raise DataError(
                f"{name}: example {number} has {cell!r} in column {title.name!r}, which declares "
                f"{', '.join(levels[:_SHOWN_LEVELS])}."
            )
    return Column(title.name, np.array([known[cell] for cell in cells]), levels, can_miss=title.can_miss)


def _bucket(column: str, word: str) -> float:
    return float(hashlib.sha256(f"{column}={word}".encode()).digest()[0] % _BUCKETS)


def is_number(cell: str) -> bool:
    """Whether a text is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def sample_of(
    columns: Sequence[Column],
    labels: Column | None,
    *,
    name: str,
    role: str,
    classes: int | None,
    source: str,
) -> Dataset:
    """The sample in a table whose labels are those of one column, or not needed."""
    from codebound.data.arrays import from_arrays  # which loads torch

    levels = () if labels is None else labels.levels
    if role != "unlabelled" and levels and classes not in (None, len(levels)):
        raise DataError(f"{name} declares {len(levels)} classes, the sample has {classes}.")
    found = from_arrays(
        inputs_of(columns, name=name),
        None if labels is None or role == "unlabelled" else labels_of(labels, name=name),
        name=name,
        role=role,
        classes=classes if classes is not None else len(levels) or None,
        source=source + (f", labels in column {labels.name}{_in_words(levels)}" if labels else ""),
    )
    names = levels if len(levels) == found.classes else ()  # an unlabelled table may declare others
    return replace(found, warnings=(*found.warnings, *_remarks(columns)), class_names=names)


def _in_words(levels: tuple[str, ...]) -> str:
    named = ", ".join(f"{label} = {level}" for label, level in enumerate(levels[:_SHOWN_LEVELS]))
    return f"; classes {named}{', ...' if len(levels) > _SHOWN_LEVELS else ''}" if levels else ""


def _remarks(columns: Sequence[Column]) -> list[str]:
    """What was taken for declared although it was read off the table."""
    remarks = []
    if lacking := [each.name for each in columns if not each.can_miss and np.isnan(each.values).any()]:
        remarks.append(
            f"values are missing in {_few(lacking)}: such a column has another input, 1 where one is; that "
            f"they can be was known before the sample was drawn (to declare it: {lacking[0]}{{?}})"
        )
    if hashed := [each.name for each in columns if each.is_hashed]:
        remarks.append(
            f"words without declared levels in {_few(hashed)}: a word is 1 in one of {_BUCKETS} inputs, by "
            "its SHA-256; that the column holds words was known before the sample was drawn (levels are "
            f"declared as in {hashed[0]}{{red|green}})"
        )
    return remarks


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more columns" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def find_target(names: Sequence[str], target: str | None, *, name: str) -> int:
    """Position of the column with the labels: the named one, or the only one that is called like labels."""
    wanted = [
        i for i, each in enumerate(names) if (each.lower() in TARGETS if target is None else each == target)
    ]
    if len(wanted) == 1:
        return wanted[0]
    shown = ", ".join(names[:20]) + (" and others" if len(names) > 20 else "")
    if target is None:
        raise DataError(
            f"{name}: which column holds the labels? For a file write it behind its name, as in "
            f"{name if '.' in name else 'table.csv'}:{names[-1]}; for a frame give "
            f'from_frame(frame, "{names[-1]}"). Columns: {shown}.'
        )
    close = get_close_matches(target, names, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    number = "no column" if not wanted else "more than one column"
    raise DataError(f"{name} has {number} {target!r}.{meant} Columns: {shown}.")


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
    return np.concatenate([_encoded(column) for column in columns], axis=1)


def labels_of(column: Column, *, name: str) -> NDArray[np.int64]:
    """The labels that a column holds.

    Raises:
        DataError: One is missing, or neither a level nor a whole number from 0.
    """
    missing = np.flatnonzero(np.isnan(column.values))
    if missing.size:
        raise DataError(
            f"{name}: column {column.name!r} lacks {missing.size} of {len(column.values)} labels, the first "
            f"in example {missing[0] + 1}. Leave out what has no label by a rule that was fixed in advance."
        )
    if not column.levels and not _are_labels(column.values):
        raise DataError(
            f"{name}: the labels in column {column.name!r} must be words or whole numbers, counted from 0."
        )
    return column.values.astype(np.int64)


def _has_indicator(column: Column) -> bool:
    return column.can_miss or bool(np.isnan(column.values).any())


def _width(column: Column) -> int:
    return (len(column.levels) if len(column.levels) > 2 else 1) + _has_indicator(column)


def _encoded(column: Column) -> NDArray[np.float64]:
    missing = np.isnan(column.values)
    if len(column.levels) > 2:
        inputs = np.equal.outer(column.values, np.arange(len(column.levels))).astype(np.float64)
    else:
        inputs = np.where(missing, 0.0, column.values)[:, None]
    return np.column_stack([inputs, missing]) if _has_indicator(column) else inputs


def _are_labels(values: NDArray[np.float64]) -> bool:
    return bool(((values >= 0) & (values < 1 << 53) & (values == np.floor(values))).all())
