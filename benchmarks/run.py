"""Every timing beside what people use instead, and the table of them: python benchmarks/run.py [NAME ...]

Each script runs by itself with what it does by default, one after the other; the rows that it keeps
(ratios.py) and what it took go into benchmarks/README.md. With names, only these run and nothing is written.
A script that fails is named in the end, the others run, and nothing is written.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ratios import KEPT_IN

from codebound import __version__

HERE = Path(__file__).resolve().parent
HELPERS = ("ratios", "run")
BY_THEMSELVES = (
    "development_samples",
    "when",
    "profiles",
    "walk",
)  # no timings beside others
PAGE = """\
# Beside what people use instead

`make bench` runs every script of this folder and writes this page; nobody types a number here. A ratio above
1 is in our favour: the other's figure over ours, both of one run. `python benchmarks/SCRIPT.py` runs one
script by itself and prints more than the table has; its first lines say what is compared, and how.

codebound {version}, Python {python}, torch {torch}, {cores} cores ({processor}).

| what | codebound | instead | its figure | ratio | script |
|---|---:|---|---:|---:|---|
{rows}

| script | seconds | seconds of all cores | megabytes |
|---|---:|---:|---:|
{scripts}

How time and memory of certify, verify, measure and compare grow (`python benchmarks/scaling.py --full`):
processor seconds of one thread, and memory beside network and sample, at quick effort on a server, with the
method `naive`.

| | certify | verify | measure | compare |
|---|---|---|---|---|
| 10^6 examples of 784 bytes, 10^4 weights | 60 s, 118 MB | 12 s, 53 MB | 25 s, 88 MB | 15 s, 153 MB |
| 10^6 weights, 1,000 examples | 13 s, 122 MB | 1.1 s, 52 MB | 0.3 s, 26 MB | 8.1 s, 170 MB |
| 10^7 weights | 80 s, 0.8 GB | 9.7 s, 0.5 GB | 1.9 s, 0.1 GB | 9.7 s, 0.2 GB |
| 6 * 10^7 weights | 301 s, 4.1 GB | 26 s, 2.7 GB | | |
| 10^8 weights | 49 s, 2.5 GB by a network of its own | | 17 s, 1.0 GB | 31 s, 0.7 GB |

`when.py` draws a figure of the documentation,
`profiles.py` says which functions take the time of certify, verify, measure and compare, `walk.py` through
which packages a command goes: run them by themselves. `development_samples.py` compares the lists of samples
that the format was developed on (`developed.json`) with lists made anew, and `--write` writes them.
"""


@dataclass(frozen=True)
class Run:
    """A script that ended: its rows, and what it took."""

    name: str
    rows: list[dict[str, Any]]
    seconds: float
    processor: float
    megabytes: float


def run(name: str) -> Run | None:
    """Runs a script in a process of its own; None if it fails."""
    print(f"== benchmarks/{name}.py", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "rows"
        kept.touch()
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, str(HERE / f"{name}.py")],
            cwd=folder,  # for what a script keeps
            env={**os.environ, KEPT_IN: str(kept)},
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            return None
        rows = [json.loads(line) for line in kept.read_text().splitlines()]
    return Run(name, rows, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def processor() -> str:
    """Name that Linux gives the processor; elsewhere its kind."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())


def figure(value: float) -> str:
    """Three digits, or all of them before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def page(runs: list[Run]) -> str:
    """The page from what was measured."""
    rows = [
        f"| {row['what']} | {figure(row['ours'])} {row['unit']} | {row['peer']} "
        f"| {figure(row['theirs'])} {row['unit']} | {figure(row['theirs'] / row['ours'])} | {each.name} |"
        for each in runs
        for row in each.rows
    ]
    scripts = [
        f"| {each.name} | {each.seconds:.0f} | {each.processor:.0f} | {each.megabytes:.0f} |" for each in runs
    ]
    total = [
        f"| all | {sum(each.seconds for each in runs):.0f} | {sum(each.processor for each in runs):.0f} | |"
    ]
    return PAGE.format(
        version=__version__,
        python=platform.python_version(),
        torch=version("torch"),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        processor=processor(),
        rows="\n".join(rows),
        scripts="\n".join(scripts + total),
    )


def main() -> None:
    """Runs the scripts, and writes the page if all of them ran."""
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS + BY_THEMSELVES)
    unknown = [name for name in sys.argv[1:] if name not in known]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; known: {', '.join(known)}")
    names = sys.argv[1:] or known
    runs = {name: run(name) for name in names}
    made = page([each for each in runs.values() if each])
    if failed := [name for name, each in runs.items() if each is None]:
        sys.exit(f"{made}\nNothing is written: {', '.join(failed)} failed.")
    if sys.argv[1:]:
        print(made)
    else:
        (HERE / "README.md").write_text(made)


if __name__ == "__main__":
    main()
