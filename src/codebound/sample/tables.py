"""Tables as titled columns: text files, Parquet, and frames of pandas, polars and pyarrow.

The first row of a text file has the names. A column of labels may declare its classes in its name, such as
``colour{red|green|blue}``, and one of numbers that are words ``postcode{*}``. None of these packages is
needed, and none is loaded unless a frame of it, or a Parquet file, is given.
"""

from __future__ import annotations

import csv
import io
import math
from datetime import date, timedelta
from itertools import islice
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.risk import count_of
from codebound.run.errors import DataError
from codebound.sample.columns import MISSING, Coded, Title, days, is_number, text_of
from codebound.sample.formats.idx import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from codebound.sample.columns import Values

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
SUFFIXES = (*_DELIMITERS, *_PARQUET)

_MAX_BYTES = 1 << 30
_MAX_COLUMNS = 100_000
_ROWS = 1 << 14  # of a file, read at a time
_PACKAGES = ("pandas", "polars", "pyarrow")
_KINDS = ("DataFrame", "LazyFrame", "Table", "RecordBatch")
_NUMBERS = ("int", "uint", "float", "double")  # names of types in polars and pyarrow begin so
_LISTS = ("to_pylist", "to_list", "tolist")


def is_frame(value: object) -> bool:
    """Return True if this is a data frame."""
    return _package(value) != "" and type(value).__name__ in _KINDS


def _package(value: object) -> str:
    """Package of a frame or a column; empty for others."""
    package = type(value).__module__.partition(".")[0]
    return package if package in _PACKAGES else ""


def read_frame(frame: Any, *, name: str) -> list[tuple[Title, Values]]:
    """Read the titled columns of a frame."""
    if _package(frame) == "pandas":
        items = [(each, frame.iloc[:, i]) for i, each in enumerate(frame.columns)]
    elif _package(frame) == "pyarrow":
        index = (frame.schema.pandas_metadata or {}).get("index_columns", ())  # no column of a frame either
        columns = zip(frame.schema.names, frame.columns, strict=True)
        items = [(each, column) for each, column in columns if each not in index]
    else:
        whole = frame.collect() if type(frame).__name__ == "LazyFrame" else frame
        items = [(each, whole[each]) for each in whole.columns]
    return [
        (Title.read(str(each), source=name), values_of(column, name=f"{name}: column {str(each)!r}"))
        for each, column in items
    ]


def values_of(column: Any, *, name: str) -> Values:
    """Numbers, codes or texts of a column: of a frame, an array, a tensor or a list."""
    package = _package(column)
    if package and hasattr(column, "iloc") and getattr(column, "ndim", 1) == 2:
        column = column.iloc[:, 0]
    try:
        return (_levels_of(column, name) if package else None) or _plain_values(column, package, name)
    except (OverflowError, ValueError) as error:  # each kind of frame says it in its own way
        raise DataError(
            f"{name} holds what Python has no value for, such as a day after the year 9999: {error}. Replace "
            "it by numbers, or leave the cell empty."
        ) from error


def _levels_of(column: Any, name: str) -> Coded | None:
    """Codes of a categorical type; None for other types."""
    if hasattr(column, "cat") and hasattr(column.cat, "codes"):
        categories, codes = column.cat.categories, column.cat.codes.to_numpy(np.float64)
    elif str(getattr(column, "dtype", "")).startswith("Enum"):
        categories, codes = column.dtype.categories, np.array(column.to_physical().to_list(), np.float64)
    elif str(getattr(column, "type", "")).startswith("dictionary"):
        whole = column.combine_chunks() if hasattr(column, "chunks") else column
        whole = whole.chunk(0) if hasattr(whole, "chunks") else whole
        categories, codes = whole.dictionary.to_pylist(), np.array(whole.indices.to_pylist(), np.float64)
    else:
        return None
    levels = tuple(each if isinstance(each, str) else _cell(each, name) for each in categories)
    if len(set(levels)) != len(levels):
        raise DataError(f"{name} has levels that are written alike: {', '.join(levels[:8])}. Rename one.")
    return Coded(levels, np.where(codes < 0, np.nan, codes))


def _plain_values(column: Any, package: str, name: str) -> Values:
    """Numbers where there is nothing else, or texts as in a file."""
    if package == "pandas" and column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if str(getattr(column, "dtype", getattr(column, "type", ""))).lower().startswith(_NUMBERS) and package:
        return np.asarray(column).astype(np.float64)  # NaN in place of what is missing
    values = next((getattr(column, way)() for way in _LISTS if hasattr(column, way)), column)
    if all(each is None or isinstance(each, bool | int | float) for each in values):
        return np.array([np.nan if each is None else _float(each) for each in values])
    return [_cell(each, name) for each in values]


def _cell(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, date | timedelta):
        return repr(days(value))
    if isinstance(value, Number | np.bool_) and not isinstance(value, complex | np.complexfloating):
        number = _float(value)
        return "" if number != number else text_of(number)
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
    """File and column in ``FILE`` or ``FILE:COLUMN``; None if no table is named."""
    for end in (len(spec), *(i for i in reversed(range(len(spec))) if spec[i] == ":")):
        path = Path(spec[:end]).expanduser()
        if path.suffix.lower() in SUFFIXES and path.is_file():
            return path, spec[end + 1 :] or None
    return None


def read_file(path: Path) -> list[tuple[Title, Values]]:
    """Read the titled columns of a file."""
    name, suffix = str(path), path.suffix.lower()
    if suffix in _PARQUET:
        return read_frame(_read_parquet(path), name=name)
    return _read_text(bytes(read_whole(path, limit=_MAX_BYTES)), delimiter=_DELIMITERS[suffix], name=name)


def _read_parquet(path: Path) -> Any:
    """Read a Parquet file of bounded size."""
    try:
        from pyarrow import Table, parquet
    except ImportError as error:
        raise DataError(f"{path}: Parquet needs pyarrow: pip install 'codebound[parquet]'.") from error
    try:
        with parquet.ParquetFile(path) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            cells = file.metadata.num_rows * file.metadata.num_columns
            promised = max(sum(group.total_byte_size for group in groups), cells)
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


class _Column:
    """Cells of a column, block by block: numbers where a block has nothing else."""

    def __init__(self, title: Title) -> None:
        self.title, self._texts = title, dict[str, str]()
        self._blocks: list[NDArray[np.float64] | list[str]] = []

    def add(self, cells: Iterable[str]) -> None:
        """Add a block of cells."""
        texts = [cell.strip() for cell in cells]
        numbers = None if self.title.is_words else _numbers_in(texts)
        self._blocks.append(
            [self._texts.setdefault(text, text) for text in texts] if numbers is None else numbers
        )

    def values(self) -> Values:
        """Return all cells as numbers, or as texts."""
        arrays = [each for each in self._blocks if isinstance(each, np.ndarray)]
        if len(arrays) == len(self._blocks):
            return np.concatenate(arrays)
        return [
            cell
            for block in self._blocks
            for cell in (block if isinstance(block, list) else map(_text, block))
        ]


def _text(number: float) -> str:
    return "" if number != number else text_of(number)


def _numbers_in(texts: Sequence[str]) -> NDArray[np.float64] | None:
    """Numbers in texts, NaN where one is missing; None if one is a word."""
    try:
        found = np.array([math.nan if text in MISSING else float(text) for text in texts])
    except ValueError:
        return None
    return None if any("_" in text for text in texts) else found


def _read_text(content: bytes, *, delimiter: str, name: str) -> list[tuple[Title, Values]]:
    rows = _rows(content, delimiter, name)
    head, block = next(rows, []), list(islice(rows, _ROWS))
    if not block or not 1 < len(head) <= _MAX_COLUMNS:
        other = next((each for each in ";\t,|" if len(head) == 1 and each in head[0]), "")
        rows_found = count_of(len(block) + bool(head), "row")
        raise DataError(
            f"{name} needs a row of names, then a row for each example, with at least two columns between "
            f"{delimiter!r}. Got {rows_found}, {count_of(len(head), 'column')} in the first"
            f"{f'; it has {other!r}, so save it with {delimiter!r}' if other else ''}."
        )
    if all(is_number(cell) for cell in head) or any(is_number(cell) and "." in cell for cell in head):
        raise DataError(f"{name} begins with numbers. Put a row with the names of the columns before them.")
    columns = [
        _Column(Title.read(cell.strip() or f"column {i}", source=name))
        for i, cell in enumerate(head, start=1)
    ]
    count = 0
    while block:
        for row in block:
            count += 1
            if len(row) != len(head):
                raise DataError(
                    f"{name}: example {count} has {count_of(len(row), 'value')}, the header names "
                    f"{len(head)} columns."
                )
        for column, cells in zip(columns, zip(*block, strict=True), strict=True):
            column.add(cells)
        block = list(islice(rows, _ROWS))
    return [(column.title, column.values()) for column in columns]


def _rows(content: bytes, delimiter: str, name: str) -> Iterator[list[str]]:
    """Rows of cells of a text in UTF-8, or in UTF-16 with its mark."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    limit = csv.field_size_limit(_MAX_BYTES)
    try:
        lines = io.TextIOWrapper(io.BytesIO(content), encoding=encoding, newline="")
        yield from filter(None, csv.reader(lines, delimiter=delimiter, strict=True))
    except UnicodeError as error:
        raise DataError(f"{name} is no text in UTF-8: {error}. Save it as UTF-8.") from error
    except csv.Error as error:
        raise DataError(f"{name} cannot be read as a table: {error}.") from error
    finally:
        csv.field_size_limit(limit)
