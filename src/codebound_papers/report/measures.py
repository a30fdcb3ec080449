"""Measurements for people: tables with a sentence per column, and a page with figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codebound.report.templates import Table, render
from codebound_papers.report.figures import Panel, histogram_figure, survival_figure

Record = Mapping[str, Any]

NONE = "-"
"""A cell without a number."""

_SPECTRA = {
    "shape": "sizes of the weights: outputs x inputs, then the kernel of a convolution.",
    "Frobenius norm": "root of the sum of all squared weights.",
    "spectral norm": "the most that the layer can stretch an input, biases aside; smaller is steadier. For a "
    "convolution it is that of the map between images, not of the weights as a matrix.",
    "at most": "the true spectral norm is certainly not above this.",
    "stable rank": "over how many directions the weights, as a matrix, are spread: (Frobenius norm / largest "
    "singular value)^2, from 1 to the smaller side. Smaller is easier to compress.",
}

_TAILS = {
    "density exponent": "how fast large values become rare: their density falls like x to this power, with a "
    "minus. Other programs call it alpha. Smaller is a heavier tail.",
    "tail exponent": "the same for the share of values above x; always one less.",
    "95 % interval": "of the density exponent, over resampled values.",
    "p": "how often a true power law would fit worse than these values do; below 0.1 it is ruled out.",
    "verdict": "whether the values can carry the claim of a power law; fewer than 50 in the tail never can. "
    "Where they cannot, the exponents are in brackets: those of the closest power law, and no property of "
    "the layer.",
}

_STABILITY = {
    "layer cushion": "length of the output, divided by the Frobenius norm of the weights and the length of "
    "the input: how well real inputs get through, compared with noise; larger is better.",
    "interlayer cushion": "the same for all layers from here to the output together, or to the worst later "
    "layer if all were measured; larger is better. The output itself has none.",
    "contraction": "how much an activation function shortens what it is given; closer to 1 is better.",
    "smoothness": "how nearly linear the later layers are under noise; larger is better. Infinite where they "
    "are linear, or where the noise has not changed anything yet.",
    "spread": "how unevenly the pixels of a layer matter to the output, 1 for all the same; smaller is "
    "better.",
    "noise sensitivity": "how much more the layer amplifies noise than its input; smaller is better.",
    "distance cushion": "layer cushion relative to how far training moved the weights; larger is better.",
}

_COLUMNS = {
    "layer cushion": "layer_cushion",
    "interlayer cushion": "interlayer_cushion",
    "contraction": "activation_contraction",
    "smoothness": "interlayer_smoothness",
    "spread": "jacobian_spread",
}
_HISTOGRAMS = {  # title of the figure, which value of a row is the worst, and what is better
    "layer_cushion": ("Layer cushion", "min", "larger is better"),
    "interlayer_cushion": ("Interlayer cushion", "min", "larger is better"),
    "activation_contraction": ("Activation contraction", "max", "closer to 1 is better"),
    "interlayer_smoothness": ("Interlayer smoothness", "rho", "larger is better"),
    "jacobian_spread": ("Spread of the Jacobian over pixels", "max", "smaller is better"),
}
_VALUES = {
    "eigenvalues": "eigenvalues of A^T A",
    "absolute": "absolute weights",
    "positive": "positive weights",
}


def measure_tables(record: Record) -> tuple[Table, ...]:
    """One table per family that was measured, and one of what could not be."""
    layers = record["layers"]
    found = []
    if any(layer["stable_rank"] is not None for layer in layers):
        found.append(_spectra(layers))
    if any(layer["alpha"] is not None for layer in layers):
        found.append(_tails(layers))
    if record["network"] is not None:
        found.append(_stability(layers, record["network"]))
    if record["margins"] is not None:
        found.append(_margins(record["margins"]))
    if record["not_measured"]:
        found.append(_not_measured(record["not_measured"]))
    return tuple(found)


def flat_rows(record: Record) -> list[dict[str, object]]:
    """One row of plain cells per layer, for spreadsheets; the margins where only they were measured."""
    cells = (item for layer in record["layers"] for item in layer.items())
    is_bare = all(value is None for key, value in cells if key not in ("name", "kind", "shape"))
    if record["margins"] is not None and is_bare:
        margins = dict(record["margins"])
        quantiles = {f"quantile_{level}": value for level, value in margins.pop("quantiles").items()}
        return [margins | quantiles]
    return [_flat(layer) for layer in record["layers"]]


def _number(value: float | None, digits: int = 4) -> str:
    return NONE if value is None else f"{value:.{digits}g}"


def _flat(layer: Record) -> dict[str, object]:
    norm, alpha = layer["spectral_norm"] or {}, layer["alpha"] or {}
    low, high = alpha.get("interval") or (None, None)
    row: dict[str, object] = {"name": layer["name"], "kind": layer["kind"], "shape": _shape(layer)}
    row |= {"frobenius_norm": layer["frobenius_norm"], "spectral_norm": norm.get("value")}
    row |= {"spectral_norm_upper": norm.get("upper")}
    row |= {name: layer[name] for name in ("matrix_spectral_norm", "stable_rank")}
    row |= {"tail_status": alpha.get("status"), "density_exponent": alpha.get("density_exponent")}
    row |= {"density_exponent_low": low, "density_exponent_high": high}
    row |= {name: alpha.get(name) for name in ("tail_exponent", "p_value", "tail_points")}
    for name in _COLUMNS.values():
        row[name] = _worst(layer[name], name)
        row[f"{name}_median"] = None if layer[name] is None else layer[name]["quantiles"]["0.5"]
    plain = "minimal_interlayer_cushion", "noise_sensitivity", "distance_from_initial", "distance_cushion"
    row |= {name: layer[name] for name in plain}
    return {name: "" if value is None else value for name, value in row.items()}


def _shape(layer: Record) -> str:
    return NONE if layer["shape"] is None else " x ".join(map(str, layer["shape"]))


def _spectra(layers: Sequence[Record]) -> Table:
    rows = [
        {
            "layer": layer["name"],
            "shape": _shape(layer),
            "Frobenius norm": _number(layer["frobenius_norm"]),
            "spectral norm": _number((layer["spectral_norm"] or {}).get("value")),
            "at most": round_up((layer["spectral_norm"] or {}).get("upper")),
            "stable rank": _number(layer["stable_rank"]),
        }
        for layer in layers
        if layer["stable_rank"] is not None
    ]
    return Table("Spectra and norms", rows, _SPECTRA)


def round_up(value: float | None) -> str:
    """Four digits, never below the value: it is printed as a bound."""
    if value is None or value <= 0.0:
        return _number(value)
    text = f"{value:.4g}"
    if float(text) < value:
        unit = 10.0 ** (math.floor(math.log10(value)) - 3)
        text = f"{float(text) + unit:.4g}"
    return text


def _tails(layers: Sequence[Record]) -> Table:
    fits = [(layer["name"], layer["alpha"]) for layer in layers if layer["alpha"] is not None]
    rows = []
    for name, alpha in fits:
        is_law = alpha["status"] == "power law"
        low, high = alpha["interval"] or (None, None)
        rows.append(
            {
                "layer": name,
                "density exponent": _format_claim(alpha["density_exponent"], is_law),
                "tail exponent": _format_claim(alpha["tail_exponent"], is_law),
                "95 % interval": NONE if low is None else f"{_number(low, 3)} to {_number(high, 3)}",
                "p": NONE if alpha["p_value"] is None else f"{alpha['p_value']:.2f}",
                "verdict": alpha["reason"],
            }
        )
    return Table(f"Tails of the {_VALUES[fits[0][1]['of']]}", rows, _TAILS)


def _format_claim(value: float | None, is_law: bool) -> str:
    return _number(value, 3) if is_law or value is None else f"({_number(value, 3)})"


def _stability(layers: Sequence[Record], network: Record) -> Table:
    rows = []
    for layer in layers:
        if not any(layer[name] for name in _COLUMNS.values()):
            continue
        cells = {"layer": layer["name"]}
        cells |= {column: _per_example(layer[name], name) for column, name in _COLUMNS.items()}
        cells["noise sensitivity"] = _number(layer["noise_sensitivity"], 3)
        cells["distance cushion"] = _number(layer["distance_cushion"], 3)
        rows.append(cells)
    empty = [column for column in _STABILITY if all(row[column] == NONE for row in rows)]
    kept = [{column: cell for column, cell in row.items() if column not in empty} for row in rows]
    legend = {column: text for column, text in _STABILITY.items() if column not in empty}
    intervals = [(layer["interlayer_cushion"] or {}).get("probe_interval") for layer in layers]
    if interval := next(filter(None, intervals), None):
        legend["interlayer cushion"] += (
            f" Estimated with {network['probes']} random probes: the exact value of an example is "
            f"{interval[0]:.2f} to {interval[1]:.2f} times that, with 95 % confidence."
        )
    sums = [layer["name"] for layer in layers if layer["kind"] == "sum"]
    if sums:
        legend = {"layer": f"{', '.join(sums[:2])}: where the branches of a block are added up."} | legend
    examples = f"{network['n'] - network['left_out']:,} of {network['n']:,} examples"
    if network["undefined"]:
        examples += f", {network['undefined']:,} of them left out because they switch a layer off"
    return Table(f"Noise stability: worst value over {examples}, median in brackets", kept, legend)


def _worst(found: Record | None, name: str) -> float | None:
    worst: float | None = None if found is None else found[_HISTOGRAMS[name][1]]
    return worst


def _per_example(found: Record | None, name: str) -> str:
    if found is None:
        return NONE
    values = _worst(found, name), found["quantiles"]["0.5"]
    worst, median = ("infinite" if value is None else _number(value, 3) for value in values)
    return f"{worst} ({median})"


def _margins(margins: Record) -> Table:
    rows = [
        ("examples", f"{margins['n']:,}", "that were measured"),
        ("errors", f"{margins['errors']:,}", "margin 0 or less: the label has no score above all others"),
        ("smallest margin", _number(margins["min"]), "the worst example"),
    ]
    for level, words in (("0.01", "1 %"), ("0.05", "5 %"), ("0.25", "a quarter"), ("0.5", "half")):
        rows.append((f"{words} are at most", _number(margins["quantiles"][level]), ""))
    if margins["non_finite"]:
        rows.append(("not finite", f"{margins['non_finite']:,}", "examples with NaN or infinite scores"))
    legend = {
        "margin": "score of the label less the largest other score; larger is surer, negative is wrong."
    }
    return Table("Margins", [dict(zip(("what", "value", "note"), row, strict=True)) for row in rows], legend)


def _not_measured(missing: Sequence[Record]) -> Table:
    """Layers with the same gap and the same reason share a line."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for row in missing:
        grouped.setdefault((row["quantity"], row["reason"]), []).append(row["layer"])
    rows = [{"what": what, "where": ", ".join(where), "why": why} for (what, why), where in grouped.items()]
    return Table("Not measured", rows)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of a page."""

    title: str  # above it
    svg: str = field(repr=False)  # for a page
    caption: str  # below it
    fits: bool = False  # whether it may be drawn larger than it is


def measure_page(record: Record, *, title: str, subtitle: str) -> str:
    """The page."""
    return render(
        "measure.html.j2",
        {
            "title": title,
            "subtitle": subtitle,
            "notes": record["notes"],
            "tables": measure_tables(record),
            "figures": list(measure_figures(record)),
            "settings": [(name.replace("_", " "), value) for name, value in record["settings"].items()],
        },
        package="codebound_papers.report",
    )


def measure_figures(record: Record) -> Iterator[Drawing]:
    """Histograms of noise stability, spectra with their tails, and margins."""
    curves = record["curves"]["layers"]
    for name, (title, worst, better) in _HISTOGRAMS.items():
        panels = [
            Panel(layer["name"], curves[layer["name"]][name], layer[name][worst])
            for layer in record["layers"]
            if name in curves.get(layer["name"], {})
        ]
        if panels:
            caption = (
                f"Examples by value, on one scale for all layers; {better}. The line is the value in the "
                "table. Up to one in a hundred examples may lie beyond the right end."
            )
            yield Drawing(title, histogram_figure(panels, label=title.lower()), caption, len(panels) < 3)
    yield from _spectra_figures(record)
    if record["curves"]["margins"] is not None:
        panel = Panel("all examples", record["curves"]["margins"], 0.0)
        caption = "Examples by margin. What is left of the line is wrong."
        yield Drawing("Margins", histogram_figure([panel], label="margin"), caption, fits=True)


def _spectra_figures(record: Record) -> Iterator[Drawing]:
    curves = record["curves"]["layers"]
    panels = [
        Panel(
            _tail_title(layer),
            curves[layer["name"]]["survival"],
            is_claimed=bool(layer["alpha"]) and layer["alpha"]["status"] == "power law",
        )
        for layer in record["layers"]
        if curves.get(layer["name"], {}).get("survival", {}).get("x")
    ]
    if not panels:
        return
    caption = (
        "Share of values that are at least x, on logarithmic axes, where a power law is a straight line; "
        "without the smallest tenth."
    )
    if any(panel.curve["tail"] for panel in panels):
        caption += " Orange: the closest power law; dashed where the values cannot carry that claim."
    of = _VALUES[panels[0].curve["of"]]
    yield Drawing(f"Tails of the {of}", survival_figure(panels, label=of), caption, len(panels) < 3)


def _tail_title(layer: Record) -> str:
    alpha = layer["alpha"]
    if alpha is None:
        return str(layer["name"])
    if alpha["status"] != "power law":
        return f"{layer['name']}: {alpha['status']}"
    return f"{layer['name']}: exponent {alpha['density_exponent']:.3g}"
