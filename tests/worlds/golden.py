"""Certificates of every version that are kept for ever, and what they are about."""

import json
from pathlib import Path

import numpy as np

from codebound.sample.load import load_dataset

FOLDER = Path(__file__).parents[1] / "golden"
FILES = sorted(FOLDER.glob("version-*/*.cbound"))


def tensors(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray] | None:
    """The arrays whose names begin so, by the rest of their names; None if there are none."""
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)} or None


def given(path: Path) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
    """Inputs and labels that a file is about, and what else its verification needs."""
    if path.stem.startswith("digits"):
        digits = load_dataset("digits")
        return digits.x, digits.y, {"base": None}
    with np.load(path.parent / "given.npz") as file:
        arrays = dict(file)
    end, content = "_tiny" if path.stem == "tiny" else "", path.read_bytes()
    header = json.loads(content[12 : 12 + int.from_bytes(content[8:12], "little")])
    beside = {
        "base": tensors(arrays, "base/") if header["helper"]["base"] else None,
        "unlabelled": arrays.get("unlabelled"),
        "subject_weights": tensors(arrays, f"{path.stem.partition('-')[0]}/"),
    }
    return arrays[f"x{end}"], arrays[f"y{end}"], beside
