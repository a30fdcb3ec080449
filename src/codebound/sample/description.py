"""Descriptions of samples, and the files that the second program reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError, UsageError
from codebound.run.files import write_arrays
from codebound.sample.caveats import remarks
from codebound.sample.dataset import count_copies
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.load import load_sample

if TYPE_CHECKING:
    from pathlib import Path

    from codebound.sample.dataset import Sample


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """Summary of a sample."""

    sample: Sample
    copies: int | None = None  # of training examples in the test split, where both are here
    not_compared: str = ""  # reason why the splits were not compared, where that failed

    def record(self) -> dict[str, Any]:
        """As JSON."""
        sample = self.sample
        return {
            "name": sample.name,
            "role": sample.role,
            "n": sample.n,
            "input_shape": list(sample.input_shape),
            "dtype": sample.dtype,
            "classes": sample.classes,
            "class_counts": np.bincount(sample.y, minlength=sample.classes).tolist(),
            "minimum": np.fmin.reduce(sample.x, axis=None).item(),
            "maximum": np.fmax.reduce(sample.x, axis=None).item(),
            "divisor": sample.scaling.divisor,
            "mean": list(sample.scaling.mean),
            "std": list(sample.scaling.std),
            "sha256": sample.sha256,
            "source": sample.source,
            "warnings": list(remarks(sample)),
            "test_duplicates": self.copies,
        }


def describe_sample(spec: str, *, role: str = "train", folder: Path | None = None) -> Description:
    """Describe a sample; a named one is compared with its other split.

    Example:
        >>> describe_sample("digits").record()["class_counts"][:3]
        [178, 182, 177]
    """
    sample = load_sample(spec, role=role, folder=folder)
    known = KNOWN.get(spec.lower())
    if known is None or "test" not in known.sizes:
        return Description(sample)
    other = "train" if sample.role == "test" else "test"
    try:
        sibling = load_sample(spec, role=other, folder=folder)
    except DataError as error:
        return Description(sample, not_compared=f"Not compared with the {other} split: {error}")
    train, test = (sibling, sample) if other == "train" else (sample, sibling)
    return Description(sample, count_copies(train, test))


def save_sample(sample: Sample, out: Path) -> None:
    """Save a sample as a new ``.npz`` file, which both programs read."""
    if out.suffix != ".npz" or out.exists():
        raise UsageError(f"{out} must be a new file that ends in .npz.")
    cells = {"cells": np.array(True)} if sample.is_cells else {}
    write_arrays(out, {"x": sample.x, "y": sample.y} | cells)
