"""The page and the pictures of ``codebound compare``: they show rows, they never compute them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from codebound.bounds.risk import percent, rate
from codebound.report.templates import Table, render
from codebound_papers.compare.rows import BAR, NO_MARGIN, ZERO, value_text
from codebound_papers.report.figures import Mark, Marks, Plot, Series, plots_figure
from codebound_papers.report.measures import NONE

Record = Mapping[str, Any]

GROUPS = {
    "certified": "certified",
    "holdout": "hold-out bound",
    "test": "test error",
    "published": "published, no guarantee",
}

_PLOTTED = 4  # curves of bounds in one plot: as many as there are colours


def compare_table(record: Record) -> Table:
    """The rows that have a number, in plain columns."""
    rows = [
        {
            "bound": row["name"],
            "reference": row["reference"] or NONE,
            "value": value_text(row),
            "about": row["subject"],
            "kind": _kind(row),
            "conditions": row["conditions"] or NONE,
        }
        for row in record["rows"]
        if applies(row) and not is_infinite(row)
    ]
    legend = {
        "value": "an error rate in per cent; without a per cent sign a capacity, as its figure plots it.",
        "about": "whose error: f, the network, or g, what it was compressed to.",
        "kind": "what is certified or a hold-out bound is true as printed, with probability 1 - delta, "
        "unless it says no guarantee; vacuous ones say no more than guessing, a capacity as "
        "sqrt(capacity / n).",
        "conditions": "of the theorem, on this network; unknown is what was not measured or cannot be.",
    }
    return Table("Bounds", rows, legend)


def _kind(row: Record) -> str:
    no = ", no guarantee" if row["kind"] in ("certified", "holdout") and not row["guarantee"] else ""
    return f"{GROUPS[row['kind']]}{no}{', vacuous' if row['vacuous'] else ''}"


def without_number(record: Record) -> Table | None:
    """List the bounds without a number, by reason."""
    grouped: dict[str, list[str]] = {}
    for row in record["rows"]:
        if not applies(row) or is_infinite(row):
            grouped.setdefault(_reason(row, record), []).append(row["name"])
    rows = [{"why": why, "count": len(names), "bounds": "; ".join(names)} for why, names in grouped.items()]
    return Table("Without a number here", rows) if rows else None


def _reason(row: Record, record: Record) -> str:
    if not applies(row):
        return str(row["note"])
    if NO_MARGIN not in row["note"]:
        return ZERO
    margin, share = record["facts"]["margin"], record["settings"]["margin_share"]
    if margin > 0.0:  # a figure that takes the smallest of all margins
        return f"{NO_MARGIN} They take the smallest margin of the sample."
    return (
        f"{NO_MARGIN} gamma is {margin:.4g}: {rate(share)} of the sample have no larger one. A larger "
        "margin share, above the training error of f, would make it positive."
    )


def applies(row: Record) -> bool:
    """Return True if a row has a value, be it infinite."""
    return row["vacuous"] is not None


def is_infinite(row: Record) -> bool:
    """Return True if a row has a value beyond all numbers."""
    return applies(row) and row["value"] is None and row["log10"] is None


def format_value(value: float | None, log10: float | None) -> str:
    """A count, deviation or probability as a number or, beyond all doubles, as a power of ten.

    >>> format_value(0.0421, -1.4), format_value(None, 400.25), format_value(None, None)
    ('0.0421', '10^400.2', 'infinite')
    """
    if value is not None:
        return f"{value:.4g}"
    return "infinite" if log10 is None else f"10^{log10:.1f}"


def compare_figure(record: Record) -> str:
    """All error rates on one logarithmic axis, with the line of guessing."""
    marks = [Mark(row["name"], row["log10"], GROUPS[row["kind"]]) for row in record["rows"] if _is_drawn(row)]
    guessing = math.log10(1.0 - 1.0 / record["facts"]["classes"])
    return Marks(marks, label="error rate", line=(guessing, "guessing"), is_narrow=True).inline()


def _is_drawn(row: Record) -> bool:
    """Return True for an error rate that a logarithmic axis can show; capacities have another unit."""
    return applies(row) and row["log10"] is not None and BAR not in row["note"]


def compare_page(record: Record) -> str:
    """The page about the content of ``compare.json``."""
    settings, sample = record["settings"], record["sample"]
    undrawn = sum(applies(row) and not _is_drawn(row) for row in record["rows"])
    caption = "Every bound on an error rate; left of the upright line it says more than guessing."
    if undrawn:
        caption += f" Not drawn, because infinite, zero or a capacity: {undrawn}."
    useful = [row for row in record["rows"] if not row["vacuous"]]
    vacuous = replace(
        compare_table({"rows": [row for row in record["rows"] if row["vacuous"]]}),
        title="Bounds that say no more than guessing",
    )
    notes = Table("What each row is", [{"bound": row["name"], "note": row["note"]} for row in record["rows"]])
    folded = [vacuous, without_number(record), notes, _lemmas(record), _complexities(record)]
    return render(
        "compare.html.j2",
        {
            "title": f"Bounds on {settings['model']}, {settings['data']}",
            "subtitle": f"{sample['n']:,} examples, {sample['classes']} classes; made by codebound "
            f"{settings['codebound']}",
            "lead": _lead(record),
            "notes": record["notes"],
            "figure": compare_figure(record),
            "caption": caption,
            "table": compare_table({"rows": useful}),
            "folded": [table for table in folded if table is not None and table.rows],
            "details": [
                {**each, "conditions": condition_rows(each)}
                for each in record["details"]
                if each["hypotheses"]
            ],
            "settings": [(name.replace("_", " "), plain(value)) for name, value in settings.items()],
        },
        package="codebound_papers.report",
    )


def _lead(record: Record) -> str:
    proved = [row for row in record["rows"] if row["guarantee"] and applies(row)]
    published = sum(row["kind"] == "published" and applies(row) for row in record["rows"])
    if not proved:
        return f"Nothing is guaranteed here: there are {published} published expressions and no certificate."
    best = min(proved, key=lambda row: row["value"])
    return (
        f"The smallest guarantee is {percent(best['value'])}, by {best['name']}, about {best['subject']}. "
        f"The {published} published expressions beside it guarantee nothing."
    )


def condition_rows(detail: Record) -> list[dict[str, str]]:
    """The conditions of a published theorem, and whether they hold."""
    words = {None: "unknown", True: "met", False: "NOT MET"}
    return [
        {"condition": each["statement"], "holds": words[each["holds"]], "found": str(each["found"])}
        for each in detail["hypotheses"]
    ]


def plain(setting: object) -> str:
    """A setting as people read it."""
    if isinstance(setting, float):
        return f"{setting:.6g}"
    if isinstance(setting, Sequence) and not isinstance(setting, str):
        return ", ".join(map(str, setting)) or NONE
    return NONE if setting is None else str(setting)


def _lemmas(record: Record) -> Table:
    rows = [
        {
            "statement": each["name"],
            "reference": each["reference"],
            "value": NONE if "reason" in each else format_value(each["value"], each["log10"]),
            "what": "does not apply" if "reason" in each else each["unit"],
            "note": each.get("reason") or each["sentence"],
        }
        for each in record["lemmas"]
    ]
    return Table("What published bounds rest on", rows)


def _complexities(record: Record) -> Table | None:
    rows = [
        {
            "layer": each["layer"],
            "c^2 beta^2 ceil(kappa/s)^2 / (mu^2 mu_to^2)": format_value(each["value"], None),
            "weights": f"{each['weights']:,}",
            "per cent": format_value(each["percent"], None),
        }
        for each in record["complexities"]
    ]
    legend = {"per cent": "no compression ratio: depth, logarithms, constants and the margin are left out."}
    return Table("Table 1 of Arora et al., for this network", rows, legend) if rows else None


def epochs_figure(points: Sequence[Record]) -> str:
    """Error rates, margins and bounds against epochs."""
    epochs = [point["epoch"] for point in points]

    def curve(label: str, values: Sequence[float | None]) -> Series:
        pairs = [(epoch, value) for epoch, value in zip(epochs, values, strict=True) if value is not None]
        style: Literal["line", "points"] = "line" if len(pairs) > 1 else "points"
        return Series(label, [epoch for epoch, _ in pairs], [value for _, value in pairs], style)

    named = {"train_error": "training", "test_error": "test", "gamma": "gamma", "least_margin": "smallest"}
    training, test, *margins = (
        curve(label, [point[name] for point in points]) for name, label in named.items()
    )
    names = dict.fromkeys(name for point in points for name in point["log10"])
    curves = [curve(name, [point["log10"].get(name) for point in points]) for name in names]
    drawn = [each for each in curves if each.x]
    parts = [drawn[start : start + _PLOTTED] for start in range(0, len(drawn), _PLOTTED)]
    bounds = [Plot("Published bounds", "epoch", "decimal logarithm", part) for part in parts]
    errors = Plot("Errors", "epoch", "error rate", [each for each in (training, test) if each.x])
    sample = Plot("Margins of the sample", "epoch", "margin", margins)
    return plots_figure([errors, sample, *bounds], columns=2)
