"""Measurements of a network as plain rows, for JSON, tables, pages and ``codebound measure``.

None is infinite or missing. What cannot be measured is listed with the reason, never left out in silence.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from codebound import __version__
from codebound.cli.actions import record_options
from codebound.run.device import resolve_device
from codebound.run.errors import UsageError
from codebound.run.files import finite, optional_folder, write_json, write_text
from codebound.run.job import Engine
from codebound.run.progress import NOBODY, Listener, Progress, silent
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound_networks.about_f.models import load_network
from codebound_networks.reading.walk import Network
from codebound_networks.views.layers import LinearView
from codebound_papers.arora18.projection import project_matrix
from codebound_papers.measure.noise.quantities import Smoothness, StabilitySettings
from codebound_papers.measure.noise.result import Quantity, Site, Stability
from codebound_papers.measure.outputs import AbstractOrdered
from codebound_papers.measure.record import (
    DRAWS,
    NOISE,
    Family,
    Measured,
    MeasureSettings,
    Missing,
    measure_facts,
)
from codebound_papers.measure.steps import PROBES, FoldedNetwork, Workload, draw_examples, fold_and_wrap
from codebound_papers.measure.tails import PowerLawFit

Row = dict[str, object]

FAMILIES: tuple[Family, ...] = ("spectra", "tails", "stability", "margins")
"""Groups of measures that have rows."""

NAMES: dict[Quantity, str] = {
    "cushion": "layer_cushion",
    "interlayer": "interlayer_cushion",
    "contraction": "activation_contraction",
    "spread": "jacobian_spread",
    "smoothness": "interlayer_smoothness",
}
"""Quantities that have one value per example, and their names in rows."""

_COLUMNS = (
    *("name", "kind", "shape", "frobenius_norm", "spectral_norm", "matrix_spectral_norm", "stable_rank"),
    *("alpha", *NAMES.values(), "minimal_interlayer_cushion", "noise_sensitivity"),
    *("distance_from_initial", "distance_cushion"),
)
_EMPTY: Row = dict.fromkeys(_COLUMNS)
_LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_CURVE_POINTS = 200
_NUMBERS = 1024  # per layer, of the projected noise: the default of the compressor
_BESIDE = (
    "it runs beside another branch, so its output alone does not determine what follows; "
    "the sum at the end of the branches takes its place"
)


@dataclass(frozen=True, eq=False)
class Summary:
    """Everything that was measured."""

    # one row per layer and per sum of branches, in forward order; None where a quantity was not asked for or
    # does not exist. One with a value per example has extremes and quantiles, in which None is infinite
    layers: tuple[Row, ...]
    network: Row | None  # noise stability of the network as a whole; None if it was not measured
    margins: Row | None  # output margins; None if they were not measured
    not_measured: tuple[Row, ...]  # what is missing, where, and why
    notes: tuple[str, ...]  # what a reader should know, in sentences
    # histograms of the margins and, per layer, histograms and the survival function
    curves: Row = field(repr=False)

    def record(self) -> Row:
        """The rows, ready for JSON; without the curves."""
        lists = {name: list(getattr(self, name)) for name in ("layers", "not_measured", "notes")}
        return {"network": self.network, "margins": self.margins, **lists}


def summarise(
    model: nn.Module | Network | FoldedNetwork,
    data: Sample,
    settings: MeasureSettings | None = None,
    *,
    initial: nn.Module | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Summary:
    """Measures a network on a sample as ``measure_facts`` does; everything, without settings.

    Where they leave it open, margins are taken in float64, and smoothness under Gaussian noise.

    >>> digits = load_sample("digits").select(range(20), role="train")
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    >>> found = summarise(net, digits, MeasureSettings(families=("spectra", "margins")))
    >>> found.layers[0]["name"], found.layers[0]["shape"], found.margins["n"]
    ('1', [10, 64], 20)
    """
    settings = settings or MeasureSettings(families=FAMILIES)
    unknown = [name for name in settings.families if name not in FAMILIES]
    if unknown:
        raise UsageError(f"families with rows are {', '.join(FAMILIES)}. Got {', '.join(unknown)}.")
    usual = StabilitySettings(smoothness=Smoothness(NOISE, draws=DRAWS))
    dtype, stability = settings.dtype or torch.float64, settings.stability or usual
    settings = replace(settings, dtype=dtype, stability=stability)
    return summary_of(measure_facts(model, data, settings, initial=initial, engine=engine, progress=progress))


def summary_of(measured: Measured) -> Summary:
    """The rows and curves of what was measured."""
    rows, curves = _layer_rows(measured), _survival_curves(measured)
    missing = [*_list_uncovered(measured.network), *measured.missing]
    found, margins, histogram_of_margins = measured.stability, None, None
    if measured.unstable:
        missing.append(Missing("all", "noise stability", measured.unstable))
    if found is not None:
        rows = _add_stability(rows, found)
        for site in found.sites:
            curves.setdefault(site.name, {}).update(_histograms(found, site.name))
        if measured.settings.stability is None or measured.settings.stability.interlayer != "none":
            missing += [
                Missing(site.name, "interlayer cushion, smoothness", _BESIDE)
                for site in found.sites[:-1]
                if not found.has("interlayer", site.name)
            ]
    if measured.outputs is not None:
        report = measured.margins
        counts = {name: getattr(report, name) for name in ("n", "errors", "ties", "non_finite")}
        margins = counts | _spread_of(report)
        if report.non_finite < report.n:
            histogram_of_margins = _histogram(report)
    return Summary(
        layers=tuple(rows.values()),
        network=None if found is None else _network_row(found),
        margins=margins,
        not_measured=tuple(asdict(each) for each in missing),
        notes=(*measured.folding, "None of these numbers bounds the error on new data; a certificate does."),
        curves={"layers": curves, "margins": histogram_of_margins},
    )


def _layer_rows(measured: Measured) -> dict[str, Row]:
    rows = {}
    for view in measured.network.layers:
        kind = "linear" if isinstance(view, LinearView) else "convolution"
        rows[view.name] = row = _EMPTY | {"name": view.name, "kind": kind, "shape": list(view.weight.shape)}
        if (spectrum := measured.spectra.get(view.name)) is not None:
            row["frobenius_norm"] = spectrum.frobenius_norm
            row["matrix_spectral_norm"] = spectrum.spectral_norm
            row["stable_rank"] = spectrum.stable_rank
        if view.name in measured.maps:
            row["spectral_norm"] = asdict(measured.maps[view.name])
        if (tail := measured.tails.get(view.name)) is not None:
            row["alpha"] = _tail_row(tail.fit, of=measured.settings.tails_of, values=tail.values.size)
    return rows


def _survival_curves(measured: Measured) -> dict[str, Row]:
    spectra, tails, of = measured.spectra.items(), measured.tails.items(), measured.settings.tails_of
    curves = {name: survival(spectrum.eigenvalues, of="eigenvalues") for name, spectrum in spectra}
    curves |= {name: survival(tail.values, of=of, fit=tail.fit) for name, tail in tails}
    return {name: {"survival": curve} for name, curve in curves.items()}


def _list_uncovered(network: Network) -> Iterator[Missing]:
    """Tensors that belong to no layer."""
    for each in network.coverage.tensors:
        if each.status != "seen":
            bare = f"a {each.module_type} has no weight matrix"
            yield Missing(each.name, "all", bare if each.status == "carried" else each.reason)


def _add_stability(rows: dict[str, Row], found: Stability) -> dict[str, Row]:
    """The rows with noise stability, in forward order; sums of branches have rows of their own."""
    ordered: dict[str, Row] = {}
    for site in found.sites:
        layer = site.name.rpartition(" (call ")[0] or site.name
        if layer in rows:  # a layer that is called again has one more row for each call
            ordered.setdefault(layer, rows[layer])
        kind = "sum" if site.frobenius is None else "call"
        row = ordered.setdefault(site.name, _EMPTY | {"name": site.name, "kind": kind})
        row |= _stability_row(found, site)
    return ordered | {name: row for name, row in rows.items() if name not in ordered}


def _tail_row(fit: PowerLawFit, *, of: str, values: int) -> Row:
    estimate = fit.estimate
    return {
        "of": of,
        "status": fit.status,
        "reason": fit.reason,
        "density_exponent": None if estimate is None else finite(estimate.density_exponent),
        "tail_exponent": None if estimate is None else finite(estimate.tail_exponent),
        "interval": None if fit.interval is None else [finite(end) for end in fit.interval],
        "p_value": fit.p_value,
        "xmin": None if estimate is None else estimate.xmin,
        "tail_points": 0 if estimate is None else estimate.tail_points,
        "values": values,
    }


def _stability_row(result: Stability, site: Site) -> Row:
    (worst,) = (row for row in result.layers if row.layer == site.name)
    spreads = {
        name: _spread_of(result.distribution(quantity, site.name))
        for quantity, name in NAMES.items()
        if result.has(quantity, site.name)
    }
    row: Row = {**spreads}
    if "interlayer_smoothness" in spreads:
        row["interlayer_smoothness"] = {"rho": finite(worst.smoothness), **spreads["interlayer_smoothness"]}
    if "interlayer_cushion" in spreads:
        low, high = result.interval(site.name)
        row["interlayer_cushion"] = {
            **spreads["interlayer_cushion"],
            "to": {  # the smallest to each later layer
                key.target: finite(result.distribution("interlayer", site.name, target=key.target).minimum)
                for key in result.columns
                if (key.quantity, key.layer) == ("interlayer", site.name)
            },
            "probe_interval": None if low == high else [low, high],
        }
        row["minimal_interlayer_cushion"] = finite(worst.minimal_interlayer)
    return row | {
        "noise_sensitivity": finite(worst.noise_sensitivity),
        "distance_from_initial": finite(site.distance),
        "distance_cushion": finite(worst.distance_cushion),
    }


def _network_row(result: Stability) -> Row:
    return {
        "n": result.n,
        "left_out": result.left_out,
        "undefined": result.undefined,
        "activation_contraction": finite(result.contraction),
        "jacobian_spread": finite(result.spread),
        "interlayer_smoothness": finite(result.smoothness),
        "probes": result.probes,
    }


def _histograms(result: Stability, layer: str) -> Row:
    measured = {quantity: name for quantity, name in NAMES.items() if result.has(quantity, layer)}
    found = {name: result.distribution(quantity, layer) for quantity, name in measured.items()}
    return {
        name: _histogram(values, is_log=name == "interlayer_smoothness")
        for name, values in found.items()
        if np.isfinite(values.minimum)
    }


def _histogram(sample: AbstractOrdered, *, is_log: bool = False) -> Row:
    """Counts and edges over the finite values; on a logarithmic axis, where they spread over decades."""
    counts, edges = sample.histogram(is_log=is_log)
    edges, scale = (np.exp(edges), "log") if is_log else (edges, "linear")
    return {"counts": counts.tolist(), "edges": edges.tolist(), "scale": scale}


def survival(values: NDArray[np.float64], *, of: str, fit: PowerLawFit | None = None) -> Row:
    """The share of values that are at least x, at up to 200 of them, and the fitted tail.

    The tail is given by its two ends, between which it is straight on logarithmic axes.

    >>> survival(np.array([1.0, 4.0]), of="eigenvalues")
    {'of': 'eigenvalues', 'x': [4.0, 1.0], 'share': [0.5, 1.0], 'tail': None}
    """
    descending = np.sort(values)[::-1]
    n = descending.size
    ranks = np.unique(np.geomspace(1, n, _CURVE_POINTS).round().astype(int)) if n else np.zeros(0, dtype=int)
    tail: Row | None = None
    if fit is not None and (estimate := fit.estimate) is not None:
        share = estimate.tail_points / n
        fall = -estimate.tail_exponent * math.log(descending[0] / estimate.xmin)
        tail = {"x": [estimate.xmin, float(descending[0])], "share": [share, share * math.exp(fall)]}
    x, share_above = descending[ranks - 1].tolist(), (ranks / max(1, n)).tolist()
    return {"of": of, "x": x, "share": share_above, "tail": tail}


def _spread_of(sample: AbstractOrdered) -> Row:
    return {
        "min": finite(sample.quantile(0.0)),
        "max": finite(sample.quantile(1.0)),
        "quantiles": {str(level): finite(sample.quantile(level)) for level in _LEVELS},
    }


Options = Mapping[str, Any]


def measure_from_options(
    options: Options, *, out: Path | None = None, engine: Engine | None = None, listener: Listener = NOBODY
) -> dict[str, Any]:
    """Measures a network layer by layer; a new folder gets the record and a page with figures."""
    model, initial, seed = options["model"], options["initial"], options["seed"]
    device = "cpu" if engine is not None and options["device"] == "auto" else options["device"]
    place = resolve_device(device)
    noise, words = choose_noise(options["smoothness"], seed)
    whole = load_sample(options["data"], folder=options["data_folder"])
    network = load_network(model, whole, options["weights"])
    before = None if initial is None else load_network(model, whole, initial)
    folded = fold_and_wrap(network, whole)
    count = folded.workload.examples if options["examples"] is None else options["examples"]
    sample = draw_examples(whole, count, seed=seed)
    probes = _probes(options["jacobian"], folded.workload, options["interlayer"])
    named = {name: options[name] for name in ("interlayer", "biases", "outliers", "seed")}
    chosen = MeasureSettings(
        families=tuple(name.strip() for name in options["families"].split(",")),
        tails_of=options["tails_of"],
        stability=StabilitySettings(**named, probes=probes, smoothness=noise),
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
        found = summarise(folded, sample, chosen, initial=before, engine=engine, progress=progress)
    record = {
        **found.record(),
        "sample": {"data": options["data"], "n": whole.n, "measured": sample.n, "classes": whole.classes}
        | {"input_shape": list(whole.input_shape), "sha256": sample.sha256},
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
        words = f"{DRAWS} draws of Gaussian noise, {NOISE} as long as the activation"
        return Smoothness(NOISE, draws=DRAWS, seed=seed), words
    if kind == "project":
        words = f"{DRAWS} random projections to {_NUMBERS} numbers a layer"
        return Smoothness(_project, draws=DRAWS, seed=seed), words
    raise UsageError(f"smoothness is gaussian, project or none. Got {kind!r}.")


def _project(matrix: Tensor, seed: int) -> Tensor:
    """Project the matrix of a layer. One with fewer weights than numbers stays as it is."""
    return project_matrix(matrix, count=_NUMBERS, seed=seed) if matrix.numel() > _NUMBERS else matrix


def _probes(jacobian: str, work: Workload, interlayer: str) -> int | None:
    if jacobian not in ("auto", "exact", "probes"):
        raise UsageError(f"jacobian is auto, exact or probes. Got {jacobian!r}.")
    if jacobian == "auto":
        return work.probes(interlayer)
    return None if jacobian == "exact" else PROBES


def _start(settings: dict[str, Any], sample: Sample, whole: Sample) -> str:
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
    title = f"Measures of {settings['model']} on {settings['data']}"
    examples = f"{sample['measured']:,} of {sample['n']:,} examples"
    subtitle = f"{examples}; made by codebound {settings['codebound']}"
    write_text(folder / "measure.html", measure_page(record, title=title, subtitle=subtitle))
