"""Arora et al. 2018, figures 1 and A.1 to A.5: noise stability of the layers of VGG-19."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound_papers.arora18.items.histograms import (
    bins,
    clipping,
    layers_with,
    median,
    overlaid,
    quantiles,
    verdict,
)
from codebound_papers.arora18.items.measures import QUANTITIES
from codebound_papers.arora18.items.networks import Study, accuracies, deviations, left_open, vgg19_item
from codebound_papers.report.figures import Figure
from codebound_papers.reproduce.items import Reproduction, Row, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codebound_papers.measure.noise.result import Quantity

_LAYER = 13
_SHOWN: tuple[Quantity, ...] = ("cushion", "interlayer", "contraction", "smoothness")
_NEAR_1, _ALMOST_ALL = 1.5, 0.9


@vgg19_item(
    "A-Fig1",
    title="Noise stability of layer 13 of VGG-19, trained and random (Arora et al. 2018, figure 1)",
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
        sentences=tuple(_figure1_sentences(network, layers)),
        deviations=deviations(settings.size, of="vgg19"),
        points={"histograms": [row for quantity in _SHOWN for row in bins(quantity, each)]},
        figures={"A-Fig1": Figure(plots, columns=2)},
    )


def _layer(network: Row) -> Row:
    """Layer 13; in a network with fewer layers, the one before the last two."""
    layers: list[Row] = network["layers"]
    return layers[min(_LAYER, len(layers) - 2) - 1]


def _figure1_sentences(network: Row, layers: Mapping[str, Row]) -> Iterator[str]:
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


@vgg19_item(
    "A-FigA1",
    title="Layer cushions of VGG-19 (Arora et al. 2018, figure A.1)",
)
def arora_figure_a1(settings: Settings) -> Reproduction:
    """The layer cushion, ||A x|| / (||A||_F ||x||) for the input x of a layer, in every layer of a trained
    VGG-19 over training images. A random direction would give 1/sqrt(inputs) for a fully connected layer; the
    larger it is, the less a random change of the weights matters. The paper prints no numbers.
    """
    return _by_layer("A-FigA1", "cushion", settings)


@vgg19_item(
    "A-FigA2",
    title="Interlayer cushions of VGG-19 (Arora et al. 2018, figure A.2)",
)
def arora_figure_a2(settings: Settings) -> Reproduction:
    """The interlayer cushion, ||J x|| / (||J||_F ||x||) times the root of the pixels for the Jacobian J from
    a layer to a later one, in every layer but the last of a trained VGG-19: the smallest over all later
    layers, before it is clipped at 1/sqrt(h). The paper prints no numbers.
    """
    return _by_layer("A-FigA2", "interlayer", settings)


@vgg19_item(
    "A-FigA3",
    title="Activation contraction of VGG-19 (Arora et al. 2018, figure A.3)",
)
def arora_figure_a3(settings: Settings) -> Reproduction:
    """The activation contraction, ||x|| / ||phi(x)|| for the output x of a layer and the activation phi after
    it, in every layer but the last of a trained VGG-19 (A-E24). With signs by chance it would be the root of
    2. The paper prints no numbers.
    """
    return _by_layer("A-FigA3", "contraction", settings)


@vgg19_item(
    "A-FigA4",
    title="Interlayer smoothness of VGG-19 (Arora et al. 2018, figure A.4)",
)
def arora_figure_a4(settings: Settings) -> Reproduction:
    """The interlayer smoothness rho says how nearly linear everything after a layer is on noise at that
    layer: the smallest over all later layers, for each noise draw, in every layer but the last of a trained
    VGG-19. The theorems need three times the number of layers. The paper prints no numbers.
    """
    return _by_layer("A-FigA4", "smoothness", settings)


@vgg19_item(
    "A-FigA5",
    title="Spread of Jacobians over pixels, VGG-19 (Arora et al. 2018, figure A.5)",
)
def arora_figure_a5(settings: Settings) -> Reproduction:
    """How evenly the Jacobian from a layer to the output spreads over the pixels of that layer, in every
    layer with pixels of a trained VGG-19: beta is the largest norm of the part of a pixel, over some pixels
    drawn at random, relative to an even spread. The paper reads beta from the upper tail and finds about 1 in
    almost all layers.
    """
    return _by_layer("A-FigA5", "spread", settings)


def _by_layer(id: str, quantity: Quantity, settings: Settings) -> Reproduction:
    network = Study(settings).measured_vgg19()
    layers = layers_with(quantity, network)
    plots = [overlaid(f"{row['number']}: {row['layer']}", quantity, {"": row}) for row in layers]
    table = [{"number": row["number"], "layer": row["layer"], **quantiles(row, quantity)} for row in layers]
    return Reproduction(
        tables={
            f"{QUANTITIES[quantity].capitalize()}, over training images": table,
            "The network": [accuracies("VGG-19", network)],
        },
        sentences=tuple(_layer_sentences(quantity, layers, network, settings)),
        deviations=deviations(settings.size, of="vgg19"),
        points={"histograms": list(bins(quantity, {"trained": layers}))},
        figures={id: Figure(plots, columns=4)},
    )


def _layer_sentences(
    quantity: Quantity, layers: Sequence[Row], network: Row, settings: Settings
) -> Iterator[str]:
    medians = {row["layer"]: median(row, quantity) for row in layers}
    low, high = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
    yield (
        f"Medians of the {QUANTITIES[quantity]} lie between {medians[low]:.3g} ({low}) and "
        f"{medians[high]:.3g} ({high})."
    )
    worst = [
        row[quantity]["quantiles"]["1" if quantity in ("contraction", "spread") else "0"] for row in layers
    ]
    if quantity == "cushion":
        above = [row["layer"] for row in layers if row[quantity]["quantiles"]["1"] > 1.0]
        yield f"Convolutions may have cushions above 1 (A-E24); here these do: {', '.join(above) or 'none'}."
    elif quantity == "interlayer":
        yield clipping(network)
    elif quantity == "contraction":
        yield (
            f"The largest over all layers and examples is {max(worst):.3g}: that is the c of the theorem, "
            "where the table takes the largest of each layer (A-E22)."
        )
        yield f"Examples left out because a whole layer is silent (A-E24): {network['undefined'] or 'none'}."
    elif quantity == "smoothness":
        least, needed = min(worst), 3 * len(network["layers"])
        yield (
            f"The theorems need at least three times the number of layers, {needed}, for all examples and "
            f"nearly all draws. The smallest is {least:.3g}: "
            f"{'that holds here' if least >= needed else 'they do not apply to this network'}."
        )
    else:
        near, typical = (sum(value < _NEAR_1 for value in values) for values in (worst, medians.values()))
        is_met = near >= _ALMOST_ALL * len(worst)
        yield (
            f"We {'agree' if is_met else 'do not agree'} that beta is about 1 in almost all layers: below "
            f"{_NEAR_1} its largest value is in {near} of {len(worst)} layers, its median in {typical}; the "
            f"largest of all is {max(worst):.3g}. The paper reads beta from the upper tail, and does not say "
            "where." + ("" if is_met else left_open(settings))
        )
