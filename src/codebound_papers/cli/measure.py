"""``codebound measure``: norms, spectra, tails, noise stability and margins of a network, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note, progress_bar
from codebound.cli.loading import load_network, optional_folder
from codebound.cli.options import given_engine, option, record_options
from codebound.errors import UsageError
from codebound.files import write_json, write_text
from codebound_papers.cli import options as own
from codebound_papers.cli.options import STABILITY

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from codebound.data.dataset import Dataset
    from codebound_papers.measure.folded import Workload
    from codebound_papers.measure.noise.smoothness import Smoothness

_NOISE, _DRAWS = 0.1, 5  # size of Gaussian noise relative to the activation, and draws of any noise
_NUMBERS = 1024  # per layer, of the projected noise: the default of the compressor
_PROBES = 64


def command(
    model: opt.Model,
    data: opt.Data,
    weights: opt.Weights = None,
    data_folder: opt.DataFolder = None,
    examples: own.Examples = None,
    families: Annotated[
        str, option("What to measure, separated by commas.")
    ] = "spectra,tails,stability,margins",
    tails_of: Annotated[
        str, option("Fit tails to: eigenvalues, or absolute or positive weights (slow).")
    ] = "eigenvalues",
    interlayer: Annotated[
        str,
        option(
            "Jacobians: none, output (each layer to the output) or all (each to all later ones).", STABILITY
        ),
    ] = "output",
    jacobian: Annotated[
        str,
        option(
            "Norms of Jacobians: exact, probes (64 random ones), or auto: probes for large networks.",
            STABILITY,
        ),
    ] = "auto",
    smoothness: Annotated[
        str,
        option(
            "Noise for smoothness: gaussian, project (that of random projection; slow) or none.", STABILITY
        ),
    ] = "gaussian",
    biases: own.Biases = "augmented",
    outliers: Annotated[float, option("Fraction of the examples that may be left out.", STABILITY)] = 0.0,
    initial: own.Initial = None,
    chunk_size: own.ChunkSize = 64,
    device: opt.Device = "auto",
    seed: opt.Seed = 0,
    engine: opt.EngineKind = None,
    workers: opt.Workers = None,
    address: opt.Address = None,
    out: opt.SomeFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Measure a network layer by layer: norms, spectra, tails, noise stability, margins.

    Example: codebound measure --model mlp --weights runs/w/model.safetensors --data digits
    """
    settings = record_options(locals())
    from codebound import __version__
    from codebound.data.load import load_dataset
    from codebound.device import resolve_device
    from codebound_papers.measure.folded import draw_examples, fold_and_wrap
    from codebound_papers.measure.noise.meter import StabilitySettings
    from codebound_papers.measure.record import MeasureSettings
    from codebound_papers.measure.summary import summarise
    from codebound_papers.report.measures import flat_rows, measure_tables

    measuring = given_engine(engine, workers, address)
    place = resolve_device("cpu" if engine is not None and device == "auto" else device)
    noise, words = choose_noise(smoothness, seed)
    whole = load_dataset(data, folder=data_folder)
    network = load_network(model, whole, weights)
    before = None if initial is None else load_network(model, whole, initial)
    folded = fold_and_wrap(network, whole)
    work = folded.workload
    sample = draw_examples(whole, work.examples if examples is None else examples, seed=seed)
    probes = _probes(jacobian, work, interlayer)
    plan = MeasureSettings(
        families=tuple(name.strip() for name in families.split(",")),  # type: ignore[misc]  # names are checked there
        tails_of=tails_of,  # type: ignore[arg-type]
        stability=StabilitySettings(
            interlayer=interlayer,  # type: ignore[arg-type]
            biases=biases,  # type: ignore[arg-type]
            probes=probes,
            smoothness=noise,
            outliers=outliers,
            seed=seed,
        ),
        chunk_size=chunk_size,
        device=str(place),
        seed=seed,
    )
    settings |= {
        "families": list(plan.families),
        "jacobian": "exact" if probes is None else f"{probes} probes, exact where that is less work",
        "smoothness": words,
        "device": str(place),
        "codebound": __version__,
    }
    if not quiet:
        note(_start(settings, sample, whole))
    with (
        measuring as measurers,
        optional_folder(out) as folder,
        progress_bar("measure", quiet=quiet) as progress,
    ):
        found = summarise(folded, sample, plan, initial=before, engine=measurers, progress=progress)
    record: dict[str, Any] = {
        **found.record(),
        "sample": {
            "data": data,
            "n": whole.n,
            "measured": sample.n,
            "classes": whole.classes,
            "input_shape": list(whole.input_shape),
            "sha256": sample.sha256,
        },
        "settings": settings,
    }
    if folder is not None:
        _save(folder, record | {"curves": found.curves})
    rows = flat_rows(record)
    emit(record, output, [*measure_tables(record), *record["notes"]], rows=rows)
    if output is Format.csv and record["margins"] is not None and "name" in rows[0] and not quiet:
        note("One line per layer; the margins of the whole network are in --format table and json.")
    if folder is not None and not quiet:
        note(f"Page with figures: {folder / 'measure.html'}")


def choose_noise(kind: str, seed: int) -> tuple[Smoothness | None, str]:
    """The noise for smoothness, and in words."""
    from codebound_papers.measure.noise.smoothness import Smoothness

    if kind == "none":
        return None, "none"
    if kind == "gaussian":
        words = f"{_DRAWS} draws of Gaussian noise, {_NOISE} as long as the activation"
        return Smoothness(_NOISE, draws=_DRAWS, seed=seed), words
    if kind == "project":
        words = f"{_DRAWS} random projections to {_NUMBERS} numbers a layer"
        return Smoothness(_projected, draws=_DRAWS, seed=seed), words
    raise UsageError(f"--smoothness is gaussian, project or none. Got {kind!r}.")


def _projected(matrix: Tensor, seed: int) -> Tensor:
    """What the compressor makes of a layer: one with fewer weights than numbers stays as it is."""
    from codebound_papers.arora18.projection import project_matrix

    return project_matrix(matrix, count=_NUMBERS, seed=seed) if matrix.numel() > _NUMBERS else matrix


def _probes(jacobian: str, work: Workload, interlayer: str) -> int | None:
    if jacobian not in ("auto", "exact", "probes"):
        raise UsageError(f"--jacobian is auto, exact or probes. Got {jacobian!r}.")
    if jacobian == "auto":
        return work.probes(interlayer)
    return None if jacobian == "exact" else _PROBES


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
    from codebound_papers.report.measures import measure_page

    settings, sample = record["settings"], record["sample"]
    write_json(folder / "measure.json", record)
    page = measure_page(
        record,
        title=f"Measures of {settings['model']} on {settings['data']}",
        subtitle=f"{sample['measured']:,} of {sample['n']:,} examples; made by codebound "
        f"{settings['codebound']}",
    )
    write_text(folder / "measure.html", page)
