"""Tables of text in files, cell by cell (docs/ledger.md, section 2): ``.csv``, ``.tsv`` and ``.npz``."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..refusal import Refused, quote
from .arrays import load_arrays

BYTES_LIMIT = 1 << 31
DELIMITERS = {".csv": ",", ".tsv": "\t"}
BLANK = " \t\r\n"


def read_table(spec: str) -> dict[str, list[str]]:
    """The columns of a table by name, with the cells as they stand. ``answers.csv:label`` names its file."""
    path = Path(spec if Path(spec).exists() or ":" not in spec else spec.rpartition(":")[0])
    if path.suffix == ".npz":
        arrays = load_arrays(path)
        if len({values.shape[:1] for values in arrays.values()}) != 1:
            raise Refused(f"Data: the arrays of {path} are not equally long, or there are none.")
        return {name: _cells_of(name, values) for name, values in arrays.items()}
    if path.suffix not in DELIMITERS or path.stat().st_size > BYTES_LIMIT or not path.is_file():
        raise Refused(f"Data: {path} is no .csv, .tsv or .npz file of at most {BYTES_LIMIT} bytes.")
    content, columns = path.read_bytes(), list[list[str]]()
    try:
        if b"\0" in content:
            raise ValueError("it has a zero byte")
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
        rows = csv.reader(text, delimiter=DELIMITERS[path.suffix], strict=True)  # cells below 2^17 characters
        names = [each.strip(BLANK) for each in next(filter(None, rows), [])]
        if len({*names}) < len(names) or not names:
            raise ValueError("it has no names of columns, or one of them twice")
        columns = [[] for _ in names]
        for row in filter(None, rows):
            if len(row) != len(names):
                raise ValueError(f"line {rows.line_num} has {len(row)} cells; there are {len(names)} names")
            for column, each in zip(columns, row, strict=True):
                column.append(each)
    except (ValueError, csv.Error) as error:
        raise Refused(f"Data: {path} is no table in UTF-8 ({error}).") from None
    return dict(zip(names, columns, strict=True))


def _cells_of(name: str, values: NDArray[Any]) -> list[str]:
    """An array as cells, one for each row."""
    kind = values.dtype.kind
    if values.ndim == 0 or kind not in "biufU" or (kind == "f" and values.dtype.itemsize > 8):
        raise Refused(f"Data: array {quote(name)} is {values.dtype} of shape {values.shape}: no column.")
    if values.ndim > 1:
        rows = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        return [hashlib.sha256(row.tobytes()).hexdigest() for row in rows]
    if kind in "bf":
        values = values.astype(np.uint8 if kind == "b" else np.float64)
    return values.tolist() if kind == "U" else [repr(each) for each in values.tolist()]
