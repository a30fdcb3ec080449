"""Writes the table of results/README.md and its picture from the JSON files beside it.

Run: python results/page.py
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebound.bounds.risk import percent
from codebound.numerics import kl_inverse_upper
from codebound_papers.report.figures import Contours, Plot, Series, plots_figure, standalone

HERE = Path(__file__).parent
PAGE, PICTURE = HERE / "README.md", HERE / "scatter.svg"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
DELTA = 0.05


@dataclass(frozen=True)
class Data:
    """A sample, with the certified errors of others, for a code fixed in advance and by sample compression,
    and what we aim at."""

    name: str
    others: str
    compressed: str
    goal: str


@dataclass(frozen=True)
class Result:
    """A certificate of this folder: the data, what g is, and where the base came from, if there is one."""

    data: str
    network: str
    base: str = ""


DATA = {
    "mnist": Data(
        "MNIST",
        "11.6 % (Lotfi 2022), 21.7 % (Perez-Ortiz 2021), 46 % (Zhou 2019)",
        "3.06 % (Pick-to-Learn 2026)",
        "6.0 %, then 3.0 %",
    ),
    "fashion-mnist": Data(
        "Fashion-MNIST", "32.8 % (Lotfi 2022), 44.8 % (Perez-Ortiz, run again)", "-", "20.5 %, then 18 %"
    ),
    "cifar10": Data(
        "CIFAR-10",
        "56.0 % (Lotfi 2022), 74.1 % (Gaussian PAC-Bayes)",
        "48.5 % (Pick-to-Learn 2026)",
        "52 %, then 45 %",
    ),
    "digits": Data("digits", "-", "-", "35 %, then 28 %"),
}
RESULTS = {
    "mnist-subspace": Result(
        "mnist", "convolutions on fixed filters of the straightened image, mean over 5 shifts, 500 integers"
    ),
    "mnist-features": Result("mnist", "sparse layer on fixed filters of the straightened image"),
    "mnist-guha-mlp": Result("mnist", "784-784x4-10 ReLU (Guha et al.), pruned"),
    "fashion-subspace": Result("fashion-mnist", "convolutions on fixed filters, mirrored, 650 integers"),
    "fashion-features": Result("fashion-mnist", "sparse layer on fixed filters"),
    "cifar10-subspace": Result("cifar10", "convolutions on fixed filters, mirrored, 1500 integers"),
    "digits-features": Result("digits", "sparse layer on fixed filters of the straightened image"),
    "digits-linear": Result("digits", "linear, pruned"),
    "digits-from-mnist": Result("digits", "two convolutions, fine-tuned", base="MNIST at 8 x 8 pixels"),
}
LEVELS = {
    "mnist": (0.03, 0.06, 0.1, 0.15, 0.2),
    "fashion-mnist": (0.18, 0.205, 0.23, 0.26),
    "cifar10": (0.45, 0.5, 0.52, 0.55, 0.6),
    "digits": (0.1, 0.2, 0.28, 0.35, 0.45),
}


def numbers(name: str) -> dict[str, float]:
    """Errors, bits and bound of a result."""
    record = json.loads((HERE / f"{name}.json").read_text())
    record = record.get("from_base", record)
    test = record.get("test_errors")
    found = {
        "bound": record["bound"],
        "train": record["train_errors"] / record["n"],
        "bits": record["code_bits"],
        "n": record["n"],
    }
    return found if test is None else {**found, "test": test / 10_000, "holdout": record["holdout"]}


def table() -> str:
    """All results, the best of each sample first, those from a base last."""
    columns = "data|g|bits|training error|certified error|test error|hold-out bound|command, versions, time"
    lines = [f"| {columns.replace('|', ' | ')} |", "|---" * 8 + "|"]
    for key, data in DATA.items():
        rows = [(numbers(name), name, RESULTS[name]) for name in present(key)]
        for found, name, what in sorted(rows, key=lambda row: (bool(row[2].base), row[0]["bound"])):
            cells = [
                f"{data.name}, n = {found['n']:,}",
                f"{what.network}; **base: {what.base}**" if what.base else what.network,
                f"{found['bits']:,}",
                f"{100.0 * found['train']:.2f} %",
                f"**{percent(found['bound'])}**",
                f"{100.0 * found['test']:.2f} %" if "test" in found else "-",
                percent(found["holdout"]) if "holdout" in found else "-",
                f"[{name}]({name}.json)",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| data | published by others, code fixed in advance | by sample compression | aim here |"]
    lines += ["|---|---|---|---|"]
    lines += [f"| {data.name} | {data.others} | {data.compressed} | {data.goal} |" for data in DATA.values()]
    return "\n".join([*lines, *first_looks(HERE / "fresh")]) + "\n"


def first_looks(folder: Path) -> list[str]:
    """Data that nobody looked at before the format was frozen: what the default gave, then each method alone.

    Every record of the folder is there, finished or not; nothing is left out.
    """
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not records:
        return []
    columns = "data|frozen format, first look|statement|counted|certified error|hold-out bound of g|seconds"
    lines = ["", f"| {columns.replace('|', ' | ')} |", "|---" * 7 + "|"]
    for record in records:
        title = f"[{record['data']}](fresh/{record['data']}.json), {record['rows']}"
        if record["state"] != "finished":
            lines.append(f"| {title} | {record['state']} | - | - | - | - | - |")
        for way, found in record["ways"].items():
            method = f"`certify`, by {found.get('method', '-')}" if way == "default" else way
            lines.append(f"| {title} | {method} | {' | '.join(_outcome(found))} |")
    return lines


def _outcome(found: dict[str, Any]) -> list[str]:
    """What one way gave, or that it gave nothing."""
    if found["certificate"] is None:
        return ["no certificate", "-", "-", "-", f"{found['seconds']:.0f}"]
    counted = "; ".join(f"{each['count']:,} {each['name']} of {each['of']:,}" for each in found["counts"])
    bound = f"**{percent(found['bound'])}**" + (", vacuous" if found["vacuous"] else "")
    marks = [", REFUTED" if found.get("refuted_by_test") else ""]
    marks += [", REFUSED" if found["verify_status"] != 0 else ""]
    return [
        found["statement"],
        f"{counted}; {found['code_bits']:,} bits",
        bound + "".join(marks),
        percent(found["holdout"]) if "holdout" in found else "-",
        f"{found['seconds']:.0f}" + (", stopped" if found["stopped_at_limit"] else ""),
    ]


def present(key: str) -> list[str]:
    """The results on a sample that are in this folder."""
    return [name for name, what in RESULTS.items() if what.data == key and (HERE / f"{name}.json").exists()]


def picture() -> str:
    """Bits against training error, with lines of equal bound."""
    plots = []
    for key, data in DATA.items():
        rows = [(numbers(name), RESULTS[name]) for name in present(key)]
        if not rows:
            continue
        n = rows[0][0]["n"]
        most_bits = 1.3 * max(found["bits"] for found, _ in rows)
        most_error = 1.4 * max(found["train"] for found, _ in rows)
        bits = [most_bits * i / 40 for i in range(1, 41)]
        errors = [most_error * i / 40 for i in range(41)]
        nats = [(b * math.log(2.0) - math.log(DELTA)) / n for b in bits]
        grid = [[kl_inverse_upper(error, each) for each in nats] for error in errors]
        series: list[Series | Contours] = [Contours(bits, errors, grid, LEVELS[key])]
        for label, is_based in (("", False), ("from a base", True)):
            points = [found for found, what in rows if bool(what.base) == is_based]
            if points:
                series.append(
                    Series(label, [p["bits"] for p in points], [p["train"] for p in points], style="points")
                )
        plots.append(
            Plot(f"{data.name}: lines of equal bound", "bits of the message", "training error of g", series)
        )
    return standalone(plots_figure(plots, columns=2))


def main() -> None:
    """Writes both."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1])
    PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
