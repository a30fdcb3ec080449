"""What all verbs share: results on stdout, everything else on stderr, progress only for a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from codebound.progress import NOBODY, Listener, silent
from codebound.report.tables import Table, csv_text

if TYPE_CHECKING:
    from codebound.progress import Progress

_PIPED_WIDTH = 160  # columns when nobody looks at a terminal: files and pipes should not be folded


REFUTED = 3
"""Exit status where test data refute what was certified: a script must not miss it."""


class Format(str, Enum):
    """How a result is printed."""

    table = "table"
    json = "json"
    csv = "csv"


def emit(
    record: object,
    output: Format,
    shown: Iterable[Table | str],
    *,
    rows: Sequence[Mapping[str, object]] | None = None,
) -> None:
    """Prints a result on stdout, as it was asked for.

    Args:
        record: The whole of it, one JSON document.
        output: The format.
        shown: What people see: tables, and lines between them.
        rows: What goes into a CSV (default: the record as one line, without what has parts of its own).
    """
    if output is Format.json:
        sys.stdout.write(json.dumps(record, indent=2, allow_nan=False) + "\n")
    elif output is Format.csv:
        if rows is None:
            assert isinstance(record, dict)
            rows = [{key: value for key, value in record.items() if not isinstance(value, dict)}]
        sys.stdout.write(csv_text(rows))
    else:
        for each in shown:
            if isinstance(each, str):
                sys.stdout.write(f"{each}\n")
            else:
                print_table(each)


def emit_rows(rows: Sequence[Mapping[str, object]], output: Format) -> None:
    """The same for a result that is nothing but rows."""
    emit(rows, output, [Table("", rows)], rows=rows)


def print_table(table: Table) -> None:
    """Prints a table on stdout; numbers are right-aligned, nothing is cut off."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Drawn

    rows = table.rows
    drawn = Drawn(title=table.title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for key in rows[0] if rows else ():
        numeric = all(isinstance(row[key], int | float) for row in rows)
        drawn.add_column(escape(key), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(escape(str(value)) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(drawn)
    for column, sentence in table.legend.items():
        sys.stdout.write(f"  {column}: {sentence}\n")
    if table.legend:
        sys.stdout.write("\n")


def cell(value: object) -> object:
    """Four digits are enough for a table; the files have them all."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else value


def note(text: str) -> None:
    """Prints a line for people on stderr."""
    sys.stderr.write(text.rstrip("\n") + "\n")


def listener(*, quiet: bool) -> Listener:
    """Lines and bars on stderr, or nothing."""
    return NOBODY if quiet else Listener(note, progress_bar)


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A progress callable that draws a bar on stderr, and nothing when stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, note="")

        def advance(done: int, total: int | None, note: str = "") -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield advance
