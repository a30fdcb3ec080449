"""One self-contained page about what was measured: tables, histograms per layer, spectra with their tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.report.html import rendered
from codebound_papers.report.figures import Panel, histogram_figure, survival_figure
from codebound_papers.report.measures import measure_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Record = Mapping[str, Any]

_HISTOGRAMS = {
    "layer_cushion": ("Layer cushion", "min", "larger is better"),
    "interlayer_cushion": ("Interlayer cushion", "min", "larger is better"),
    "activation_contraction": ("Activation contraction", "max", "closer to 1 is better"),
    "interlayer_smoothness": ("Interlayer smoothness", "rho", "larger is better"),
    "jacobian_spread": ("Spread of the Jacobian over pixels", "max", "smaller is better"),
}
_VALUES = {
    "eigenvalues": "eigenvalue of A^T A",
    "absolute": "absolute weight",
    "positive": "positive weight",
}


@dataclass(frozen=True, slots=True)
class _Figure:
    title: str
    svg: str
    caption: str


def measure_page(record: Record, *, title: str, subtitle: str) -> str:
    """The page.

    Args:
        record: The content of ``measure.json``: rows, curves and settings.
        title: Heading.
        subtitle: One line under it.
    """
    return rendered(
        "measure.html.j2",
        {
            "title": title,
            "subtitle": subtitle,
            "notes": record["notes"],
            "tables": measure_tables(record),
            "figures": list(_figures(record)),
            "settings": [(name.replace("_", " "), value) for name, value in record["settings"].items()],
        },
        package="codebound_papers.report",
    )


def _figures(record: Record) -> Iterator[_Figure]:
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
            yield _Figure(title, histogram_figure(panels, label=title.lower()), caption)
    yield from _spectra(record)
    if record["curves"]["margins"] is not None:
        panel = Panel("all examples", record["curves"]["margins"], 0.0)
        caption = "Examples by margin. What is left of the line is wrong."
        yield _Figure("Margins", histogram_figure([panel], label="margin"), caption)


def _spectra(record: Record) -> Iterator[_Figure]:
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
    yield _Figure("Spectra and their tails", survival_figure(panels, label=of), caption)


def _tail_title(layer: Record) -> str:
    alpha = layer["alpha"]
    if alpha is None:
        return str(layer["name"])
    if alpha["status"] != "power law":
        return f"{layer['name']}: {alpha['status']}"
    return f"{layer['name']}: exponent {alpha['density_exponent']:.3g}"
