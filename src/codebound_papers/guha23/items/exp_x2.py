"""Guha et al. 2023, a plot of their repository: non-zeros of the fullest row, and the prediction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codebound_papers.guha23.items.released import draw_pruning, strengths
from codebound_papers.guha23.items.trained import Networks, plan_for
from codebound_papers.guha23.pruning_law import kept_share
from codebound_papers.report.figures import Figure, Plot, Series
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHOWN = (0.5, 2.0, 10.0)  # d in the table


@item(
    "G-ExpX2",
    title="Non-zeros in the fullest row of a pruned layer, and the prediction (Guha et al. 2023, code)",
    quick="half a minute on one core; a network of G-Tab1",
    full="minutes on a GPU; a network of G-Tab1",
)
def guha_exp_x2(settings: Settings) -> Reproduction:
    """The size of a sketch depends on the fullest row of a pruned matrix. Lemma 5.1 predicts at most 3 lambda
    times the mean, for Gaussian weights; the repository plots the largest number of non-zeros in a row beside
    3 fan_in chi(d), over strengths d in [0, 10].
    """
    plan = plan_for("mnist", settings.size)
    networks, cells = Networks(plan, settings), settings.cells
    points = [
        row
        for d in strengths(settings.size)
        for row in cells.get(f"d={d:.6g}", partial(_rows, networks, d))["rows"]
    ]
    known = sorted({row["d"] for row in points})
    shown = {min(known, key=lambda each: abs(each - d)) for d in _SHOWN}
    return Reproduction(
        tables={"The fullest row of each layer": [row for row in points if row["d"] in shown]},
        sentences=tuple(_sentences(points)),
        deviations=plan.deviations,
        points={"strengths": points},
        figures={"G-ExpX2": _figure(points)},
    )


def _sentences(points: Sequence[Row]) -> Iterator[str]:
    ratios = [row["fullest_row"] / row["predicted"] for row in points]
    above = sum(ratio > 1.0 for ratio in ratios)
    share = f"{min(ratios):.2f} to {max(ratios):.2f} of the prediction"
    if above:
        yield (
            f"We agree in part: in {above} of {len(points)} cases the fullest row is above the prediction. "
            f"It has {share}. Trained weights are not Gaussian (G-E26): more of a row is large than the "
            "lemma assumes."
        )
    else:
        yield f"We agree: in all {len(points)} cases the fullest row is below the prediction. It has {share}."
    told = [row["d"] for row in points if row["predicted"] < row["fan_in"]]
    yield (
        f"In {len(points) - len(told)} cases the prediction is not below the length of a row and says nothing"
        + (f"; from d = {min(told):.2g} on it does say something." if told else ".")
    )
    more = max(row["with_diagonal"] - row["fullest_row"] for row in points)
    yield (
        f"The text keeps the diagonal, the code does not: in the same draws it adds at most {more} to the "
        "fullest row. The lemma leaves it out (G-E4), which matters once a row keeps about one weight."
    )


def _rows(networks: Networks, strength: float) -> dict[str, list[Row]]:
    drawn = partial(draw_pruning, networks.watched.network, strength=strength, seed=networks.settings.seed)
    plain, with_diagonal = drawn(), drawn(keep_diagonal=True)
    rows: list[Row] = [
        {
            "d": strength,
            "layer": name,
            "fan_in": matrix.shape[1],
            "fullest_row": int(matrix.count_nonzero(dim=1).max()),
            "with_diagonal": int(with_diagonal.matrices[name].count_nonzero(dim=1).max()),
            "predicted": 3.0 * matrix.shape[1] * kept_share(strength),
        }
        for name, matrix in plain.matrices.items()
    ]
    return {"rows": rows}


def _figure(points: Sequence[Row]) -> Figure:
    plots = []
    for layer in dict.fromkeys(row["layer"] for row in points):
        rows = [row for row in points if row["layer"] == layer]
        d = [row["d"] for row in rows]
        plots.append(
            Plot(
                f"{layer}, {rows[0]['fan_in']} inputs",
                "strength d",
                "non-zeros",
                (
                    Series("3 fan_in chi(d)", d, [row["predicted"] for row in rows]),
                    Series("fullest row", d, [row["fullest_row"] for row in rows], "points"),
                ),
            )
        )
    return Figure(plots)
