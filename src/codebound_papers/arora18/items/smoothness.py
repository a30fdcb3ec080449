"""Arora et al. 2018, figure A.4: how nearly linear VGG-19 is on noise of several lengths, layer by layer."""

import math
from collections.abc import Iterator, Mapping, Sequence

from codebound_papers.arora18.items import arora_networks as networks
from codebound_papers.arora18.items.histograms import bins, median, overlay, quantiles
from codebound_papers.arora18.items.layer_rows import gaussian, projection
from codebound_papers.report.figures import Figure, Plot, curves, slope
from codebound_papers.reproduce.items import Reproduction, Row, Settings

_DRAWN_NOISES = (gaussian(0.1), gaussian(0.001), *map(projection, networks.PROJECTIONS[:2]))
_POWER = 1.5  # of the length of the noise, in section 3.1


@networks.vgg19_item("A-FigA4")
def arora_figure_a4(settings: Settings) -> Reproduction:
    """Interlayer smoothness of VGG-19 (Arora et al. 2018, figure A.4)

    The interlayer smoothness rho says how nearly linear everything after a layer is on noise at that
    layer: the smallest over all later layers, for each noise draw, in every layer but the last of a trained
    VGG-19. The theorems need three times the number of layers, for the noise that compression makes. It
    depends on how long the noise is: here it is measured for Gaussian noise of six lengths, and for the
    noise of algorithm 1 (Matrix-Project) in all layers at once, with one number for each weight, which
    compresses nothing, and with more. Section 3.1 says that the length of the noise may enter with the power
    1.5: that value is beside it. The paper prints no numbers.
    """
    study = networks.Study(settings)
    network, noises = study.measure_vgg19(), study.measure_noises()
    summary = [_noise_row(label, layers) for label, layers in noises.items()]
    layers = [_growth_row(number, noises) for number in range(len(noises[gaussian(networks.USUAL_NOISE)]))]
    drawn = {label: rows for label, rows in noises.items() if label in _DRAWN_NOISES}
    by_layer = [dict(zip(drawn, rows, strict=True)) for rows in zip(*drawn.values(), strict=True)]
    plots = []
    for row, layer in zip(layers, by_layer, strict=True):
        histograms = {_short(label): found for label, found in layer.items()}
        plots.append(overlay(f"{row['number']}: {row['layer']}", "smoothness", histograms))
    series = []
    for name in ("Gaussian", "Algorithm 1"):
        rows = [row for row in summary if row["noise"].startswith(name)]
        labels = {"median": f"{name}, as defined", "median, power 1.5": f"{name}, power 1.5"}
        series += curves(rows, "length, median", labels)
    axes = "medians over layers and draws", "length of the noise, relative", "smoothness"
    lines = Plot(*axes, series, x_scale="log", y_scale="log", headroom=0.8)
    return Reproduction(
        tables={
            "Interlayer smoothness by noise, over layers, training images and draws": summary,
            "By layer: medians, and the power of its length with which the remainder grows": layers,
            "The network": [networks.accuracies("VGG-19", network)],
        },
        sentences=_noise_sentences(summary, layers, needed=3 * len(network["layers"])),
        deviations=networks.deviations(settings.size, of="vgg19"),
        points={"histograms": bins([("smoothness", layer) for layer in by_layer])},
        figures={"A-FigA4": Figure([lines], columns=1), "A-FigA4-layers": Figure(plots, columns=4)},
    )


def _short(label: str) -> str:
    """The name of a noise in a small figure."""
    plain = label.replace(" of the activation", "").replace(" a weight", "/weight")
    return plain.replace("Algorithm", "Alg.")


def _noise_row(label: str, layers: Sequence[Row]) -> Row:
    """Over all layers: the worst value, which the theorems look at, and the median of medians."""

    def over(quantity: str, level: str) -> list[float]:
        found = (layer[quantity]["quantiles"][level] for layer in layers)
        return sorted(math.inf if value is None else float(value) for value in found)

    def middle(values: list[float]) -> float | None:
        value = values[len(values) // 2]
        return value if value < math.inf else None

    return {
        "noise": label,
        "length, median": middle(over("noise", "0.5")),
        "smallest": middle(over("smoothness", "0")[:1]),
        "5 %": middle(over("smoothness", "0.05")),
        "median": middle(over("smoothness", "0.5")),
        "smallest, power 1.5": middle(over("smoothness_1.5", "0")[:1]),
        "median, power 1.5": middle(over("smoothness_1.5", "0.5")),
    }


def _growth_row(place: int, noises: Mapping[str, Sequence[Row]]) -> Row:
    """Medians at some noises, and the slope by least squares of the logarithm of the remainder."""
    layers = {label: rows[place] for label, rows in noises.items()}
    first = next(iter(layers.values()))
    points = [
        (math.log(size), math.log(size / rho))
        for size in networks.GAUSSIAN_NOISES
        if gaussian(size) in layers and 0.0 < (rho := median(layers[gaussian(size)], "smoothness")) < math.inf
    ]
    shown = [label for label in _DRAWN_NOISES if label in layers]
    medians = {label: quantiles(layers[label], "smoothness")["median"] for label in shown}
    return {"number": first["number"], "layer": first["layer"], **medians, "power": slope(points)}


def _noise_sentences(summary: Sequence[Row], layers: Sequence[Row], *, needed: int) -> Iterator[str]:
    rows = {row["noise"]: row for row in summary}
    holds = [row["noise"] for row in summary if row["smallest"] is None or row["smallest"] >= needed]
    typical = [row["noise"] for row in summary if row["median"] is None or row["median"] >= needed]
    yield f"""The theorems need at least three times the number of layers, {needed}, for all examples and
        nearly all draws of the noise of compression. The smallest value is so large under {len(holds)} of
        {len(rows)} noises ({"; ".join(holds) or "none"}), the median of a layer in the middle under
        {len(typical)} ({"; ".join(typical) or "none"})."""
    for numbers in networks.PROJECTIONS:
        if (row := rows.get(projection(numbers))) is not None:
            what = f"{numbers:,.0f} numbers for each weight"
            if numbers == 1.0:
                what = "as many numbers as weights, which compresses nothing,"
            yield f"""Algorithm 1 with {what} makes noise {_spell(row["length, median"])} times as long as the
                activation in the layer in the middle; the smoothness there is {_spell(row["median"])} in the
                median, {_spell(row["smallest"])} at worst over all layers."""
    lengths = {size: rows[gaussian(size)] for size in networks.GAUSSIAN_NOISES if gaussian(size) in rows}
    finite = {size: row for size, row in lengths.items() if row["median"] is not None}
    powers = sorted(row["power"] for row in layers if row["power"] is not None)
    if powers and finite:
        longest, shortest = max(finite), min(finite)
        first, last = finite[longest], finite[shortest]
        yield f"""On Gaussian noise the remainder grows like its length to the power {powers[0]:.2f} to
            {powers[-1]:.2f}, {powers[len(powers) // 2]:.2f} in the layer in the middle. Section 3.1 offers
            {_POWER} in place of 1. From length {longest:g} to {shortest:g} the median of rho goes from
            {_spell(first["median"])} to {_spell(last["median"])}, and with that power from
            {_spell(first["median, power 1.5"])} to {_spell(last["median, power 1.5"])}: rho is a number only
            together with the length of the noise, and a network of ReLUs is linear on noise that is short
            enough."""
    if len(finite) < len(lengths):
        yield """On shorter noise the remainder of a layer in the middle is no more than the rounding of
            single precision."""


def _spell(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.3g}"
