"""``codebound reproduce``: tables and figures of the papers, made again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, cell, emit, note
from codebound.cli.options import RUN, option
from codebound.report.templates import Table
from codebound.run.files import read_json
from codebound.run.progress import progress_bar

_ITEM = "list, or an item such as S-Fig2."
_FULL = "The paper's settings, or a run that takes minutes."
_EPOCHS = "Train for at most so many epochs; printed as a deviation."
_OUT = """Folder for the results; an interrupted run continues in it (default:
runs/reproduce/ITEM-quick-SEED, with -epochsN)."""
_MODELS = "Folder with pretrained networks as safetensors."
_DEADLINE = "Begin no part after so many seconds: 0 shows what is finished, and says what is not."

_LEGEND = "\nThe verdicts are those of the largest run that came with codebound; --format json has costs."


def command(
    what: Annotated[str, typer.Argument(metavar="list|ITEM", help=_ITEM)],
    full: Annotated[bool, option(_FULL, None, "--full/--quick")] = False,
    epochs: Annotated[int | None, option(_EPOCHS)] = None,
    out: Annotated[Path | None, option(_OUT, RUN)] = None,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    models: Annotated[Path | None, typer.Option(help=_MODELS, envvar="CODEBOUND_MODELS")] = None,
    deadline: Annotated[float, typer.Option(help=_DEADLINE, show_default="none")] = float("inf"),
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
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
            chosen = Settings(size=size, seed=seed, epochs=epochs, device=device, models=models)
            end = time.monotonic() + deadline
            found = run(what, folder, replace(chosen, progress=progress, deadline=end))
    except KeyboardInterrupt:
        note(f"What is finished is kept in {folder}: the same command continues.")
        raise
    rows = [{"table": title, **row} for title, lines in found.record["tables"].items() for row in lines]
    emit(found.record, output, _format(found.record), rows=rows)
    if not quiet:
        note("Written: " + ", ".join(str(path) for path in found.files) + ".")


def _list(output: Format, models: Path | None) -> None:
    from codebound_papers.reproduce.items import OUTCOMES, Settings, list_items
    from codebound_papers.reproduce.run import models_folder

    shipped = read_json(OUTCOMES, advice="Install codebound again.")
    settings = Settings(models=models_folder(models))
    rows = [
        {
            "item": item.id,
            "title": item.title,
            "quick": item.quick,
            "full": item.full,
            **shipped[item.id],
            "not here": "; ".join(item.lacks(settings)) or "-",
        }
        for item in list_items().values()
    ]
    lines = [f"{row['item']:<16} {row['verdict']:<15} {str(row['title']).partition(' (')[0]}" for row in rows]
    emit(rows, output, [*lines, _LEGEND], rows=rows)


def _format(record: dict[str, Any]) -> Iterator[Table | str]:
    for title, rows in record["tables"].items():
        yield Table(title, [{key: cell(value) for key, value in row.items()} for row in rows])
    yield from record["sentences"]
    if record["not_run"]:
        yield f"\nNot run, for want of time: {'; '.join(record['not_run'])}."
    if record["deviations"]:
        yield "\nDeviations from the published settings:"
    for deviation in record["deviations"]:
        yield f"  {deviation}"
