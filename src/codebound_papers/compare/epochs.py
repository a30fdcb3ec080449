"""``codebound compare`` over the epochs of a training: the published bounds after every one that was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from codebound import __version__
from codebound.commands import load_network, load_samples, record_options
from codebound.data.dataset import Dataset
from codebound.engine.job import Engine
from codebound.errors import DataError, UsageError
from codebound.files import finite, make_folder, read_json, write_text
from codebound.progress import NOBODY, Listener
from codebound.report.tables import csv_text
from codebound.tensors import ADVICE
from codebound.train import runs
from codebound.train.updates import shuffle_labels
from codebound_papers.compare.command import measure_settings
from codebound_papers.compare.rows import BAR, rate_text
from codebound_papers.compare.table import Comparison, compare
from codebound_papers.journal import Journal

OF_ONE_NETWORK = ("weights", "initial", "certificate", "base", "unlabelled")
"""Options that say nothing about a whole training."""


def compare_epochs_from_options(
    options: Mapping[str, Any],
    *,
    out: Path | None = None,
    engine: Engine | None = None,
    listener: Listener = NOBODY,
) -> dict[str, Any]:
    """Evaluates the published bounds on every kept epoch of a training run; an interrupted one goes on."""
    what, run_folder = options["over"]
    if what != "epochs":
        raise UsageError(f"bounds are compared over epochs of a run. Got {what!r}.")
    measured = measure_settings(options, engine)
    sample, test_set = load_samples(options)
    run, weights = _open_run(run_folder, sample)
    shuffled = shuffle_labels(sample, float(run["label_shuffle"]), seed=int(run["seed"]))
    folder = run_folder / "compare" if out is None else out
    make_folder(folder)
    settings = record_options(options) | {"device": measured.device}
    kept = {
        name: value for name, value in settings.items() if name not in (*OF_ONE_NETWORK, "certify", "over")
    }
    identity = {**kept, "run": run, "codebound": __version__}
    listener.note(
        f"Comparing bounds on {options['model']} after {len(weights)} epochs of {run_folder}; what is "
        f"finished is kept in {folder}, and the same command goes on."
    )

    def point(epoch: int, path: Path) -> dict[str, Any]:
        found = compare(
            load_network(options["model"], sample, path),
            shuffled,
            test_set,
            effort=None,
            settings=measured,
            like_for_like=options["like_for_like"],
            engine=engine,
        )
        return {"epoch": epoch, **_point(found)}

    points, journal = [], Journal(folder / "epochs.json", run=identity)
    with listener.bar("epochs") as progress:
        for done, (epoch, path) in enumerate(weights.items()):
            progress(done, len(weights), f"epoch {epoch}")
            points.append(journal.get(str(epoch), partial(point, epoch, path)))
    from codebound_papers.report.comparison import epochs_figure

    write_text(folder / "epochs.svg", epochs_figure(points))
    write_text(folder / "epochs.csv", csv_text(flat_points(points)))
    listener.note(f"Picture: {folder / 'epochs.svg'}")
    return {"epochs": points, "settings": identity}


def _open_run(folder: Path, sample: Dataset) -> tuple[dict[str, Any], dict[int, Path]]:
    """What determines a run of ``codebound train``, and its weights by epoch."""
    weights = runs.kept_epochs(folder)
    settings = read_json(folder / runs.CONFIG, advice=ADVICE)
    if settings.get("data_sha256") != sample.sha256:
        raise DataError(
            f"{folder} was trained on another sample than {sample.name}: the SHA-256 in {runs.CONFIG} is "
            f"{settings.get('data_sha256')}, that of the sample {sample.sha256}. Give the data, and the "
            "holdout if any, of that training."
        )
    if not weights:
        raise UsageError(
            f"{folder} has kept no weights: the training is not finished, or runs without keep_epochs."
        )
    return settings, weights


def _point(found: Comparison) -> dict[str, Any]:
    """Error rates, margins, and decimal logarithms of the published bounds; None where one is infinite."""
    margins = found.measured.margins
    published = [row for row in found.rows if row.kind == "published" and row.log10 is not None]
    return {
        "train_error": margins.loss(),
        "test_error": next((row.value for row in found.rows if row.kind == "test"), None),
        "gamma": found.measured.facts.margin,
        "least_margin": margins.minimum,
        "log10": {row.name: finite(row.log10) for row in published},
        "capacities": [row.name for row in published if BAR in row.note],
    }


def smallest_rate(point: Mapping[str, Any]) -> str:
    """The smallest published bound that is an error rate, with its name; capacities are no error rates.

    Example:
        >>> smallest_rate({"log10": {"a": 0.25, "b": None, "c": -3.0}, "capacities": ["c"]})
        '177.83 % (a)'
    """
    finite_ones = {
        name: log10
        for name, log10 in point["log10"].items()
        if log10 is not None and name not in point["capacities"]
    }
    if not finite_ones:
        return "infinite"
    name, log10 = min(finite_ones.items(), key=lambda each: each[1])
    return f"{rate_text(None, log10)} ({name})"


def flat_points(points: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Every point as one line: bounds as decimal logarithms, each in a column of its own."""
    return [
        {name: value for name, value in point.items() if name not in ("log10", "capacities")}
        | {f"log10 {name}": value for name, value in point["log10"].items()}
        for point in points
    ]
