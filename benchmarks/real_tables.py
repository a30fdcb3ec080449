"""Twenty real tables, small and mixed, certified by default: none may fail.

Run: PYTHONPATH=benchmarks python benchmarks/real_tables.py
The tables are those of scikit-learn and of the R package mlbench, which is fetched; numbers to be predicted
are cut at their median. The table of results/real_tables.md is written anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import public_sets
import sklearn.datasets
from public_sets.__main__ import fetch
from public_sets.rdata import read_frame

from codebound.certification import certify

PAGE = Path(__file__).parents[1] / "results" / "real_tables.md"
LABELS = {
    "BostonHousing": "crim",
    "BostonHousing2": "cmedv",
    "Glass": "Type",
    "HouseVotes84": "Class",
    "Ionosphere": "Class",
    "Ozone": "V4",
    "PimaIndiansDiabetes": "diabetes",
    "PimaIndiansDiabetes2": "diabetes",
    "Servo": "Class",
    "Sonar": "Class",
    "Soybean": "Class",
    "Vehicle": "Class",
    "Vowel": "Class",
    "Zoo": "type",
}
DIGESTS = {
    "BostonHousing": "c30a6146eb0b92390aed646f0181f3dfd671833506f3ef0c33bd8dd8ad80ee2d",
    "BostonHousing2": "fd229c4235e547c0bce0bdb52f48ff1fc0c0bddbf402821f0014ecf9a51c0ac0",
    "Glass": "6d740b8023661263c637f261e1d7c24b6fdb9dbe65aacbb67d95e3865171da6c",
    "HouseVotes84": "3664bf0629ff2e4ced7b005f342418c75373b46fbcea5ebc76d61ceff39b7e75",
    "Ionosphere": "523cb7e48833e40bae413dde7889eeed5a54e7900cfd1016aa12502a99186267",
    "Ozone": "871015d3a5504f3d415cc84f153cfcc529efafd3178b4afcae1e5d36e84a30a0",
    "PimaIndiansDiabetes": "3d5e123aa310b8875d57645650fd81daa9685c24945264428afa09fea986c63a",
    "PimaIndiansDiabetes2": "a95dc697aa7f19a305ab62e015e3cbd7bc578a883cc2b6ba691440deab534144",
    "Servo": "93253993bd41ebcbc2280e68b1835f3b2b4c04d9613125dc37be63b6a02aea84",
    "Sonar": "c073818b2efccc5a5828d845ecea2d99f0f2a810737d79eab904caca0b21c6e6",
    "Soybean": "ad583763e78ea42e5f023e08dd115f99898cff9b4839091a1efefed45737777b",
    "Vehicle": "bb9b43b8bd2b087cd2fda9715acf4076437a0416d0a04ed9a90c38c50e5df598",
    "Vowel": "eefe4e7c077a7637bc53aeef0fb9fd1f3abda57ea27859f2ea251839966a8ac6",
    "Zoo": "aeed79ccd9b13a654092b2f3673599f5ced715f76d2aa867cb1246f73ba3ef3f",
}
"""SHA-256 of the unpacked files."""


def tables() -> Iterator[tuple[str, Any, Any]]:
    """Name, inputs and labels of each table."""
    for name in ("iris", "wine", "breast_cancer", "digits", "diabetes", "linnerud"):
        x, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        y = y if y.ndim == 1 else y[:, 0]
        yield name, pd.DataFrame(x).add_prefix("x"), y > np.median(y) if len(set(y)) > 20 else y
    public_sets.SETS["mlbench"] = public_sets.PublicSet(
        title="tables of mlbench",
        package="r-cran-mlbench",
        folder="usr/lib/R/site-library/mlbench/data/",
        parts={"train": {f"{name}.rda": digest for name, digest in DIGESTS.items()}},
        sizes={},
        input_shape=(),
        classes=0,
        parse=_refuse,
    )
    fetch("mlbench")
    for file, content in public_sets.contents("mlbench", "train").items():
        name = file.removesuffix(".rda")
        frame = pd.DataFrame({each.name: _cells(each) for each in read_frame(content, name=file)})
        frame = frame[frame[LABELS[name]].notna()]
        y = frame.pop(LABELS[name])
        yield name, frame, (y > y.median() if y.dtype.kind == "f" else y.astype(str)).to_numpy()


def _refuse(files: Any) -> Any:
    raise NotImplementedError("these are many tables.")


def _cells(column: Any) -> Any:
    """Numbers, or words of a factor."""
    if not column.levels:
        return column.values
    return [None if np.isnan(code) else column.levels[int(code)] for code in column.values]


def main() -> None:
    """Certify every table, and write the page."""
    rows = []
    for name, x, y in tables():
        began, words = time.process_time(), sum(kind.kind not in "fiub" for kind in x.dtypes)
        start = (
            f"| {name} | {len(x):,} | {x.shape[1]} | {words} | {int(x.isna().sum().sum())} | {len(set(y))} |"
        )
        try:
            found = certify((x, pd.Series(y).map(str).to_numpy()))
            issued = next(each for each in found.offers if each["is_issued"])
            said = f"{100 * found.bound:.2f}{' (vacuous)' if found.vacuous else ''} | {found.method} | "
            said += f"{issued['assurance']} | {len(found.refusals)}"
        except Exception as error:  # whatever it is, it is a failure
            said = f"failed | {type(error).__name__}: {error} | | "
        rows.append(f"{start} {said} | {time.process_time() - began:.1f} |")
        print(rows[-1], flush=True)
    failed = sum(" failed |" in row for row in rows)
    head = (
        "| table | rows | columns | of words | gaps | classes | bound, % | method | assurance | refused | "
        "CPU s |"
    )
    PAGE.write_text(
        "# Real tables\n\n`codebound.certify` without more on tables that scikit-learn and mlbench carry, "
        f"all rows, delta 0.05: {failed} of {len(rows)} failed. `PYTHONPATH=benchmarks python "
        "benchmarks/real_tables.py` makes this page.\n\n" + "\n".join([head, "|" + "---|" * 11, *rows]) + "\n"
    )


if __name__ == "__main__":
    main()
