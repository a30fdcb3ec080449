"""``codebound reproduce``: tables and figures of the papers, made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_rows, print_table, progress_bar

if TYPE_CHECKING:
    from codebound_papers.reproduce.items import Reproduction


def reproduce(
    what: Annotated[str, typer.Argument(metavar="list|ITEM", help="list, or an item such as S-Fig2.")],
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The paper's settings, or a run that takes minutes.")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(help="Train for at most so many epochs; printed as a deviation.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results; an interrupted run continues in it "
            "(default: runs/reproduce/ITEM-quick-SEED, with -epochsN)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    models: Annotated[
        Path | None,
        typer.Option(help="Folder with pretrained networks as safetensors.", envvar="CODEBOUND_MODELS"),
    ] = None,
    deadline: Annotated[
        float,
        typer.Option(
            help="Begin no part after so many seconds: 0 shows what is finished, and says what is not.",
            show_default="none",
        ),
    ] = float("inf"),
    output: Annotated[Format, typer.Option("--format", help="How to print the result.")] = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing but the result.")] = False,
) -> None:
    """Make a table or figure of a paper again: our numbers beside the published ones, and why they differ.

    Example: codebound reproduce S-Fig2 --quick
    """
    import time

    from codebound_papers.reproduce.items import Settings, Size
    from codebound_papers.reproduce.run import find_item
    from codebound_papers.reproduce.run import reproduce as run

    if what == "list":
        _list(output, models)
        return
    item = find_item(what)
    size: Size = "full" if full else "quick"
    cut = "" if epochs is None else f"-epochs{epochs}"
    folder = Path("runs/reproduce") / f"{item.stem}-{size}-{seed}{cut}" if out is None else out
    if not quiet:
        note(f"{item.title}: {item.full if full else item.quick}.")
    try:
        with progress_bar("parts", quiet=quiet) as progress:
            settings = Settings(
                size=size,
                seed=seed,
                epochs=epochs,
                device=device,
                models=models,
                progress=progress,
                deadline=time.monotonic() + deadline,
            )
            found = run(what, folder, settings)
    except KeyboardInterrupt:
        note(f"What is finished is kept in {folder}: the same command continues.")
        raise
    _show(found.reproduction, found.record, output)
    if not quiet:
        note("Written: " + ", ".join(str(path) for path in found.files) + ".")


def _list(output: Format, models: Path | None) -> None:
    from codebound_papers.reproduce.gallery import SIZES, outcome, read_results
    from codebound_papers.reproduce.items import Settings, known_items
    from codebound_papers.reproduce.run import models_folder

    committed, settings = read_results(), Settings(models=models_folder(models))
    rows = [
        {
            "item": item.id,
            "title": item.title,
            "quick": item.quick,
            "full": item.full,
            **{f"{size} results": outcome(committed[size].get(item.id)) for size in SIZES},
            "not here": "; ".join(item.lacks(settings)) or "-",
        }
        for item in known_items().values()
    ]
    print_rows(rows, output)


def _show(found: Reproduction, record: dict[str, Any], output: Format) -> None:
    if output is Format.json:
        print_json(record)
        return
    if output is Format.csv:
        columns = dict.fromkeys(key for rows in found.tables.values() for row in rows for key in row)
        print_csv(
            [
                {"table": title, **{column: row.get(column, "") for column in columns}}
                for title, rows in found.tables.items()
                for row in rows
            ]
        )
        return
    for title, rows in found.tables.items():
        print_table([{key: _cell(value) for key, value in row.items()} for row in rows], title=title)
    for sentence in found.sentences:
        typer.echo(sentence)
    if record["not_run"]:
        typer.echo(f"\nNot run, for want of time: {'; '.join(record['not_run'])}.")
    if record["deviations"]:
        typer.echo("\nDeviations from the published settings:")
    for deviation in record["deviations"]:
        typer.echo(f"  {deviation}")


def _cell(value: object) -> object:
    """Four digits are enough for a table; the files have them all."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else value
