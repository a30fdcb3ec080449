"""The same labels, spent in two ways: all on a certificate, or a fifth of them held out.

Run: python benchmarks/when.py        (writes docs/when.svg and docs/when.csv)
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import codebound as cb

ROOT = Path(__file__).parents[1]
SIZES = (100, 200, 400, 800, 1400)
DRAWS = 3
NAMES = {
    "picks": "certificate by picks, every label counts",
    "certificate": "certificate, by default",
    "holdout": "hold-out bound, a fifth held out",
    "error": "error of the network by default",
}
COLOURS = ("#8250df", "#0969da", "#d9730d", "#59636e")


def measured(n: int, draw: int) -> dict[str, float]:
    """All ways on a draw of n digits; the error is that on all the others."""
    digits = cb.load_sample("digits")
    order = np.random.default_rng(draw).permutation(digits.n)
    sample, others = digits.select(order[:n], role="train"), digits.select(order[n:], role="test")
    parts = cb.split(sample, {"train": 0.8, "test": 0.2})
    certified = cb.certify(sample, test=others)
    picks = cb.certify(sample, method="picks", run=cb.Run(effort="quick"))
    held = cb.certify(parts["train"], method="picks", test=parts["test"], run=cb.Run(effort="quick"))
    assert certified.confrontation is not None
    assert held.holdout is not None
    test = certified.confrontation.test
    return {
        "n": n,
        "draw": draw,
        "picks": picks.certificate.claim.bound,
        "certificate": certified.certificate.claim.bound,
        "holdout": held.holdout.value,
        "error": test.errors / test.n,
    }


def main() -> None:
    """Writes the rows and the figure."""
    rows = []
    for n in SIZES:
        for draw in range(DRAWS):
            rows.append(measured(n, draw))
            print("  ".join(f"{key} {value:.4g}" for key, value in rows[-1].items()))
    with (ROOT / "docs/when.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "codebound", "font.size": 9})
    figure = Figure(figsize=(6.0, 3.2), layout="constrained")
    axes = figure.subplots()
    for (key, label), colour in zip(NAMES.items(), COLOURS, strict=True):
        means = [100.0 * float(np.mean([row[key] for row in rows if row["n"] == n])) for n in SIZES]
        axes.plot(SIZES, means, "o-", color=colour, label=label)
    axes.set(xscale="log", xlabel="labelled examples, all in all", ylabel="error, per cent")
    axes.set_xticks(SIZES, [str(n) for n in SIZES])
    axes.minorticks_off()
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False)
    figure.savefig(ROOT / "docs/when.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
