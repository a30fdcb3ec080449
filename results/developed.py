"""Writes the lists by which both programs know the samples that the format was developed on.

    python results/developed.py

Data come from the cache (``codebound data get NAME``). The lists are ``developed.json`` of each program.
"""

from __future__ import annotations

import json
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_wine

from codebound.certificate.file import Certificate
from codebound.sample.caveats import _DEVELOPMENT_3, LISTS, row_keys
from codebound.sample.load import load_dataset
from codebound_verify.development import SKETCHES

ROWS = 1024
"""Of a hundredth of 60,000 examples none is among these in one of 28,000 cases."""
BLOCKS = {"cifar10": 3}  # channels, which are usually scaled one by one
TABLES = ("mnist", "fashion-mnist", "cifar10")
CERTIFICATES = Path(__file__).with_name("certificates")
EMBEDDED = {"sklearn-wine": load_wine, "sklearn-breast-cancer": load_breast_cancer}


def main() -> None:
    """Writes both lists: they differ in names alone."""
    rows, tables = {}, {}
    for name in _DEVELOPMENT_3.values():
        x = EMBEDDED[name]().data if name in EMBEDDED else load_dataset(name).x
        blocks = BLOCKS.get(name, 1)
        keys = "".join(key.hex() for key in sorted(row_keys(x, blocks))[:ROWS])
        rows[name] = {"width": x[0].size, "blocks": blocks, "keys": keys}
    files = [(name, f"{name}-{kind}") for name in TABLES for kind in ("helped", "default")]
    for name, file in [*files, ("cifar10", "cifar10-encoded-share")]:
        tables[Certificate.load(CERTIFICATES / f"{file}.cbound").facts.sample_sha256] = name
    samples = json.loads(SKETCHES.read_text())["samples"]
    titles = samples["2"] | samples["3"]
    named = {name: titles[sha256] for sha256, name in _DEVELOPMENT_3.items()}
    LISTS.write_text(json.dumps({"rows": rows, "tables": tables}, separators=(",", ":")) + "\n")
    renamed = {
        "samples": samples,
        "rows": {named[name]: each for name, each in rows.items()},
        "tables": {sha256: named[name] for sha256, name in tables.items()},
    }
    SKETCHES.write_text(json.dumps(renamed, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
