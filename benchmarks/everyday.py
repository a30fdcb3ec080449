"""The default beside a fifth held out, on sets of every kind that the format was developed on.

Run: PYTHONPATH=benchmarks python benchmarks/everyday.py --minutes 20
It goes on where it stopped: results/everyday.jsonl has a line for each draw, results/everyday.md the table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import public_sets
import torch
from numpy.typing import NDArray

from codebound.bounds.held_out import holdout
from codebound.bounds.risk import HoldoutFacts
from codebound.certification import certify
from codebound.estimator import CertifiedClassifier
from codebound.known.views import view_for
from codebound.report.folder import Result
from codebound.sample.dataset import Sample
from codebound.sample.load import as_dataset, load_sample

Rows: TypeAlias = "NDArray[np.int64]"
Task: TypeAlias = tuple[str, int, str]
"""Name of a set, draw, and what is measured: the default, or picks."""
Cells: TypeAlias = tuple[str, ...]

ROOT = Path(__file__).parents[1]
DELTA = 0.05
MOST_TESTED = 4000
LARGE, FEW = 5000, 3  # rows from which on so many draws are enough
MOST_PICKED = 2000  # rows of sets that picks are tried on, which take a fit a round
MOST_ON_AVERAGE, MOST_ON_ONE, MOST_ERRORS = 1.05, 1.15, 1.1
PEERS = "MAPIE", "confidenceinterval"
RIVALS = {
    "table": "gradient boosting of scikit-learn",
    "pictures": "SVC, C = 10",
    "series": "SVC, C = 10, scaled",
    "texts": "TF-IDF and a linear SVC",
}


@dataclass(frozen=True)
class EverydaySet:
    """A set, and how it is drawn from.

    Attributes:
        load: Makes all of it.
        n: Size of a sample; the others are for the test, at most MOST_TESTED.
        kind: Of its inputs, which decides on the rival.
        texts: The texts of each row, where the rival reads them.
    """

    load: Callable[[], Any]
    n: int
    kind: str
    texts: Callable[[], tuple[list[str], Any]] | None = None


def of_sklearn(name: str) -> Callable[[], Sample]:
    """Load a set that scikit-learn carries."""

    def load() -> Sample:
        import sklearn.datasets

        return as_dataset(getattr(sklearn.datasets, f"load_{name}")(return_X_y=True))

    return load


def first_of(name: str, rows: int) -> Callable[[], Sample]:
    """Load the first rows of a known set, which its draws come from."""
    return lambda: load_sample(name).select(range(rows), role="train")


def mixed_table() -> Sample:
    """A made table of numbers, words and gaps, in which words and thresholds decide together."""
    import pandas as pd  # type: ignore[import-untyped]

    rng = np.random.default_rng(37)
    n = 12_000
    numbers = rng.normal(size=(n, 8))
    towns, effects = rng.integers(0, 50, n), rng.normal(size=50)
    plan = rng.integers(0, 3, n)
    signal = 1.5 * effects[towns] + np.where(plan == 1, 2.0 * (numbers[:, 0] > 0.5), numbers[:, 1])
    y = signal + 2.0 * (numbers[:, 2] * numbers[:, 3] > 0.5) + 0.5 * rng.normal(size=n) > 1.5
    table: dict[str, Any] = {f"x{i}": numbers[:, i] for i in range(8)}
    table["x1"] = np.where(rng.random(n) < 0.1, np.nan, numbers[:, 1])
    table["town"] = [f"town {t}" for t in towns]
    table["plan"] = np.array(["basic", "plus", "pro"])[plan]
    return as_dataset((pd.DataFrame(table), y.astype(int)))


SETS = {  # those that take the least time first
    "wine": EverydaySet(of_sklearn("wine"), 140, "table"),
    "japanese vowels": EverydaySet(public_sets.japanese_vowels, 200, "series"),
    "breast cancer": EverydaySet(of_sklearn("breast_cancer"), 450, "table"),
    "italy power": EverydaySet(public_sets.italy_power, 900, "series"),
    "mixed (made)": EverydaySet(mixed_table, 2000, "table"),
    "r8": EverydaySet(lambda: as_dataset(public_sets.r8_texts()), 3000, "texts", public_sets.r8_texts),
    "digits": EverydaySet(lambda: load_sample("digits"), 1437, "pictures"),
    "satellite": EverydaySet(public_sets.satellite, 3000, "table"),
    "newsgroups": EverydaySet(
        lambda: as_dataset(public_sets.newsgroups_texts()), 5000, "texts", public_sets.newsgroups_texts
    ),
    "letter": EverydaySet(public_sets.letter, 5000, "table"),
    "shuttle": EverydaySet(public_sets.shuttle, 5000, "table"),
    "dna": EverydaySet(public_sets.dna, 2500, "table"),
    "mfeat": EverydaySet(public_sets.mfeat, 1600, "pictures"),
    "fashion-mnist": EverydaySet(first_of("fashion-mnist", 20_000), 5000, "pictures"),
    "mnist": EverydaySet(first_of("mnist", 20_000), 5000, "pictures"),
    "cifar10": EverydaySet(first_of("cifar10", 12_000), 5000, "pictures"),
}


def rival_of(kind: str, sample: Sample) -> Any:
    """What people use for a kind of inputs; fixed before any run."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, LinearSVC

    if kind == "table":
        return HistGradientBoostingClassifier(random_state=0)
    if kind == "texts":
        return make_pipeline(TfidfVectorizer(sublinear_tf=True), LinearSVC(random_state=0))
    return SVC(C=10) if kind == "pictures" else make_pipeline(StandardScaler(), SVC(C=10))


@lru_cache(maxsize=2)
def whole_of(name: str) -> tuple[Sample, Any]:
    """All of a set, and its inputs as the rival reads them."""
    drawn = SETS[name]
    whole = drawn.load()
    if drawn.texts is not None:
        return whole, np.array(drawn.texts()[0], dtype=object)
    return whole, view_for(whole, np.arange(whole.n))(whole.x)


def rows_of(name: str, draw: int, whole: Sample) -> tuple[Rows, Rows]:
    """Rows of a sample, and others."""
    order, n = np.random.default_rng(draw).permutation(whole.n), SETS[name].n
    return order[:n], order[n:][:MOST_TESTED]


def measure(name: str, draw: int) -> dict[str, Any]:
    """The default and its rival on one draw."""
    whole, inputs = whole_of(name)
    rows, others = rows_of(name, draw, whole)
    at = inputs.iloc.__getitem__ if hasattr(inputs, "iloc") else inputs.__getitem__
    learned, counted = rows[: 4 * len(rows) // 5], rows[4 * len(rows) // 5 :]
    began = time.process_time()
    rival = rival_of(SETS[name].kind, whole).fit(at(learned), whole.y[learned])
    found = {
        "rival_errors": int((rival.predict(at(counted)) != whole.y[counted]).sum()),
        "rival_counted": len(counted),
        "rival_error": float((rival.predict(at(others)) != whole.y[others]).mean()),
        "rival_seconds": time.process_time() - began,
        "tested": len(others),
    }
    began = time.process_time()
    own = certify(whole.select(rows, role="train"))
    seconds = time.process_time() - began
    return found | {
        "method": own.method,
        "bits": own.certificate.message.bits,
        "bound": own.bound,
        "bounds": {each["name"]: each["bound"] for each in own.offers},
        "error": error_of(own, whole, others),
        "seconds": seconds,
        "says": next(each["price"] for each in own.offers if each["is_issued"]),
    }


def measure_picks(name: str, draw: int) -> dict[str, Any]:
    """Picks by the rival, with the share that is usual, on one draw."""
    whole, inputs = whole_of(name)
    rows, others = rows_of(name, draw, whole)
    at = inputs.iloc.__getitem__ if hasattr(inputs, "iloc") else inputs.__getitem__
    began = time.process_time()
    found = CertifiedClassifier(rival_of(SETS[name].kind, whole), method="picks").fit(at(rows), whole.y[rows])
    error = float((found.predict(at(others)) != whole.y[others]).mean())
    return {"picks": found.bound_, "picks_error": error, "picks_seconds": time.process_time() - began}


@torch.no_grad()
def error_of(found: Result, whole: Sample, rows: Rows) -> float:
    """Error of g on rows that nothing has seen."""
    labels = getattr(found.network, "classes", None)
    wrong = 0
    for start in range(0, len(rows), 500):
        part = rows[start : start + 500]
        said = found.classifier(torch.from_numpy(whole.x[part])).argmax(1).numpy()
        said = labels.numpy()[said] if isinstance(labels, torch.Tensor) else said
        wrong += int((said != whole.y[part]).sum())
    return wrong / len(rows)


def work(task: Task) -> dict[str, Any]:
    """One line of the file; a failure is a line, too."""
    (name, draw, kind), began = task, time.time()
    given = {"set": name, "draw": draw, "kind": kind, "n": SETS[name].n}
    try:
        found = measure(name, draw) if kind == "default" else measure_picks(name, draw)
        if kind == "default":
            found["rival_limits"] = limits_of(found)
    except Exception as error:  # whatever it is, it is counted
        found = {"failure": f"{type(error).__name__}: {error}"[:500]}
    return given | found | {"wall": time.time() - began}


def limits_of(row: dict[str, Any]) -> dict[str, float]:
    """Limits of the rival's held-out errors: exact, and those of two packages where they are installed."""
    errors, n = row["rival_errors"], row["rival_counted"]
    found = {"exact": holdout(HoldoutFacts(errors=errors, n=n, delta=DELTA, classes=2)).value}
    with suppress(ImportError):
        from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

        rate = np.array([errors / n])
        low, high = errors / n, 1.0
        for _ in range(50):  # the largest risk that its p-value does not refute
            middle = (low + high) / 2.0
            p = float(compute_hoeffding_bentkus_p_value(rate, n, middle, binary=True).squeeze())
            low, high = (middle, high) if p >= DELTA else (low, middle)
        found["MAPIE"] = high
    with suppress(ImportError):
        from confidenceinterval import accuracy_score

        answers = (np.arange(n) < errors).astype(int)
        _, (least, _) = accuracy_score(np.zeros(n, int), answers, confidence_level=1.0 - 2.0 * DELTA)
        found["confidenceinterval"] = 1.0 - float(least)
    return found


def mean(values: list[float], scale: float = 100.0, digits: int = 2) -> str:
    """A mean with its standard error."""
    numbers = scale * np.array(values)
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else float("nan")
    return f"{numbers.mean():.{digits}f} ± {error:.{digits}f}"


def summarise(
    name: str, rows: list[dict[str, Any]], picks: list[dict[str, Any]]
) -> tuple[Cells, float, float]:
    """Cells of a set, and the ratios of bounds and of errors."""
    column = {key: [row[key] for row in rows] for key in rows[0]}
    limits = column["rival_limits"]
    rival = [each["exact"] for each in limits]
    bounds = float(np.mean(column["bound"]) / np.mean(rival))
    errors = float(np.mean(column["error"])) / max(float(np.mean(column["rival_error"])), 1e-9)
    others = [
        mean([each[peer] for each in limits]) if all(peer in each for each in limits) else "-"
        for peer in PEERS
    ]
    scores = [row["bounds"]["scores"] for row in rows if "scores" in row["bounds"]]
    cells = (
        *(name, f"{rows[0]['n']:,}", str(len(rows)), mean(column["bound"]), mean(column["error"])),
        *(mean(rival), mean(column["rival_error"]), f"**{bounds:.2f}**", f"{errors:.2f}"),
        mean([row["bounds"]["hold-out"] for row in rows]),
        mean(scores) if len(scores) == len(rows) else "-",
        *others,
        f"{100 * picks[0]['picks']:.2f}, {100 * picks[0]['picks_error']:.2f}" if picks else "-",
        str(sum(row["error"] > row["bound"] for row in rows)),
        ", ".join(f"{column['method'].count(each)} {each}" for each in sorted(set(column["method"]))),
        f"{np.mean(column['seconds']):.1f}",
        f"{np.mean(column['rival_seconds']):.1f}",
    )
    return cells, bounds, errors


def page(lines: list[dict[str, Any]]) -> str:
    """The table of all sets, and which of the aims are missed."""
    head = (
        *("set", "n", "draws", "bound, %", "error of g, %", "rival's bound, %", "its error, %"),
        *("bound ratio", "error ratio", "same errors, 0 bits, %", "bound of scores, %"),
        *(f"rival, {peer}, %" for peer in PEERS),
        *("picks: bound, error, %", "violations", "methods", "CPU s", "rival's"),
    )
    table = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    failures = [line for line in lines if "failure" in line]
    ratios: dict[str, tuple[float, float]] = {}
    for name in SETS:
        own = [line for line in lines if line["set"] == name and "failure" not in line]
        rows = sorted((line for line in own if line["kind"] == "default"), key=lambda line: line["draw"])
        if rows:
            picks = [line for line in own if line["kind"] == "picks"]
            cells, *ratios[name] = summarise(name, rows, picks)  # type: ignore[assignment]
            table.append(f"| {' | '.join(cells)} |")
    bounds = [each[0] for each in ratios.values()]
    far = [f"{name} {each[0]:.2f}" for name, each in ratios.items() if each[0] > MOST_ON_ONE]
    weak = [f"{name} {each[1]:.2f}" for name, each in ratios.items() if each[1] > MOST_ERRORS]
    bits = sorted({line["bits"] for line in lines if "bits" in line})
    rivals = "; ".join(f"{kind}: {words}" for kind, words in RIVALS.items())
    missed = [
        f"mean of the bound ratios: **{np.mean(bounds):.3f}** (aim {MOST_ON_AVERAGE})",
        f"sets above {MOST_ON_ONE}: {', '.join(far) or 'none'}",
        f"test error of g above {MOST_ERRORS} times the rival's: {', '.join(weak) or 'none'}",
        f"bits above a hold-out set of the same learner, share and errors: {bits[0]} to {bits[-1]} (aim 3)",
        f"failures: {len(failures)} of {len(lines)}" + "".join(f"; {each['failure']}" for each in failures),
    ]
    return (
        "# The default beside a fifth held out\n\n"
        "`codebound.certify(sample)` without more, beside the usual learner with a fifth of the same rows "
        f"held out (Clopper-Pearson, one look, zero bits). Rivals, fixed before any run: {rivals}. Delta "
        f"{DELTA}; means over draws with their standard errors; ratios are of means. Errors are those on at "
        f"most {MOST_TESTED:,} other rows. MAPIE and confidenceinterval limit the rival's errors, too "
        "(the p-value of Hoeffding and Bentkus, and Wilson's interval, which is approximate). Picks: "
        '`CertifiedClassifier(rival, method="picks")`, on one draw. The learners were developed on these '
        "very sets. Violations are draws in which g errs more often on the other rows than its bound "
        "says: these are a sample, too, and of wine 38 rows. Times are CPU seconds of one thread on a "
        "shared machine. "
        "`PYTHONPATH=benchmarks python benchmarks/everyday.py` makes it.\n\n"
        + "\n".join(table)
        + "".join(f"\n* {each}." for each in ["", *missed][1:]).replace("\n", "\n\n", 1)
        + "\n"
    )


def tasks_of(names: list[str], draws: int, done: set[Task]) -> Iterator[Task]:
    """What is left to do: some draws of every set, picks, then one set after the other."""
    some = [(name, draw, "default") for draw in range(FEW) for name in names]
    picks = [(name, 0, "picks") for name in names if SETS[name].n <= MOST_PICKED]
    others = [(name, draw, "default") for name in names for draw in range(FEW, draws) if SETS[name].n < LARGE]
    yield from (each for each in (*some, *picks, *others) if each not in done and each[1] < draws)


def main() -> None:
    """Measure draw after draw of every set until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    options = parser.parse_args()
    file, until = options.out / "everyday.jsonl", time.monotonic() + 60.0 * options.minutes
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    done = {(line["set"], line["draw"], line["kind"]) for line in lines}
    left = tasks_of(options.sets, options.draws, done)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context) as workers, file.open("a") as out:
        running = {workers.submit(work, task) for task in islice(left, options.workers)}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                lines.append(each.result())
                out.write(json.dumps(lines[-1]) + "\n")
                out.flush()
                print(
                    {key: lines[-1].get(key) for key in ("set", "draw", "bound", "error", "failure", "wall")}
                )
            if time.monotonic() < until:
                running |= {workers.submit(work, task) for task in islice(left, len(ended))}
    (options.out / "everyday.md").write_text(page(lines))


if __name__ == "__main__":
    main()
