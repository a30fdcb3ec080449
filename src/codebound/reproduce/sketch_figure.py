"""The figure of ``sketch:phase``, from its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codebound.report.figures import Plot, Series, plots_figure
from codebound.reproduce.sketch_draws import HYBRID, L1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound.reproduce.item import Row

_LINES = "non-zeros in a line, j"
_LAW, _PRINTED = "c sqrt(N ln(p²/N))", "C sqrt(jp) ln p"


def phase_figure(
    *,
    counts: Sequence[Row],
    thresholds: Sequence[Row],
    ensembles: Sequence[Row],
    noise: Sequence[Row],
    law: Sequence[Row],
) -> str:
    """Success over j and m for each p; constants; placement of ones; noise.

    Args:
        counts: Draws recovered for each decoder, p, j and m.
        thresholds: Smallest m for each decoder, p and j.
        ensembles: Draws recovered for each placement of ones.
        noise: Errors for each m and level of noise.
        law: The fitted m for each p and j.
    """
    sides = dict.fromkeys(row["p"] for row in counts)
    maps = [
        _map(p, _where(counts, p=p, decoder=L1), _where(law, p=p), _where(thresholds, p=p, decoder=HYBRID))
        for p in sides
    ]
    return plots_figure(
        [*maps, _constants(_where(thresholds, decoder=L1)), _placements(ensembles), _stability(noise)]
    )


def _map(p: int, counts: Sequence[Row], law: Sequence[Row], peeling: Sequence[Row]) -> Plot:
    shares = [row["recovered"] / row["draws"] for row in counts]
    return Plot(
        f"p = {p}: draws that l1 recovers (dark: all)",
        _LINES,
        "side of the sketch, m",
        (
            Series("", _of(counts, "j"), _of(counts, "m"), "shades", shares),
            Series(_LAW, _of(law, "j"), _of(law, "m")),
            Series("enough with peeling first", _of(peeling, "j"), _of(peeling, "m"), "dashed"),
        ),
        x_scale="log",
        x_ticks=_of(law, "j"),
    )


def _constants(thresholds: Sequence[Row]) -> Plot:
    j = _of(thresholds, "j")
    return Plot(
        "constants of m, all p",
        _LINES,
        "constant",
        (
            Series(f"c of {_LAW}", j, _of(thresholds, "c"), "points"),
            Series(f"C of {_PRINTED}", j, _of(thresholds, "C"), "points"),
        ),
        x_scale="log",
        x_ticks=sorted(set(j)),
    )


def _placements(ensembles: Sequence[Row]) -> Plot:
    placed = {line: _where(ensembles, ones_by=line) for line in ("row", "column")}
    return Plot(
        "draws that l1 recovers, by placement of the ones",
        "mean number of ones in a column",
        "share of draws",
        tuple(
            Series(
                f"{line} by {line}",
                _of(rows, "ones_per_column"),
                [row["recovered"] / row["draws"] for row in rows],
                "points",
            )
            for line, rows in placed.items()
        ),
    )


def _stability(noise: Sequence[Row]) -> Plot:
    by_side = {m: _where(noise, m=m) for m in dict.fromkeys(row["m"] for row in noise)}
    l1 = [Series(f"l1, m = {m}", _of(rows, "noise"), _of(rows, "l1_error")) for m, rows in by_side.items()]
    largest = _where(noise, m=max(by_side))
    return Plot(
        f"noise, p = {noise[0]['p']}, j = {noise[0]['j']}",
        "relative noise on the sketch",
        "relative error",
        (*l1, Series("peeling", _of(largest, "noise"), _of(largest, "peeling_error"), "dashed")),
        x_scale="log",
        y_scale="log",
    )


def _of(rows: Sequence[Row], column: str) -> list[float]:
    return [row[column] for row in rows]


def _where(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[column] == value for column, value in wanted.items())]
