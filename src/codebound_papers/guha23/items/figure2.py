"""Guha et al. 2023, figure 2: the bound and the true error over the epochs of a training."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codebound_papers.guha23.items.released import bound_by_change, measure_smallest_margin, released_bound
from codebound_papers.guha23.items.trained import Networks, Plan, plan_for
from codebound_papers.measure.outputs import margin_report
from codebound_papers.report.figures import Figure, Plot, Series, curves
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHOWN = 15  # epochs in the table


def _state(networks: Networks, epoch: int) -> Row:
    """The bound as the code computes it, and the errors, after so many epochs."""
    settings, (train, test), network = networks.settings, networks.parts.samples, networks.watched.at(epoch)
    assert test is not None
    measured = measure_smallest_margin(network, train, device=settings.device)
    found = released_bound(measured, seed=settings.seed)
    by_change = bound_by_change(measured, train, seed=settings.seed, device=settings.device)
    tested = margin_report(network.predictor, test.on(settings.device))
    return {
        "epoch": epoch,
        "train_error": measured.margins.loss(0.0),
        "test_error": tested.loss(0.0),
        "smallest_margin": measured.facts.margin,
        "chi": found.pruned.chi,
        "margin_loss": measured.margins.loss(found.needed),
        "bound": found.bound.value,
        "chi_by_change": by_change.pruned.chi,
        "bound_by_change": by_change.bound.value,
    }


@item(
    "G-Exp2",
    title="The bound and the true error over the epochs of a training (Guha et al. 2023, figure 2)",
    quick="a minute on one core; a network of G-Tab1",
    full="20 minutes on a GPU; a network of G-Tab1",
)
def guha_figure2(settings: Settings) -> Reproduction:
    """The figure has the paper's bound and the true error of a network on MNIST over the epochs, the bound
    moved and stretched to the range of the error. The text sees two drops of the bound: one when the training
    error falls, and one when the smallest margin of the sample becomes positive. Here is the same, with the
    margin, and the bound as it is; both by the margin that the code asks for, and by the measured change of
    scores, for which it has a search that it does not call.
    """
    plan = plan_for("mnist", settings.size)
    networks = Networks(plan, settings)
    epochs = settings.cells.get("epochs", lambda: {"kept": list(networks.watched.kept_epochs)})["kept"]
    states = [settings.cells.get(f"epoch {epoch}", partial(_state, networks, epoch)) for epoch in epochs]
    rows = rescaled(rescaled(states, "bound"), "bound_by_change")
    step = -(-len(rows) // _SHOWN)
    return Reproduction(
        tables={"States of the training": [*rows[:-1:step], rows[-1]]},
        sentences=tuple(_sentences(rows)),
        deviations=(_states(plan), *plan.deviations),
        points={"epochs": rows},
        figures={"G-Exp2": _figure(rows)},
    )


def rescaled(rows: Sequence[Row], column: str) -> list[Row]:
    """The rows with a bound moved and stretched to the range of the test error.

    Example:
        >>> rows = [{"bound": 9.0, "test_error": 0.5}, {"bound": 7.0, "test_error": 0.25}]
        >>> [row["bound_rescaled"] for row in rescaled(rows, "bound")]
        [0.5, 0.25]
    """
    bounds, errors = ([row[name] for row in rows] for name in (column, "test_error"))
    stretch = (max(errors) - min(errors)) / ((max(bounds) - min(bounds)) or 1.0)
    return [
        {**row, f"{column}_rescaled": min(errors) + (row[column] - min(bounds)) * stretch} for row in rows
    ]


def _states(plan: Plan) -> str:
    return (
        f"One network of width {plan.watched}, looked at every {plan.keep_every} epochs, trained by the "
        "code's settings. The paper prints no numbers for this figure."
    )


def _sentences(rows: Sequence[Row]) -> Iterator[str]:
    before = [row for row in rows if row["smallest_margin"] <= 0.0]
    after = [row for row in rows if row["smallest_margin"] > 0.0]
    first, last = rows[0], rows[-1]
    if before:
        yield (
            "We agree on the first drop, and can say what it is: while the smallest margin is not positive, "
            "the code prunes nothing, and its bound is the training error plus a number that never changes. "
            f"Up to epoch {before[-1]['epoch']} the training error goes from {before[0]['train_error']:.1%} "
            f"to {before[-1]['train_error']:.3%}, and the bound from {before[0]['bound']:.2f} to "
            f"{before[-1]['bound']:.2f}."
        )
    if after:
        start, end = (before or after)[-1], after[-1]
        word = "we agree on" if end["bound"] < start["bound"] else "we do not see"
        yield (
            f"By the margin that the code asks for {word} the second drop. The smallest margin is positive "
            f"from epoch {after[0]['epoch']} on; the search then ends at a strength that keeps "
            f"{end['chi']:.1%} of the weights and asks for a margin that {end['margin_loss']:.1%} of the "
            "sample do not have in the end. That loss is part of the bound, which goes from "
            f"{start['bound']:.2f} to {end['bound']:.2f}."
        )
        word = "we agree" if end["bound_by_change"] < start["bound_by_change"] else "we do not see it"
        yield (
            f"By the measured change of scores {word}: {end['chi_by_change']:.1%} of the weights are kept in "
            f"the end, and the bound goes from {start['bound_by_change']:.2f} to "
            f"{end['bound_by_change']:.2f}. The theorem asks for the other search."
        )
    else:
        yield "The smallest margin does not become positive here, so that there is no second drop."
    yield (
        f"Stretched to the range of the error the bound ends at {last['bound_rescaled']:.3f}, by measured "
        f"change at {last['bound_by_change_rescaled']:.3f}, where the error is "
        f"{last['test_error']:.3f}. As it is it goes from "
        f"{first['bound']:.2f} to {last['bound']:.2f}, a change of {last['bound'] / first['bound'] - 1:.1%}, "
        f"while the test error goes from {first['test_error']:.1%} to {last['test_error']:.1%}. Its "
        f"smallest value is {min(row['bound'] for row in rows):.1f}, and an error rate is at most 1 (G-E22)."
    )


def _figure(rows: Sequence[Row]) -> Figure:
    def lines(bound: str, by_change: str) -> list[Series]:
        labels = {bound: "bound", "test_error": "test error", by_change: "bound by measured change"}
        return curves(rows, "epoch", labels)

    zero = Series("", [rows[0]["epoch"], rows[-1]["epoch"]], [0.0, 0.0], "dashed")
    margins = [*curves(rows, "epoch", {"smallest_margin": ""}), zero]
    stretched = lines("bound_rescaled", "bound_by_change_rescaled")
    plain = lines("bound", "bound_by_change")
    return Figure(
        [
            Plot("bound, stretched to the range of the error", "epoch", "error", stretched, headroom=0.5),
            Plot("bound as it is", "epoch", "value", plain, y_scale="log"),
            Plot("smallest margin of the sample", "epoch", "margin", margins),
        ]
    )
