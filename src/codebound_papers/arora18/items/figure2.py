"""Arora et al. 2018, figure 2 (middle and right): the bound beside older ones, and over the training."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from codebound_papers.arora18.items.histograms import verdict
from codebound_papers.arora18.items.measures import GAMMA, facts_of
from codebound_papers.arora18.items.networks import Study, accuracies, deviations, left_open, vgg19_item
from codebound_papers.baselines.bars import arora_figure, noise_stability_bar
from codebound_papers.report.figures import Figure, Mark, Marks, Plot, curves
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item
from codebound_papers.value import safe_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codebound_papers.facts import NetworkFacts

_OURS, _PARAMETERS = "noise stability", "parameters"
_BEST_OLDER = 15.0  # "about 10^15", in the text
_CURVES = ("bound", "generalisation_error")
_LESS = 0.9  # what falls by less may do so by chance


@vgg19_item(
    "A-Fig2M",
    title="Noise stability beside older bounds, VGG-19 (Arora et al. 2018, figure 2, middle)",
)
def arora_figure2_middle(settings: Settings) -> Reproduction:
    """Bars for a trained VGG-19, from the product of (1, inf) norms to noise stability, and the number of
    parameters beside them. A bar is what stands over n under the root of a bound, without depth, logarithms
    and constants: as long as it is above n, the bound says nothing. Of the numbers the paper has one in the
    text: the best of the older bounds is about 10^15.
    """
    network = Study(settings).measured_vgg19()
    facts = facts_of(network)
    bars = [*_bars(facts)]
    return Reproduction(
        tables={
            "Bars, as decimal logarithms": bars,
            "The network": [accuracies("VGG-19", network)],
        },
        sentences=tuple(_bar_sentences(bars, facts)),
        deviations=(GAMMA, *deviations(settings.size, of="vgg19")),
        figures={"A-Fig2M": _marks(bars, facts.examples)},
    )


def _bars(facts: NetworkFacts) -> Iterator[Row]:
    for value in (*arora_figure(facts), noise_stability_bar(facts)):
        group = (
            _OURS if value.ref == "A-Fig2M:ours" else _PARAMETERS if value.name == "Parameters" else "older"
        )
        yield {
            "bar": value.name,
            "kind": group,
            "log10": value.log10,
            "log10 of sqrt(bar / n)": value.like_for_like(facts.examples).log10,
        }


def _bar_sentences(bars: Sequence[Row], facts: NetworkFacts) -> Iterator[str]:
    older = min((row for row in bars if row["kind"] == "older"), key=lambda row: row["log10"])
    ours = next(row for row in bars if row["kind"] == _OURS)
    parameters = next(row for row in bars if row["kind"] == _PARAMETERS)
    yield (
        f"{'We agree' if ours['log10'] < older['log10'] else 'We do not agree'} that noise stability gives "
        f"a lower bar than all older bounds: 10^{ours['log10']:.1f}; the best of those is {older['bar']} "
        f"with 10^{older['log10']:.1f}, published about 10^{_BEST_OLDER:.0f}."
    )
    log_n = math.log10(facts.examples)
    yield (
        f"It is {_side(ours['log10'], parameters['log10'])} the number of parameters, "
        f"10^{parameters['log10']:.1f}, and {_side(ours['log10'], log_n)} n = 10^{log_n:.1f}, although "
        "depth, logarithms and constants are left out."
    )
    squared = 2.0 * math.fsum(safe_log(layer.l1_inf) for layer in facts.layers) - 2.0 * math.log(facts.margin)
    yield (
        "The first bar has no square where the others have one (A-E22): squared it is "
        f"10^{squared / math.log(10.0):.1f} in place of 10^{bars[0]['log10']:.1f}."
    )


def _side(value: float, reference: float) -> str:
    return "above" if value > reference else "not above"


def _marks(bars: Sequence[Row], examples: int) -> Marks:
    return Marks(
        [
            *(Mark(row["bar"], row["log10"], row["kind"]) for row in bars),
            Mark("best older one, published", _BEST_OLDER, "published"),
        ],
        label="decimal logarithm of the bar",
        line=(math.log10(examples), f"n = {examples:,}: a bound with a bar above it says nothing"),
    )


@item(
    "A-Fig2R",
    title="The bound and the generalisation error over the training of VGG-19 (Arora et al. 2018, figure 2)",
    quick="5 minutes on one core, three of them after another item with VGG-19",
    full="an hour on a GPU, half of it after another item with VGG-19",
)
def arora_figure2_right(settings: Settings) -> Reproduction:
    """The bar of noise stability, divided by n and square-rooted, beside the generalisation error of VGG-19,
    which is test error less training error, after several epochs. The bound is rescaled, so that only the
    shape of the curve counts. In the paper the training error is about 0 after 120 epochs, and both continue
    to fall. It prints no numbers.
    """
    study = Study(settings)
    rows = [_row(epoch, study.measured_epoch(epoch)) for epoch in study.vgg19_epochs()]
    scale = fmean(row["generalisation_error"] for row in rows) / fmean(row["bound"] for row in rows)
    table = [{**row, "rescaled_bound": scale * row["bound"]} for row in rows]
    rescaled = {"rescaled_bound": "bound, rescaled", "generalisation_error": "generalisation error"}
    errors = {"train_error": "training error", "test_error": "test error"}
    plots = [
        Plot("rescaled to the same mean", "epoch", "error", curves(table, "epoch", rescaled)),
        Plot("the network", "epoch", "error", curves(table, "epoch", errors)),
    ]
    return Reproduction(
        tables={"After some epochs": table},
        sentences=tuple(_epoch_sentences(table, settings)),
        deviations=(GAMMA, *deviations(settings.size, of="vgg19 over epochs")),
        figures={"A-Fig2R": Figure(plots, columns=2)},
    )


def _row(epoch: int, found: Row) -> Row:
    facts = facts_of(found)
    return {
        "epoch": epoch,
        "train_error": found["train_error"],
        "test_error": found["test_error"],
        "generalisation_error": found["test_error"] - found["train_error"],
        "gamma": facts.margin,
        "bound": noise_stability_bar(facts).like_for_like(facts.examples).value,
    }


def _epoch_sentences(rows: Sequence[Row], settings: Settings) -> Iterator[str]:
    first, last = rows[0], rows[-1]
    steps = [[after[name] - before[name] for name in _CURVES] for before, after in pairwise(rows)]
    together = sum(bound * error > 0.0 for bound, error in steps)
    yield (
        f"From epoch {first['epoch']} to {last['epoch']} the bound goes from {first['bound']:.3g} to "
        f"{last['bound']:.3g} and the generalisation error from {first['generalisation_error']:.1%} to "
        f"{last['generalisation_error']:.1%}; both rise or both fall in {together} of {len(steps)} steps."
    )
    fitted = [row for row in rows if row["train_error"] < 0.01]
    if len(fitted) < 2:
        yield (
            "Whether both fall once the training error is about 0 cannot be seen: it is below 1 % at "
            f"{len(fitted)} of the points. In the paper it is from epoch 120 on, of 299."
            + left_open(settings)
        )
    else:
        start, end = fitted[0], fitted[-1]
        falls = [name for name in _CURVES if end[name] < _LESS * start[name]]
        yield (
            f"{verdict(len(falls), of=2)} that both fall, by a tenth or more, once the training error is "
            f"about 0: in the {end['epoch'] - start['epoch']} epochs from there the bound goes from "
            f"{start['bound']:.3g} to {end['bound']:.3g}, the error from {start['generalisation_error']:.2%} "
            f"to {end['generalisation_error']:.2%}. Theirs are some 180 epochs."
            + ("" if len(falls) == 2 else left_open(settings))
        )
    least = min(row["bound"] for row in rows)
    yield f"Before it is rescaled the smallest bound is {least:.3g}; above 1 it says nothing."
