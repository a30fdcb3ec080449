"""Guha et al. 2023, figure 1: bounds for one network as bars, and against the width of the hidden layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from codebound_papers.guha23.items import rows as tables
from codebound_papers.guha23.items import verdicts
from codebound_papers.guha23.items.printed import BARS, CIFAR10, EXAMPLES, MNIST, deductions, like_for_like
from codebound_papers.guha23.items.trained import CODE, Networks, plan_for
from codebound_papers.report.figures import Figure, Plot, Series, curves
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WIDTH = 784  # of the network on MNIST in the figure


@item(
    "G-Exp1a",
    title="Bounds for one network on MNIST, as bars (Guha et al. 2023, figure 1a)",
    quick="2 minutes on one core; a network of G-Tab1",
    full="10 minutes on a GPU; a network of G-Tab1",
)
def guha_figure1a(settings: Settings) -> Reproduction:
    """Bars of three older bounds, of the paper's own, and of the true error, on a logarithmic scale: left as
    the released code computes them, right like for like, with parameter counting and a certificate from
    held-out examples. A bar above zero stands for a bound above 1, which says nothing on an error rate; a
    missing one for an infinite bound, because the smallest margin of the sample is not positive.
    """
    plan = plan_for("mnist", settings.size)
    width = _WIDTH if _WIDTH in plan.widths else max(plan.widths)
    narrower = () if width == _WIDTH else (f"The bars are of width {width}, the published of {_WIDTH}.",)
    networks = Networks(plan, settings)
    return _bars("G-Exp1a", networks, {_WIDTH: MNIST[_WIDTH]}, widths=[width], claimed=3, cut=narrower)


@item(
    "G-Exp1b",
    title="Bounds for one network on CIFAR-10, as bars (Guha et al. 2023, figure 1b)",
    quick="a minute on one core; the networks are those of G-Tab2",
    full="half an hour on a GPU; the networks are those of G-Tab2",
)
def guha_figure1b(settings: Settings) -> Reproduction:
    """The bars of figure 1a for a network on CIFAR-10: left as the released code computes them, right like
    for like, with parameter counting and a certificate from held-out examples. A missing bar stands for an
    infinite bound, because the smallest margin of the sample is not positive.
    """
    networks = Networks(plan_for("cifar10", settings.size), settings)
    return _bars("G-Exp1b", networks, CIFAR10, widths=networks.plan.widths, claimed=7)


def _bars(
    id: str,
    networks: Networks,
    published: Mapping[int, Mapping[str, float]],
    *,
    widths: Sequence[int],
    claimed: int,
    cut: tuple[str, ...] = (),
) -> Reproduction:
    """Bars of the networks of one width, beside the printed ones."""
    plan, (printed,) = networks.plan, published.values()
    rows, deduced = networks.rows(widths), deductions(plan.data, published)
    table = tables.bars_table(rows, printed, data=plan.data)
    return Reproduction(
        tables={
            tables.LOGARITHMS: table,
            tables.NETWORKS: tables.networks_table(rows),
        },
        sentences=(
            verdicts.as_released(rows, deduced, claimed=claimed),
            verdicts.on_one_scale(rows, deduced),
            verdicts.on_training(rows),
        ),
        deviations=(*cut, *plan.deviations),
        figures={id: tables.bars_figure(table)},
    )


@item(
    "G-Exp1c",
    title="Bounds against the width of the hidden layers (Guha et al. 2023, figure 1c)",
    quick="3 minutes on one core; the networks are those of G-Tab1",
    full="an hour on a GPU; the networks are those of G-Tab1",
)
def guha_figure1c(settings: Settings) -> Reproduction:
    """The numbers of table 1 against the width: as the released code computes them, like for like, and what
    counting parameters and held-out examples give. Lines are the networks trained here by the code's
    settings, dashed lines the printed numbers in the same colours.
    """
    plan = plan_for("mnist", settings.size)
    rows = Networks(plan, settings).rows()
    fairly = {width: like_for_like(bars, EXAMPLES["mnist"]) for width, bars in MNIST.items()}
    code = [row for row in rows if row["training"] == CODE]
    return Reproduction(
        tables={
            tables.RELEASED: tables.released_table(rows, MNIST),
            tables.FAIR: tables.fair_table(rows, MNIST, data="mnist"),
            "Growth: exponent of the width in each bound, by least squares": _growth(code),
        },
        sentences=(*_sentences(code), verdicts.on_training(rows)),
        deviations=plan.deviations,
        figures={
            "G-Exp1c": Figure(
                [
                    _bounds("as released", {row["width"]: row["released"] for row in code}, MNIST),
                    _bounds("like for like", {row["width"]: tables.fair(row) for row in code}, fairly),
                    _plain_lines(code),
                ]
            )
        },
    )


def _growth(rows: Sequence[Row]) -> list[Row]:
    """Slopes of logarithms over the logarithm of the width; None where a bound is infinite at some width."""
    return [
        {
            "bound": label,
            "as released": _slope({row["width"]: row["released"][name] for row in rows}),
            "published": _slope({width: bars[name] for width, bars in MNIST.items()}),
        }
        for name, label in BARS.items()
    ]


def _slope(logs: Mapping[int, float | None]) -> float | None:
    """Slope by least squares."""
    points = [(math.log(width), log) for width, log in logs.items() if log is not None]
    if len(points) < 2 or len(points) < len(logs):
        return None
    middle, height = (sum(each) / len(points) for each in zip(*points, strict=True))
    spread = math.fsum((x - middle) ** 2 for x, _ in points)
    return math.fsum((x - middle) * (y - height) for x, y in points) / spread


def _sentences(rows: Sequence[Row]) -> Iterator[str]:
    growth = {row["bound"]: row for row in _growth(rows)}
    guha = growth[BARS["guha"]]
    older = [row for name, row in growth.items() if name != BARS["guha"]]
    printed = [row["published"] for row in older]
    ours = [row["as released"] for row in older if row["as released"] is not None]
    here = "" if guha["as released"] is None else f", here {guha['as released']:.2f}"
    older_here = f", here {verdicts.span(ours, '.2f')}" if ours else ""
    yield (
        f"In print the paper's own bound grows like the width to the power {guha['published']:.2f}{here}: "
        "like the root of the number of weights, times a logarithm, because about the same share of them is "
        "kept at every width (G-E22)."
    )
    yield (
        f"The older bounds grow like powers {verdicts.span(printed, '.2f')} of the width in print"
        f"{older_here}; like for like each is half of that, because they are not rooted (G-E22)."
    )
    below = sum(row["parameter_counting"] < row["released"]["guha"] for row in rows)
    narrow, wide = (math.exp(row["hold_out"]) for row in (rows[0], rows[-1]))
    yield (
        f"Parameter counting is below the paper's own bound at {below} of {len(rows)} widths here. From the "
        f"smallest to the largest width the certificate from held-out examples goes from {narrow:.1%} to "
        f"{wide:.1%}."
    )


def _bounds(title: str, ours: Mapping[int, tables.Logs], printed: Mapping[int, tables.Logs]) -> Plot:
    """Both in the same colours: those of four series, which the drawing repeats."""
    here, there = ([{"width": width, **bars} for width, bars in logs.items()] for logs in (ours, printed))
    lines = [*curves(here, "width", BARS), *curves(there, "width", dict.fromkeys(BARS, ""), "dashed")]
    return Plot(title, "width", "natural logarithm", lines, headroom=0.4)


def _plain_lines(rows: Sequence[Row]) -> Plot:
    certain = {"parameter_counting": "parameter counting", "hold_out": "hold-out certificate"}
    errors = [{"width": row["width"], "log": tables.log_error(row)} for row in rows]
    lines = [
        *curves(rows, "width", certain),
        *curves(errors, "width", {"log": "test error"}, "points"),
        Series("published error", list(MNIST), [bars["test_error"] for bars in MNIST.values()], "dashed"),
    ]
    return Plot("plain lines", "width", "natural logarithm", lines)
