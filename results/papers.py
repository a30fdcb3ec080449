"""What the three papers claim, on one network on digits: the picture of the README.

Run: python results/papers.py        (seconds; writes docs/papers.svg)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from codebound_papers.report.figures import Figure, Plot, Series, curves
from codebound_papers.study.arora import arora18
from codebound_papers.study.guha import guha23
from codebound_papers.study.shin import shin21
from codebound_papers.study.subjects import subject

TARGET = Path(__file__).parents[1] / "docs/papers.svg"


def recovery(record: dict[str, Any]) -> Plot:
    """Does a pruned network still work where its sketches give it back?"""
    rows = [
        {"d": x["d"], "accuracy": 1.0 - x["test_error"], "recovered": x["recovered"] / x["layers"]}
        for x in record["working_range"]
    ]
    lines = curves(rows, "d", {"accuracy": "test accuracy", "recovered": "layers recovered"})
    return Plot("Guha et al. 2023", "strength of pruning", "share", lines, x_scale="log")


def damping(record: dict[str, Any]) -> Plot:
    """Noise a tenth as long as the input of a layer, at that layer and behind it."""
    layers = list(record["attenuation"][0]["errors"])
    lines = []
    for row in record["attenuation"][:-1]:  # behind the last layer there is none
        places = [layers.index(name) for name in row["errors"]]
        lines.append(Series(f"into {row['injected']}", places, list(row["errors"].values())))
    names = [name.removeprefix("linear") for name in layers]
    return Plot("Arora et al. 2018", "output of layer", "relative noise", lines, x_names=names, headroom=0.6)


def redraws(record: dict[str, Any]) -> Plot:
    """Accuracy with the small weights of the last layer drawn anew."""
    row = record["redrawn"][0]
    trials = list(range(1, len(row["accuracies"]) + 1))
    lines = [
        Series("as trained", [trials[0], trials[-1]], [row["original"]] * 2, "dashed"),
        Series("small weights of the last layer redrawn", trials, row["accuracies"], "points"),
    ]
    return Plot("Shin 2021", "trial", "test accuracy", lines, headroom=0.5)


def main() -> None:
    """Studies one network by the three papers, and draws a plot of each."""
    about = subject()
    made = guha23(about, prune="algorithm1"), arora18(about), shin21(about)
    draw = recovery, damping, redraws
    plots = [plot(found.record()) for plot, found in zip(draw, made, strict=True)]
    TARGET.write_text(Figure(plots, columns=3).svg(), "utf-8")
    sys.stdout.write("\n\n".join([*map(str, made), f"wrote {TARGET}\n"]))


if __name__ == "__main__":
    main()
