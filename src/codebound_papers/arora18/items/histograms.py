"""Arora et al. 2018, figures 1, 2 (left) and A.1 to A.7: noise stability of VGG-19 and AlexNet, by layer."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean

from codebound_papers.arora18.items import arora_networks as nets
from codebound_papers.arora18.items.layer_rows import QUANTITIES, gaussian
from codebound_papers.measure.noise.result import Quantity
from codebound_papers.report.figures import Figure, Plot, Series
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item, verdict

_FEW_TICKS = 3
_LAYER = 13
_SHOWN: tuple[Quantity, ...] = ("cushion", "interlayer", "contraction", "smoothness")
_NEAR_1, _ALMOST_ALL = 1.5, 0.9
_HIGHER = 8  # "especially for the higher layers (8 and higher)"
_alexnet_item = partial(
    item,
    quick="a minute on one core, seconds after another item with AlexNet",
    full="half an hour on a GPU, seconds after another item with AlexNet",
)


@nets.vgg19_item("A-Fig1")
def arora_figure1(settings: Settings) -> Reproduction:
    """Noise stability of layer 13 of VGG-19, trained and random (Arora et al. 2018, figure 1)

    Four quantities say how much of a noise that is added at a layer reaches the output. The figure has
    their histograms over training images, for a trained VGG-19 and for the random network that its training
    began with: layer cushion, smallest interlayer cushion before it is clipped at 1/sqrt(h), activation
    contraction, interlayer smoothness under Gaussian noise a tenth as long as the activation. Cushions and
    smoothness should be large, contraction small. The paper prints no numbers, and does not say what the
    noise is; A-FigA4 has others.
    """
    study = nets.Study(settings)
    network = study.measure_vgg19()
    # layer 13; in a network with fewer layers, the one before the last two
    place = min(_LAYER, len(network["layers"]) - 2) - 1
    noisy = study.measure_noises(only=gaussian(nets.USUAL_NOISE))[gaussian(nets.USUAL_NOISE)]
    trained = {**noisy[place], **network["layers"][place]}
    layers = {"trained": trained, "random": study.measure_random_layer(trained["layer"])}
    number = trained["number"]
    table = [
        {"quantity": QUANTITIES[quantity], "network": name, **quantiles(layer, quantity)}
        for quantity in _SHOWN
        for name, layer in layers.items()
    ]
    plots = [overlay(f"layer {number}", quantity, layers) for quantity in _SHOWN]
    return Reproduction(
        tables={
            f"Layer {number}, over training images": table,
            "The trained network": [nets.accuracies("VGG-19", network)],
        },
        sentences=_figure1_sentences(network, layers, settings),
        deviations=nets.deviations(settings.size, of="vgg19"),
        points={"histograms": bins([(quantity, layers) for quantity in _SHOWN])},
        figures={"A-Fig1": Figure(plots, columns=2)},
    )


def _figure1_sentences(network: Row, layers: Mapping[str, Row], settings: Settings) -> Iterator[str]:
    trained, random = ({each: median(layer, each) for each in _SHOWN} for layer in layers.values())
    larger = sum(trained[quantity] > random[quantity] for quantity in ("cushion", "interlayer"))
    told = (f"{QUANTITIES[each]} {trained[each]:.3g} against {random[each]:.3g}" for each in _SHOWN)
    yield f"""{verdict(larger, of=2, settings=settings)}: training makes cushions larger. Medians,
        trained against random, are {", ".join(told)}."""
    yield compare_clipping(network, settings)
    yield f"""The histograms do not say what a bound needs, which is the worst example: the smallest cushion
        of the trained layer is {layers["trained"]["cushion"]["quantiles"]["0"]:.3g}, its median
        {trained["cushion"]:.3g}. A convolution may have a cushion above 1 (A-E24)."""


@nets.vgg19_item("A-FigA1")
def arora_figure_a1(settings: Settings) -> Reproduction:
    """Layer cushions of VGG-19 (Arora et al. 2018, figure A.1)

    The layer cushion, ||A x|| / (||A||_F ||x||) for the input x of a layer, in every layer of a trained
    VGG-19 over training images. A random direction would give 1/sqrt(inputs) for a fully connected layer; the
    larger it is, the less a random change of the weights matters. Section 6.1 says that training makes it
    larger, "especially for the higher layers (8 and higher)": beside it is the random network that the
    training began with. The paper prints no numbers.
    """
    return _by_layer("A-FigA1", "cushion", settings, has_random=True)


@nets.vgg19_item("A-FigA2")
def arora_figure_a2(settings: Settings) -> Reproduction:
    """Interlayer cushions of VGG-19 (Arora et al. 2018, figure A.2)

    The interlayer cushion, ||J x|| / (||J||_F ||x||) times the root of the pixels for the Jacobian J from
    a layer to a later one, in every layer but the last of a trained VGG-19: the smallest over all later
    layers, before it is clipped at 1/sqrt(h). The paper prints no numbers.
    """
    return _by_layer("A-FigA2", "interlayer", settings)


@nets.vgg19_item("A-FigA3")
def arora_figure_a3(settings: Settings) -> Reproduction:
    """Activation contraction of VGG-19 (Arora et al. 2018, figure A.3)

    The activation contraction, ||x|| / ||phi(x)|| for the output x of a layer and the activation phi after
    it, in every layer but the last of a trained VGG-19 (A-E24). With signs by chance it would be the root of
    2. The paper prints no numbers.
    """
    return _by_layer("A-FigA3", "contraction", settings, has_random=True)


@nets.vgg19_item("A-FigA5")
def arora_figure_a5(settings: Settings) -> Reproduction:
    """Spread of Jacobians over pixels, VGG-19 (Arora et al. 2018, figure A.5)

    How evenly the Jacobian from a layer to the output spreads over the pixels of that layer, in every
    layer with pixels of a trained VGG-19: beta is the largest norm of the part of a pixel, over some pixels
    drawn at random, relative to an even spread. The paper reads beta from the upper tail and finds about 1 in
    almost all layers.
    """
    return _by_layer("A-FigA5", "spread", settings)


def _by_layer(id: str, quantity: Quantity, settings: Settings, *, has_random: bool = False) -> Reproduction:
    study = nets.Study(settings)
    network = study.measure_vgg19()
    layers = layers_with(quantity, network)
    groups: list[dict[str, Row]] = [{"trained": row} for row in layers]
    if has_random:
        for group, row in zip(groups, layers_with(quantity, study.measure_random()), strict=True):
            group["random"] = row
    plots, table = [], list[Row]()
    for group, row in zip(groups, layers, strict=True):
        named = group if has_random else {"": row}
        plots.append(overlay(f"{row['number']}: {row['layer']}", quantity, named))
        beside = {"median, random": median(group["random"], quantity)} if has_random else {}
        table.append({"number": row["number"], "layer": row["layer"], **quantiles(row, quantity), **beside})
    return Reproduction(
        tables={
            f"{QUANTITIES[quantity].capitalize()}, over training images": table,
            "The network": [nets.accuracies("VGG-19", network)],
        },
        sentences=_layer_sentences(quantity, groups, network, settings),
        deviations=nets.deviations(settings.size, of="vgg19"),
        points={"histograms": bins([(quantity, group) for group in groups])},
        figures={id: Figure(plots, columns=4)},
    )


def _layer_sentences(
    quantity: Quantity, groups: Sequence[Mapping[str, Row]], network: Row, settings: Settings
) -> Iterator[str]:
    layers = [group["trained"] for group in groups]
    medians = {row["layer"]: median(row, quantity) for row in layers}
    low, high = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
    yield f"""Medians of the {QUANTITIES[quantity]} lie between {medians[low]:.3g} ({low}) and
        {medians[high]:.3g} ({high})."""
    level = "1" if quantity in ("contraction", "spread") else "0"
    worst = [row[quantity]["quantiles"][level] for row in layers]
    if quantity == "cushion":
        above = [row["layer"] for row in layers if row[quantity]["quantiles"]["1"] > 1.0]
        yield from _random_sentences(groups, settings)
        yield f"Convolutions may have cushions above 1 (A-E24); here these do: {', '.join(above) or 'none'}."
    elif quantity == "interlayer":
        yield compare_clipping(network, settings)
    elif quantity == "contraction":
        yield f"""The largest over all layers and examples is {max(worst):.3g}: that is the c of the theorem,
            where the table takes the largest of each layer (A-E22)."""
        yield f"Examples left out because a whole layer is silent (A-E24): {network['undefined'] or 'none'}."
    else:
        near, typical = (sum(value < _NEAR_1 for value in values) for values in (worst, medians.values()))
        is_met = near >= _ALMOST_ALL * len(worst)
        yield f"""{verdict(int(is_met), of=1, settings=settings)}: beta is about 1 in almost all layers. Below
            {_NEAR_1} its largest value is in {near} of {len(worst)} layers, its median in {typical}; the
            largest of all is {max(worst):.3g}. The paper reads beta from the upper tail, and does not say
            where."""


def _random_sentences(groups: Sequence[Mapping[str, Row]], settings: Settings) -> Iterator[str]:
    """Yield the verdict on larger cushions by training, most in higher layers."""
    lower, higher = list[float](), list[float]()
    for group in groups:
        gain = median(group["trained"], "cushion") / median(group["random"], "cushion")
        (higher if group["trained"]["number"] >= _HIGHER else lower).append(gain)
    told = [
        f"{min(part):.2g} to {max(part):.2g} times in the {len(part)} layers {where} {_HIGHER}"
        for part, where in ((lower, "below"), (higher, "from"))
        if part
    ]
    is_met = bool(lower and higher) and min(higher) > 1.0 and fmean(higher) > fmean(lower)
    yield f"""{verdict(int(is_met), of=1, settings=settings)}: training makes cushions larger, most of all in
        the layers from {_HIGHER} on. Medians are {" and ".join(told)} those of the random network."""


@_alexnet_item("A-Fig2L")
def arora_figure2_left(settings: Settings) -> Reproduction:
    """Layer 5 of AlexNet, true and corrupted labels (Arora et al. 2018, figure 2, left)

    If noise stability is why networks generalise, it should be lost where they do not: in a network that
    has learnt random labels by heart. The figure has layer cushion and activation contraction of the fifth
    layer of two AlexNets, over training images. With true labels the cushion should be larger and the
    contraction smaller. The paper prints no numbers. The control has true labels and the settings of the
    network with random ones: between these two, labels alone differ.
    """
    return _compare("A-Fig2L", settings, ("cushion", "contraction"), layer=5)


@_alexnet_item("A-FigA6")
def arora_figure_a6(settings: Settings) -> Reproduction:
    """Layer cushions of AlexNet, true and corrupted labels (Arora et al. 2018, figure A.6)

    The layer cushion in every layer of two AlexNets, over training images: one has learnt true labels, the
    other random ones. With true labels it should be larger. The paper prints no numbers. The control has true
    labels and the settings of the other network: between these two, labels alone differ.
    """
    return _compare("A-FigA6", settings, ("cushion",))


@_alexnet_item("A-FigA7")
def arora_figure_a7(settings: Settings) -> Reproduction:
    """Activation contraction of AlexNet, true and corrupted labels (Arora et al. 2018, figure A.7)

    The activation contraction in every layer with an activation, of two AlexNets over training images: one
    has learnt true labels, the other random ones. With true labels it should be smaller. The paper prints no
    numbers. The control has true labels and the settings of the other network: between these two, labels
    alone differ.
    """
    return _compare("A-FigA7", settings, ("contraction",))


def _compare(
    id: str, settings: Settings, shown: Sequence[Quantity], *, layer: int | None = None
) -> Reproduction:
    """Histograms of the networks on common axes, at one layer or at all that have the quantity."""
    networks = nets.Study(settings).measure_alexnets()
    groups: list[tuple[Quantity, dict[nets.Labels, Row]]] = []
    for quantity in shown:
        by_labels = [layers_with(quantity, network) for network in networks.values()]
        found = [(quantity, dict(zip(networks, rows, strict=True))) for rows in zip(*by_labels, strict=True)]
        groups += found if layer is None else [found[min(layer, len(found)) - 1]]
    table = [
        {"layer": row["layer"], "quantity": QUANTITIES[quantity], "network": nets.LABELS[labels]}
        | quantiles(row, quantity)
        for quantity, group in groups
        for labels, row in group.items()
    ]
    named = [nets.accuracies(f"AlexNet, {nets.LABELS[each]}", found) for each, found in networks.items()]
    plots = [overlay(group["true"]["layer"], quantity, _plain(group)) for quantity, group in groups]
    return Reproduction(
        tables={"Over training images": table, "The networks": named},
        sentences=_label_sentences(groups, networks, settings),
        deviations=nets.deviations(settings.size, of="alexnet"),
        points={"histograms": bins([(quantity, _plain(group)) for quantity, group in groups])},
        figures={id: Figure(plots, columns=2 if len(plots) == 2 else 3)},
    )


def _plain(group: Mapping[nets.Labels, Row]) -> dict[str, Row]:
    return {str(labels): row for labels, row in group.items()}


def _label_sentences(
    groups: Sequence[tuple[Quantity, Mapping[nets.Labels, Row]]],
    networks: Mapping[nets.Labels, Row],
    settings: Settings,
) -> Iterator[str]:
    for quantity in dict.fromkeys(quantity for quantity, _ in groups):
        rows = [group for each, group in groups if each == quantity]
        compared: tuple[nets.Labels, ...] = ("control", "true") if "control" in networks else ("true",)
        for labels in compared:
            yield _label_sentence(quantity, rows, labels, settings)
        if quantity == "contraction":
            yield """A contraction c says that activation and pooling keep a share 1/c^2 of the squared norm:
                it is large where few units are active, whatever the labels are."""
    if (error := networks["corrupted"]["train_error"]) > 0.02:
        yield f"""The network has not learnt the random labels by heart: its training error is {error:.1%}, so
            the comparison shows less than the published one."""


def _label_sentence(
    quantity: Quantity, rows: Sequence[Mapping[nets.Labels, Row]], labels: nets.Labels, settings: Settings
) -> str:
    sign, word = (1.0, "larger") if quantity == "cushion" else (-1.0, "smaller")
    pairs = [(median(row[labels], quantity), median(row["corrupted"], quantity)) for row in rows]
    agreed = sum(sign * (true - corrupted) > 0.0 for true, corrupted in pairs)
    middle = ", ".join(f"{true:.3g} against {corrupted:.3g}" for true, corrupted in pairs)
    which = " and the same settings" if labels == "control" else ""
    return f"""{verdict(agreed, of=len(rows), settings=settings)}: with true labels{which} the
        {QUANTITIES[quantity]} is {word}. It is in {agreed} of {len(rows)} layer{"s" * (len(rows) > 1)};
        medians, true against corrupted: {middle}."""


def layers_with(quantity: Quantity, network: Row) -> list[Row]:
    """The layers of a measured network that have the quantity, in forward order."""
    return [layer for layer in network["layers"] if quantity in layer]


def overlay(title: str, quantity: Quantity, layers: Mapping[str, Row]) -> Plot:
    """Histograms of one quantity on common axes, by the label of each."""
    found = {label: layer[quantity] for label, layer in layers.items() if quantity in layer}
    is_log = any(histogram["scale"] == "log" for histogram in found.values())
    edges = [edge for histogram in found.values() for edge in histogram["edges"]]
    series = [Series(label, *_outline(histogram)) for label, histogram in found.items()]
    headroom = 0.2 * len(found) if len(found) > 1 else 0.0
    names = title, QUANTITIES[quantity], "share of examples"
    if not is_log:
        return Plot(*names, series, headroom=headroom)
    ticks = _log_ticks(min(edges), max(edges))
    return Plot(*names, series, x_scale="log", x_ticks=ticks, headroom=headroom)


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten in a range; where they are few, some multiples of them too.

    >>> _log_ticks(1.5, 30.0), _log_ticks(22.0, 47.0)
    ([2.0, 5.0, 10.0, 20.0], [30.0, 40.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in ((1,), (1, 2, 5), (1, 2, 3, 4, 6, 8)):
        ticks = (float(f"{digit}e{power}") for power in powers for digit in digits)
        found = [tick for tick in ticks if low <= tick <= high]
        if len(found) >= _FEW_TICKS:
            break
    return found


def _outline(histogram: Row) -> tuple[list[float], list[float]]:
    """The upper edge of the bars, from the axis and back to it."""
    edges, counts = histogram["edges"], histogram["counts"]
    shares = [count / histogram["n"] for count in counts]
    return [edge for edge in edges for _ in (0, 1)], [0.0, *(share for share in shares for _ in (0, 1)), 0.0]


def bins(groups: Sequence[tuple[Quantity, Mapping[str, Row]]]) -> list[Row]:
    """Return the bars of each quantity in each layer. Empty bars are left out."""
    rows: list[Row] = []
    for quantity, layers in groups:
        for network, layer in layers.items():
            of = {"network": network, "layer": layer["layer"], "quantity": quantity}
            bars = zip(pairwise(layer[quantity]["edges"]), layer[quantity]["counts"], strict=True)
            for (low, high), count in bars:
                if count:
                    ends = {"from": float(f"{low:.6g}"), "to": float(f"{high:.6g}")}
                    rows.append({**of, **ends, "examples": count})
    return rows


def quantiles(layer: Row, quantity: Quantity) -> dict[str, float | None]:
    """The columns of a table: smallest, middle and largest values; None is infinite."""
    found = layer[quantity]["quantiles"]
    names = {"0": "smallest", "0.05": "5 %", "0.5": "median", "0.95": "95 %", "1": "largest"}
    return {name: found[level] for level, name in names.items()}


def median(layer: Row, quantity: Quantity) -> float:
    """The value in the middle, infinite where the map is linear for most examples."""
    value = layer[quantity]["quantiles"]["0.5"]
    return float("inf") if value is None else float(value)


def compare_clipping(network: Row, settings: Settings) -> str:
    """Compare ``mu_{i->}`` with ``1/sqrt(h)``, in a sentence."""
    inner = network["layers"][1:-1]
    below = [layer["layer"] for layer in inner if layer["minimal_interlayer"] < layer["clip"]]
    agreed = len(inner) - len(below)
    return (
        f"{verdict(agreed, of=len(inner), settings=settings)}: clipping leaves 1/sqrt(h) as interlayer "
        f"cushion of every layer but the first. It does in {agreed} of the {len(inner)} layers between the "
        "first and the last" + (f"; some example is below it in {', '.join(below)}." if below else ".")
    )
