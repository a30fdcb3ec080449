"""Shin 2021, figures 1 and 2: densities of symmetric stable laws, and weights of one size in a row."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from codebound_papers.report.figures import Contours, Figure, Plot, curves_by
from codebound_papers.reproduce.items import Reproduction, Row, Settings, Size, item
from codebound_papers.shin21.laws import Stable, bracket_probability, resilience, resilience_grid

_ALPHAS = (1.9, 1.5, 1.0, 0.5)
_POINTS: dict[Size, int] = {"tiny": 5, "quick": 201, "full": 201}
_SHARE = 0.01  # of the law of the largest alpha that lies beyond each end of the figure


@item("S-Fig1", quick="a second", full="a second")
def shin_figure1(settings: Settings) -> Reproduction:
    """Densities of symmetric stable laws (Shin 2021, figure 1)

    The smaller alpha is, the heavier are the tails and the sharper is the peak. Drawn as in the released
    script: alpha = 1.9, 1.5, 1, 0.5, beta = 0, between the percentiles 1 and 99 of the law with alpha = 1.9.
    The paper prints no numbers; what can be checked are closed forms.
    """
    points: list[Row] = []
    for alpha in _ALPHAS:
        points += settings.cells.get(f"alpha={alpha}", partial(_density, alpha, settings.size))["rows"]
    table = [_peak(alpha, [row for row in points if row["alpha"] == alpha]) for alpha in _ALPHAS]
    series = curves_by(points, "alpha", "x", "density", label="alpha = {}")
    plots = [
        Plot("densities, as published", "x", "density", series),
        Plot("the same on a logarithmic scale", "x", "density", series, y_scale="log"),
    ]
    return Reproduction(
        tables={"Peak, and what the figure leaves out": table},
        sentences=_law_sentences(table),
        points={"density": points},
        figures={"S-Fig1": Figure(plots, columns=2)},
    )


def _density(alpha: float, size: Size) -> dict[str, list[Row]]:
    x = np.linspace(-(end := _end()), end, _POINTS[size])
    density = Stable(alpha=alpha).density(x)
    points = zip(x.tolist(), density.tolist(), strict=True)
    return {"rows": [{"alpha": alpha, "x": a, "density": b} for a, b in points]}


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


def _law_sentences(table: Sequence[Row]) -> Iterator[str]:
    widest, narrowest = table[0], table[-1]
    yield f"""We agree: the smaller alpha, the higher the peak and the more of the law lies beyond the range,
        from {widest["beyond"]:.0%} at alpha = {widest["alpha"]} to {narrowest["beyond"]:.0%} at alpha =
        {narrowest["alpha"]}. The density at 0 and gamma(1 + 1/alpha) / pi differ by at most
        {max(row["difference"] for row in table):.0e}."""
    yield """At alpha = 1 the law is Cauchy's, 1 / (pi (1 + x^2)), as the footnote has it for a scale of 1;
        for another scale gamma it is gamma^2 that belongs where the footnote, as we read it, has gamma
        (S-E23)."""


_SCALE, _TOP, _WIDTH = 1.3, 5, 64  # c, M, N
_SIDE: dict[Size, int] = {"tiny": 4, "quick": 50, "full": 50}
_SHOWN = (  # (alpha, i) in the table
    *((0.5, 0), (1.9, 0), (1.9, 3), (1.9, 5), (1.5, 5)),
    *((1.0, i) for i in range(6)),
)
_LEVELS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
_CURVES = {
    "released": "as released, and published",
    "chernoff": "equation 16 (darkest: it says nothing)",
    "exact": "exact binomial probability",
}


@item("S-Fig2", quick="a few seconds", full="a few seconds: the quick run is the published grid")
def shin_figure2(settings: Settings) -> Reproduction:
    """Chance of enough weights of one size in a row (Shin 2021, figure 2)

    Weights of a row follow a symmetric stable law of scale c. Bracket i holds those between c^i and
    c^(i+1); kappa = c^(M-i) of them sum to c^M. The figure shows, over alpha and i, a bound on the chance
    that a row of N weights has so many, for c = 1.3, M = 5, N = 64. Three versions of it: what the released
    script evaluates, equation 16 where its condition kappa > N p holds, and the exact binomial probability,
    all three with the asymptotic density of the law, as published.
    """
    side = _SIDE[settings.size]
    alphas, brackets = np.linspace(0.0, 2.0, side).tolist(), np.linspace(0.0, _TOP, side).tolist()
    points = settings.cells.get("grid", lambda: {"rows": _grid(alphas, brackets)})["rows"]
    table = settings.cells.get("table", lambda: {"rows": [_format(*pair) for pair in _SHOWN]})["rows"]
    return Reproduction(
        tables={f"At single points, c = {_SCALE}, M = {_TOP}, N = {_WIDTH}": table},
        sentences=_row_sentences(points, table),
        figures={"S-Fig2": Figure([_plot(points, alphas, brackets, column) for column in _CURVES])},
    )


def _row_sentences(points: Sequence[Row], table: Sequence[Row]) -> Iterator[str]:
    below = [row for row in points if row["released"] < row["exact"]]
    first, cauchy = table[0], next(row for row in table if row["alpha"] == 1.0)
    yield f"""We do not agree: the figure shows the bound of equation 16. The released script misplaces a
        parenthesis (S-E26): on {len(below) / len(points):.0%} of the grid it lies below the probability it
        should bound, such as {first["released"]:.4f} for an exact {first["exact"]:.4f} at alpha =
        {first["alpha"]}, i = {first["i"]}, where equation 16 gives {first["eq_16"]:.4f}."""
    empty = [row for row in points if row["chernoff"] >= 1.0]
    yield f"""Equation 16 itself says nothing on {len(empty) / len(points):.0%} of the grid, where kappa is
        not above N p (S-E15). It is an upper bound: it cannot show that anything is probable."""
    yield f"""The asymptotic density is far from the law at these sizes (S-E14): with the law itself the exact
        probability at alpha = 1, i = 0 is {cauchy["exact_with_the_law"]:.3f} in place of
        {cauchy["exact"]:.3f}."""


def _grid(alphas: Sequence[float], brackets: Sequence[float]) -> list[Row]:
    rows = resilience_grid(alphas, brackets, scale=_SCALE, top=_TOP, width=_WIDTH)
    return [{column: row[column] for column in _CURVES} for row in rows]


def _format(alpha: float, bracket: int) -> Row:
    (row,) = resilience_grid([alpha], [bracket], scale=_SCALE, top=_TOP, width=_WIDTH)
    law = bracket_probability(alpha, bracket, scale=_SCALE)
    return {
        "alpha": alpha,
        "i": bracket,
        "kappa": row["kappa"],
        "N p": row["expected"],
        "released": row["released"],
        "eq_16": row["chernoff"],
        "exact": row["exact"],
        "exact_with_the_law": resilience(law, bracket, scale=_SCALE, top=_TOP, width=_WIDTH).exact,
    }


def _plot(points: Sequence[Row], alphas: Sequence[float], brackets: Sequence[float], column: str) -> Plot:
    values = iter(row[column] for row in points)  # bracket by bracket for each alpha
    by_alpha = [[next(values) for _ in brackets] for _ in alphas]
    by_bracket = [list(row) for row in zip(*by_alpha, strict=True)]
    return Plot(_CURVES[column], "alpha", "bracket i", [Contours(alphas, brackets, by_bracket, _LEVELS)])
