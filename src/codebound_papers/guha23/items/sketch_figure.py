"""The figure of ``sketch:phase``, from its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound_papers.guha23.items.sketch_draws import HYBRID, L1
from codebound_papers.report.figures import Figure, Plot, Series, curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound_papers.reproduce.items import Row

_LINES = "non-zeros in a line, j"


def phase_figure(
    *,
    counts: Sequence[Row],
    thresholds: Sequence[Row],
    constant: float,
    ensembles: Sequence[Row],
    noise: Sequence[Row],
) -> Figure:
    """Success over j and m for each p; constants; placement of ones; noise.

    Args:
        counts: Draws recovered for each decoder, p, j and m.
        thresholds: Smallest m for each decoder, p and j.
        constant: Fitted to those of l1.
        ensembles: Draws recovered for each placement of ones.
        noise: Errors for each m and level of noise.
    """
    maps = [
        _map(p, _where(counts, {"p": p, "decoder": L1}), _where(thresholds, {"p": p}), constant)
        for p in dict.fromkeys(row["p"] for row in counts)
    ]
    others = (_constants(_where(thresholds, {"decoder": L1})), _placements(ensembles), _stability(noise))
    return Figure([*maps, *others], columns=max(len(maps), 3))


def _map(p: int, counts: Sequence[Row], thresholds: Sequence[Row], constant: float) -> Plot:
    unit = {row["j"]: row["m"] / row["c"] for row in thresholds}
    tried = [row for row in counts if row["j"] in unit]
    peeling = _where(thresholds, {"decoder": HYBRID})
    lines = sorted(unit)
    return Plot(
        f"recovered by l1, p = {p} (white: none)",
        _LINES,
        "m / sqrt(N ln(p²/N))",
        (
            Series(
                "", _of(tried, "j"), [row["m"] / unit[row["j"]] for row in tried], "shades", _shares(tried)
            ),
            Series(f"fitted to all p: {constant:.2f}", lines, [constant for _ in lines]),
            *curves(peeling, "j", {"c": "enough with peeling first"}, "dashed"),
        ),
        x_scale="log",
        x_ticks=lines,
    )


def _constants(thresholds: Sequence[Row]) -> Plot:
    constants = {"c": "c of c sqrt(N ln(p²/N))", "C": "C of C sqrt(jp) ln p"}
    points, ticks = curves(thresholds, "j", constants, "points"), sorted(set(_of(thresholds, "j")))
    return Plot("constants of m, all p", _LINES, "constant", points, x_scale="log", x_ticks=ticks)


def _placements(ensembles: Sequence[Row]) -> Plot:
    placed = {line: _where(ensembles, {"ones_by": line}) for line in ("row", "column")}
    return Plot(
        f"recovered by l1, p = {ensembles[0]['p']}, j = {ensembles[0]['j']}",
        "mean number of ones in a column",
        "share of draws",
        tuple(
            Series(f"{line} by {line}", _of(rows, "ones_per_column"), _shares(rows), "points")
            for line, rows in placed.items()
        ),
    )


def _stability(noise: Sequence[Row]) -> Plot:
    by_side = {m: _where(noise, {"m": m}) for m in dict.fromkeys(row["m"] for row in noise)}
    l1 = [line for m, rows in by_side.items() for line in curves(rows, "noise", {"l1_error": f"l1, m = {m}"})]
    peeling = curves(by_side[max(by_side)], "noise", {"peeling_error": "peeling"}, "dashed")
    return Plot(
        f"noise, p = {noise[0]['p']}, j = {noise[0]['j']}",
        "relative noise on the sketch",
        "relative error",
        [*l1, *peeling],
        x_scale="log",
        y_scale="log",
    )


def _of(rows: Sequence[Row], column: str) -> list[float]:
    return [row[column] for row in rows]


def _shares(rows: Sequence[Row]) -> list[float]:
    return [row["recovered"] / row["draws"] for row in rows]


def _where(rows: Sequence[Row], wanted: Row) -> list[Row]:
    return [row for row in rows if wanted.items() <= row.items()]
