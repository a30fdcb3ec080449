"""``codebound compare`` as functions: options in, files and a record out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from codebound import __version__
from codebound.certificate.base import origin_of_file
from codebound.commands import load_network, load_samples, optional_folder, record_options
from codebound.data.dataset import Dataset
from codebound.data.load import load_dataset
from codebound.device import resolve_device
from codebound.engine.job import Engine
from codebound.files import write_json, write_text
from codebound.nets.loading import factory_of, load_arrays
from codebound.progress import NOBODY, Listener, Progress
from codebound.report.tables import csv_text
from codebound_papers.compare.table import Comparison, compare
from codebound_papers.measure.record import MeasureSettings


def compare_from_options(
    options: Mapping[str, Any],
    *,
    out: Path | None = None,
    engine: Engine | None = None,
    listener: Listener = NOBODY,
) -> dict[str, Any]:
    """Compares the bounds on one network.

    Args:
        options: Those of ``codebound compare``.
        out: New folder for the record, its rows, a picture and a page; None: nothing is written.
        engine: Where examples are evaluated; None: here.
        listener: Who follows it.
    """
    measured, model, fresh = measure_settings(options, engine), options["model"], options["unlabelled"]
    settings = record_options(options) | {"device": measured.device}
    sample, test_set = samples = load_samples(options)
    network, factory = load_network(model, sample, options["weights"]), factory_of(model)
    listener.note(
        f"Comparing bounds on {model}, {options['data']}: {sample.n:,} examples, "
        f"{min(measured.examples, sample.n):,} of them for noise stability; {measured.device}."
    )
    with optional_folder(out) as folder, listener.bar("compare") as progress:
        found = compare(
            network,
            sample,
            test_set,
            certificates=options["certificate"] or (),
            bases=[load_arrays(path) for path in options["base"] or ()],
            unlabelled=None
            if fresh is None
            else load_dataset(fresh, role="unlabelled", folder=options["data_folder"]),
            effort="quick" if options["certify"] else None,
            settings=measured,
            initial=None if options["initial"] is None else load_network(model, sample, options["initial"]),
            like_for_like=options["like_for_like"],
            factory=factory,
            trained_on=None
            if options["weights"] is None
            else origin_of_file(Path(options["weights"])).data_sha256 or None,
            engine=engine,
            progress=progress,
        )
    record = comparison_record(found, samples, settings)
    if folder is not None:
        save_comparison(folder, record)
    return record


def measure_settings(options: Mapping[str, Any], engine: Engine | None) -> MeasureSettings:
    """What is measured, and where."""
    device = "cpu" if engine is not None and options["device"] == "auto" else options["device"]
    names = ("margin_share", "examples", "delta", "chunk_size", "seed")
    return MeasureSettings(**{name: options[name] for name in names}, device=str(resolve_device(device)))


def comparison_record(
    found: Comparison, samples: tuple[Dataset, Dataset | None], settings: dict[str, Any]
) -> dict[str, Any]:
    """The comparison with what it was made of, as JSON values."""
    sample, test_set = samples
    return {
        **found.record(),
        "sample": _described(sample),
        "test": None if test_set is None else _described(test_set),
        "settings": settings
        | {"margin_share": found.measured.settings.margin_share, "codebound": __version__},
    }


def _described(sample: Dataset) -> dict[str, Any]:
    return {"name": sample.name, "n": sample.n, "classes": sample.classes, "sha256": sample.sha256}


def save_comparison(folder: Path, record: dict[str, Any]) -> None:
    """Writes the record, its rows, the picture and the page."""
    from codebound_papers.report.comparison import compare_figure, compare_page
    from codebound_papers.report.figures import standalone

    texts = {
        "svg": standalone(compare_figure(record)),
        "html": compare_page(record),
        "csv": csv_text(record["rows"]),
    }
    write_json(folder / "compare.json", record)
    for suffix, text in texts.items():
        write_text(folder / f"compare.{suffix}", text)


def end_of_demo(
    model: nn.Module,
    samples: tuple[Dataset, Dataset | None],
    folder: Path,
    settings: dict[str, Any],
    progress: Progress,
) -> str:
    """Compares a network with the certificate in a folder, and says where the page is."""
    certificates = [folder / "certificate.cbound"]
    found = compare(model, *samples, certificates=certificates, effort=None, progress=progress)
    save_comparison(folder, comparison_record(found, samples, settings))
    return f"Every published bound beside it: {folder / 'compare.html'}"
