"""Examples whose label is a value, not a class: a fault is then a residual that is too large."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from codebound.run.errors import DataError
from codebound.sample.arrays import from_arrays, read_members, read_npy
from codebound.sample.dataset import arrays_sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.sample.dataset import Dataset


@dataclass(frozen=True, eq=False)
class Values:
    """A sample with values.

    Attributes:
        name: What it is called.
        x: The inputs, as a sample of classes has them.
        y: The values, in float64.
    """

    name: str
    x: NDArray[np.generic]
    y: NDArray[np.float64]
    classes: ClassVar[None] = None

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.y)

    @cached_property
    def sha256(self) -> str:
        """Hash of inputs and values (docs/looks.md)."""
        return arrays_sha256(self.x, self.y)

    def ranked(self) -> Dataset:
        """The same with the rank of each value as its label: equal ones stay equal."""
        return from_arrays(self.x, np.unique(self.y, return_inverse=True)[1], name=self.name, role="test")


def load_values(spec: str) -> Values:
    """The examples in an ``.npz`` file with arrays ``x`` and ``y``.

    Raises:
        DataError: It is no such file, or a value is not finite.
    """
    found = read_members(Path(spec), ("x", "y"))
    x, y = found["x"], found["y"]
    if y.dtype.kind not in "iuf" or y.shape != x.shape[:1] or not np.isfinite(y).all():
        raise DataError(
            f"{spec}: values are one finite number for each example. Got {y.dtype} of shape {y.shape} for "
            f"inputs of shape {x.shape}."
        )
    inputs = from_arrays(x, None, name=spec, role="unlabelled")
    return Values(spec, inputs.x, y.astype(np.float64))


def predicted_values(path: Path) -> NDArray[np.float64]:
    """Predictions from a ``.npy`` file: one number for each example; what is no number is a fault."""
    found = read_npy(path)
    if found.dtype.kind not in "iuf" or found.shape != (found.size,):
        raise DataError(f"{path} must hold one number for each example.")
    return found.astype(np.float64)
