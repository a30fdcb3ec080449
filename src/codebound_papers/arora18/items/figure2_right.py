"""Arora et al. 2018, figure 2 (right): the bound and the generalisation error over the training."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from codebound_papers.arora18.items.histograms import verdict
from codebound_papers.arora18.items.measures import GAMMA, facts_of
from codebound_papers.arora18.items.networks import Study, deviations, left_open
from codebound_papers.arora18.noise_stability import noise_stability_bar
from codebound_papers.report.figures import Figure, Plot, Series
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CURVES = ("bound", "generalisation_error")
_LESS = 0.9  # what falls by less may do so by chance


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
    return Reproduction(
        tables={"After some epochs": table},
        sentences=tuple(_sentences(table, settings)),
        deviations=(GAMMA, *deviations(settings.size, of="vgg19 over epochs")),
        figures={"A-Fig2R": _figure(table)},
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


def _sentences(rows: Sequence[Row], settings: Settings) -> Iterator[str]:
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


def _figure(rows: Sequence[Row]) -> Figure:
    def curve(label: str, column: str) -> Series:
        return Series(label, [row["epoch"] for row in rows], [row[column] for row in rows])

    return Figure(
        [
            Plot(
                "rescaled to the same mean",
                "epoch",
                "error",
                [
                    curve("bound, rescaled", "rescaled_bound"),
                    curve("generalisation error", "generalisation_error"),
                ],
            ),
            Plot(
                "the network",
                "epoch",
                "error",
                [curve("training error", "train_error"), curve("test error", "test_error")],
            ),
        ],
        columns=2,
    )
