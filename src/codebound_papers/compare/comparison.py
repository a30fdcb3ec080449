"""``codebound compare`` as functions, of one network or of a training: options in, files and records out."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from codebound import __version__
from codebound.cli.actions import load_samples, record_options
from codebound.report.templates import csv_text
from codebound.run.device import resolve_device
from codebound.run.errors import DataError, UsageError
from codebound.run.files import finite, make_folder, optional_folder, read_json, write_json, write_text
from codebound.run.job import Engine
from codebound.run.progress import NOBODY, Listener, Progress
from codebound.run.tensor_files import ADVICE, load_arrays
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound_networks.about_f.base import origin_of_file
from codebound_networks.about_f.models import load_network
from codebound_networks.train import runs
from codebound_networks.train.updates import shuffle_labels
from codebound_papers.compare.rows import BAR, rate_text
from codebound_papers.compare.table import Comparison, compare
from codebound_papers.journal import Journal
from codebound_papers.measure.record import MeasureSettings

Options = Mapping[str, Any]

OF_PRUNING = ("d", "eps", "lambda_", "rho")
"""Options of the rows of Guha."""


def compare_from_options(
    options: Options, *, out: Path | None = None, engine: Engine | None = None, listener: Listener = NOBODY
) -> dict[str, Any]:
    """Compares the bounds on one network; a new folder gets the record, its rows, a picture and a page."""
    measured, model, fresh = measure_settings(options, engine), options["model"], options["unlabelled"]
    weights, initial, trained_on = options["weights"], options["initial"], None
    settings = record_options(options) | {"device": measured.device}
    sample, test_set = samples = load_samples(options)
    if fresh is not None:
        fresh = load_sample(fresh, role="unlabelled", folder=options["data_folder"])
    if weights is not None:
        trained_on = origin_of_file(Path(weights)).data_sha256 or None
    listener.note(
        f"Comparing bounds on {model}, {options['data']}: {sample.n:,} examples, "
        f"{min(measured.examples, sample.n):,} of them for noise stability; {measured.device}."
    )
    with optional_folder(out) as folder, listener.bar("compare") as progress:
        found = compare(
            load_network(model, sample, weights),
            sample,
            test_set,
            certificates=options["certificate"] or (),
            bases=[load_arrays(path) for path in options["base"] or ()],
            unlabelled=fresh,
            effort="quick" if options["certify"] else None,
            settings=measured,
            initial=None if initial is None else load_network(model, sample, initial),
            like_for_like=options["like_for_like"],
            trained_on=trained_on,
            **{name: options[name] for name in OF_PRUNING},
            engine=engine,
            progress=progress,
        )
    record = comparison_record(found, samples, settings)
    if folder is not None:
        save_comparison(folder, record)
    return record


def measure_settings(options: Options, engine: Engine | None) -> MeasureSettings:
    """Return the settings of the measurement, device included."""
    device = "cpu" if engine is not None and options["device"] == "auto" else options["device"]
    names = ("margin_share", "examples", "delta", "chunk_size", "seed")
    return MeasureSettings(**{name: options[name] for name in names}, device=str(resolve_device(device)))


def comparison_record(
    found: Comparison, samples: tuple[Sample, Sample | None], settings: dict[str, Any]
) -> dict[str, Any]:
    """The comparison with what it was made of, as JSON values."""
    names = ("name", "n", "classes", "sha256")
    sample, test = (None if x is None else {name: getattr(x, name) for name in names} for x in samples)
    settings = settings | {"margin_share": found.measured.settings.margin_share, "codebound": __version__}
    return {**found.record(), "sample": sample, "test": test, "settings": settings}


def save_comparison(folder: Path, record: dict[str, Any]) -> None:
    """Writes the record, its rows, the picture and the page."""
    from codebound_papers.compare.page import compare_figure, compare_page
    from codebound_papers.report.figures import standalone

    write_json(folder / "compare.json", record)
    write_text(folder / "compare.svg", standalone(compare_figure(record)))
    write_text(folder / "compare.html", compare_page(record))
    write_text(folder / "compare.csv", csv_text(record["rows"]))


def end_of_demo(
    model: nn.Module,
    samples: tuple[Sample, Sample | None],
    folder: Path,
    settings: dict[str, Any],
    progress: Progress,
) -> str:
    """Compares a network with the certificate in a folder, and says where the page is."""
    certificates = [folder / "certificate.cbound"]
    found = compare(model, *samples, certificates=certificates, effort=None, progress=progress)
    save_comparison(folder, comparison_record(found, samples, settings))
    study = "The three papers, a command each: codebound study guha23 (or arora18, shin21)"
    return f"Every published bound beside the network: {folder / 'compare.html'}\n{study}"


OF_ONE_NETWORK = ("weights", "initial", "certificate", "base", "unlabelled")
"""Options that say nothing about a whole training."""


def compare_epochs_from_options(
    options: Options, *, out: Path | None = None, engine: Engine | None = None, listener: Listener = NOBODY
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
    of_one = (*OF_ONE_NETWORK, "certify", "over")
    kept = {name: value for name, value in settings.items() if name not in of_one}
    identity = {**kept, "run": run, "codebound": __version__}
    listener.note(
        f"Comparing bounds on {options['model']} after {len(weights)} epochs of {run_folder}; what is "
        f"finished is kept in {folder}, and the same command goes on."
    )

    def point(epoch: int, path: Path) -> dict[str, Any]:
        network, like = load_network(options["model"], sample, path), options["like_for_like"]
        asked = {"settings": measured, "like_for_like": like, "engine": engine, "effort": None}
        asked |= {name: options[name] for name in OF_PRUNING}
        return {"epoch": epoch, **_point(compare(network, shuffled, test_set, **asked))}

    points, journal = [], Journal(folder / "epochs.json", run=identity)
    with listener.bar("epochs") as progress:
        for done, (epoch, path) in enumerate(weights.items()):
            progress(done, len(weights), f"epoch {epoch}")
            points.append(journal.get(str(epoch), partial(point, epoch, path)))
    from codebound_papers.compare.page import epochs_figure

    write_text(folder / "epochs.svg", epochs_figure(points))
    write_text(folder / "epochs.csv", csv_text(flat_points(points)))
    listener.note(f"Picture: {folder / 'epochs.svg'}")
    return {"epochs": points, "settings": identity}


def _open_run(folder: Path, sample: Sample) -> tuple[dict[str, Any], dict[int, Path]]:
    weights = runs.load_epochs(folder)
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

    >>> smallest_rate({"log10": {"a": 0.25, "b": None, "c": -3.0}, "capacities": ["c"]})
    '177.83 % (a)'
    """
    bounds = {name: log10 for name, log10 in point["log10"].items() if name not in point["capacities"]}
    finite_ones = [(log10, name) for name, log10 in bounds.items() if log10 is not None]
    if not finite_ones:
        return "infinite"
    log10, name = min(finite_ones, key=lambda each: each[0])
    return f"{rate_text(None, log10)} ({name})"


def flat_points(points: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Every point as one line: bounds as decimal logarithms, each in a column of its own."""
    return [
        {name: value for name, value in point.items() if name not in ("log10", "capacities")}
        | {f"log10 {name}": value for name, value in point["log10"].items()}
        for point in points
    ]
