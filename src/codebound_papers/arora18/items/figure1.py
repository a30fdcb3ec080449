"""Arora et al. 2018, figure 1: noise stability of one layer, in a trained and in a random network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound_papers.arora18.items.histograms import bins, clipping, median, overlaid, quantiles, verdict
from codebound_papers.arora18.items.measures import QUANTITIES
from codebound_papers.arora18.items.networks import Study, accuracies, deviations
from codebound_papers.report.figures import Figure
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codebound_papers.measure.noise.result import Quantity

_LAYER = 13
_SHOWN: tuple[Quantity, ...] = ("cushion", "interlayer", "contraction", "smoothness")


@item(
    "A-Fig1",
    title="Noise stability of layer 13 of VGG-19, trained and random (Arora et al. 2018, figure 1)",
    quick="3 minutes on one core, seconds after another item with VGG-19",
    full="half an hour on a GPU, seconds after another item with VGG-19",
    trains=True,
)
def arora_figure1(settings: Settings) -> Reproduction:
    """Four quantities say how much of a noise that is added at a layer reaches the output. The figure has
    their histograms over training images, for a trained VGG-19 and for the random network that its training
    began with: layer cushion, smallest interlayer cushion before it is clipped at 1/sqrt(h), activation
    contraction, interlayer smoothness. Cushions and smoothness should be large, contraction small. The paper
    prints no numbers.
    """
    study = Study(settings)
    network = study.measured_vgg19()
    trained = _layer(network)
    layers = {"trained": trained, "random": study.measured_random(trained["layer"])}
    number = trained["number"]
    table = [
        {"quantity": QUANTITIES[quantity], "network": name, **quantiles(layer, quantity)}
        for quantity in _SHOWN
        for name, layer in layers.items()
    ]
    plots = [overlaid(f"layer {number}", quantity, layers) for quantity in _SHOWN]
    each = {name: [layer] for name, layer in layers.items()}
    return Reproduction(
        tables={
            f"Layer {number}, over training images": table,
            "The trained network": [accuracies("VGG-19", network)],
        },
        sentences=tuple(_sentences(network, layers)),
        deviations=deviations(settings.size, of="vgg19"),
        points={"histograms": [row for quantity in _SHOWN for row in bins(quantity, each)]},
        figures={"A-Fig1": Figure(plots, columns=2)},
    )


def _layer(network: Row) -> Row:
    """Layer 13; in a network with fewer layers, the one before the last two."""
    layers: list[Row] = network["layers"]
    return layers[min(_LAYER, len(layers) - 2) - 1]


def _sentences(network: Row, layers: Mapping[str, Row]) -> Iterator[str]:
    larger = [
        quantity
        for quantity in ("cushion", "interlayer")
        if median(layers["trained"], quantity) > median(layers["random"], quantity)
    ]
    medians = ", ".join(
        f"{QUANTITIES[quantity]} {median(layers['trained'], quantity):.3g} against "
        f"{median(layers['random'], quantity):.3g}"
        for quantity in _SHOWN
    )
    yield (
        f"{verdict(len(larger), of=2)} that training makes cushions larger: medians, trained against random, "
        f"are {medians}."
    )
    yield clipping(network)
    yield (
        "The histograms do not say what a bound needs, which is the worst example: the smallest cushion of "
        f"the trained layer is {layers['trained']['cushion']['quantiles']['0']:.3g}, its median "
        f"{median(layers['trained'], 'cushion'):.3g}. A convolution may have a cushion above 1 (A-E24)."
    )
