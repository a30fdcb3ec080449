"""Pairs of figures, ours and those of what people use instead: the rows of benchmarks/README.md."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

KEPT_IN = "CODEBOUND_RATIOS"  # names the file that rows are added to


def is_installed(peer: str) -> bool:
    """Return True if a peer can be imported; print the reason if it cannot."""
    try:
        importlib.import_module(peer)
    except ImportError as error:
        print(f"{peer} is left out: {error}")
        return False
    return True


def beside(what: str, *, ours: float, theirs: float, peer: str, unit: str = "s") -> None:
    """Keeps a row where benchmarks/run.py asked for it; smaller figures are better."""
    if path := os.environ.get(KEPT_IN):
        row = {"what": what, "ours": ours, "peer": peer, "theirs": theirs, "unit": unit}
        with Path(path).open("a") as file:
            file.write(json.dumps(row) + "\n")
