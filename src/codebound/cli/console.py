"""Output of all verbs. Results go to stdout, all else to stderr, and progress only to a terminal."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TextIO

from codebound.report.templates import Table, csv_text
from codebound.run.progress import NOBODY, Listener, progress_bar

_GLUE = "\ue000"  # stands for a space at which no line is broken; no text has it
_PER_CENT = re.compile(r"(?<=\d) (?=%)")
_LONG = 24  # letters: longer words are paths and hashes
_PIPED_WIDTH = 160  # columns when nobody looks at a terminal: files and pipes should not be folded
REFUTED, NEXT_BEST = 3, 4
"""Exit statuses where test data refute what was certified, and where a better certificate was refused."""


class Format(str, Enum):
    """Formats of a printed result."""

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
    """Prints a result on stdout: all of it as JSON, ``shown`` to people, or ``rows`` as CSV.

    Without rows the record is one line of the CSV, less what has parts of its own.
    """
    if output is Format.json:
        sys.stdout.write(json.dumps(record, indent=2, allow_nan=False) + "\n")
    elif output is Format.csv:
        if rows is None:
            assert isinstance(record, dict)
            plain = {key: value for key, value in record.items() if not isinstance(value, dict)}
            joined = {key: " ".join(map(str, each)) for key, each in plain.items() if isinstance(each, list)}
            rows = [plain | joined]
        sys.stdout.write(csv_text(rows))
    else:
        for each in shown:
            if isinstance(each, str):
                write_lines(each, sys.stdout)
            else:
                print_table(each)


def emit_rows(rows: Sequence[Mapping[str, object]], output: Format) -> None:
    """The same for a result that is nothing but rows."""
    emit(rows, output, [Table("", rows)], rows=rows)


def print_table(table: Table) -> None:
    """Prints a table on stdout; numbers are right-aligned and nothing is cut off.

    Neither a word nor a number is broken, or parted from its per cent sign; only paths and hashes may be.

    A table that is too wide for the terminal even so is printed row by row, each cell behind its column.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Drawn

    rows = table.rows
    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH, emoji=False)
    columns = list(rows[0]) if rows else []
    cells = [[printable(key), *(_keep_together(str(row[key])) for row in rows)] for key in columns]
    widths = column_widths(cells, console.width - 3 * len(columns) + 1)
    if widths is None:
        _print_stacked(table, console.width)
    else:
        if table.title:  # a title of the table itself is no wider than the table
            console.print(escape(printable(table.title)), style="italic", highlight=False)
        drawn = Drawn(box=SIMPLE_HEAD, pad_edge=False)
        for key, width in zip(columns, widths, strict=True):
            numeric = all(isinstance(row[key], int | float) for row in rows)
            drawn.add_column(escape(printable(key)), justify="right" if numeric else "left", width=width)
        for row in zip(*(column[1:] for column in cells), strict=True):
            drawn.add_row(*(escape(_fold(text, width)) for text, width in zip(row, widths, strict=True)))
        console.print(drawn)
    for column, sentence in table.legend.items():
        write_lines(f"{column}: {sentence}", sys.stdout, indent="  ")
    if table.legend:
        sys.stdout.write("\n")


def printable(text: str) -> str:
    r"""The text with control characters escaped: a stranger's file must not draw on the terminal.

    So are the bytes of a file name that is no text.

    Example:
        >>> print(printable("a\x1b[2Jb\udcff"))
        a\x1b[2Jb\udcff
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _lines(text: str) -> list[str]:
    """The lines of a text, each printable."""
    return [printable(line) for line in text.rstrip("\n").split("\n")]


def _keep_together(text: str) -> str:
    """The printable text with per cent signs that stay with their numbers."""
    return _PER_CENT.sub(_GLUE, "\n".join(_lines(text)))


def _fold(text: str, width: int) -> str:
    """A cell in lines of at most that width."""
    lines = (textwrap.wrap(line, width, break_on_hyphens=False) or [""] for line in text.split("\n"))
    return "\n".join("\n".join(parts) for parts in lines).replace(_GLUE, " ")


def _print_stacked(table: Table, width: int) -> None:
    """Prints a table row by row."""
    names = max(len(key) for key in table.rows[0]) + 2
    sys.stdout.write(f"{printable(table.title)}\n\n" if table.title else "\n")
    for row in table.rows:
        for key, value in row.items():
            lines = _fold(_keep_together(str(value)), max(width - names, _LONG)).split("\n")
            sys.stdout.write(f"{printable(key):<{names}}{lines[0]}\n")
            sys.stdout.writelines(f"{'':<{names}}{line}\n" for line in lines[1:])
        sys.stdout.write("\n")


def column_widths(cells: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Widths of columns that together fit into ``room`` and break no short word; None where there are none.

    Example:
        >>> column_widths([["what", "a long name"], ["value", "0.39427"]], 15)
        [8, 7]
        >>> column_widths([["0.39427"], ["0.15743"]], 13) is None
        True
    """
    wanted = [max(map(len, column)) for column in cells]
    least = [
        min(_LONG, max(len(word) for cell in column for word in cell.split() or [""])) for column in cells
    ]
    rest = room - sum(least)
    if rest < 0:
        return None
    for left, at in enumerate(sorted(range(len(cells)), key=lambda at: wanted[at] - least[at])):
        more = min(wanted[at] - least[at], rest // (len(cells) - left))
        least[at], rest = least[at] + more, rest - more
    return least


def cell(value: object) -> object:
    """Four digits are enough for a table; the files have them all."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else value


def note(text: str) -> None:
    """Prints lines for people on stderr."""
    write_lines(text, sys.stderr)


def write_lines(text: str, stream: TextIO, *, indent: str = "") -> None:
    """Prints lines for people; on a terminal no word is broken, and commands stay in one piece."""
    room = shutil.get_terminal_size().columns - 2 * len(indent) if stream.isatty() else math.inf
    for line in _lines(text):
        is_item = line.startswith("  - ")
        is_whole = len(line) <= room or "codebound-verify " in line or (line.startswith(" ") and not is_item)
        inner = "    " if is_item else indent * 2
        if not is_whole:
            width = int(room) - 4 * is_item
            parts = textwrap.wrap(_keep_together(line), width, break_long_words=False, break_on_hyphens=False)
            line = f"\n{inner}".join(parts).replace(_GLUE, " ")
        stream.write(f"{indent}{line}\n")


def listener(*, quiet: bool) -> Listener:
    """Lines and bars on stderr, or nothing."""
    return NOBODY if quiet else Listener(note, progress_bar)
