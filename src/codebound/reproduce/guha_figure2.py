"""Guha et al. 2023, figure 2: the bound and the true error over the epochs of a training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from codebound.measure.margins import margin_report
from codebound.report.figures import Figure, Plot, Series
from codebound.reproduce.guha_released import measure_smallest_margin, released_bound
from codebound.reproduce.guha_trained import CODE, Networks, Parts, Plan, plan_for
from codebound.reproduce.item import Reproduction, Row, Settings, item
from codebound.reproduce.trained import Trained, trained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codebound.reproduce.item import Size

_WIDTHS: dict[Size, int] = {"tiny": 12, "quick": 200, "full": 784}
_KEEP_EVERY: dict[Size, int] = {"tiny": 2, "quick": 2, "full": 10}
_SHOWN = 15  # epochs in the table


@dataclass(frozen=True)
class _Training:
    """A network with its states on the way, trained when a part first needs it."""

    plan: Plan
    settings: Settings

    @cached_property
    def parts(self) -> Parts:
        return Networks(self.plan, self.settings).parts

    @cached_property
    def subject(self) -> Trained:
        spec = f"mlp:depth={self.plan.depth},width={_WIDTHS[self.settings.size]}"
        config = replace(self.plan.trainings[CODE], seed=self.settings.seed)
        every = _KEEP_EVERY[self.settings.size]
        return trained(spec, self.parts.samples, config, self.settings, keep_every=every)

    def state(self, epoch: int) -> Row:
        """The bound as the code computes it, and the errors, after so many epochs."""
        (train, test), network = self.parts.samples, self.subject.at(epoch)
        assert test is not None
        measured = measure_smallest_margin(network, train, device=self.settings.device)
        found = released_bound(measured, seed=self.settings.seed)
        tested = margin_report(network.predictor, test.on(self.settings.device))
        return {
            "epoch": epoch,
            "train_error": measured.margins.loss(0.0),
            "test_error": tested.loss(0.0),
            "smallest_margin": measured.facts.margin,
            "chi": found.chi,
            "margin_loss": measured.margins.loss(found.needed),
            "bound": found.bound.value,
        }


@item(
    "G-Exp2",
    title="The bound and the true error over the epochs of a training (Guha et al. 2023, figure 2)",
    quick="a minute on one core",
    full="20 minutes on a GPU",
)
def guha_figure2(settings: Settings) -> Reproduction:
    """The figure has the paper's bound and the true error of a network on MNIST over the epochs, the bound
    moved and stretched to the range of the error. The text sees two drops of the bound: one when the training
    error falls, and one when the smallest margin of the sample becomes positive. Here is the same, with the
    margin, and the bound as it is.
    """
    plan = plan_for("mnist", settings.size)
    training = _Training(plan, settings)
    epochs = settings.cells.get("epochs", lambda: {"kept": list(training.subject.kept_epochs)})["kept"]
    rows = rescaled(
        [settings.cells.get(f"epoch {epoch}", partial(training.state, epoch)) for epoch in epochs]
    )
    step = -(-len(rows) // _SHOWN)
    return Reproduction(
        tables={"States of the training": [*rows[:-1:step], rows[-1]]},
        sentences=tuple(_sentences(rows)),
        deviations=(_states(settings.size), *plan.deviations),
        points={"epochs": rows},
        figures={"G-Exp2": _figure(rows)},
    )


def rescaled(rows: Sequence[Row]) -> list[Row]:
    """The rows with the bound moved and stretched to the range of the test error.

    Example:
        >>> [row["rescaled"] for row in rescaled([{"bound": 9.0, "test_error": 0.5},
        ...                                       {"bound": 7.0, "test_error": 0.25}])]
        [0.5, 0.25]
    """
    bounds, errors = ([row[name] for row in rows] for name in ("bound", "test_error"))
    stretch = (max(errors) - min(errors)) / ((max(bounds) - min(bounds)) or 1.0)
    return [{**row, "rescaled": min(errors) + (row["bound"] - min(bounds)) * stretch} for row in rows]


def _states(size: Size) -> str:
    return (
        f"One network of width {_WIDTHS[size]}, looked at every {_KEEP_EVERY[size]} epochs, trained by the "
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
            f"to {before[-1]['train_error']:.1%}, and the bound from {before[0]['bound']:.2f} to "
            f"{before[-1]['bound']:.2f}."
        )
    if after:
        kept = after[-1]
        moved = "falls" if kept["bound"] < (before or after)[-1]["bound"] else "rises"
        word = "We agree on the second drop" if moved == "falls" else "We do not see the second drop"
        yield (
            f"{word}: the smallest margin is positive from epoch {after[0]['epoch']} on. The search then "
            f"ends at a strength that keeps {kept['chi']:.1%} of the weights and asks for a margin that "
            f"{kept['margin_loss']:.1%} of the sample do not have in the end; that loss is part of the "
            f"bound, which {moved} to {kept['bound']:.2f}."
        )
    else:
        yield "The smallest margin does not become positive here, so that there is no second drop."
    yield (
        f"Stretched to the range of the error the bound ends at {last['rescaled']:.3f}, where the error is "
        f"{last['test_error']:.3f}. As it is it goes from "
        f"{first['bound']:.2f} to {last['bound']:.2f}, a change of {last['bound'] / first['bound'] - 1:.1%}, "
        f"while the test error goes from {first['test_error']:.1%} to {last['test_error']:.1%}. At no epoch "
        f"is it below {min(row['bound'] for row in rows):.1f}, and an error rate is at most 1 (G-E22)."
    )


def _figure(rows: Sequence[Row]) -> Figure:
    epochs = [row["epoch"] for row in rows]

    def curve(label: str, name: str) -> Series:
        return Series(label, epochs, [row[name] for row in rows])

    return Figure(
        [
            Plot(
                "bound, stretched to the range of the error",
                "epoch",
                "error",
                (curve("bound, rescaled", "rescaled"), curve("test error", "test_error")),
            ),
            Plot(
                "bound as it is",
                "epoch",
                "value",
                (curve("bound", "bound"), curve("test error", "test_error")),
                y_scale="log",
            ),
            Plot(
                "smallest margin of the sample",
                "epoch",
                "margin",
                (
                    curve("", "smallest_margin"),
                    Series("", [epochs[0], epochs[-1]], [0.0, 0.0], "dashed"),
                ),
            ),
        ]
    )
