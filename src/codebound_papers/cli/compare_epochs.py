"""``codebound compare --over epochs``: the published bounds along a training run."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_table, progress_bar
from codebound.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine
    from codebound_papers.compare.facts import MeasurePlan


def compare_epochs(
    over: tuple[str, Path],
    settings: dict[str, Any],
    plan: MeasurePlan,
    *,
    samples: tuple[Dataset, Dataset | None],
    engine: Engine | None,
    out: Path | None,
    output: Format,
    quiet: bool,
) -> None:
    """Evaluates the published bounds on every kept epoch of a training run."""
    from codebound import __version__
    from codebound.files import make_folder, write_atomically
    from codebound.store import Journal
    from codebound_papers.compare.epochs import epoch_point, open_training_run
    from codebound_papers.report.comparison import epochs_figure

    what, run_folder = over
    if what != "epochs":
        raise UsageError(f"bounds are compared --over epochs RUN. Got {what!r}.")
    sample, test_set = samples
    run = open_training_run(run_folder, sample)
    folder = run_folder / "compare" if out is None else out
    make_folder(folder)
    kept = {
        name: value
        for name, value in settings.items()
        if name not in ("weights", "initial", "certificates", "bases", "unlabelled", "certify")
    }
    identity = {**kept, "run": dict(run.settings), "codebound": __version__}
    if not quiet:
        note(
            f"Comparing bounds on {settings['model']} after {len(run.weights)} epochs of {run_folder}; what "
            f"is finished is kept in {folder}, and the same command goes on."
        )
    points = []
    with progress_bar("epochs", quiet=quiet) as progress:
        cells = Journal(folder / "epochs.json", run=identity)
        for done, (epoch, path) in enumerate(run.weights.items()):
            progress(done, len(run.weights), f"epoch {epoch}")
            points.append(
                cells.get(
                    str(epoch),
                    lambda epoch=epoch, path=path: epoch_point(  # type: ignore[misc]
                        load_weights(settings["model"], sample, path),
                        run.sample,
                        test_set,
                        epoch=epoch,
                        plan=plan,
                        like_for_like=settings["like_for_like"],
                        engine=engine,
                    ).record(),
                )
            )
    write_atomically(folder / "epochs.svg", epochs_figure(points).encode())
    write_atomically(folder / "epochs.csv", csv_text([_flat(point) for point in points]).encode())
    if output is Format.json:
        print_json({"epochs": points, "settings": identity})
    elif output is Format.csv:
        print_csv([_flat(point) for point in points])
    else:
        print_table([_brief(point) for point in points])
        typer.echo("None of the published bounds is a guarantee; a certificate is about one network.")
    if not quiet:
        note(f"Picture: {folder / 'epochs.svg'}")


def _flat(point: Mapping[str, Any]) -> dict[str, object]:
    """A point as one line: bounds as decimal logarithms, each in a column of its own."""
    plain = {name: value for name, value in point.items() if name != "log10"}
    return plain | {f"log10 {name}": value for name, value in point["log10"].items()}


def _brief(point: Mapping[str, Any]) -> dict[str, object]:
    """A point for a terminal: errors, margins, and the smallest of the bounds."""
    finite = {name: value for name, value in point["log10"].items() if value is not None}
    least = min(finite, key=lambda name: finite[name], default=None)
    return {
        "epoch": point["epoch"],
        "training error": f"{point['train_error']:.2%}",
        "test error": "-" if point["test_error"] is None else f"{point['test_error']:.2%}",
        "gamma": f"{point['gamma']:.4g}",
        "smallest margin": f"{point['least_margin']:.4g}",
        "smallest published bound": "infinite" if least is None else f"{10.0 ** finite[least]:.4g} ({least})",
    }


def load_weights(model: str, sample: Dataset, weights: str | Path | None) -> nn.Module:
    """The network with its weights."""
    from codebound.nets.loading import load_model

    path = None if weights is None else Path(weights)
    return load_model(model, input_shape=sample.input_shape, classes=sample.classes, weights=path)


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows with a header line."""
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
