"""``codebound measure`` as a function: options in, files and a record out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codebound import __version__
from codebound.commands import load_network, optional_folder, record_options
from codebound.data.load import load_dataset
from codebound.device import resolve_device
from codebound.errors import UsageError
from codebound.files import write_json, write_text
from codebound.progress import NOBODY, Listener
from codebound_papers.arora18.projection import project_matrix
from codebound_papers.measure.folded import Workload, draw_examples, fold_and_wrap
from codebound_papers.measure.noise.meter import StabilitySettings
from codebound_papers.measure.noise.quantities import Smoothness
from codebound_papers.measure.record import MeasureSettings
from codebound_papers.measure.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine

_NOISE, _DRAWS = 0.1, 5  # size of Gaussian noise relative to the activation, and draws of any noise
_NUMBERS = 1024  # per layer, of the projected noise: the default of the compressor
_PROBES = 64


def measure_from_options(
    options: Mapping[str, Any],
    *,
    out: Path | None = None,
    engine: Engine | None = None,
    listener: Listener = NOBODY,
) -> dict[str, Any]:
    """Measures a network layer by layer.

    Args:
        options: Those of ``codebound measure``.
        out: New folder for the record and a page with figures; None: nothing is written.
        engine: Where examples are evaluated; None: here.
        listener: Who follows it.
    """
    model, initial, seed = options["model"], options["initial"], options["seed"]
    device = "cpu" if engine is not None and options["device"] == "auto" else options["device"]
    place = resolve_device(device)
    noise, words = choose_noise(options["smoothness"], seed)
    whole = load_dataset(options["data"], folder=options["data_folder"])
    network = load_network(model, whole, options["weights"])
    before = None if initial is None else load_network(model, whole, initial)
    folded = fold_and_wrap(network, whole)
    count = folded.workload.examples if options["examples"] is None else options["examples"]
    sample = draw_examples(whole, count, seed=seed)
    probes = _probes(options["jacobian"], folded.workload, options["interlayer"])
    chosen = MeasureSettings(
        families=tuple(name.strip() for name in options["families"].split(",")),
        tails_of=options["tails_of"],
        stability=StabilitySettings(
            interlayer=options["interlayer"],
            biases=options["biases"],
            probes=probes,
            smoothness=noise,
            outliers=options["outliers"],
            seed=seed,
        ),
        chunk_size=options["chunk_size"],
        device=str(place),
        seed=seed,
    )
    settings = record_options(options) | {
        "families": list(chosen.families),
        "jacobian": "exact" if probes is None else f"{probes} probes, exact where that is less work",
        "smoothness": words,
        "device": str(place),
        "codebound": __version__,
    }
    listener.note(_start(settings, sample, whole))
    with optional_folder(out) as folder, listener.bar("measure") as progress:
        found = summarise(
            folded,
            sample,
            chosen,
            initial=before,
            engine=engine,
            progress=progress,
        )
    record = {
        **found.record(),
        "sample": {
            "data": options["data"],
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
    return record


def choose_noise(kind: str, seed: int) -> tuple[Smoothness | None, str]:
    """The noise for smoothness, and in words."""
    if kind == "none":
        return None, "none"
    if kind == "gaussian":
        words = f"{_DRAWS} draws of Gaussian noise, {_NOISE} as long as the activation"
        return Smoothness(_NOISE, draws=_DRAWS, seed=seed), words
    if kind == "project":
        words = f"{_DRAWS} random projections to {_NUMBERS} numbers a layer"
        return Smoothness(_projected, draws=_DRAWS, seed=seed), words
    raise UsageError(f"smoothness is gaussian, project or none. Got {kind!r}.")


def _projected(matrix: Tensor, seed: int) -> Tensor:
    """What the compressor makes of a layer: one with fewer weights than numbers stays as it is."""
    return project_matrix(matrix, count=_NUMBERS, seed=seed) if matrix.numel() > _NUMBERS else matrix


def _probes(jacobian: str, work: Workload, interlayer: str) -> int | None:
    if jacobian not in ("auto", "exact", "probes"):
        raise UsageError(f"jacobian is auto, exact or probes. Got {jacobian!r}.")
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
