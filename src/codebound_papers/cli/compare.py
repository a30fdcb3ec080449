"""``codebound compare``: certified bounds, hold-out bounds and all published ones in one table."""

from __future__ import annotations

import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_table, progress_bar
from codebound.cli.decode import read_arrays
from codebound.cli.loading import load_samples, new_folder
from codebound.cli.options import PARALLEL, Address, Workers, given_engine
from codebound.errors import UsageError
from codebound_papers.cli.compare_epochs import compare_epochs, csv_text, load_weights

if TYPE_CHECKING:
    from torch import nn

    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine
    from codebound.progress import Progress
    from codebound_papers.compare.facts import MeasurePlan
    from codebound_papers.compare.table import Comparison

_WHAT = "What is compared"
_RUN = "The run"


def compare(
    model: Annotated[
        str, typer.Option(help="Zoo name such as mlp:depth=5,width=784, or package.module:factory.")
    ],
    data: Annotated[
        str, typer.Option(help="The sample: name, .npz file, image folder, or package.module:factory.")
    ],
    weights: Annotated[
        Path | None, typer.Option(help="Trained weights: safetensors, or a checkpoint (default: untrained).")
    ] = None,
    data_folder: Annotated[Path | None, typer.Option(help="Folder that holds the named dataset.")] = None,
    test: Annotated[
        str | None,
        typer.Option(help="Test sample, never used for any choice: adds hold-out bounds and test errors."),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(help="Keep this fraction of --data away from the sample and use it like --test."),
    ] = None,
    certificate: Annotated[
        list[Path] | None,
        typer.Option(
            help="A .cbound file for this sample; may be repeated. Each is verified first.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    base: Annotated[
        list[Path] | None,
        typer.Option(
            help="Safetensors file of the base that a --certificate names; may be repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(
            help="Inputs that a --certificate about f was made with (C-12b), written like --data.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify/--no-certify",
            help="Make a quick certificate where no --certificate is given.",
            rich_help_panel=_WHAT,
        ),
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
        typer.Option(
            "--like-for-like",
            help="Divide the bars of figures by n and take the root, as in the other bounds.",
            rich_help_panel=_WHAT,
        ),
    ] = False,
    margin_share: Annotated[
        float,
        typer.Option(
            help="Share of the sample whose margin may be at most gamma; 0 takes the smallest margin.",
            rich_help_panel=_WHAT,
        ),
    ] = 0.05,
    examples: Annotated[
        int,
        typer.Option(
            help="Examples for cushions and Jacobians, drawn at random, and at most 50 for smoothness; "
            "margins are those of all.",
            rich_help_panel=_WHAT,
        ),
    ] = 1000,
    initial: Annotated[
        Path | None,
        typer.Option(
            help="Weights before training: adds the bound relative to the distance from them.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="Failure probability.", rich_help_panel=_WHAT)] = 0.05,
    chunk_size: Annotated[
        int, typer.Option(help="Examples at a time; bounds the memory.", rich_help_panel=_RUN)
    ] = 256,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.", rich_help_panel=_RUN)] = "auto",
    seed: Annotated[
        int, typer.Option(help="Seed of examples, noise, pruning and the search.", rich_help_panel=_RUN)
    ] = 0,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Evaluate examples in parallel, on the CPU: local (processes of this machine) or ray. Parts "
            "are whole chunks, so the result is the same.",
            rich_help_panel=PARALLEL,
        ),
    ] = None,
    workers: Workers = None,
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="New folder for compare.json, compare.csv, compare.svg and a page. With --over it may exist "
            "(default: RUN/compare).",
            rich_help_panel=_RUN,
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="How to print the result.", rich_help_panel=_RUN)
    ] = Format.table,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Nothing but the result.", rich_help_panel=_RUN)
    ] = False,
) -> None:
    """Compare all bounds on a network: certified ones, hold-out bounds, and every published one.

    Example: codebound compare --model mlp --weights runs/w/model.safetensors --data digits --holdout 0.2
    """
    from codebound.data.load import load_dataset
    from codebound.device import resolve_device
    from codebound_papers.compare.facts import MeasurePlan

    measuring = given_engine(engine, workers, address)
    place = resolve_device("cpu" if engine is not None and device == "auto" else device)
    plan = MeasurePlan(
        margin_share=margin_share,
        examples=examples,
        delta=delta,
        chunk_size=chunk_size,
        device=str(place),
        seed=seed,
    )
    sample, test_set = load_samples(data, data_folder, test=test, holdout=holdout)
    settings = {
        "model": model,
        "weights": None if weights is None else str(weights),
        "initial": None if initial is None else str(initial),
        "data": data,
        "test": test,
        "holdout": holdout,
        "certificates": [str(path) for path in certificate or ()],
        "bases": [str(path) for path in base or ()],
        "unlabelled": unlabelled,
        "certify": certify,
        "like_for_like": like_for_like,
        "margin_share": margin_share,
        "examples": examples,
        "delta": delta,
        "chunk_size": chunk_size,
        "device": plan.device,
        "seed": seed,
    }
    if over is not None:
        if weights or initial or certificate or base or unlabelled:
            raise UsageError(
                "--over takes its weights from the run and no certificate: leave out --weights, --initial, "
                "--certificate, --base and --unlabelled."
            )
        run = partial(compare_epochs, over)
    else:
        fresh = (
            None if unlabelled is None else load_dataset(unlabelled, role="unlabelled", folder=data_folder)
        )
        run = partial(_at_once, unlabelled=fresh)
    with measuring as measurers:
        run(
            settings=settings,
            plan=plan,
            samples=(sample, test_set),
            engine=measurers,
            out=out,
            output=output,
            quiet=quiet,
        )


def _at_once(
    settings: dict[str, Any],
    plan: MeasurePlan,
    *,
    samples: tuple[Dataset, Dataset | None],
    unlabelled: Dataset | None,
    engine: Engine | None,
    out: Path | None,
    output: Format,
    quiet: bool,
) -> None:
    """Compares the bounds on one network."""
    from codebound.nets.zoo import ZOO
    from codebound_papers.compare.table import compare as run

    sample, test_set = samples
    model = settings["model"]
    network = load_weights(model, sample, settings["weights"])
    before = None if settings["initial"] is None else load_weights(model, sample, settings["initial"])
    if not quiet:
        note(
            f"Comparing bounds on {model}, {settings['data']}: {sample.n:,} examples, "
            f"{min(plan.examples, sample.n):,} of them for noise stability; {plan.device}."
        )
    with (
        nullcontext() if out is None else new_folder(out) as folder,
        progress_bar("compare", quiet=quiet) as progress,
    ):
        found = run(
            network,
            sample,
            test_set,
            certificates=[Path(path) for path in settings["certificates"]],
            bases=[read_arrays(Path(path)) for path in settings["bases"]],
            unlabelled=unlabelled,
            effort="quick" if settings["certify"] else None,
            plan=plan,
            initial=before,
            like_for_like=settings["like_for_like"],
            factory="" if model.partition(":")[0] in ZOO else model,
            engine=engine,
            progress=progress,
        )
    record = comparison_record(found, samples, settings)
    if folder is not None:
        save_comparison(folder, record)
    _show(record, output)
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
    from codebound.files import write_atomically
    from codebound_papers.report.comparison import compare_figure, compare_page
    from codebound_papers.report.figures import standalone

    settings, sample = record["settings"], record["sample"]
    page = compare_page(
        record,
        title=f"Bounds on {settings['model']}, {settings['data']}",
        subtitle=f"{sample['n']:,} examples, {sample['classes']} classes; made by codebound "
        f"{settings['codebound']}",
    )
    for name, text in (
        ("compare.json", json.dumps(record, indent=1, allow_nan=False) + "\n"),
        ("compare.csv", csv_text(record["rows"])),
        ("compare.svg", standalone(compare_figure(record))),
        ("compare.html", page),
    ):
        write_atomically(folder / name, text.encode())


def end_of_demo(
    model: nn.Module,
    samples: tuple[Dataset, Dataset | None],
    folder: Path,
    settings: dict[str, Any],
    progress: Progress,
) -> str:
    """Compares a network with the certificate in a folder, and says where the page is."""
    from codebound_papers.compare.table import compare as run

    certificates = [folder / "certificate.cbound"]
    found = run(model, *samples, certificates=certificates, effort=None, progress=progress)
    save_comparison(folder, comparison_record(found, samples, settings))
    return f"Every published bound beside it: {folder / 'compare.html'}"


def _show(record: dict[str, Any], output: Format) -> None:
    from codebound_papers.report.comparison import compare_table, refused_table

    if output is Format.json:
        print_json(record)
        return
    if output is Format.csv:
        print_csv(record["rows"])
        return
    print_table(compare_table(record).rows)
    refused = refused_table(record)
    if refused is not None:
        print_table(refused.rows, title=refused.title)
    for text in record["notes"]:
        typer.echo(text)
