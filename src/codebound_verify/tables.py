"""Declared tables of scores: files, choices and biases (docs/format.md, sections 4.2, 5.3 and 6.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .header import CLASSES_LIMIT, SCORES_LIMIT, Header, Table
from .losses import Array
from .message import Bits
from .order import Arranged, Places
from .refusal import Refused
from .sample import Data, hash_arrays, parts, rows_at_a_time
from .weights import HEADER_LIMIT, map_tensors

Source: TypeAlias = str | Path | Mapping[str, Array]  # a file, or its arrays by name

FILE_LIMIT = 8 * (SCORES_LIMIT + 2**32) + HEADER_LIMIT  # scores and picks
SMALLEST_BIAS = 12  # 2^-12


@dataclass(frozen=True)
class DeclaredTable:
    """A table that its hash names: a score for each row and class, and the rows that a rule picked."""

    scores: Array
    picks: Places | None


@dataclass(frozen=True)
class TableChoice:
    """Choice of a table: its place in the list, from 0 on, and biases q 2^exponent, if any."""

    index: int
    exponent: int | None = None
    signs: tuple[int, ...] = ()


@dataclass(frozen=True)
class TableScores:
    """Scores of a declared table, with biases. The classes are its columns."""

    table: DeclaredTable
    biases: NDArray[np.float64]
    theta: float = 0.0

    @property
    def classes(self) -> Places:
        """The label of each column."""
        return np.arange(len(self.biases))

    def blocks(self, rows: Places) -> Iterator[tuple[Places, Array, Array]]:
        """Stored places of rows, their scores and the room that rounding needs, which is none."""
        for part in parts(len(rows), rows_at_a_time(len(self.biases))):
            values = self.table.scores[rows[part]].astype(np.float64)
            yield rows[part], values + self.biases, np.zeros(len(values))


def read_table_choice(bits: Bits, form: str, header: Header) -> TableChoice:
    """Read the table that a message counts, and its biases. It has to be declared, with the known share."""
    is_first = form == "first table"
    tables = header.known.tables
    number = 1 if is_first else bits.gamma()
    if number > len(tables):
        raise Refused(f"Message: it counts table {number}; {len(tables)} are declared.")
    table = tables[number - 1]
    if table.columns != header.sample.classes:
        raise Refused(
            f"Message: table {number} has {table.columns} columns; sample.classes is {header.sample.classes}."
        )
    if table.rows != header.known.rows:
        raise Refused(
            f"Message: table {number} was made from {table.rows} rows; known.rows is {header.known.rows}."
        )
    if is_first:
        return TableChoice(0)
    bits.note("table")
    exponent, signs = None, tuple[int, ...]()
    if bits.bits(1):
        exponent = bits.bits(4) - SMALLEST_BIAS
        signs = tuple(bits.bits(1) and 1 - 2 * bits.bits(1) for _ in range(table.columns))
    bits.note("biases")
    return TableChoice(number - 1, exponent, signs)


def read_table(source: Source, table: Table, data: Data) -> DeclaredTable:
    """The arrays of a declared table, if they are those that the header names."""
    found = _arrays(source, {"scores"} if table.picks is None else {"scores", "picks"})
    scores, picks = found["scores"], found.get("picks")
    _check_scores(scores, (len(data.y), table.columns))
    if picks is not None:
        picks = np.array(picks)  # what is hashed cannot change
        if picks.dtype != np.int64 or picks.shape != (table.picks,):
            raise Refused(
                f"Table: the picks are {picks.dtype} of shape {picks.shape}, not {table.picks} of int64."
            )
        is_rising = (np.diff(picks) > 0).all()
        if len(picks) and not (is_rising and picks[0] >= 0 and picks[-1] < len(data.y)):
            raise Refused("Table: the picks are not rising places of rows.")
    _check_hash(table.sha256, scores, *([] if picks is None else [picks]))
    return DeclaredTable(scores, picks)


def check_table(table: DeclaredTable, arranged: Arranged) -> None:
    """Refuse picks of known rows, and scores of counted rows that are not finite."""
    if table.picks is not None and np.isin(table.picks, arranged.known).any():
        raise Refused("Table: a picked row is one of the known share.")
    for part in parts(len(arranged.counted), rows_at_a_time(table.scores.shape[1])):
        if not np.isfinite(table.scores[arranged.counted[part]]).all():
            raise Refused("Table: a score of a counted row is not finite.")


def scores_of_table(table: DeclaredTable, choice: TableChoice) -> TableScores:
    """Scores of a table, with the biases of the message."""
    unit = 0.0 if choice.exponent is None else 2.0**choice.exponent
    signs = choice.signs or (0,) * table.scores.shape[1]
    return TableScores(table, unit * np.array(signs, np.float64))


def read_answers(source: Source, sha256: str, rows: int) -> Array:
    """Declared answers of a network on unlabelled inputs: a table with a row for each (section 9)."""
    scores = _arrays(source, {"scores"})["scores"]
    columns = scores.shape[1] if scores.ndim == 2 else 0
    if not (2 <= columns <= CLASSES_LIMIT and rows * columns <= SCORES_LIMIT):
        raise Refused(f"Answers: {columns} columns for {rows} inputs are too few or too many.")
    _check_scores(scores, (rows, columns))
    scores = np.array(scores)
    _check_hash(sha256, scores)
    if not np.isfinite(scores).all():
        raise Refused("Answers: a score is not finite.")
    return scores


def _arrays(source: Source, names: set[str]) -> Mapping[str, Array]:
    found: Mapping[str, Array]
    if isinstance(source, Mapping):
        found = source
    else:
        found = map_tensors(Path(source), ("F32", "F64", "I64"), FILE_LIMIT)
    if {*found} != names:
        raise Refused(f"Table: it has the tensors {', '.join(sorted(found))}; {sorted(names)} are expected.")
    return found


def _check_scores(scores: Array, shape: tuple[int, int]) -> None:
    if scores.dtype.name not in ("float32", "float64") or scores.shape != shape:
        raise Refused(
            f"Table: the scores are {scores.dtype} of shape {scores.shape}; float32 or float64 of {shape} is "
            "expected."
        )


def _check_hash(sha256: str, *arrays: Array) -> None:
    if (found := hash_arrays(*arrays)) != sha256:
        raise Refused(f"Table: its arrays have SHA-256 {found}, but the header names {sha256}.")
