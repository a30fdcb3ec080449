"""Time and memory of `certify --method picks` at its defaults, and of its verification.

    OMP_NUM_THREADS=2 python benchmarks/picks.py digits mnist fashion-mnist cifar10 --out times.json

The data must be in the cache (codebound data get), or be .npz files with x and y in a folder (``--folder``):
then torch and numpy are enough. Each step is a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.certificate.offers import issue
from codebound.methods.search import Search, run
from codebound.request import Task
from codebound.sample.dataset import Sample, Scaling
from codebound_verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

DIVISORS = {"digits": 16.0}


def read(name: str, folder: Path | None) -> Sample:
    """The sample, from the catalogue or from NAME.npz."""
    if folder is None:
        from codebound.sample.load import load_sample

        return load_sample(name)
    stored = np.load(folder / f"{name}.npz")
    y = stored["y"].astype(np.int64)
    return Sample(name, "train", stored["x"], y, int(y.max()) + 1, Scaling(DIVISORS.get(name, 255.0)))


def certify(name: str, folder: Path | None, path: Path) -> dict[str, Any]:
    """Makes the certificate; it is checked by the second program before it is written, which is included."""
    task = Task(sample=read(name, folder), delta=0.05)
    certificate = issue(run(Search(task, "standard"), "picks"), task)
    certificate.save(path)
    limit = certificate.limit
    return {
        "bound": certificate.claim.bound,
        "picks": limit.picks,
        "first": certificate.known.rows,
        "errors": limit.errors,
        "n": limit.n,
        "bits": certificate.message.bits,
    }


def check(name: str, folder: Path | None, path: Path) -> dict[str, Any]:
    """Verifies it once more, alone."""
    sample = read(name, folder)
    verdict = verify(path.read_bytes(), sample.x, sample.y)
    return {"is_accepted": verdict.is_accepted}


def measured(function: Callable[..., dict[str, Any]], *given: object) -> dict[str, Any]:
    """Result of a function, with seconds and gigabytes, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (function, given))


def _measured(function: Callable[..., dict[str, Any]], given: tuple[object, ...]) -> dict[str, Any]:
    start = time.perf_counter()
    found = function(*given)
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {**found, "seconds": round(time.perf_counter() - start, 1), "gigabytes": round(gigabytes, 2)}


def main() -> None:
    """Prints a line for each sample, and keeps them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=["digits"])
    parser.add_argument("--folder", type=Path, help="with NAME.npz; the catalogue if not given")
    parser.add_argument("--out", type=Path, help="JSON file")
    asked = parser.parse_args()
    rows = {}
    for name in asked.names:
        with TemporaryDirectory() as kept:
            path = Path(kept) / "g.cbound"
            made, checked = (
                measured(certify, name, asked.folder, path),
                measured(check, name, asked.folder, path),
            )
        rows[name] = {"certify": made, "verify": checked}
        print(
            f"{name:14} {100 * made['bound']:.2f} %: certify {made['seconds']} s, {made['gigabytes']} GB; "
            f"verify {checked['seconds']} s, {checked['gigabytes']} GB, accepted: {checked['is_accepted']}"
        )
        if asked.out:
            record = {
                "command": f"python benchmarks/picks.py {' '.join(rows)}",
                "threads": torch.get_num_threads(),
                "processor": platform.processor(),
                "torch": torch.__version__,
                "date": time.strftime("%Y-%m-%d"),
                "rows": rows,
            }
            asked.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
