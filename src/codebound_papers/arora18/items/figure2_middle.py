"""Arora et al. 2018, figure 2 (middle): the bound from noise stability beside older ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from codebound_papers.arora18.items.measures import GAMMA, facts_of
from codebound_papers.arora18.items.networks import Study, accuracies, deviations
from codebound_papers.arora18.noise_stability import noise_stability_bar
from codebound_papers.baselines.figure import arora_figure
from codebound_papers.report.figures import Mark, Marks
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item
from codebound_papers.value import safe_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codebound_papers.facts import NetworkFacts

_OURS, _PARAMETERS = "noise stability", "parameters"
_BEST_OLDER = 15.0  # "about 10^15", in the text


@item(
    "A-Fig2M",
    title="Noise stability beside older bounds, VGG-19 (Arora et al. 2018, figure 2, middle)",
    quick="3 minutes on one core, seconds after another item with VGG-19",
    full="half an hour on a GPU, seconds after another item with VGG-19",
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
        sentences=tuple(_sentences(bars, facts)),
        deviations=(GAMMA, *deviations(settings.size, of="vgg19")),
        figures={"A-Fig2M": _figure(bars, facts.examples)},
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


def _sentences(bars: Sequence[Row], facts: NetworkFacts) -> Iterator[str]:
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


def _figure(bars: Sequence[Row], examples: int) -> Marks:
    return Marks(
        [
            *(Mark(row["bar"], row["log10"], row["kind"]) for row in bars),
            Mark("best older one, published", _BEST_OLDER, "published"),
        ],
        label="decimal logarithm of the bar",
        line=(math.log10(examples), f"n = {examples:,}: a bound with a bar above it says nothing"),
    )
