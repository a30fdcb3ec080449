"""Tables in files: ``.csv``, ``.tsv`` and R's ``.rda``, as ``table.csv:labels`` or with a column called y.

The first row of a text file has the names. A column of words declares what it can hold in its name, such as
``colour{red|green|blue}``: levels that were read off the sample would be chosen after looking at it.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codebound.data.arrays import MAX_CLASSES, from_arrays
from codebound.data.frames import TARGETS, Column, find_target, inputs_of, labels_of
from codebound.data.idx import read_whole
from codebound.data.rdata import read_frame
from codebound.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.data.dataset import Dataset

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_FRAMES = (".rda", ".rdata")
SUFFIXES = (*_DELIMITERS, *_FRAMES)

_MAX_BYTES = 1 << 30
_MAX_COLUMNS = 100_000
_MAX_LEVELS = 1_000
_SHOWN_LEVELS = 12
_MISSING = frozenset({"", "NA", "NaN", "nan", "?"})
_DECLARED = re.compile(r"(?P<name>.+?)\s*\{(?P<levels>.*)\}")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table, and the column that holds the labels where it was named."""

    path: Path
    target: str | None


def table_of(spec: str) -> TableFile | None:
    """The file and the column that ``FILE`` or ``FILE:COLUMN`` names; None for what is no file of a table."""
    before, _, target = spec.rpartition(":")
    for file, column in ((spec, None), (before, target)):
        path = Path(file).expanduser()
        if path.suffix.lower() in SUFFIXES and path.is_file():
            return TableFile(path, column or None)
    return None


def read_table(table: TableFile, *, role: str, classes: int | None = None) -> Dataset:
    """The sample in a table, by the rule of ``frames``.

    Labels are whole numbers from 0, or words: then the classes are those that the header declares, or in a
    table that is not a test sample those that occur, sorted. An unlabelled table may have no such column.

    Raises:
        DataError: The table cannot be read or leaves something open; the message says what to write.
    """
    path, name = table.path, str(table.path)
    columns = _columns(table, role)
    at = _position([column.name for column in columns], table, role)
    labels = None if at is None else columns.pop(at)
    levels = () if labels is None else labels.levels
    if role != "unlabelled" and levels and classes not in (None, len(levels)):
        raise DataError(f"{name} declares {len(levels)} classes, the sample has {classes}.")
    return from_arrays(
        inputs_of(columns, name=name),
        None if labels is None or role == "unlabelled" else labels_of(labels, name=name),
        name=name,
        role=role,
        classes=classes if classes is not None else len(levels) or None,
        source=f"table {path}" + (f", labels in column {labels.name}{_in_words(levels)}" if labels else ""),
    )


def labelled_texts(table: TableFile, *, role: str) -> tuple[list[str], NDArray[np.int64], tuple[str, ...]]:
    """The text of every example, all columns but the labels; their labels; and what these are called.

    Raises:
        DataError: The table cannot be read, or is no text file.
    """
    path, name = table.path, str(table.path)
    if path.suffix.lower() not in _DELIMITERS:
        raise DataError(f"{name}: texts come in .csv or .tsv files.")
    columns = _texts(
        bytes(read_whole(path, limit=_MAX_BYTES)), delimiter=_DELIMITERS[path.suffix.lower()], name=name
    )
    at = find_target([each.name for each in columns], table.target, name=name)
    target = columns.pop(at)
    labels = _column(target, role, name)
    texts = ["\n".join(filter(None, cells)) for cells in zip(*(each.cells for each in columns), strict=True)]
    return texts, labels_of(labels, name=name), labels.levels


def _columns(table: TableFile, role: str) -> list[Column]:
    path, name = table.path, str(table.path)
    content = bytes(read_whole(path, limit=_MAX_BYTES))
    if path.suffix.lower() in _FRAMES:
        return read_frame(content, name=name)
    texts = _texts(content, delimiter=_DELIMITERS[path.suffix.lower()], name=name)
    target = _position([text.name for text in texts], table, role)
    return [_column(text, role if i == target else None, name) for i, text in enumerate(texts)]


def _position(names: list[str], table: TableFile, role: str) -> int | None:
    """Where the labels are; an unlabelled table need not have any."""
    if role == "unlabelled" and table.target is None and not any(each.lower() in TARGETS for each in names):
        return None
    return find_target(names, table.target, name=str(table.path))


def _in_words(levels: tuple[str, ...]) -> str:
    named = ", ".join(f"{label} = {level}" for label, level in enumerate(levels[:_SHOWN_LEVELS]))
    return f"; classes {named}{', ...' if len(levels) > _SHOWN_LEVELS else ''}" if levels else ""


@dataclass(frozen=True, slots=True)
class _Text:
    """A column as it stands in a text file; ``levels`` as its name declares them."""

    name: str
    cells: list[str]
    levels: tuple[str, ...]


def _texts(content: bytes, *, delimiter: str, name: str) -> list[_Text]:
    try:
        text = content.decode("utf-8-sig")
        rows = [
            row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row
        ]
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is no text in UTF-8: {error}. Save it as UTF-8.") from error
    except csv.Error as error:
        raise DataError(f"{name} cannot be read as a table: {error}.") from error
    if len(rows) < 2 or not 1 < len(rows[0]) <= _MAX_COLUMNS:
        raise DataError(
            f"{name} needs a row of names, then a row for each example, with at least two columns between "
            f"{delimiter!r}. Got {len(rows)} rows, {len(rows[0]) if rows else 0} columns in the first."
        )
    head, *body = rows
    if all(_is_number(cell) for cell in head):
        raise DataError(f"{name} begins with numbers. Put a row with the names of the columns before them.")
    for number, row in enumerate(body, start=1):
        if len(row) != len(head):
            raise DataError(
                f"{name}: example {number} has {len(row)} values, the header names {len(head)} columns."
            )
    columns = []
    for i, cell in enumerate(head):
        title = cell.strip()
        declared = _DECLARED.fullmatch(title)
        levels = tuple(each.strip() for each in declared["levels"].split("|")) if declared else ()
        if len(set(levels)) != len(levels) or "" in levels:
            raise DataError(f"{name}: the levels in the header {title!r} must be different words.")
        columns.append(
            _Text(declared["name"] if declared else title, [row[i].strip() for row in body], levels)
        )
    return columns


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _column(text: _Text, target_role: str | None, name: str) -> Column:
    """The values of a column; ``target_role`` is what the sample is for, where it holds the labels."""
    levels = text.levels
    words = sorted(set(text.cells) - set(levels) - _MISSING)
    if not levels and all(map(_is_number, words)):
        return Column(
            text.name, np.array([np.nan if each in _MISSING else float(each) for each in text.cells])
        )
    if levels and words:
        raise DataError(
            f"{name}: example {text.cells.index(words[0]) + 1} has {words[0]!r} in column {text.name!r}, "
            f"which declares {', '.join(levels[:_SHOWN_LEVELS])}."
        )
    if not levels and target_role in (None, "test"):
        raise DataError(_undeclared(text.name, words, name, is_target=target_role is not None))
    levels = levels or tuple(words)
    if len(levels) > (_MAX_LEVELS if target_role is None else MAX_CLASSES):
        raise DataError(f"{name}: column {text.name!r} has {len(levels)} levels; {_MAX_LEVELS} are allowed.")
    at = {**dict.fromkeys(_MISSING, np.nan), **{level: float(i) for i, level in enumerate(levels)}}
    return Column(text.name, np.array([at[cell] for cell in text.cells]), levels)


def _undeclared(column: str, words: list[str], name: str, *, is_target: bool) -> str:
    if len(words) > _SHOWN_LEVELS or any("|" in each for each in words):
        return (
            f"{name}: column {column!r} holds {len(words)} different words such as {words[0]!r}. Drop it, or "
            "replace it by numbers by a rule that was fixed in advance."
        )
    why = (
        "A test sample needs its classes in the order of the sample's"
        if is_target
        else "What a column of words can hold is fixed before the sample is looked at"
    )
    cell = f"{column}{{{'|'.join(words)}}}"
    return f"{name}: column {column!r} holds words. {why}: write that into the header, as in {cell}."
