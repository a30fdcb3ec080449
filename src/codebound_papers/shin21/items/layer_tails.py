"""Shin 2021, sections 3.1 and 5: tails of all layers of a network over its training; and synthetic ones."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean, median

import numpy as np
import torch
from numpy.typing import NDArray

from codebound_networks.train.rng import numpy_stream
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.arora18.items.arora_networks import Study, deviations
from codebound_papers.measure.norms import released_stable_rank, stable_rank, tail_values
from codebound_papers.measure.shape import weight_shape
from codebound_papers.measure.tails import estimate_tail, fit_power_law
from codebound_papers.report.figures import Figure, Plot, Series, curves, curves_by
from codebound_papers.reproduce.items import Reproduction, Row, Settings, Size, item, verdict
from codebound_papers.shin21.laws import PowerLaw

_ENTRIES: dict[Size, int] = {"tiny": 500, "quick": 20_000, "full": 100_000}  # of a layer, for its exponent
_TESTED: dict[Size, int] = {"tiny": 200, "quick": 2_000, "full": 10_000}  # of these, for the test of a law
_RESAMPLES: dict[Size, int] = {"tiny": 20, "quick": 40, "full": 100}
_EXPONENTS = (0.5, 1.0, 1.39, 1.84, 2.5, 3.0, 4.0, 8.0)  # of tails, of synthetic matrices
_OTHER = "one network, which is none of the paper's"
_SHAPE = (10, 64)  # of the last layer of a small residual network
_DRAWS: dict[Size, int] = {"tiny": 20, "quick": 200, "full": 1000}


@item("S-Pow:layers", quick="a minute on one core", full="minutes", of="the network is that of A-Fig1")
def shin_layers(settings: Settings) -> Reproduction:
    """Tails of every layer of VGG-19 over its training (Shin 2021, sections 3.1 and 5)

    The paper takes from the literature that trained weights are heavy-tailed, later layers more so, and
    that stochastic gradient descent drives weights to stable laws; remark 1 looks at eigenvalues of W^T W
    where the theory has entries. Here are the exponents of both for every layer of VGG-19, with a test of
    the power law, and those of the entries over the training. The paper has no such numbers.
    """
    study = Study(settings)
    epochs = settings.cells.get("epochs", lambda: {"kept": list(study.vgg19.kept_epochs)})["kept"]

    def measure(epoch: int) -> dict[str, list[Row]]:
        views, is_tested = study.vgg19.at(epoch).layers, epoch == epochs[-1]
        return {"rows": [_layer(*each, settings, is_tested=is_tested) for each in enumerate(views, start=1)]}

    parts = {f"epoch {epoch}": partial(measure, epoch) for epoch in epochs}
    found = [each["rows"] for each in settings.cells.get_all(parts)]
    rows = [{"epoch": epoch, **row} for epoch, each in zip(epochs, found, strict=True) for row in each]
    ends = [row for row in rows if row["epoch"] == epochs[-1]]
    untested = [{name: value for name, value in row.items() if ": " not in name} for row in rows]
    return Reproduction(
        tables={"At the end of the training": [_format(row) for row in ends]},
        sentences=_layer_sentences(rows, ends, settings),
        deviations=(
            "The paper looks at last layers of other networks; here is the VGG-19 of Arora et al.",
            f"""Exponents from at most {_ENTRIES[settings.size]:,} entries of a layer, drawn at random, tests
            on {_TESTED[settings.size]:,} of these.""",
            *deviations(settings.size, of="vgg19")[:1],
        ),
        points={"epochs": untested},
        figures={"S-Pow-layers": Figure(_layer_plots(rows, ends), columns=2)},
    )


def _layer(number: int, view: AbstractLayerView, settings: Settings, *, is_tested: bool) -> Row:
    stream, size = numpy_stream(settings.seed, f"tails/{view.name}"), settings.size
    entries = _some(tail_values(view), _ENTRIES[size], stream)
    shape = weight_shape(view.matrix)
    row = {
        "number": number,
        "layer": view.name,
        "weights": view.matrix.numel(),
        "alpha": estimate_tail(entries).density_exponent,
        "excess kurtosis": shape.excess_kurtosis,
        "Laplace over Gaussian": shape.laplace_gain,
        "stable rank": stable_rank(view.matrix),
    }
    if is_tested:
        for name, values in (
            ("entries", _some(entries, _TESTED[size], stream)),
            ("eigenvalues", tail_values(view, of="eigenvalues")),
        ):
            fit = fit_power_law(values, resamples=_RESAMPLES[size], seed=settings.seed)
            row[f"{name}: verdict"], row[f"{name}: p"] = fit.status, fit.p_value
            row[f"{name}: alpha"] = None if fit.estimate is None else fit.estimate.density_exponent
    return row


def _some(values: NDArray[np.float64], count: int, stream: np.random.Generator) -> NDArray[np.float64]:
    return values if len(values) <= count else stream.choice(values, count, replace=False)


def _format(row: Row) -> Row:
    shown = {name: value for name, value in row.items() if name not in ("epoch", "alpha")}
    return {**shown, "alpha of entries": row["alpha"]}


def _layer_sentences(rows: Sequence[Row], ends: Sequence[Row], settings: Settings) -> Iterator[str]:
    order = _correlation([row["number"] for row in ends], [row["alpha"] for row in ends])
    half = len(ends) // 2
    early, late = (median(row["alpha"] for row in part) for part in (ends[:half], ends[half:]))
    yield f"""{verdict(int(order < 0.0 and late < early), of=1, settings=settings, differs=_OTHER)}: later
        layers are heavier-tailed: the exponent of the density of magnitudes is {early:.2f} in the first half
        of the layers and {late:.2f} in the second, in the median; its rank correlation with the number of the
        layer is {order:.2f}. A smaller exponent is a heavier tail."""
    start = [row for row in rows if row["epoch"] == rows[0]["epoch"]]
    fallen = sum(b["alpha"] < a["alpha"] for a, b in zip(start, ends, strict=True))
    kurtosis = [median(row["excess kurtosis"] for row in part) for part in (start, ends)]
    yield f"""Over the training the exponent falls in {fallen} of {len(ends)} layers, from
        {median(row["alpha"] for row in start):.1f} to {median(row["alpha"] for row in ends):.1f} in the
        median; the excess kurtosis goes from {kurtosis[0]:.2f} to {kurtosis[1]:.2f}. Convolutions start
        Gaussian, for which the fit gives an exponent too, though there is no power law."""
    for name in ("entries", "eigenvalues"):
        found = [row[f"{name}: verdict"] for row in ends]
        told = ", ".join(f"{status} in {found.count(status)}" for status in dict.fromkeys(found))
        yield f"By the test of a power law the tails of the {name} are: {told}."
    pairs = [
        (row["entries: alpha"], row["eigenvalues: alpha"])
        for row in ends
        if None not in (row["entries: alpha"], row["eigenvalues: alpha"])
    ]
    if len(pairs) > 2:
        both = _correlation(*zip(*pairs, strict=True))
        yield f"""Exponents of entries and of eigenvalues are different numbers (remark 1): their rank
            correlation over the layers is {both:.2f}. For entries with tail exponent below 4 theory has the
            eigenvalues fall with half of it."""
    laplace = sum(row["Laplace over Gaussian"] > 0.0 for row in ends)
    yield f"A Laplace law fits the entries better than a Gaussian one in {laplace} of {len(ends)} layers."


def _correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's, without ties."""
    first, second = (np.argsort(np.argsort(values)) for values in (x, y))
    return float(np.corrcoef(first, second)[0, 1])


def _layer_plots(rows: Sequence[Row], ends: Sequence[Row]) -> list[Plot]:
    shown = [ends[place]["layer"] for place in {0, len(ends) // 3, 2 * len(ends) // 3, len(ends) - 1}]
    over = curves_by([each for each in rows if each["layer"] in shown], "layer", "epoch", "alpha")
    columns, exponent = {"alpha": "entries", "eigenvalues: alpha": "eigenvalues"}, "exponent of the density"
    return [
        Plot("end of the training", "layer", exponent, curves(ends, "number", columns)),
        Plot("over the training, entries", "epoch", exponent, over, y_scale="log", headroom=0.4),
    ]


@item("S-5.3:synthetic", quick="seconds", full="seconds")
def shin_synthetic(settings: Settings) -> Reproduction:
    """Stable rank against the tail exponent, of synthetic matrices (Shin 2021, section 5.3)

    Section 5.3 argues that heavier tails go with a smaller stable rank, and figure 3 looks for it in
    trained layers. In matrices of independent entries with a power law nothing else is at work. Here are
    their stable rank, what the released script plots in its place (S-E25), and Gaussian matrices beside
    them. The paper has no such numbers; the released code draws such matrices.
    """
    draws, cells = _DRAWS[settings.size], settings.cells
    drawn = partial(_synthetic, draws=draws, seed=settings.seed)
    parts = {f"tail exponent {alpha:g}": partial(drawn, alpha) for alpha in _EXPONENTS}
    rows = [*cells.get_all(parts), cells.get("Gaussian", partial(drawn, math.inf))]
    *laws, normal = rows
    ends = _EXPONENTS[0], _EXPONENTS[-1]
    names = f"means of {draws} matrices, {_SHAPE[0]} x {_SHAPE[1]}", "tail exponent", "stable rank"
    series = curves(laws, "tail exponent", {"stable rank": "power law"})
    series.append(Series("Gaussian entries", ends, [normal["stable rank"]] * 2, "dashed"))
    plot = Plot(*names, series, x_scale="log", x_ticks=[0.5, 1.0, 2.0, 4.0, 8.0], headroom=0.3)
    return Reproduction(
        tables={f"Means over {draws} matrices of independent entries": rows},
        sentences=_synthetic_sentences(rows),
        figures={"S-5.3-synthetic": Figure([plot], columns=1)},
    )


def _synthetic(alpha: float, *, draws: int, seed: int) -> Row:
    """Entries of either sign whose magnitudes have the tail ``x^-alpha``, or Gaussian ones."""
    stream, count = numpy_stream(seed, f"synthetic/{alpha:g}"), math.prod(_SHAPE)
    ranks, released, norms = [], [], []
    for draw in range(draws):
        signs = stream.choice([-1.0, 1.0], count)
        if alpha < math.inf:
            sizes = PowerLaw(tail_exponent=alpha, xmin=1.0).sample(count, seed=seed + 1 + draw)
        else:
            sizes = np.abs(stream.standard_normal(count))
        matrix = torch.from_numpy((signs * sizes).reshape(_SHAPE))
        ranks.append(stable_rank(matrix))
        released.append(released_stable_rank(matrix))
        norms.append(ranks[-1] / released[-1])
    return {
        "tail exponent": alpha if alpha < math.inf else None,
        "stable rank": fmean(ranks),
        "deviation": float(np.std(ranks)),
        "as released": fmean(released),
        "squared norm": fmean(norms),
    }


def _synthetic_sentences(rows: Sequence[Row]) -> Iterator[str]:
    *laws, gaussian = rows
    ranks = [row["stable rank"] for row in laws]
    rises = all(after > before for before, after in pairwise(ranks))
    yield f"""{"We agree" if rises else "We agree in part"} (section 5.3): the heavier the tail, the smaller
        the stable rank, from {ranks[0]:.1f} at tail exponent {laws[0]["tail exponent"]:g} to {ranks[-1]:.1f}
        at {laws[-1]["tail exponent"]:g}; Gaussian entries have {gaussian["stable rank"]:.1f}. The heuristic
        is right once the quantity is the stable rank (S-E25)."""
