"""Rows for people and for other programs."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people; every row has the same columns, and the legend a sentence for some of them."""

    title: str
    rows: Sequence[Mapping[str, object]]
    legend: Mapping[str, str] = field(default_factory=dict)


def tabulate(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> Table:
    """A table from the names of its columns and the cells of each row.

    Example:
        >>> tabulate(("what", "value"), [("bits", 12)]).rows
        [{'what': 'bits', 'value': 12}]
    """
    return Table(title, [dict(zip(columns, row, strict=True)) for row in rows])


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as lines of text, with a header line; a row without some column leaves it empty.

    Example:
        >>> csv_text([{"a": 1, "b": 2}, {"b": 3}])
        'a,b\\n1,2\\n,3\\n'
    """
    file = io.StringIO()
    columns = dict.fromkeys(column for row in rows for column in row)
    writer = csv.DictWriter(file, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
