"""Tables in files: text and Parquet, as ``table.csv:labels`` or with a column called y.

The first row of a text file has the names. A column of words declares what it can hold in its name, such as
``colour{red|green|blue}``: levels that were read off the sample would be chosen after looking at it.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.bounds.risk import count_of
from codebound.run.errors import DataError
from codebound.sample.columns import Title
from codebound.sample.dataframes import read_parquet, titled
from codebound.sample.formats.idx import read_whole
from codebound.sample.formats.parse_cell import is_number
from codebound.sample.frames import sample_of, split_table, texts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from codebound.sample.columns import Values
    from codebound.sample.dataset import Dataset

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
SUFFIXES = (*_DELIMITERS, *_PARQUET)

_MAX_BYTES = 1 << 30
_MAX_COLUMNS = 100_000


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table, and the column that holds the labels where it was named."""

    path: Path
    target: str | None


def table_of(spec: str) -> TableFile | None:
    """The file and the column that ``FILE`` or ``FILE:COLUMN`` names; None for what is no file of a table."""
    for end in (len(spec), *(i for i in reversed(range(len(spec))) if spec[i] == ":")):
        path = Path(spec[:end]).expanduser()
        if path.suffix.lower() in SUFFIXES and path.is_file():
            return TableFile(path, spec[end + 1 :] or None)
    return None


def read_table(
    table: TableFile,
    *,
    role: str,
    classes: int | None = None,
    class_names: tuple[str, ...] = (),
    columns: tuple[Title, ...] = (),
) -> Dataset:
    """The sample in a table, by the rule of ``frames``.

    Labels are whole numbers from 0, or words: then the classes are those that the header declares, or
    ``class_names``, or those that occur, sorted, unless it is the test sample of another. An unlabelled table
    may have no such column.

    Raises:
        DataError: The table cannot be read or leaves something open; the message says what to write.
    """
    path, name = table.path, str(table.path)
    inputs, labels = split_table(
        _titled(path),
        table.target,
        name=name,
        role=role,
        classes=classes,
        class_names=class_names,
        like=columns,
    )
    return sample_of(inputs, labels, name=name, role=role, classes=classes, source=f"table {path}")


def labelled_texts(
    table: TableFile, *, role: str, classes: int | None = None, class_names: tuple[str, ...] = ()
) -> tuple[list[str], NDArray[np.int64], tuple[str, ...]]:
    """The texts in a table, as ``texts_of`` finds them."""
    known: dict[str, Any] = {"role": role, "classes": classes, "class_names": class_names}
    return texts_of(_titled(table.path), table.target, name=str(table.path), **known)


def _titled(path: Path) -> list[tuple[Title, Values]]:
    """The columns of a file, with what their names and types declare."""
    name, suffix = str(path), path.suffix.lower()
    if suffix in _PARQUET:
        return titled(read_parquet(path, limit=_MAX_BYTES), name=name)
    content = bytes(read_whole(path, limit=_MAX_BYTES))
    return list(_texts(content, delimiter=_DELIMITERS[suffix], name=name))


def _texts(content: bytes, *, delimiter: str, name: str) -> list[tuple[Title, list[str]]]:
    rows = _rows(content, delimiter, name)
    if len(rows) < 2 or not 1 < len(rows[0]) <= _MAX_COLUMNS:
        other = "" if not rows else next((each for each in ";\t,|" if each in rows[0][0]), "")
        columns = count_of(len(rows[0]) if rows else 0, "column")
        raise DataError(
            f"{name} needs a row of names, then a row for each example, with at least two columns between "
            f"{delimiter!r}. Got {count_of(len(rows), 'row')}, {columns} in the first"
            f"{f'; it has {other!r}, so save it with {delimiter!r}' if other and len(rows[0]) == 1 else ''}."
        )
    head, *body = rows
    if all(is_number(cell) for cell in head) or any(is_number(cell) and "." in cell for cell in head):
        raise DataError(f"{name} begins with numbers. Put a row with the names of the columns before them.")
    for number, row in enumerate(body, start=1):
        if len(row) != len(head):
            raise DataError(
                f"{name}: example {number} has {count_of(len(row), 'value')}, the header names "
                f"{len(head)} columns."
            )
    titles = [Title.read(cell.strip() or f"column {i}", source=name) for i, cell in enumerate(head, start=1)]
    return [(title, [row[i].strip() for row in body]) for i, title in enumerate(titles)]


def _rows(content: bytes, delimiter: str, name: str) -> list[list[str]]:
    """The cells of a text, in UTF-8, or in UTF-16 where it begins with the mark of that."""
    limit = csv.field_size_limit(_MAX_BYTES)
    try:
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        return [row for row in lines if row]
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is no text in UTF-8: {error}. Save it as UTF-8.") from error
    except csv.Error as error:
        raise DataError(f"{name} cannot be read as a table: {error}.") from error
    finally:
        csv.field_size_limit(limit)
