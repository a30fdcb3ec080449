"""``codebound compare``: certified bounds, hold-out bounds and all published ones in one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note, progress_bar
from codebound.cli.loading import load_network, load_samples, optional_folder
from codebound.cli.options import RUN, given_engine, option, record_options
from codebound.errors import UsageError
from codebound.files import write_json, write_text
from codebound.report.tables import Table, csv_text
from codebound_papers.cli import options as own

if TYPE_CHECKING:
    from torch import nn

    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine
    from codebound.progress import Progress
    from codebound_papers.compare.table import Comparison
    from codebound_papers.measure.record import MeasureSettings

_WHAT = "What is compared"
_OF_ONE_NETWORK = ("weights", "initial", "certificate", "base", "unlabelled")


def command(
    model: opt.Model,
    data: opt.Data,
    weights: opt.Weights = None,
    data_folder: opt.DataFolder = None,
    test: opt.Test = None,
    holdout: opt.Holdout = None,
    certificate: Annotated[
        list[Path] | None,
        option("A .cbound file for this sample; may be repeated. Each is verified first.", _WHAT),
    ] = None,
    base: Annotated[
        list[Path] | None,
        option("Safetensors file of the base that a --certificate names; may be repeated.", _WHAT),
    ] = None,
    unlabelled: Annotated[
        str | None,
        option("Inputs that a --certificate about f was made with (C-12b), written like --data.", _WHAT),
    ] = None,
    certify: Annotated[
        bool,
        option("Make a quick certificate where no --certificate is given.", _WHAT, "--certify/--no-certify"),
    ] = True,
    over: Annotated[
        tuple[str, Path] | None,
        typer.Option(
            metavar="epochs RUN",
            help="Along a training: RUN is a folder of train --keep-epochs. An interrupted one goes on.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    like_for_like: Annotated[
        bool,
        option(
            "Divide the bars of figures by n and take the root, as in the other bounds.",
            _WHAT,
            "--like-for-like",
        ),
    ] = False,
    margin_share: Annotated[
        float,
        option("Share of the sample whose margin may be at most gamma; 0 takes the smallest margin.", _WHAT),
    ] = 0.05,
    examples: Annotated[
        int,
        option(
            "Examples for cushions and Jacobians, drawn at random, and at most 50 for smoothness; "
            "margins are those of all.",
            _WHAT,
        ),
    ] = 1000,
    initial: own.Initial = None,
    delta: opt.Delta = 0.05,
    chunk_size: own.ChunkSize = 256,
    device: opt.Device = "auto",
    seed: opt.Seed = 0,
    engine: opt.EngineKind = None,
    workers: opt.Workers = None,
    address: opt.Address = None,
    out: Annotated[
        Path | None,
        option(
            "New folder for compare.json, compare.csv, compare.svg and a page. With --over it may exist "
            "(default: RUN/compare).",
            RUN,
        ),
    ] = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Compare all bounds on a network: certified ones, hold-out bounds, and every published one.

    Example: codebound compare --model mlp --weights runs/w/model.safetensors --data digits --holdout 0.2
    """
    settings = record_options(locals())
    from codebound.data.load import load_dataset
    from codebound.device import resolve_device
    from codebound.nets.loading import factory_of, load_arrays
    from codebound_papers.compare.table import compare
    from codebound_papers.measure.record import MeasureSettings

    if over is not None and any(settings[name] for name in _OF_ONE_NETWORK):
        raise UsageError(
            "--over takes its weights from the run and no certificate: leave out --weights, --initial, "
            "--certificate, --base and --unlabelled."
        )
    place = resolve_device("cpu" if engine is not None and device == "auto" else device)
    settings["device"] = str(place)
    plan = MeasureSettings(
        margin_share=margin_share,
        examples=examples,
        delta=delta,
        chunk_size=chunk_size,
        device=str(place),
        seed=seed,
    )
    with given_engine(engine, workers, address) as measurers:
        sample, test_set = samples = load_samples(data, data_folder, test=test, holdout=holdout)
        if over is not None:
            _compare_epochs(over, settings, plan, samples, measurers, out=out, output=output, quiet=quiet)
            return
        network = load_network(model, sample, weights)
        if not quiet:
            note(
                f"Comparing bounds on {model}, {data}: {sample.n:,} examples, "
                f"{min(examples, sample.n):,} of them for noise stability; {place}."
            )
        fresh = (
            None if unlabelled is None else load_dataset(unlabelled, role="unlabelled", folder=data_folder)
        )
        with optional_folder(out) as folder, progress_bar("compare", quiet=quiet) as progress:
            found = compare(
                network,
                sample,
                test_set,
                certificates=certificate or (),
                bases=[load_arrays(path) for path in base or ()],
                unlabelled=fresh,
                effort="quick" if certify else None,
                settings=plan,
                initial=None if initial is None else load_network(model, sample, initial),
                like_for_like=like_for_like,
                factory=factory_of(model),
                engine=measurers,
                progress=progress,
            )
    record = comparison_record(found, samples, settings)
    if folder is not None:
        save_comparison(folder, record)
    emit(record, output, _shown(record), rows=record["rows"])
    if folder is not None and not quiet:
        note(f"Page with the picture: {folder / 'compare.html'}")


def comparison_record(
    found: Comparison, samples: tuple[Dataset, Dataset | None], settings: dict[str, Any]
) -> dict[str, Any]:
    """The comparison with what it was made of, as JSON values."""
    from codebound import __version__

    sample, test_set = samples
    return {
        **found.record(),
        "sample": _described(sample),
        "test": None if test_set is None else _described(test_set),
        "settings": settings | {"codebound": __version__},
    }


def _described(sample: Dataset) -> dict[str, Any]:
    return {"name": sample.name, "n": sample.n, "classes": sample.classes, "sha256": sample.sha256}


def save_comparison(folder: Path, record: dict[str, Any]) -> None:
    """Writes the record, its rows, the picture and the page."""
    from codebound_papers.report.comparison import compare_figure, compare_page
    from codebound_papers.report.figures import standalone

    settings, sample = record["settings"], record["sample"]
    page = compare_page(
        record,
        title=f"Bounds on {settings['model']}, {settings['data']}",
        subtitle=f"{sample['n']:,} examples, {sample['classes']} classes; made by codebound "
        f"{settings['codebound']}",
    )
    write_json(folder / "compare.json", record)
    for name, text in (
        ("compare.csv", csv_text(record["rows"])),
        ("compare.svg", standalone(compare_figure(record))),
        ("compare.html", page),
    ):
        write_text(folder / name, text)


def end_of_demo(
    model: nn.Module,
    samples: tuple[Dataset, Dataset | None],
    folder: Path,
    settings: dict[str, Any],
    progress: Progress,
) -> str:
    """Compares a network with the certificate in a folder, and says where the page is."""
    from codebound_papers.compare.table import compare

    certificates = [folder / "certificate.cbound"]
    found = compare(model, *samples, certificates=certificates, effort=None, progress=progress)
    save_comparison(folder, comparison_record(found, samples, settings))
    return f"Every published bound beside it: {folder / 'compare.html'}"


def _shown(record: dict[str, Any]) -> Iterator[Table | str]:
    from codebound_papers.report.comparison import compare_table, refused_table

    yield compare_table(record)
    if (refused := refused_table(record)) is not None:
        yield refused
    yield from record["notes"]


def _compare_epochs(
    over: tuple[str, Path],
    settings: dict[str, Any],
    plan: MeasureSettings,
    samples: tuple[Dataset, Dataset | None],
    engine: Engine | None,
    *,
    out: Path | None,
    output: Format,
    quiet: bool,
) -> None:
    """Evaluates the published bounds on every kept epoch of a training run."""
    from codebound import __version__
    from codebound.files import make_folder
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
        name: value for name, value in settings.items() if name not in (*_OF_ONE_NETWORK, "certify", "over")
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
                        load_network(settings["model"], sample, path),
                        run.sample,
                        test_set,
                        epoch=epoch,
                        settings=plan,
                        like_for_like=settings["like_for_like"],
                        engine=engine,
                    ).record(),
                )
            )
    rows = [_flat(point) for point in points]
    write_text(folder / "epochs.svg", epochs_figure(points))
    write_text(folder / "epochs.csv", csv_text(rows))
    emit(
        {"epochs": points, "settings": identity},
        output,
        [
            Table("", [_brief(point) for point in points]),
            "None of the published bounds is a guarantee; a certificate is about one network.",
        ],
        rows=rows,
    )
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
