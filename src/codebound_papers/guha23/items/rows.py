"""Tables and bars of the comparisons in Guha et al. 2023, from measured networks. All numbers are natural
logarithms, as in the paper; a bound that is infinite, for want of a positive margin, is left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from codebound_papers.guha23.items.printed import BARS, EXAMPLES, like_for_like
from codebound_papers.guha23.items.trained import USUAL_SHARE
from codebound_papers.report.figures import Figure, Plot, Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codebound_papers.reproduce.items import Row

    Logs = Mapping[str, float | None]

RELEASED = "As the released code computes it: the older bounds neither divided by n nor rooted"
FAIR = "Like for like: all divided by n and rooted; beside them what counting gives, and a certificate"
LITERATURE = "The older bounds as their papers have them"
LOGARITHMS = "Bars, as natural logarithms"
NETWORKS = "The networks, and how strongly they could be pruned"
PRINTED = "What the printed numbers imply"

_HONEST = {"parameter_counting": "parameter counting", "hold_out": "hold-out certificate"}


def separating(rows: Iterable[Row]) -> list[Row]:
    """The networks whose smallest margin is positive: for the others the older bounds are infinite."""
    return [row for row in rows if row["smallest_margin"] > 0.0]


def fair(row: Row) -> dict[str, float | None]:
    """The bars of a network, like for like."""
    return like_for_like(row["released"], row["n"])


def log_error(row: Row) -> float | None:
    """Logarithm of the test error; None for no error at all."""
    return math.log(row["test_error"]) if row["test_error"] > 0.0 else None


def released_table(rows: Iterable[Row], printed: Mapping[int, Logs]) -> list[Row]:
    """The paper's table, ours beside it."""
    return [
        {
            **_which(row),
            **_beside({**row["released"], "test_error": log_error(row)}, printed.get(row["width"], {})),
        }
        for row in rows
    ]


def fair_table(rows: Iterable[Row], printed: Mapping[int, Logs], *, data: str) -> list[Row]:
    """The same on one scale, with two lines that need no comparison."""
    published = {width: like_for_like(bars, EXAMPLES[data]) for width, bars in printed.items()}
    return [
        {
            **_which(row),
            **_beside(fair(row), published.get(row["width"], {})),
            **{label: row[name] for name, label in _HONEST.items()},
        }
        for row in rows
    ]


def literature_table(rows: Iterable[Row]) -> list[Row]:
    """The forms of the literature."""
    return [{**_which(row), **row["literature"]} for row in rows]


def networks_table(rows: Iterable[Row]) -> list[Row]:
    """What was measured of each network; no logarithms, but for the bound where the change is measured."""
    return [
        {
            **_which(row),
            "n": row["n"],
            "epochs": row["epochs"],
            "test error": row["test_error"],
            "smallest margin": row["smallest_margin"],
            "strength d": row["strength"],
            "chi(d)": row["chi"],
            "kept": row["kept_share"],
            "chi(d) by measured change": row["chi_by_change"],
            "Guha 2023 by measured change": row["guha_by_change"],
            f"margin asked for at chi = {USUAL_SHARE}": row["needed_for_usual_share"],
        }
        for row in rows
    ]


def bars_table(rows: Sequence[Row], printed: Logs, *, data: str) -> list[Row]:
    """One row for each bar: networks of one width, trained differently, beside the printed ones."""
    names = {**BARS, **_HONEST, "test_error": "test error"}
    ours = {
        row["training"]: {**_honest(row), **row["released"], "test_error": log_error(row)} for row in rows
    }
    fairly = {row["training"]: {**ours[row["training"]], **fair(row)} for row in rows}
    published = {**printed, **like_for_like(printed, EXAMPLES[data])}
    return [
        {
            "bar": label,
            **{training: bars[name] for training, bars in ours.items()},
            "published": printed.get(name),
            **{f"{training}, like for like": bars[name] for training, bars in fairly.items()},
            "published, like for like": published.get(name),
        }
        for name, label in names.items()
    ]


def bars_figure(table: Sequence[Row]) -> Figure:
    """Both comparisons as bars; where a bar is above zero, a bound on an error rate says nothing."""
    trainings = [column for column in table[0] if f"{column}, like for like" in table[0]]
    compared = [row for row in table if row["bar"] not in _HONEST.values()]
    return Figure(
        [
            _bars("as released", compared, {name: name for name in trainings}),
            _bars("like for like", table, {name: f"{name}, like for like" for name in trainings}),
        ],
        columns=2,
    )


def _bars(title: str, table: Sequence[Row], columns: Mapping[str, str]) -> Plot:
    """Missing bars are those of infinite bounds, or were not published."""
    drawn = []
    for label, column in columns.items():
        places = [place for place, row in enumerate(table) if row[column] is not None]
        drawn.append(Series(label, places, [table[place][column] for place in places], "bars"))
    return Plot(title, "", "natural logarithm", drawn, x_names=[row["bar"] for row in table])


def _which(row: Row) -> dict[str, object]:
    return {"width": row["width"], "training": row["training"], "train error": row["train_error"]}


def _honest(row: Row) -> dict[str, float | None]:
    return {name: row[name] for name in _HONEST}


def _beside(ours: Logs, printed: Logs) -> dict[str, float | None]:
    """Every number with the printed one behind it."""
    return {
        column: value
        for name, number in ours.items()
        for column, value in ((name, number), (f"published_{name}", printed.get(name)))
    }
