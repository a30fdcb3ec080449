"""Guha et al. 2023, figure 1c: bounds against the width of the hidden layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from codebound_papers.guha23.items import rows as tables
from codebound_papers.guha23.items import verdicts
from codebound_papers.guha23.items.printed import BARS, EXAMPLES, MNIST, like_for_like
from codebound_papers.guha23.items.trained import CODE, Networks, plan_for
from codebound_papers.report.figures import Figure, Plot, Series
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
    here = [_curve(label, name, ours, "line") for name, label in BARS.items()]
    there = [_curve("", name, printed, "dashed") for name in BARS]
    return Plot(title, "width", "natural logarithm", (*here, *there), headroom=0.4)


def _curve(
    label: str, name: str, bars: Mapping[int, tables.Logs], style: Literal["line", "dashed"]
) -> Series:
    points = [(width, log) for width, logs in bars.items() if (log := logs[name]) is not None]
    return Series(label, [x for x, _ in points], [y for _, y in points], style)


def _plain_lines(rows: Sequence[Row]) -> Plot:
    widths = [row["width"] for row in rows]
    errors = [(row["width"], log) for row in rows if (log := tables.log_error(row)) is not None]
    return Plot(
        "plain lines",
        "width",
        "natural logarithm",
        (
            Series("parameter counting", widths, [row["parameter_counting"] for row in rows]),
            Series("hold-out certificate", widths, [row["hold_out"] for row in rows]),
            Series("test error", [x for x, _ in errors], [y for _, y in errors], "points"),
            Series("published error", list(MNIST), [bars["test_error"] for bars in MNIST.values()], "dashed"),
        ),
    )
