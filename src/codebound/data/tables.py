"""Tables in files: text, Parquet and R's ``.rda``, as ``table.csv:labels`` or with a column called y.

The first row of a text file has the names. A column of words declares what it can hold in its name, such as
``colour{red|green|blue}``: levels that were read off the sample would be chosen after looking at it.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codebound.data.foreign import read_parquet, titled
from codebound.data.frames import (
    Column,
    Title,
    column_of_labels,
    find_target,
    is_number,
    labels_of,
    position,
    sample_of,
    split_table,
)
from codebound.data.idx import read_whole
from codebound.data.rdata import read_frame
from codebound.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from codebound.data.dataset import Dataset

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_FRAMES = (".rda", ".rdata")
_PARQUET = (".parquet", ".pq")
SUFFIXES = (*_DELIMITERS, *_FRAMES, *_PARQUET)

_MAX_BYTES = 1 << 30
_MAX_COLUMNS = 100_000


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


def read_table(
    table: TableFile, *, role: str, classes: int | None = None, class_names: tuple[str, ...] = ()
) -> Dataset:
    """The sample in a table, by the rule of ``frames``.

    Labels are whole numbers from 0, or words: then the classes are those that the header declares, or
    ``class_names``, or in a table that is not a test sample those that occur, sorted. An unlabelled table may
    have no such column.

    Raises:
        DataError: The table cannot be read or leaves something open; the message says what to write.
    """
    path, name = table.path, str(table.path)
    columns, labels = _columns(table, role, class_names)
    return sample_of(columns, labels, name=name, role=role, classes=classes, source=f"table {path}")


def labelled_texts(
    table: TableFile, *, role: str, class_names: tuple[str, ...] = ()
) -> tuple[list[str], NDArray[np.int64], tuple[str, ...]]:
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
    at = find_target([title.name for title, _ in columns], table.target, name=name)
    labels = column_of_labels(*columns.pop(at), name=name, role=role, class_names=class_names)
    texts = ["\n".join(filter(None, cells)) for cells in zip(*(cells for _, cells in columns), strict=True)]
    return texts, labels_of(labels, name=name), labels.levels


def _columns(table: TableFile, role: str, class_names: tuple[str, ...]) -> tuple[list[Column], Column | None]:
    """The columns of inputs, and that of the labels."""
    path, name = table.path, str(table.path)
    if path.suffix.lower() in _PARQUET:
        columns_of = titled(read_parquet(path, limit=_MAX_BYTES), name=name)
        return split_table(columns_of, table.target, name=name, role=role, class_names=class_names)
    content = bytes(read_whole(path, limit=_MAX_BYTES))
    if path.suffix.lower() in _FRAMES:
        columns = read_frame(content, name=name)
        at = position([column.name for column in columns], table.target, name=name, role=role)
        return columns, None if at is None else columns.pop(at)
    texts = _texts(content, delimiter=_DELIMITERS[path.suffix.lower()], name=name)
    return split_table(texts, table.target, name=name, role=role, class_names=class_names)


def _texts(content: bytes, *, delimiter: str, name: str) -> list[tuple[Title, list[str]]]:
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
    if all(is_number(cell) for cell in head):
        raise DataError(f"{name} begins with numbers. Put a row with the names of the columns before them.")
    for number, row in enumerate(body, start=1):
        if len(row) != len(head):
            raise DataError(
                f"{name}: example {number} has {len(row)} values, the header names {len(head)} columns."
            )
    titles = [Title.read(cell, source=name) for cell in head]
    return [(title, [row[i].strip() for row in body]) for i, title in enumerate(titles)]
