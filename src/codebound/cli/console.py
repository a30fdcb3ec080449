"""What all verbs share: results on stdout, everything else on stderr, progress only for a terminal."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codebound.progress import Progress


_PIPED_WIDTH = 160  # columns when nobody looks at a terminal: files and pipes should not be folded


class Format(str, Enum):
    """How a result is printed."""

    table = "table"
    json = "json"
    csv = "csv"


def print_json(record: object) -> None:
    """Prints one JSON document on stdout."""
    sys.stdout.write(json.dumps(record, indent=2, allow_nan=False) + "\n")


def print_csv(rows: Sequence[Mapping[str, object]]) -> None:
    """Prints rows with a header line on stdout."""
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def print_table(rows: Sequence[Mapping[str, object]], *, title: str = "") -> None:
    """Prints rows as a table on stdout; numbers are right-aligned, nothing is cut off."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for key in rows[0] if rows else ():
        numeric = all(isinstance(row[key], int | float) for row in rows)
        table.add_column(escape(key), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(table)


def print_rows(rows: Sequence[Mapping[str, object]], output: Format) -> None:
    """Prints rows in the format that was asked for."""
    if output is Format.json:
        print_json(rows)
    elif output is Format.csv:
        print_csv(rows)
    else:
        print_table(rows)


def note(text: str) -> None:
    """Prints a line for people on stderr."""
    sys.stderr.write(text.rstrip("\n") + "\n")


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A progress callable that draws a bar on stderr, and nothing when stderr is no terminal."""
    from codebound.progress import silent

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
