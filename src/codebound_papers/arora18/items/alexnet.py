"""Arora et al. 2018, figures 2 (left), A.6 and A.7: AlexNet trained on true and on random labels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codebound_papers.arora18.items.histograms import bins, layers_with, median, overlaid, quantiles, verdict
from codebound_papers.arora18.items.measures import QUANTITIES
from codebound_papers.arora18.items.networks import LABELS, Study, accuracies, deviations, left_open
from codebound_papers.report.figures import Figure
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codebound_papers.measure.noise.result import Quantity

_item = partial(
    item,
    quick="a minute on one core, seconds after another item with AlexNet",
    full="half an hour on a GPU, seconds after another item with AlexNet",
)


@_item(
    "A-Fig2L",
    title="Layer 5 of AlexNet, true and corrupted labels (Arora et al. 2018, figure 2, left)",
    trains=True,
)
def arora_figure2_left(settings: Settings) -> Reproduction:
    """If noise stability is why networks generalise, it should be lost where they do not: in a network that
    has learnt random labels by heart. The figure has layer cushion and activation contraction of the fifth
    layer of two AlexNets, over training images. With true labels the cushion should be larger and the
    contraction smaller. The paper prints no numbers.
    """
    return _compared("A-Fig2L", settings, ("cushion", "contraction"), layer=5)


@_item(
    "A-FigA6", title="Layer cushions of AlexNet, true and corrupted labels (Arora et al. 2018, figure A.6)"
)
def arora_figure_a6(settings: Settings) -> Reproduction:
    """The layer cushion in every layer of two AlexNets, over training images: one has learnt true labels, the
    other random ones. With true labels it should be larger. The paper prints no numbers.
    """
    return _compared("A-FigA6", settings, ("cushion",))


@_item(
    "A-FigA7",
    title="Activation contraction of AlexNet, true and corrupted labels (Arora et al. 2018, figure A.7)",
)
def arora_figure_a7(settings: Settings) -> Reproduction:
    """The activation contraction in every layer with an activation, of two AlexNets over training images: one
    has learnt true labels, the other random ones. With true labels it should be smaller. The paper prints no
    numbers.
    """
    return _compared("A-FigA7", settings, ("contraction",))


def _compared(
    id: str, settings: Settings, shown: Sequence[Quantity], *, layer: int | None = None
) -> Reproduction:
    """Histograms of both networks on common axes, at one layer or at all that have the quantity."""
    networks = Study(settings).measured_alexnets()
    pairs = [(quantity, pair) for quantity in shown for pair in _pairs(quantity, networks, layer)]
    table = [
        {
            "layer": row["layer"],
            "quantity": QUANTITIES[quantity],
            "labels": labels,
            **quantiles(row, quantity),
        }
        for quantity, pair in pairs
        for labels, row in pair.items()
    ]
    networks_table = [accuracies(f"AlexNet, {labels} labels", networks[labels]) for labels in LABELS]
    plots = [
        overlaid(pair["true"]["layer"], quantity, {f"{labels} labels": row for labels, row in pair.items()})
        for quantity, pair in pairs
    ]
    return Reproduction(
        tables={"Over training images": table, "The networks": networks_table},
        sentences=tuple(_sentences(pairs, networks, settings)),
        deviations=deviations(settings.size, of="alexnet"),
        points={
            "histograms": [
                row
                for quantity, pair in pairs
                for row in bins(quantity, {labels: [each] for labels, each in pair.items()})
            ]
        },
        figures={id: Figure(plots, columns=2 if len(plots) == 2 else 3)},
    )


def _pairs(quantity: Quantity, networks: Mapping[str, Row], layer: int | None) -> Iterator[dict[str, Row]]:
    """The same layer of both networks, by labels."""
    by_labels = [layers_with(quantity, networks[labels]) for labels in LABELS]
    pairs = [dict(zip(LABELS, rows, strict=True)) for rows in zip(*by_labels, strict=True)]
    yield from pairs if layer is None else [pairs[min(layer, len(pairs)) - 1]]


def _sentences(
    pairs: Sequence[tuple[Quantity, Mapping[str, Row]]], networks: Mapping[str, Row], settings: Settings
) -> Iterator[str]:
    for quantity in dict.fromkeys(quantity for quantity, _ in pairs):
        sign, word = (1.0, "larger") if quantity == "cushion" else (-1.0, "smaller")
        rows = [pair for each, pair in pairs if each == quantity]
        gains = [sign * (median(row["true"], quantity) - median(row["corrupted"], quantity)) for row in rows]
        agreed = sum(gain > 0.0 for gain in gains)
        middle = ", ".join(
            f"{median(row['true'], quantity):.3g} against {median(row['corrupted'], quantity):.3g}"
            for row in rows
        )
        yield (
            f"{verdict(agreed, of=len(rows))}: with true labels the {QUANTITIES[quantity]} should be {word}, "
            f"and is in {agreed} of {len(rows)} layer{'s' * (len(rows) > 1)}. Medians, true against "
            f"corrupted: {middle}." + ("" if agreed == len(rows) else left_open(settings))
        )
        if quantity == "contraction" and agreed < len(rows):
            yield (
                "A contraction c says that activation and pooling keep a share 1/c^2 of the squared norm: "
                "it is large where few units are active, whatever the labels are."
            )
    if (error := networks["corrupted"]["train_error"]) > 0.02:
        yield (
            f"The network has not learnt the random labels by heart: its training error is {error:.1%}, so "
            "the comparison shows less than the published one."
        )
