"""Descriptions of samples, and the files that the second program reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError, UsageError
from codebound.run.files import write_arrays
from codebound.sample.caveats import remarks
from codebound.sample.dataset import cross_duplicates
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.load import load_sample

if TYPE_CHECKING:
    from pathlib import Path

    from codebound.sample.dataset import Duplicates, Sample


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """Summary of a sample."""

    sample: Sample
    counts: tuple[int, ...]  # examples of every class
    warnings: tuple[str, ...]
    duplicates: Duplicates | None  # of the training split in the test split, where both are here
    not_compared: str = ""  # reason why the splits were not compared, where that failed

    def record(self) -> dict[str, Any]:
        """As JSON."""
        sample, copies = self.sample, self.duplicates
        return {
            "name": sample.name,
            "role": sample.role,
            "n": sample.n,
            "input_shape": list(sample.input_shape),
            "dtype": sample.dtype,
            "classes": sample.classes,
            "class_counts": list(self.counts),
            "minimum": np.fmin.reduce(sample.x, axis=None).item(),
            "maximum": np.fmax.reduce(sample.x, axis=None).item(),
            "divisor": sample.scaling.divisor,
            "mean": list(sample.scaling.mean),
            "std": list(sample.scaling.std),
            "sha256": sample.sha256,
            "source": sample.source,
            "warnings": list(self.warnings),
            "test_duplicates": None if copies is None else copies.count,
            "test_duplicates_relabelled": None if copies is None else copies.relabelled,
        }


def describe_sample(spec: str, *, role: str = "train", folder: Path | None = None) -> Description:
    """Describe a sample; a named one is compared with its other split.

    Example:
        >>> describe_sample("digits").counts[:3]
        (178, 182, 177)
    """
    sample = load_sample(spec, role=role, folder=folder)
    warnings = remarks(sample)
    counts = tuple(np.bincount(sample.y, minlength=sample.classes).tolist())
    known = KNOWN.get(spec.lower())
    if known is None or "test" not in known.sizes:
        return Description(sample, counts, warnings, None)
    other = "train" if sample.role == "test" else "test"
    try:
        sibling = load_sample(spec, role=other, folder=folder)
    except DataError as error:
        why = f"Not compared with the {other} split: {error}"
        return Description(sample, counts, warnings, None, why)
    train, test = (sibling, sample) if other == "train" else (sample, sibling)
    return Description(sample, counts, warnings, cross_duplicates(train, test))


def save_sample(sample: Sample, out: Path) -> None:
    """Save a sample as a new ``.npz`` file, which both programs read."""
    if out.suffix != ".npz" or out.exists():
        raise UsageError(f"{out} must be a new file that ends in .npz.")
    cells = {"cells": np.array(True)} if sample.is_cells else {}
    write_arrays(out, {"x": sample.x, "y": sample.y} | cells)
