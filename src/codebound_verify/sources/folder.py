"""The files beside a certificate: found by the names that its folder gives them, and compared with it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import NAMES
from ..refusal import Refused
from ..weights import read_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..files import GivenFiles
    from ..verdict import Verdict

SAMPLES = ("sample.npz", "sample")
RESULT, HELPER = "result.json", "helper.safetensors"
_FILES = {"base": "base.safetensors", "subject_weights": "f.safetensors", "weights": "g.safetensors"}
_FIELDS = ("checked", "assumptions", "reasons")
_NAMED = "The names of classes and columns, as in result.json, have SHA-256 "
_KERNEL = "The inputs are rows of the encoder codebound.methods.kernel_share:kernel_helper (SHA-256 "


def add_neighbours(file: Path, given: GivenFiles) -> GivenFiles:
    """Fill options that were not given with the files beside the certificate.

    The result of a folder may say that the sample is one that has a name; it names no other file.
    """
    found: dict[str, Any] = {
        name: path
        for name, path in ((name, file.with_name(each)) for name, each in _FILES.items())
        if getattr(given, name) is None and path.is_file()
    }
    if given.unlabelled is None and file.with_name("unlabelled.npz").is_file():
        found["unlabelled"] = str(file.with_name("unlabelled.npz"))
    if given.data is None:
        here = [path for path in map(file.with_name, SAMPLES) if path.exists()]
        found["data"] = str(here[0]) if here else _named_sample(_result(file))
    return dataclasses.replace(given, **found)


def compare_neighbours(file: Path, verdict: Verdict) -> Verdict:
    """A verdict, and what comes out for names and a helper that lie beside the certificate of a folder."""
    found = [*_names(file, verdict.declarations), *_helper(file, verdict.declarations)]
    lines = {field: tuple(line for where, line in found if where == field) for field in _FIELDS}
    reasons = (*verdict.reasons, *lines["reasons"])
    return dataclasses.replace(
        verdict,
        verdict="REFUSE" if reasons else verdict.verdict,
        bound=None if reasons else verdict.bound,
        reasons=reasons,
        checked=(*verdict.checked, *lines["checked"]),
        assumptions=(*verdict.assumptions, *lines["assumptions"]),
    )


def _names(file: Path, declarations: Sequence[str]) -> list[tuple[str, str]]:
    """Names of classes and columns: what answers are called, and how tables are read."""
    result = _result(file)
    inputs = result.get("inputs")
    columns = inputs.get("columns", []) if isinstance(inputs, dict) else []
    names = [result.get("class_names", []), columns]
    stated = {each.removeprefix(_NAMED) for each in declarations if each.startswith(_NAMED)}
    if not result or not (stated or any(names)):
        return []
    if not stated:
        said = f"The names of classes and columns in {RESULT} are right: the certificate does not name them."
        return [("assumptions", said)]
    text = json.dumps(names, sort_keys=True, separators=(",", ":"))
    if stated != {hashlib.sha256(text.encode()).hexdigest() + "."}:
        said = f"Names: those of classes and columns in {RESULT} are not those that the certificate declares."
        return [("reasons", said)]
    return [("checked", "the names of classes and columns beside it are those that it declares")]


def _helper(file: Path, declarations: Sequence[str]) -> list[tuple[str, str]]:
    """The helper that encodes inputs, which the certificate declares with its hash."""
    path, line = file.with_name(HELPER), next((each for each in declarations if each.startswith(_KERNEL)), "")
    if not line or not path.is_file():
        return []
    name, _, rest = line.removeprefix("The inputs are rows of the encoder ").partition(" (SHA-256 ")
    digest = hashlib.sha256(name.encode())
    try:
        tensors = read_tensors(path)
    except Refused as refused:
        return [("reasons", f"Helper: {reason}") for reason in refused.reasons]
    for each, values in sorted(tensors.items()):
        digest.update(f"\n{each}|{values.dtype.name}|{values.shape}|".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    if digest.hexdigest() != rest[:64]:
        return [("reasons", f"Helper: {HELPER} beside the certificate is not the one that it declares.")]
    return [("checked", "the helper beside it is the one that it declares")]


def _result(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.with_name(RESULT).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _named_sample(result: dict[str, Any]) -> str | None:
    asked = result.get("verify_with")
    name = asked.get("data") if isinstance(asked, dict) else None
    return name if isinstance(name, str) and name.partition(":")[0] in NAMES else None
