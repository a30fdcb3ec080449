"""Tables as titled columns of numbers and texts: text files, Parquet, frames of pandas, polars and pyarrow.

The first row of a text file has the names. A column of labels may declare its classes in its name, such as
``colour{red|green|blue}``, and one of numbers that are words ``postcode{*}``. None of these packages is
needed, and none is loaded unless a frame of it, or a Parquet file, is given.
"""

from __future__ import annotations

import csv
import io
import math
from datetime import date, timedelta
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.risk import count_of
from codebound.run.errors import DataError
from codebound.sample.columns import Coded, Title, days, is_number, text_of
from codebound.sample.formats.idx import read_whole
from codebound.sample.frames import Reading, sample_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from codebound.sample.columns import Values
    from codebound.sample.dataset import Sample

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
SUFFIXES = (*_DELIMITERS, *_PARQUET)

_MAX_BYTES = 1 << 30
_MAX_COLUMNS = 100_000
_ROWS = 1 << 14  # of a Parquet file, read at a time
_MISSING = ""


def is_frame(value: object) -> bool:
    """Return True if this is a data frame that ``from_frame`` reads."""
    return bool(_package(value))


def from_frame(
    frame: Any,
    target: str | None = None,
    *,
    name: str = "",
    role: str = "train",
    class_names: tuple[str, ...] = (),
) -> Sample:
    """The sample in a data frame of pandas, polars or pyarrow, by the rule of ``frames``.

    Cells of a categorical type (pandas Categorical, polars Enum, a dictionary of arrow) are words.

    Args:
        frame: The frame; it is not changed.
        target: The column with the labels, unless it is called y, label, target or class.
        name: What to call the sample in results.
        role: What it may be used for.
        class_names: Classes in the order of labels, where words are not declared.

    Raises:
        DataError: The frame leaves something open; the message says what to do.
    """
    package = _package(frame)
    return sample_of(
        read_frame(frame, name=name or "the frame"),
        None if target is None else str(target),
        Reading(role, None, class_names),
        name=name or f"a {package} frame",
        source=f"{package} frame",
    )


def read_frame(frame: Any, *, name: str) -> list[tuple[Title, Values]]:
    """The columns of a frame, with what their names and types declare."""
    if not _package(frame):
        raise DataError(f"{name} is no data frame of pandas, polars or pyarrow. Got {type(frame).__name__}.")
    return [
        (Title.read(str(each), source=name), values_of(column, name=f"{name}: column {str(each)!r}"))
        for each, column in _items(frame)
    ]


def _package(value: object) -> str:
    """The package that a frame belongs to; empty for what is none."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return package if package in _READERS and kind.__name__ in _KINDS else ""


def _items(frame: Any) -> list[tuple[Any, Any]]:
    kind = type(frame).__name__
    if _package(frame) == "pandas":
        return [(name, frame.iloc[:, i]) for i, name in enumerate(frame.columns)]
    if _package(frame) == "pyarrow":
        index = (frame.schema.pandas_metadata or {}).get("index_columns", ())  # no column of a frame either
        columns = zip(frame.schema.names, frame.columns, strict=True)
        return [(name, column) for name, column in columns if name not in index]
    whole = frame.collect() if kind == "LazyFrame" else frame
    return [(name, whole[name]) for name in whole.columns]


def values_of(column: Any, *, name: str) -> Values:
    """The values of one column, as numbers, codes or texts: of a frame, an array, a tensor or a list."""
    reader = _READERS.get(type(column).__module__.partition(".")[0])
    if reader is not None and hasattr(column, "iloc") and getattr(column, "ndim", 1) == 2:
        column = column.iloc[:, 0]
    try:
        return (reader or _of_list)(column, name)
    except (OverflowError, ValueError) as error:  # each kind of frame says it in its own way
        raise DataError(
            f"{name} holds what Python has no value for, such as a day after the year 9999: {error}. Replace "
            "it by numbers, or leave the cell empty."
        ) from error


def _of_pandas(column: Any, name: str) -> Values:
    if hasattr(column, "cat"):
        return _split_levels(column.cat.categories, column.cat.codes.to_numpy(np.float64), name)
    if column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return _of_list(column, name)


def _of_polars(column: Any, name: str) -> Values:
    if not str(column.dtype).startswith("Enum"):
        return _of_list(column, name)
    return _split_levels(column.dtype.categories, np.array(column.to_physical().to_list(), np.float64), name)


def _of_arrow(column: Any, name: str) -> Values:
    if not str(column.type).startswith("dictionary"):
        return _of_list(column, name)
    whole = column.combine_chunks() if hasattr(column, "chunks") else column
    whole = whole.chunk(0) if hasattr(whole, "chunks") else whole
    codes = np.array(whole.indices.to_pylist(), np.float64)  # None becomes NaN
    return _split_levels(whole.dictionary.to_pylist(), codes, name)


_READERS = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}
_KINDS = ("DataFrame", "LazyFrame", "Table", "RecordBatch")


def _split_levels(categories: Iterable[Any], codes: NDArray[np.float64], name: str) -> Coded:
    """Levels of a type, and which of them every cell has."""
    levels = tuple(each if isinstance(each, str) else _cell(each, name) for each in categories)
    if len(set(levels)) != len(levels):
        raise DataError(f"{name} has levels that are written alike: {', '.join(levels[:8])}. Rename one.")
    return Coded(levels, np.where(codes < 0, np.nan, codes))


def _of_list(column: Any, name: str) -> Values:
    """Numbers where there is nothing else, or texts as they would stand in a file."""
    values = next((getattr(column, way)() for way in _LISTS if hasattr(column, way)), column)
    if all(each is None or isinstance(each, bool | int | float) for each in values):
        return np.array([np.nan if each is None else _float(each) for each in values])
    return [_cell(each, name) for each in values]


_LISTS = ("to_pylist", "to_list", "tolist")


def _cell(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return _MISSING
    if isinstance(value, date | timedelta):
        return repr(days(value))
    if isinstance(value, Number | np.bool_) and not isinstance(value, complex | np.complexfloating):
        number = _float(value)
        return _MISSING if number != number else text_of(number)
    raise DataError(
        f"{name} holds {type(value).__name__}, neither numbers nor texts. Replace it by numbers, by a rule "
        "that was fixed in advance, or drop it."
    )


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def table_of(spec: str) -> tuple[Path, str | None] | None:
    """The file and the column that ``FILE`` or ``FILE:COLUMN`` names; None for what is no file of a table."""
    for end in (len(spec), *(i for i in reversed(range(len(spec))) if spec[i] == ":")):
        path = Path(spec[:end]).expanduser()
        if path.suffix.lower() in SUFFIXES and path.is_file():
            return path, spec[end + 1 :] or None
    return None


def read_file(path: Path) -> list[tuple[Title, Values]]:
    """The columns of a file, with what their names and types declare."""
    name, suffix = str(path), path.suffix.lower()
    if suffix in _PARQUET:
        return read_frame(_read_parquet(path), name=name)
    return list(_texts(bytes(read_whole(path, limit=_MAX_BYTES)), delimiter=_DELIMITERS[suffix], name=name))


def _read_parquet(path: Path) -> Any:
    """The table in a Parquet file, if it holds no more bytes than a text file may."""
    try:
        from pyarrow import Table, parquet
    except ImportError as error:
        raise DataError(f"{path}: Parquet needs pyarrow: pip install 'codebound[parquet]'.") from error
    try:
        with parquet.ParquetFile(path) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            promised = max(
                sum(group.total_byte_size for group in groups),
                file.metadata.num_rows * file.metadata.num_columns,
            )
            parts, size = [], 0
            for part in file.iter_batches(_ROWS) if promised <= _MAX_BYTES else ():
                size += part.nbytes  # what is stored once may stand for any number of rows
                parts.append(part)
                if size > _MAX_BYTES:
                    break
            if max(size, promised) > _MAX_BYTES:
                raise DataError(f"{path} holds more than {_MAX_BYTES} bytes. Take fewer rows or columns.")
            return Table.from_batches(parts, file.schema_arrow)
    except DataError:
        raise
    except Exception as error:  # a crafted file can make the parser raise nearly anything
        raise DataError(f"{path} is no readable Parquet file: {error}.") from error


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
