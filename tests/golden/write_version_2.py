"""Writes the golden files of version 2: part of ``make freeze``, never after it.

One is by the literal writer; the others are those of version 1, issued anew.
"""

import importlib.util
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OLD, NEW = HERE / "version-1", HERE / "version-2"
MADE_BY = {"codebound": "0.1", "commit": "", "date": "2026-11-16"}


def main() -> None:
    """Writes all of them."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests/reference")]
    import cbound_writer as writer

    from codebound.certificate.file import Certificate
    from codebound.data.arrays import from_arrays
    from codebound.data.dataset import Scaling

    spec = importlib.util.spec_from_file_location("reissue", ROOT / "results/reissue.py")
    reissue = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reissue)

    NEW.mkdir(exist_ok=True)
    shutil.copy(OLD / "given.npz", NEW)
    case = writer.linear_case(30, scaling={"divisor": 16.0, "mean": [0.0], "std": [1.0]})
    (NEW / "tiny.cbound").write_bytes(case.data())
    with np.load(OLD / "given.npz") as arrays:
        found = dict(arrays)
    sample = from_arrays(found["x"], found["y"], name="clusters", scaling=Scaling(16.0))
    base = {name[5:]: value for name, value in found.items() if name.startswith("base/")}
    for name in ("plain", "features", "base", "subspace", "split"):
        old = Certificate.load(OLD / f"{name}.cbound")
        new = reissue.reissued(old, sample, base=None if old.helper.base is None else base)
        replace(new, made_by=MADE_BY).save(NEW / f"{name}.cbound")


if __name__ == "__main__":
    main()
