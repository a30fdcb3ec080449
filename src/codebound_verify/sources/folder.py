"""The files beside a certificate: found by the names that its folder gives them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from ..files import GivenFiles
from ..verdict import Verdict
from .arrays import NAMES

SAMPLES = ("sample.npz", "sample")
RESULT = "result.json"
LARGEST = 1 << 24  # bytes of it: read, they take some fifty times as many
TABLES_LIMIT = 256
_FILES = {
    "base": "base.safetensors",
    "answers": "answers.safetensors",
    "subject_weights": "f.safetensors",
    "weights": "g.safetensors",
}
_NAMES = f"The names of classes and columns in {RESULT} are right: the certificate does not name them."


def add_neighbours(file: Path, given: GivenFiles) -> GivenFiles:
    """Fill options that were not given with the files beside the certificate.

    The result of a folder may say that the sample is one that has a name; it names no other file.
    """
    found: dict[str, Any] = {
        name: path
        for name, path in ((name, file.with_name(each)) for name, each in _FILES.items())
        if getattr(given, name) is None and path.is_file()
    }
    if not given.scores:
        found["scores"] = _tables(file)
    if given.unlabelled is None and file.with_name("unlabelled.npz").is_file():
        found["unlabelled"] = str(file.with_name("unlabelled.npz"))
    if given.data is None:
        here = [path for path in map(file.with_name, SAMPLES) if path.exists()]
        found["data"] = str(here[0]) if here else _named_sample(_result(file))
    return dataclasses.replace(given, **found)


def compare_neighbours(file: Path, verdict: Verdict) -> Verdict:
    """A verdict that says what nobody checked of the files beside the certificate."""
    result = _result(file)
    inputs = None if result is None else result.get("inputs")
    has_columns = isinstance(inputs, dict) and inputs.get("columns")
    if result is None or result.get("class_names") or has_columns:
        return dataclasses.replace(verdict, assumptions=(*verdict.assumptions, _NAMES))
    return verdict


def _tables(file: Path) -> tuple[Path, ...]:
    """The declared tables, in order: scores.safetensors, scores-2.safetensors and so on to the first gap."""
    found: list[Path] = []
    for number in range(1, TABLES_LIMIT + 1):
        path = file.with_name("scores.safetensors" if number == 1 else f"scores-{number}.safetensors")
        if not path.is_file():
            break
        found.append(path)
    return tuple(found)


def _result(file: Path) -> dict[str, Any] | None:
    """The result of a folder: nothing if there is none, None if this program cannot read what others may."""
    path = file.with_name(RESULT)
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes()) if path.stat().st_size <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _named_sample(result: dict[str, Any] | None) -> str | None:
    asked = None if result is None else result.get("verify_with")
    name = asked.get("data") if isinstance(asked, dict) else None
    return name if isinstance(name, str) and name.partition(":")[0] in NAMES else None
