"""Tables of labels and answers: columns of canonical cells (docs/ledger.md, section 2)."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError, UsageError
from codebound.run.files import require_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

IN_MEMORY = "table"
"""Name of a table that is no file."""
_FILES = (".csv", ".tsv", ".npz")
_WHOLE = re.compile(r"([+-]?)([0-9]{1,15})(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LABEL_NAMES = ("label", "y", "target")


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """Labels and answers, a column of canonical cells each; the name is the file."""

    name: str
    columns: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def cells(self, column: str) -> tuple[str, ...]:
        """Return the cells of a column."""
        if column not in self.columns:
            known = ", ".join(map(repr, list(self.columns)[:12]))
            raise DataError(f"{self.name} has no column {column!r}. It has {known or 'none'}.")
        return self.columns[column]

    def full_cells(self, column: str) -> tuple[str, ...]:
        """Return the cells of a column that must not have an empty one."""
        cells = self.cells(column)
        if "" in cells:
            raise DataError(
                f"{self.name}: row {cells.index('') + 1} has no value (empty or NaN) in column {column!r}, "
                "which needs one in every row. Fill it in, or leave the row out."
            )
        return cells


@lru_cache(maxsize=1 << 16)
def canonical_cell(text: str) -> str:
    """Return the canonical form of a cell.

    Example:
        >>> [canonical_cell(text) for text in (" yes", "1.0", "-0", "+07", "NaN", "1.50")]
        ['yes', '1', '0', '7', '', '1.50']
    """
    text = text.strip(" \t\r\n")
    if found := _WHOLE.fullmatch(text):
        number = int(found[2])
        return str(-number if found[1] == "-" else number)
    return "" if text.lower() == "nan" else text


def column_sha256(cells: Sequence[str]) -> str:
    """Return the hash of canonical cells.

    Example:
        >>> column_sha256(["ham", "spam"]) == hashlib.sha256(b"3:ham4:spam").hexdigest()
        True
    """
    try:
        parts = [_netstring(cell) for cell in cells]
    except UnicodeEncodeError as error:
        raise DataError(f"a cell is no Unicode text: {error.object!r:.80}.") from error
    return hashlib.sha256(b"".join(parts)).hexdigest()


@lru_cache(maxsize=1 << 16)
def _netstring(cell: str) -> bytes:
    content = cell.encode()
    return b"%d:%s" % (len(content), content)


def as_number(cell: str) -> float:
    """Return the number that a cell is; NaN if it is none.

    Example:
        >>> as_number("-.5e1"), as_number("high"), as_number("1e999")
        (-5.0, nan, nan)
    """
    value = float(cell) if _NUMBER.fullmatch(cell) else math.nan
    return value if math.isfinite(value) else math.nan


def numbers_of(cells: Iterable[str]) -> NDArray[np.float64]:
    """Return the numbers of a column, NaN where a cell is none."""
    return np.fromiter(map(as_number, cells), dtype=np.float64)


def split_spec(spec: str) -> tuple[Path, str | None]:
    """Return the file and the label column of ``FILE:LABEL`` or ``FILE``."""
    file, colon, label = spec.rpartition(":")
    if colon and Path(file).suffix.lower() in _FILES:
        return Path(file), label
    return Path(spec), None


def is_table_file(spec: str) -> bool:
    """Return True if a specification names a CSV, TSV or NPZ file."""
    return split_spec(spec)[0].suffix.lower() in _FILES


def label_of(table: AnswerTable, label: str | None) -> str:
    """Return the name of the label column: the one that was named, or the only usual one."""
    found = [label] if label is not None else [each for each in _LABEL_NAMES if each in table.columns][:1]
    if not found:
        raise UsageError(
            f"{table.name}: which column has the labels? Write it behind the file, as in answers.csv:label. "
            f"Columns: {', '.join(map(repr, list(table.columns)[:12]))}."
        )
    table.cells(found[0])
    return found[0]


def as_table(data: object, *, name: str = IN_MEMORY) -> AnswerTable:
    """Return a table of answers: of a file, of a mapping of columns, or of a data frame."""
    if isinstance(data, AnswerTable):
        return data
    if isinstance(data, str | Path):
        return read_table(split_spec(str(data))[0])
    if not hasattr(data, "items"):
        raise UsageError(
            f"answers are a file, a mapping of columns or a data frame. Got {type(data).__name__}."
        )
    return _made(name, {str(key): _texts(values, str(key)) for key, values in data.items()})


def read_table(path: Path, *, is_growing: bool = False) -> AnswerTable:
    """Read a CSV, TSV or NPZ file; if it is growing, a last row that is not whole is left for later."""
    try:
        require_file(path)
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as found:
                arrays = {key: found[key] for key in found.files}
            return _made(str(path), {key: _texts(each, key) for key, each in arrays.items()})
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError, KeyError) as error:
        raise DataError(f"{path} is no sound NPZ file of plain arrays: {error}.") from error
    except Exception as error:  # zipfile has errors of its own for a file that was cut
        raise DataError(f"{path} is damaged or was cut: {error}.") from error
    return parse_csv(content, str(path), is_growing=is_growing)


def parse_csv(content: bytes, name: str, *, is_growing: bool = False) -> AnswerTable:
    """Parse the bytes of a CSV file, or of a TSV file by its name; see :func:`read_table`."""
    if is_growing:
        content = content[: content.rfind(b"\n") + 1]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8 at byte {error.start}. Save it as CSV in UTF-8.") from error
    delimiter = "\t" if name.lower().endswith(".tsv") else ","
    rows: list[list[str]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        rows.extend(row for row in reader if row)
    except csv.Error as error:
        if not (is_growing and "unexpected end" in str(error)):
            raise DataError(
                f"{name} is no sound CSV file near line {reader.line_num}: {error}. Was it cut in the middle?"
            ) from error
    if "\0" in text:
        raise DataError(f"{name} has a zero byte in it: save it as CSV in UTF-8.")
    if not rows:
        raise DataError(f"{name} is empty: its first row must have the names of the columns.")
    header = [each.strip(" \t\r\n") for each in rows[0]]
    if len(set(header)) < len(header):
        twice = next(each for each in header if header.count(each) > 1)
        raise DataError(f"{name} has two columns called {twice!r}. Names of columns have to differ.")
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise DataError(
                f"{name}: row {number} has {len(row)} cells, and there are {len(header)} columns. Was the "
                "file cut in the middle, or is a comma not quoted?"
            )
    columns = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    return _made(name, dict(zip(header, columns, strict=True)), may_be_empty=is_growing)


def _made(name: str, texts: Mapping[str, Sequence[str]], *, may_be_empty: bool = False) -> AnswerTable:
    sizes = {key: len(each) for key, each in texts.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{name}: its columns differ in length: {sizes}.")
    if not may_be_empty and not max(sizes.values(), default=0):
        raise DataError(f"{name} has no rows.")
    return AnswerTable(name, {key: tuple(map(canonical_cell, each)) for key, each in texts.items()})


def _texts(values: Any, key: str) -> list[str]:
    """Return the values of an array or a list as text."""
    array = np.asarray(values)
    if array.ndim >= 2:
        stored = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return [hashlib.sha256(row.tobytes()).hexdigest() for row in stored]
    if array.ndim == 0 or array.dtype.kind not in "biufUO" or array.dtype == np.longdouble:
        raise DataError(f"column {key!r} must be a list of numbers or texts. Got {array.dtype}.")
    return [_text(each) for each in array.tolist()]


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, int) else str(value)
