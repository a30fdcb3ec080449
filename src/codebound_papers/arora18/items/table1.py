"""Arora et al. 2018, table 1: what each layer of VGG-19 adds to the bound, beside its number of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound_papers.arora18.items.measures import facts_of
from codebound_papers.arora18.items.networks import Study, accuracies, deviations, left_open, vgg19_item
from codebound_papers.arora18.noise_stability import table_rows
from codebound_papers.arora18.stability import plan
from codebound_papers.report.figures import Figure, Plot, curves
from codebound_papers.reproduce.items import Reproduction, Row, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codebound_papers.facts import NetworkFacts

PUBLISHED = {  # number of the layer: value, weights, percent (not rounded but cut off)
    1: (1644.87, 1728, 95.18),
    4: (644654.14, 147456, 437.18),
    6: (3457882.42, 589824, 586.25),
    9: (36920.60, 1179648, 3.129),
    12: (22735.09, 2359296, 0.963),
    15: (26583.81, 2359296, 1.126),
    18: (5052.15, 262144, 1.927),
}
"""The table as printed."""

_NONE = (None, None, None)


@vgg19_item(
    "A-Tab1",
    title="What each layer of VGG-19 adds to the bound (Arora et al. 2018, table 1)",
)
def arora_table1(settings: Settings) -> Reproduction:
    """For seven layers of VGG-19 the table has c^2 beta^2 ceil(kappa/s)^2 / (mu_i^2 mu_{i->}^2), called the
    effective number of parameters, beside the number of weights, and their ratio as compression in percent.
    Left out are the squared depth, logarithms, constants, and the largest output over the margin; and c and
    beta are those of the layer, where the theorem has the largest of all. Beside it here: the numbers that
    lemmas 3 and 14 ask for with all of that, their open constant as 1 (A-E22).
    """
    network = Study(settings).measured_vgg19()
    rows = _rows(facts_of(network))
    shown = [row for row in rows if row["number"] in PUBLISHED]
    ours = {"percent": "as in the table, here", "percent with all factors": "with all factors, here"}
    theirs = {"published_percent": "as in the table, published"}
    series = [*curves(rows, "number", ours), *curves(rows, "number", theirs, "points")]
    plot = Plot("value in percent of the weights", "layer", "percent", series, y_scale="log")
    return Reproduction(
        tables={
            "Value, number of weights, and value in percent of them": shown,
            "The network": [accuracies("VGG-19", network)],
        },
        sentences=tuple(_sentences(shown, settings)),
        deviations=deviations(settings.size, of="vgg19"),
        points={"all layers": rows},
        figures={"A-Tab1": Figure([plot], columns=1)},
    )


def _rows(facts: NetworkFacts) -> list[Row]:
    planned = plan(facts)
    needed = [None] * facts.depth if planned is None else [float(layer.published) for layer in planned.layers]
    rows: list[Row] = []
    for number, (row, numbers) in enumerate(zip(table_rows(facts), needed, strict=True), start=1):
        value, weights, percent = PUBLISHED.get(number, _NONE)
        rows.append(
            {
                "number": number,
                "layer": row.name,
                "value": row.value,
                "published_value": value,
                "weights": row.weights,
                "published_weights": weights,
                "percent": row.percent,
                "published_percent": percent,
                "numbers with all factors": numbers,
                "percent with all factors": None if numbers is None else 100.0 * numbers / row.weights,
            }
        )
    return rows


def _sentences(rows: Sequence[Row], settings: Settings) -> Iterator[str]:
    below = [row["number"] for row in rows if row["percent"] < 100.0]
    theirs = [number for number, (*_, percent) in PUBLISHED.items() if percent < 100.0]
    early, late = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    falls = min(row["percent"] for row in late) < min(row["percent"] for row in early)
    agreed = "We agree" if below == theirs else "We agree in part" if falls else "We do not agree"
    yield (
        f"{agreed}: the value is below the number of weights in layers {_listed(below)}; in the paper in "
        f"{_listed(theirs)}. As a share of the weights it is smallest "
        f"{'late in the network, as in the paper' if falls else 'early in the network, in the paper late'}."
    )
    larger = [row["value"] / row["published_value"] for row in rows]
    yield (
        f"The values are {min(larger):.2g} to {max(larger):.2g} times the published ones. Here each factor "
        "is that of the worst example; the paper does not say what became of outliers." + left_open(settings)
    )
    if any(row["weights"] < row["published_weights"] for row in rows):
        yield (
            "This network is narrower than the published one: its layers have fewer weights to compare the "
            "value with, so that the percentages are larger."
        )
    planned = [row for row in rows if row["numbers with all factors"] is not None]
    factors = [row["numbers with all factors"] / row["value"] for row in planned]
    if factors:
        least = min(row["percent with all factors"] for row in rows)
        yield (
            "The table is no count of parameters (A-E22): what it leaves out multiplies each value by "
            f"{min(factors):.1e} to {max(factors):.1e}, and with it the least of these layers needs "
            f"{least:.1e} % of its weights. With its constants the lemma compresses no layer of a realistic "
            "network (A-E26)."
        )
    yield "Its percentages are cut off, not rounded: 3.1298 % is printed as 3.129."


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
