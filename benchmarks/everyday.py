"""The default beside a fifth held out, on sets of every kind that the format was developed on.

Run: PYTHONPATH=benchmarks python benchmarks/everyday.py --minutes 20
It goes on where it stopped, and writes results/everyday.json and results/everyday.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import public_sets
import torch
from numpy.typing import NDArray

from codebound.bounds.held_out import holdout
from codebound.bounds.risk import HoldoutFacts
from codebound.certification import certify
from codebound.known.views import view_for
from codebound.report.folder import Result
from codebound.sample.dataset import Sample
from codebound.sample.load import as_dataset, load_sample

ROOT = Path(__file__).parents[1]
DELTA = 0.05
MOST_TESTED = 4000
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


SETS = {
    "wine": EverydaySet(of_sklearn("wine"), 140, "table"),
    "breast cancer": EverydaySet(of_sklearn("breast_cancer"), 450, "table"),
    "mixed (made)": EverydaySet(mixed_table, 2000, "table"),
    "dna": EverydaySet(public_sets.dna, 2500, "table"),
    "satellite": EverydaySet(public_sets.satellite, 3000, "table"),
    "letter": EverydaySet(public_sets.letter, 5000, "table"),
    "shuttle": EverydaySet(public_sets.shuttle, 5000, "table"),
    "japanese vowels": EverydaySet(public_sets.japanese_vowels, 200, "series"),
    "italy power": EverydaySet(public_sets.italy_power, 900, "series"),
    "r8": EverydaySet(public_sets.r8, 3000, "texts", public_sets.r8_texts),
    "newsgroups": EverydaySet(public_sets.newsgroups, 3000, "texts", public_sets.newsgroups_texts),
    "digits": EverydaySet(lambda: load_sample("digits"), 1437, "pictures"),
    "mfeat": EverydaySet(public_sets.mfeat, 1600, "pictures"),
    "mnist": EverydaySet(lambda: load_sample("mnist"), 3000, "pictures"),
    "fashion-mnist": EverydaySet(lambda: load_sample("fashion-mnist"), 3000, "pictures"),
    "cifar10": EverydaySet(lambda: load_sample("cifar10"), 2000, "pictures"),
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


def inputs_of(drawn: EverydaySet, whole: Sample) -> Any:
    """Inputs as the rival reads them."""
    if drawn.texts is not None:
        return np.array(drawn.texts()[0], dtype=object)
    return view_for(whole, np.arange(whole.n))(whole.x)


def measure(name: str, draw: int) -> dict[str, Any]:
    """The default and its rival on one draw."""
    drawn = SETS[name]
    whole = drawn.load()
    order = np.random.default_rng(draw).permutation(whole.n)
    rows, others = order[: drawn.n], order[drawn.n :][:MOST_TESTED]
    began = time.process_time()
    found = certify(whole.select(rows, role="train"))
    seconds = time.process_time() - began
    held = next(each for each in found.offers if each["name"] == "hold-out")
    inputs, learned = inputs_of(drawn, whole), rows[: 4 * drawn.n // 5]
    at = inputs.iloc.__getitem__ if hasattr(inputs, "iloc") else inputs.__getitem__
    began = time.process_time()
    rival = rival_of(drawn.kind, whole).fit(at(learned), whole.y[learned])
    counted = rows[4 * drawn.n // 5 :]
    errors = int((rival.predict(at(counted)) != whole.y[counted]).sum())
    rival_seconds = time.process_time() - began
    bound = holdout(HoldoutFacts(errors=errors, n=len(counted), delta=DELTA, classes=whole.classes)).value
    return {
        "set": name,
        "draw": draw,
        "n": drawn.n,
        "method": found.method,
        "bits": found.certificate.message.bits,
        "bound": found.bound,
        "error": error_of(found, whole, others),
        "held_out": held["bound"],
        "seconds": seconds,
        "says": next(each["price"] for each in found.offers if each["is_issued"]),
        "rival": bound,
        "rival_error": float((rival.predict(at(others)) != whole.y[others]).mean()),
        "rival_seconds": rival_seconds,
    }


@torch.no_grad()
def error_of(found: Result, whole: Sample, rows: NDArray[np.int64]) -> float:
    """Error of g on rows that nothing has seen."""
    labels = getattr(found.network, "classes", None)
    wrong = 0
    for start in range(0, len(rows), 500):
        part = rows[start : start + 500]
        said = found.classifier(torch.from_numpy(whole.x[part])).argmax(1).numpy()
        said = labels.numpy()[said] if isinstance(labels, torch.Tensor) else said
        wrong += int((said != whole.y[part]).sum())
    return wrong / len(rows)


def mean(values: list[float], scale: float = 1.0, digits: int = 2) -> str:
    """A mean with its standard error."""
    numbers = scale * np.array(values)
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else float("nan")
    return f"{numbers.mean():.{digits}f} ± {error:.{digits}f}"


def page(rows: list[dict[str, Any]]) -> str:
    """The table of all sets."""
    head = (
        *("set", "n", "draws", "bound, %", "error of g, %", "rival's bound, %", "its error, %"),
        *("bound ratio", "error ratio", "same share, 0 bits, %", "violations", "methods", "CPU s", "rival's"),
    )
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    ratios = []
    for name in SETS:
        own = [row for row in rows if row["set"] == name]
        if not own:
            continue
        column = {key: [row[key] for row in own] for key in own[0]}
        ratio = float(np.mean(column["bound"]) / np.mean(column["rival"]))
        ratios.append(ratio)
        cells = (
            *(name, str(own[0]["n"]), str(len(own))),
            *(mean(column[key], 100) for key in ("bound", "error", "rival", "rival_error")),
            f"{ratio:.2f}",
            f"{np.mean(column['error']) / max(float(np.mean(column['rival_error'])), 1e-9):.2f}",
            mean(column["held_out"], 100),
            str(sum(row["error"] > row["bound"] for row in own)),
            ", ".join(f"{column['method'].count(each)} {each}" for each in sorted(set(column["method"]))),
            f"{np.mean(column['seconds']):.1f}",
            f"{np.mean(column['rival_seconds']):.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    rivals = "; ".join(f"{kind}: {words}" for kind, words in RIVALS.items())
    return (
        "# The default beside a fifth held out\n\n"
        f"`codebound.certify(sample)` without more, beside the usual learner with a fifth of the same rows "
        f"held out (Clopper-Pearson, one look, zero bits). Rivals, fixed before any run: {rivals}. Delta "
        f"{DELTA}; means over draws with their standard errors; ratios are of means. Errors are those on at "
        f"most {MOST_TESTED:,} other rows. The learners were developed on these very sets. "
        "`PYTHONPATH=benchmarks python benchmarks/everyday.py` makes it.\n\n"
        + "\n".join(lines)
        + f"\n\nMean of the bound ratios: **{np.mean(ratios):.3f}**; the largest: {max(ratios):.2f}.\n"
    )


def main() -> None:
    """Measure draw after draw of every set until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    options = parser.parse_args()
    file, until = options.out / "everyday.json", time.monotonic() + 60.0 * options.minutes
    held: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    rows = [row for row in held.get("rows", []) if "draw" in row]
    for draw in range(options.draws):
        for name in options.sets:
            if any((row["set"], row["draw"]) == (name, draw) for row in rows):
                continue
            if time.monotonic() > until:
                return
            rows.append(measure(name, draw))
            print(
                {key: round(each, 4) if isinstance(each, float) else each for key, each in rows[-1].items()}
            )
            file.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
            (options.out / "everyday.md").write_text(page(rows))


if __name__ == "__main__":
    main()
