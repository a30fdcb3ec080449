"""Guha et al. 2023, assumption 3.1: are the weights of trained networks Gaussian?"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import torch

from codebound_papers.guha23.items.guha_networks import Data, Networks, network_settings
from codebound_papers.guha23.items.verdicts import span
from codebound_papers.guha23.magnitude import mean_kept_share
from codebound_papers.guha23.pruning import kept_share
from codebound_papers.measure.shape import weight_shape
from codebound_papers.report.figures import Figure, Plot, curves_by
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

_DATA: tuple[Data, ...] = ("mnist", "cifar10")
_STRENGTHS = (0.1, 1.0, 10.0)
_KURTOSIS = "excess kurtosis"
_SETBACK = 10.0  # of it in one step: no training that goes well has one

_NETWORKS = "the networks are those of G-Tab1 and G-Tab2"


@item("G-Asm3.1:trained", quick="seconds", full="seconds on a GPU", of=_NETWORKS)
def guha_gaussian_weights(settings: Settings) -> Reproduction:
    """Normality of the weights of trained networks (Guha et al. 2023, section 3.3)

    The theorems assume Gaussian weights; section 3.3 says that trained weights look so, and the paper's
    limitations that they may not. Here is the shape of every layer at the start of a training, on its way,
    and in the end: the excess kurtosis, which is 0 for a Gaussian law; the distance of Kolmogorov and
    Smirnov from the Gaussian law of the same variance; and the share of weights that random pruning keeps,
    beside the chi(d) of Gaussian weights. The paper has no numbers.
    """
    rows = [row for data in _DATA for row in _rows(data, settings)]
    ends = [row for row in rows if row["is_end"]]
    plots = []
    for data in _DATA:
        lines = curves_by([row for row in rows if row["data"] == data], "layer", "epoch", _KURTOSIS)
        plots.append(Plot(f"{data}: excess kurtosis", "epoch", _KURTOSIS, lines, headroom=0.7))
    return Reproduction(
        tables={"At the end of the training": [_format(row) for row in ends]},
        sentences=_sentences(rows, ends),
        deviations=("The networks are those of G-Tab1 and G-Tab2, trained by the code's settings.",),
        points={"epochs": rows},
        figures={"G-Asm3.1-trained": Figure(plots, columns=2)},
    )


def _rows(data: Data, settings: Settings) -> list[Row]:
    networks = Networks(network_settings(data, settings.size), settings)
    epochs = settings.cells.get(data, lambda: {"kept": list(networks.watched.kept_epochs)})["kept"]

    def measure(epoch: int) -> dict[str, list[Row]]:
        return {"rows": [_layer(view.name, view.matrix) for view in networks.watched.at(epoch).layers]}

    parts = {f"{data}, epoch {epoch}": partial(measure, epoch) for epoch in epochs}
    found = settings.cells.get_all(parts)
    return [
        {"data": data, "epoch": epoch, "is_end": epoch == epochs[-1], **row}
        for epoch, each in zip(epochs, found, strict=True)
        for row in each["rows"]
    ]


def _steps(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """A layer at two epochs that follow each other."""
    for key in dict.fromkeys((row["data"], row["layer"]) for row in rows):
        yield from pairwise(row for row in rows if (row["data"], row["layer"]) == key)


def _layer(name: str, matrix: torch.Tensor) -> Row:
    shape = weight_shape(matrix)
    return {
        "layer": name,
        "weights": shape.weights,
        _KURTOSIS: shape.excess_kurtosis,
        "distance": shape.distance,
        "usual distance": shape.usual_distance,
        "beyond 3 deviations": shape.beyond,
        "Laplace over Gaussian": shape.laplace_gain,
        **{f"kept at d = {d:g}": mean_kept_share(matrix, strength=d) for d in _STRENGTHS},
    }


def _format(row: Row) -> Row:
    shown = {name: value for name, value in row.items() if name != "is_end"}
    return {**shown, **{f"chi({d:g})": kept_share(d) for d in _STRENGTHS}}


def _sentences(rows: Sequence[Row], ends: Sequence[Row]) -> Iterator[str]:
    near = sum(row["distance"] <= row["usual distance"] for row in ends)
    heavy = sum(row[_KURTOSIS] > 0.0 for row in ends)
    yield f"""In {near} of {len(ends)} trained layers the distance from a Gaussian law is one that Gaussian
        weights have; it is {span([row["distance"] for row in ends], ".3f")}. The excess kurtosis is
        {span([row[_KURTOSIS] for row in ends], ".2f")}, above 0 in {heavy} layers: tails heavier than
        Gaussian, as the paper's limitations allow for."""
    before, after = max(_steps(rows), key=lambda step: abs(step[1][_KURTOSIS] - step[0][_KURTOSIS]))
    is_large = abs(after[_KURTOSIS] - before[_KURTOSIS]) > _SETBACK
    yield f"""The largest step on the way is that of {after["layer"]} on {after["data"]}, from
        {before[_KURTOSIS]:.2f} at epoch {before["epoch"]} to {after[_KURTOSIS]:.2f} at epoch
        {after["epoch"]}{": that is where the training is thrown back (G-Exp2)" * is_large}."""
    start = [row[_KURTOSIS] for row in rows if row["epoch"] == 0]
    yield f"""The training begins with uniform weights (excess kurtosis {span(start, ".2f")}), torch's
        default, so that whatever is Gaussian in the end has become so."""
    for d in _STRENGTHS:
        kept = [row[f"kept at d = {d:g}"] / kept_share(d) for row in ends]
        yield f"""At d = {d:g} random pruning keeps {span(kept, ".2f")} times the share chi =
            {kept_share(d):.3f} of Gaussian weights."""
    laplace = sum(row["Laplace over Gaussian"] > 0.0 for row in ends)
    yield f"A Laplace law fits better than a Gaussian one in {laplace} of {len(ends)} layers."
