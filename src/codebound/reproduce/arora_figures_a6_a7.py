"""Arora et al. 2018, figures 2 (left), A.6 and A.7: AlexNet trained on true and on random labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.report.figures import Figure
from codebound.reproduce.arora_histograms import bins, layers_with, median, overlaid, quantiles, verdict
from codebound.reproduce.arora_measures import QUANTITIES
from codebound.reproduce.arora_networks import Labels, Study, deviations
from codebound.reproduce.item import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codebound.measure.stability_result import Quantity

_LABELS: tuple[Labels, ...] = ("true", "corrupted")
_ACCURACIES = {"true": (100.0, 77.22), "corrupted": (100.0, 9.86)}  # published, training and validation
_LAYER = 5
_QUICK = "a minute on one core, seconds after another item with AlexNet"
_FULL = "half an hour on a GPU, seconds after another item with AlexNet"


@item(
    "A-Fig2L",
    title="Layer 5 of AlexNet, true and corrupted labels (Arora et al. 2018, figure 2, left)",
    quick=_QUICK,
    full=_FULL,
)
def arora_figure2_left(settings: Settings) -> Reproduction:
    """If noise stability is why networks generalise, it should be lost where they do not: in a network that
    has learnt random labels by heart. The figure has layer cushion and activation contraction of the fifth
    layer of two AlexNets, over training images. With true labels the cushion should be larger and the
    contraction smaller. The paper prints no numbers.
    """
    return _compared("A-Fig2L", settings, ("cushion", "contraction"), layer=_LAYER)


@item(
    "A-FigA6",
    title="Layer cushions of AlexNet, true and corrupted labels (Arora et al. 2018, figure A.6)",
    quick=_QUICK,
    full=_FULL,
)
def arora_figure_a6(settings: Settings) -> Reproduction:
    """The layer cushion in every layer of two AlexNets, over training images: one has learnt true labels, the
    other random ones. With true labels it should be larger. The paper prints no numbers.
    """
    return _compared("A-FigA6", settings, ("cushion",))


@item(
    "A-FigA7",
    title="Activation contraction of AlexNet, true and corrupted labels (Arora et al. 2018, figure A.7)",
    quick=_QUICK,
    full=_FULL,
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
    study = Study(settings)
    networks: dict[str, Row] = {labels: study.measured_alexnet(labels) for labels in _LABELS}
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
    plots = [overlaid(pair["true"]["layer"], quantity, _labelled(pair)) for quantity, pair in pairs]
    return Reproduction(
        tables={"Over training images": table, "The networks": [_accuracies(x, networks) for x in _LABELS]},
        sentences=tuple(_sentences(pairs, networks)),
        deviations=deviations(settings.size, of="alexnet"),
        points={
            "histograms": [
                row
                for quantity, pair in pairs
                for row in bins(quantity, {labels: [layer] for labels, layer in pair.items()})
            ]
        },
        figures={id: Figure(plots, columns=2 if len(plots) == 2 else 3)},
    )


def _pairs(quantity: Quantity, networks: Mapping[str, Row], layer: int | None) -> Iterator[dict[str, Row]]:
    """The same layer of both networks, by labels."""
    by_labels = [layers_with(quantity, networks[labels]) for labels in _LABELS]
    pairs = [dict(zip(_LABELS, rows, strict=True)) for rows in zip(*by_labels, strict=True)]
    yield from pairs if layer is None else [pairs[min(layer, len(pairs)) - 1]]


def _labelled(pair: Mapping[str, Row]) -> dict[str, Row]:
    return {f"{labels} labels": row for labels, row in pair.items()}


def _accuracies(labels: str, networks: Mapping[str, Row]) -> Row:
    network, (train, validation) = networks[labels], _ACCURACIES[labels]
    return {
        "labels": labels,
        "training accuracy in %": 100.0 * (1.0 - network["train_error"]),
        "published_training": train,
        "test accuracy in %": 100.0 * (1.0 - network["test_error"]),
        "published_validation": validation,
        "examples without a value": network["undefined"],
    }


def _sentences(
    pairs: Sequence[tuple[Quantity, Mapping[str, Row]]], networks: Mapping[str, Row]
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
            f"corrupted: {middle}."
        )
    if (error := networks["corrupted"]["train_error"]) > 0.02:
        yield (
            f"The network has not learnt the random labels by heart: its training error is {error:.1%}, so "
            "the comparison shows less than the published one."
        )
