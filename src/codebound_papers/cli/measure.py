"""``codebound measure``: norms, spectra, tails, noise stability and margins of a network, layer by layer."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_table, progress_bar
from codebound.cli.loading import new_folder
from codebound.cli.options import PARALLEL, Address, Workers, given_engine
from codebound.errors import UsageError
from codebound.files import write_text

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.data.dataset import Dataset
    from codebound_papers.measure.noise.smoothness import Smoothness
    from codebound_papers.measure.summary import Workload

_STABILITY = "Noise stability"
_RUN = "The run"
_NOISE, _DRAWS = 0.1, 5  # size of Gaussian noise relative to the activation, and draws of any noise
_NUMBERS = 1024  # per layer, of the projected noise: the default of the compressor
_PROBES = 64


def measure(
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
    examples: Annotated[
        int | None,
        typer.Option(
            help="Examples to measure on, drawn at random (default: 1000, fewer for large networks)."
        ),
    ] = None,
    families: Annotated[
        str, typer.Option(help="What to measure, separated by commas.")
    ] = "spectra,tails,stability,margins",
    tails_of: Annotated[
        str, typer.Option(help="Fit tails to: eigenvalues, or absolute or positive weights (slow).")
    ] = "eigenvalues",
    interlayer: Annotated[
        str,
        typer.Option(
            help="Jacobians: none, output (each layer to the output) or all (each to all later ones).",
            rich_help_panel=_STABILITY,
        ),
    ] = "output",
    jacobian: Annotated[
        str,
        typer.Option(
            help="Norms of Jacobians: exact, probes (64 random ones), or auto: probes for large networks.",
            rich_help_panel=_STABILITY,
        ),
    ] = "auto",
    smoothness: Annotated[
        str,
        typer.Option(
            help="Noise for smoothness: gaussian, project (that of random projection; slow) or none.",
            rich_help_panel=_STABILITY,
        ),
    ] = "gaussian",
    biases: Annotated[
        str,
        typer.Option(
            help="augmented: part of the weights, as the theory needs; separate: left out, as published.",
            rich_help_panel=_STABILITY,
        ),
    ] = "augmented",
    outliers: Annotated[
        float,
        typer.Option(help="Fraction of the examples that may be left out.", rich_help_panel=_STABILITY),
    ] = 0.0,
    initial: Annotated[
        Path | None,
        typer.Option(
            help="Weights before training: adds cushions relative to the distance from them.",
            rich_help_panel=_STABILITY,
        ),
    ] = None,
    chunk_size: Annotated[
        int, typer.Option(help="Examples at a time; bounds the memory.", rich_help_panel=_RUN)
    ] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.", rich_help_panel=_RUN)] = "auto",
    seed: Annotated[
        int, typer.Option(help="Seed of examples, noise, probes and resamples.", rich_help_panel=_RUN)
    ] = 0,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Measure margins and noise stability in parallel, on the CPU: local (processes of this "
            "machine) or ray. Parts are whole chunks, so the result is the same.",
            rich_help_panel=PARALLEL,
        ),
    ] = None,
    workers: Workers = None,
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for measure.json and a page with figures.", rich_help_panel=_RUN),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="How to print the result.", rich_help_panel=_RUN)
    ] = Format.table,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Nothing but the result.", rich_help_panel=_RUN)
    ] = False,
) -> None:
    """Measure a network layer by layer: norms, spectra, tails, noise stability, margins.

    Example: codebound measure --model mlp --weights runs/w/model.safetensors --data digits
    """
    from codebound import __version__
    from codebound.data.load import load_dataset
    from codebound.device import resolve_device
    from codebound.nets.loading import load_model
    from codebound_papers.measure.noise.meter import StabilityPlan
    from codebound_papers.measure.summary import SummaryPlan, summarise, workload

    measuring = given_engine(engine, workers, address)
    place = resolve_device("cpu" if engine is not None and device == "auto" else device)
    noise = _noise(smoothness, seed)
    whole = load_dataset(data, folder=data_folder)
    shape, classes = whole.input_shape, whole.classes
    network = load_model(model, input_shape=shape, classes=classes, weights=weights)
    before = (
        None if initial is None else load_model(model, input_shape=shape, classes=classes, weights=initial)
    )
    work = workload(network, first_example(whole, network))
    sample = drawn(whole, work.examples if examples is None else examples, seed)
    probes = _probes(jacobian, work, interlayer)
    plan = SummaryPlan(
        families=tuple(name.strip() for name in families.split(",")),  # type: ignore[misc]  # names are checked there
        tails_of=tails_of,  # type: ignore[arg-type]
        stability=StabilityPlan(
            interlayer=interlayer,  # type: ignore[arg-type]
            biases=biases,  # type: ignore[arg-type]
            probes=probes,
            smoothness=noise,
            outliers=outliers,
            seed=seed,
        ),
        seed=seed,
    )
    settings = {
        "model": model,
        "weights": None if weights is None else str(weights),
        "initial": None if initial is None else str(initial),
        "data": data,
        "families": list(plan.families),
        "tails_of": tails_of,
        "interlayer": interlayer,
        "jacobian": "exact" if probes is None else f"{probes} probes, exact where that is less work",
        "smoothness": _noise_in_words(smoothness),
        "biases": biases,
        "outliers": outliers,
        "chunk_size": chunk_size,
        "device": str(place),
        "seed": seed,
        "codebound": __version__,
    }
    if not quiet:
        note(_start(settings, sample, whole))
    with (
        measuring as measurers,
        nullcontext() if out is None else new_folder(out) as folder,
        progress_bar("measure", quiet=quiet) as progress,
    ):
        found = summarise(
            network,
            sample,
            plan,
            initial=before,
            chunk_size=chunk_size,
            device=place,
            engine=measurers,
            progress=progress,
        )
    record = {
        **found.record(),
        "sample": {
            "data": data,
            "n": whole.n,
            "measured": sample.n,
            "classes": classes,
            "input_shape": list(shape),
            "sha256": sample.sha256,
        },
        "settings": settings,
    }
    if folder is not None:
        _save(folder, record | {"curves": found.curves})
    _show(record, output, quiet=quiet)
    if folder is not None and not quiet:
        note(f"Page with figures: {folder / 'measure.html'}")


def _noise(kind: str, seed: int) -> Smoothness | None:
    from codebound_papers.measure.noise.smoothness import Smoothness

    if kind == "none":
        return None
    if kind == "gaussian":
        return Smoothness(_NOISE, draws=_DRAWS, seed=seed)
    if kind == "project":
        return Smoothness(_projected, draws=_DRAWS, seed=seed)
    raise UsageError(f"--smoothness is gaussian, project or none. Got {kind!r}.")


def _projected(matrix: Tensor, seed: int) -> Tensor:
    """What the compressor makes of a layer: one with fewer weights than numbers stays as it is."""
    from codebound_papers.arora18.projection import project_matrix

    return project_matrix(matrix, count=_NUMBERS, seed=seed) if matrix.numel() > _NUMBERS else matrix


def _noise_in_words(kind: str) -> str:
    if kind == "gaussian":
        return f"{_DRAWS} draws of Gaussian noise, {_NOISE} as long as the activation"
    return f"{_DRAWS} random projections to {_NUMBERS} numbers a layer" if kind == "project" else "none"


def _probes(jacobian: str, work: Workload, interlayer: str) -> int | None:
    if jacobian not in ("auto", "exact", "probes"):
        raise UsageError(f"--jacobian is auto, exact or probes. Got {jacobian!r}.")
    if jacobian == "auto":
        return work.probes(interlayer)
    return None if jacobian == "exact" else _PROBES


def first_example(sample: Dataset, network: Any) -> Tensor:
    """One example, in the arithmetic of the network."""
    import torch

    weight = next(network.parameters(), torch.zeros(()))
    return sample.on(weight.device).batch(torch.arange(1), weight.dtype)[0]


def drawn(whole: Dataset, count: int, seed: int) -> Dataset:
    """That many examples at random, in stored order, or all of them."""
    from codebound.rng import numpy_stream

    if count < 1:
        raise UsageError(f"--examples is at least 1. Got {count}.")
    if count >= whole.n:
        return whole
    picked = numpy_stream(seed, "measured examples").permutation(whole.n)[:count]
    return whole.select(sorted(picked.tolist()), role=whole.role)


def _start(settings: dict[str, Any], sample: Dataset, whole: Dataset) -> str:
    many = f"all {whole.n:,}" if sample.n == whole.n else f"{sample.n:,} of {whole.n:,}"
    text = f"Measuring {settings['model']} on {settings['data']}: {many} examples"
    if "stability" in settings["families"]:
        goals = {"output": "to the output", "all": "to all later layers"}
        if settings["interlayer"] in goals:
            text += f"; Jacobians {goals[settings['interlayer']]}: {settings['jacobian']}"
        text += f"; smoothness: {settings['smoothness']}"
    return f"{text}; {settings['device']}."


def _save(folder: Path, record: dict[str, Any]) -> None:
    from codebound_papers.report.measurement import measure_page

    settings, sample = record["settings"], record["sample"]
    write_text(folder / "measure.json", json.dumps(record, indent=1, allow_nan=False) + "\n")
    page = measure_page(
        record,
        title=f"Measures of {settings['model']} on {settings['data']}",
        subtitle=f"{sample['measured']:,} of {sample['n']:,} examples; made by codebound "
        f"{settings['codebound']}",
    )
    write_text(folder / "measure.html", page)


def _show(record: dict[str, Any], output: Format, *, quiet: bool) -> None:
    from codebound_papers.report.measures import flat_rows, measure_tables

    if output is Format.json:
        print_json(record)
        return
    if output is Format.csv:
        rows = flat_rows(record)
        print_csv(rows)
        if record["margins"] is not None and "name" in rows[0] and not quiet:
            note("One line per layer; the margins of the whole network are in --format table and json.")
        return
    for table in measure_tables(record):
        print_table(table.rows, title=table.title)
        for column, sentence in table.legend.items():
            typer.echo(f"  {column}: {sentence}")
        typer.echo("")
    for text in record["notes"]:
        typer.echo(text)
