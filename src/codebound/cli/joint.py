"""``codebound joint``: how sure several statements are together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.report.tables import tabulate


def command(
    files: Annotated[
        list[Path], typer.Argument(help="Certificates (.cbound) and ledgers of looks (.jsonl).")
    ],
    output: opt.Output = Format.table,
) -> None:
    """Say with what probability all statements hold together; each is checked by verify, not here.

    Example: codebound joint a.cbound b.cbound test.looks.jsonl
    """
    from codebound.audit.joint import joint_delta, read_statement

    made = [read_statement(file) for file in files]
    events = list(dict.fromkeys(each.event for each in made))
    rows = [
        (each.name, each.statement, each.delta, each.sample_sha256[:12], events.index(each.event) + 1)
        for each in made
    ]
    delta = joint_delta(made)
    columns = ("file", "statement", "delta", "sample", "event")
    record = {"delta": delta, "statements": [dict(zip(columns, row, strict=True)) for row in rows]}
    emit(record, output, [tabulate(columns, rows)], rows=record["statements"])  # type: ignore[arg-type]
    if output is Format.table:
        note(
            f"All {len(made)} statements hold together with probability at least 1 - {delta!r}: the deltas "
            f"of {len(events)} different events are added."
        )
