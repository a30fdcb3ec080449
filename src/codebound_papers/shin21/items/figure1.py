"""Shin 2021, figure 1: densities of symmetric stable laws."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from codebound_papers.report.figures import Figure, Plot, Series
from codebound_papers.reproduce.items import Reproduction, Row, Settings, Size, item
from codebound_papers.shin21.laws import Stable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ALPHAS = (1.9, 1.5, 1.0, 0.5)
_POINTS: dict[Size, int] = {"tiny": 5, "quick": 201, "full": 201}
_SHARE = 0.01  # of the law of the largest alpha that lies beyond each end of the figure


@item(
    "S-Fig1",
    title="Densities of symmetric stable laws (Shin 2021, figure 1)",
    quick="a second",
    full="a second",
)
def shin_figure1(settings: Settings) -> Reproduction:
    """The smaller alpha is, the heavier are the tails and the sharper is the peak. Drawn as in the released
    script: alpha = 1.9, 1.5, 1, 0.5, beta = 0, between the percentiles 1 and 99 of the law with alpha = 1.9.
    The paper prints no numbers; what can be checked are closed forms.
    """
    points = [
        row
        for alpha in _ALPHAS
        for row in settings.cells.get(f"alpha={alpha}", partial(_density, alpha, settings.size))["rows"]
    ]
    by_alpha = {alpha: [row for row in points if row["alpha"] == alpha] for alpha in _ALPHAS}
    table = [_peak(alpha, by_alpha[alpha]) for alpha in _ALPHAS]
    return Reproduction(
        tables={"Peak, and what the figure leaves out": table},
        sentences=tuple(_sentences(table)),
        points={"density": points},
        figures={"S-Fig1": _figure(by_alpha)},
    )


def _density(alpha: float, size: Size) -> dict[str, list[Row]]:
    x = np.linspace(-(end := _end()), end, _POINTS[size])
    density = Stable(alpha=alpha).density(x)
    return {
        "rows": [
            {"alpha": alpha, "x": a, "density": b} for a, b in zip(x.tolist(), density.tolist(), strict=True)
        ]
    }


def _end() -> float:
    """The 99th percentile of the law with the largest alpha, by bisection."""
    law, low, high = Stable(alpha=_ALPHAS[0]), 0.0, 100.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(law.tail(middle)) > _SHARE else (low, middle)
    return high


def _peak(alpha: float, rows: Sequence[Row]) -> Row:
    middle, closed = rows[len(rows) // 2], math.gamma(1.0 + 1.0 / alpha) / math.pi
    return {
        "alpha": alpha,
        "density at 0": middle["density"],
        "gamma(1 + 1/alpha) / pi": closed,
        "difference": abs(middle["density"] - closed),
        "beyond": 2.0 * float(Stable(alpha=alpha).tail(rows[-1]["x"])),
    }


def _sentences(table: Sequence[Row]) -> Iterator[str]:
    widest, narrowest = table[0], table[-1]
    yield (
        "We agree: the smaller alpha, the higher the peak and the more of the law lies beyond the range, "
        f"from {widest['beyond']:.0%} at alpha = {widest['alpha']} to {narrowest['beyond']:.0%} at alpha = "
        f"{narrowest['alpha']}. The density at 0 and gamma(1 + 1/alpha) / pi differ by at most "
        f"{max(row['difference'] for row in table):.0e}."
    )
    yield (
        "At alpha = 1 the law is Cauchy's. The footnote prints its density, 1 / (pi (1 + x^2)), without the "
        "square (S-E23): that is negative below -1."
    )


def _figure(by_alpha: dict[float, list[Row]]) -> Figure:
    series = [
        Series(f"alpha = {alpha}", [row["x"] for row in rows], [row["density"] for row in rows])
        for alpha, rows in by_alpha.items()
    ]
    return Figure(
        [
            Plot("densities, as published", "x", "density", series),
            Plot("the same on a logarithmic scale", "x", "density", series, y_scale="log"),
        ],
        columns=2,
    )
