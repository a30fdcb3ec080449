"""First look: the default settings, once, on data that no commit had named before their recipes.

    PYTHONPATH=benchmarks python results/first_look.py             writes first_look.json and first_look.md
    PYTHONPATH=benchmarks python results/first_look.py NAME ...    only these sets
    PYTHONPATH=benchmarks python results/first_look.py --shapes    loads the sets and shows their shapes
    PYTHONPATH=benchmarks python results/first_look.py --rehearse  made-up data and digits, in the cache

A set is run whole and once, as ``codebound certify --data FILE``; ``first_look_sets.py`` has the recipes. A
set that has its row is not run again, and a failure is a row. The rival is usual practice: a fifth of the
rows is held out at random, the usual learner of the kind is fitted to the others, and its errors on the fifth
have one Clopper-Pearson limit. Nothing runs while the programs or the recipes differ from a commit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,import-not-found,unused-ignore]
from first_look_sets import CACHE, SETS, Sample, load, rehearsals
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from codebound.bounds.held_out import holdout
from codebound.bounds.risk import HoldoutFacts, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
CODE = ("src", "benchmarks/public_sets", "results/first_look.py", "results/first_look_sets.py")
ENV = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
DELTA, HELD = 0.05, 0.2
LIMIT = 6 * 3600  # seconds of a run, after which it has failed
KEPT = ("bound", "errors", "n", "known", "code_bits", "method", "message", "verdict", "vacuous")
GAP_WORDS = ["?"]  # a gap for both sides, beside what pandas takes for one
HEAD = """# First look

`PYTHONPATH=benchmarks python results/first_look.py` writes this page, by the programs of commit {commits}.
No commit had named these sets before the one that fixed their recipes
([first_look_sets.py](first_look_sets.py)), and each was run once, by `codebound certify --data FILE` with
nothing else. All limits have delta = {delta}. *Same labels*: the Clopper-Pearson limit of the same errors
among the same counted rows, at no bits. *Rival*: a fifth of the rows held out at random (seed 0), the usual
learner on the others (tables: histogram gradient boosting; pictures and series: support vectors, RBF, C = 10;
texts: TF-IDF and linear support vectors), and its one limit. A failure is a row.

| {titles} |
|{rules}|
"""
TITLES = (
    *("set", "kind", "n", "inputs", "classes", "method", "errors, counted", "bits", "bound", "same labels"),
    *("rival", "errors, held out", "seconds"),
)
SOURCES = """
| set | a row, and its class | package | left out |
|---|---|---|---|
"""


def write(sample: Sample, folder: Path) -> str:
    """Write a sample as a user would have it; return what stands behind ``--data``."""
    if sample.frame is not None:
        sample.frame.assign(label=sample.y).to_csv(folder / "table.csv", index=False)
        return f"{folder / 'table.csv'}:label"
    assert sample.x is not None
    np.savez(folder / "arrays.npz", x=sample.x, y=sample.y)
    return str(folder / "arrays.npz")


def certify(data: str, folder: Path) -> dict[str, Any]:
    """Return what ``codebound certify`` comes to, with nothing but the data given."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "codebound", "certify", "--data", data, "--out", str(out), "--quiet"]
    began = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=folder, env=ENV, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"seconds": LIMIT, "failed": f"stopped after {LIMIT} seconds"}
    row: dict[str, Any] = {"seconds": round(time.perf_counter() - began, 1)}
    if done.returncode or not (out / "result.json").is_file():
        said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
        return row | {"failed": f"exit {done.returncode}: {said[-600:]}"}
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    same = limit_of(result["errors"], result["n"], result["classes"])
    return row | {key: result.get(key) for key in KEPT} | {"same_labels": same}


def fit_rival(kind: str, sample: Sample, data: str) -> dict[str, Any]:
    """Return the errors of the usual learner of a kind on rows that it did not see."""
    y: Any = sample.y
    rows: Any = np.array(sample.texts, dtype=object)
    if kind == "table":
        inputs = pd.read_csv(data.removesuffix(":label"), na_values=GAP_WORDS)
        y = inputs.pop("label").astype(str).to_numpy()
        words = inputs.select_dtypes(exclude="number").columns
        rows = inputs.astype(dict.fromkeys(words, "category")).iloc
        learner = HistGradientBoostingClassifier(random_state=0)
    elif kind == "text":
        learner = make_pipeline(TfidfVectorizer(), LinearSVC(random_state=0))
    else:
        assert sample.x is not None
        rows = sample.x.reshape(len(y), -1) / (255.0 if kind == "picture" else 1.0)
        learner = SVC(C=10) if kind == "picture" else make_pipeline(StandardScaler(), SVC(C=10))
    rest, held = train_test_split(np.arange(len(y)), test_size=HELD, random_state=0)
    began = time.perf_counter()
    errors = int((learner.fit(rows[rest], y[rest]).predict(rows[held]) != y[held]).sum())
    return {
        "rival_errors": errors,
        "rival_n": len(held),
        "rival_bound": limit_of(errors, len(held), len(np.unique(y))),
        "rival_seconds": round(time.perf_counter() - began, 1),
    }


def limit_of(errors: int, n: int, classes: int) -> float:
    """Return the Clopper-Pearson limit of a hold-out set."""
    return holdout(HoldoutFacts(errors=errors, n=n, delta=DELTA, classes=classes)).value


def run(name: str, kind: str, sample: Sample) -> dict[str, Any]:
    """Return the row of a set."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    data = write(sample, folder)
    row = describe(kind, sample)
    try:
        row |= certify(data, folder)
    except Exception as error:  # whatever it is, it is a row
        row["failed"] = _said(error)
    try:
        return row | fit_rival(kind, sample, data)
    except Exception as error:
        return row | {"rival_failed": _said(error)}


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:600]


def describe(kind: str, sample: Sample) -> dict[str, Any]:
    """Return the facts of a set that need no learner."""
    given: Any = sample.x if sample.frame is None else sample.frame
    rows, *inputs = given.shape
    count = len(np.unique(sample.y.astype(str)))
    return {"kind": kind, "rows": rows, "inputs": "x".join(map(str, inputs)), "classes": count}


def show(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page."""
    commits = ", ".join(sorted({row["commit"] for row in rows.values()}))
    titles, rules = " | ".join(TITLES), "|".join(["---"] * len(TITLES))
    lines = [HEAD.format(commits=commits, delta=DELTA, titles=titles, rules=rules)]
    lines += [f"| {' | '.join([name, *_cells(row)])} |\n" for name, row in rows.items()]
    lines.append(SOURCES)
    for name in (each for each in rows if each in SETS):
        recipe = SETS[name]
        left = "; ".join(f"{column}: {why}" for column, why in recipe.left_out.items()) or "nothing"
        lines.append(f"| {name} | {recipe.about} | {recipe.package} | {left} |\n")
    return "".join(lines)


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = [str(row.get(key, "-")) for key in ("kind", "rows", "inputs", "classes")]
    if "failed" in row:
        cells += ["-", row["failed"].replace("|", "/"), "-", "**failed**", "-"]
    else:
        cells += [row["method"], f"{row['errors']} of {row['n']}", str(row["code_bits"])]
        cells += [f"**{percent(row['bound'])}**", percent(row["same_labels"])]
    if "rival_bound" in row:
        cells += [percent(row["rival_bound"]), f"{row['rival_errors']} of {row['rival_n']}"]
    else:
        cells += ["failed", row.get("rival_failed", "-").replace("|", "/")]
    return [*cells, str(row.get("seconds", "-"))]


def require_commit(*, rehearsal: bool) -> str:
    """Return the commit of the programs and recipes.

    Raises:
        SystemExit: They differ from it, and this is no rehearsal.
    """
    changed = _git("status", "--porcelain", "--", *CODE)
    if changed and not rehearsal:
        raise SystemExit(f"Commit these first, so that the first look has a date:\n{changed}")
    return _git("rev-parse", "--short=12", "HEAD") + (" and changes" if changed else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=HERE.parent, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(SETS)}")
    parser.add_argument("--shapes", action="store_true", help="load and fit nothing")
    parser.add_argument("--rehearse", action="store_true", help="other data, and a page in the cache")
    options = parser.parse_args()
    known = rehearsals() if options.rehearse else {}
    names = options.names or list(known or SETS)
    if unknown := [name for name in names if name not in (known or SETS)]:
        parser.error(f"no set is called {', '.join(unknown)}")
    if options.shapes:
        for name in names:
            sys.stdout.write(f"{name}: {describe(SETS[name].kind, load(name))}\n")
        return
    commit = require_commit(rehearsal=options.rehearse)
    place = (CACHE if options.rehearse else HERE) / "first_look.json"
    rows: dict[str, Any] = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    for name in names:
        if rows.get(name, {"fetched": False}).get("fetched", True):  # what was not fetched was not seen
            continue
        try:
            kind, sample = known[name] if known else (SETS[name].kind, load(name))
        except Exception as error:
            rows[name] = {"failed": _said(error), "fetched": False}
        else:
            rows[name] = run(name, kind, sample)
        rows[name] |= {"commit": commit, "date": time.strftime("%Y-%m-%d")}
        place.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        place.with_suffix(".md").write_text(show(rows), encoding="utf-8")
        sys.stdout.write(f"{name}: {' | '.join(_cells(rows[name]))}\n")


if __name__ == "__main__":
    main()
