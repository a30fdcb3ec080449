"""A labelled sample as it is stored: integers in memory, literal scaling constants, a content hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from codebound.errors import DataError


@dataclass(frozen=True, slots=True)
class Scaling:
    """Maps stored values to network inputs: ``(x / divisor - mean) / std``, per channel.

    The constants are literal and part of the data description. They must not be estimated from the
    sample: a constant computed on the sample depends on it and would have to be paid for.
    """

    divisor: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not self.divisor > 0.0 or any(not s > 0.0 for s in self.std):
            raise DataError(f"scaling needs a positive divisor and positive std. Got {self}.")

    def apply(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Network inputs for stored values ``x`` of shape ``(batch, channels, ...)``."""
        axes = (1, -1, *([1] * (x.dim() - 2)))
        mean = torch.tensor(self.mean, dtype=dtype, device=x.device).view(axes)
        std = torch.tensor(self.std, dtype=dtype, device=x.device).view(axes)
        return x.to(dtype).div_(self.divisor).sub_(mean).div_(std)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A sample with its labels, in stored order.

    Attributes:
        name: Name or path it was loaded from.
        role: What it may be used for: ``train``, ``prior``, ``certify``, ``test`` or ``unlabelled``.
        x: Inputs, ``(n, channels, height, width)`` or ``(n, features)``; uint8 where the source has bytes.
        y: Labels, ``(n,)`` int64 in ``[0, classes)``; all zero when the role is ``unlabelled``.
        classes: Number of classes.
        scaling: Literal constants that turn ``x`` into network inputs.
        source: Where the bytes came from, in words.
        warnings: What a reader of any result on this sample should know.
    """

    name: str
    role: str
    x: NDArray[np.generic]
    y: NDArray[np.int64]
    classes: int
    scaling: Scaling = field(default_factory=Scaling)
    source: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.x.ndim < 2 or len(self.x) == 0:
            raise DataError(f"{self.name}: inputs need shape (n, ...) with n >= 1. Got shape {self.x.shape}.")
        if self.y.shape != (len(self.x),):
            raise DataError(
                f"{self.name}: labels must have shape ({len(self.x)},), one per input. Got shape {self.y.shape}."
            )
        if self.x.dtype.kind == "f" and not np.isfinite(self.x).all():
            raise DataError(f"{self.name}: inputs contain NaN or infinity. Remove or replace those examples.")
        low, high = int(self.y.min()), int(self.y.max())
        if low < 0 or high >= self.classes:
            raise DataError(
                f"{self.name}: labels must lie in [0, {self.classes - 1}] for {self.classes} classes. "
                f"Got labels from {low} to {high}."
            )

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def sha256(self) -> str:
        """SHA-256 over shape, dtype and stored-order bytes of inputs, then of labels."""
        digest = hashlib.sha256()
        for array in (self.x, self.y):
            little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            shape = ",".join(str(size) for size in little.shape)
            digest.update(f"{little.dtype.name}|{shape}|".encode())
            digest.update(memoryview(little).cast("B"))
        return digest.hexdigest()

    def select(self, indices: Sequence[int] | NDArray[np.int64], *, role: str) -> Dataset:
        """The examples at ``indices``, in that order, with a new role."""
        picked = np.asarray(indices, dtype=np.int64)
        return replace(self, x=self.x[picked], y=self.y[picked], role=role)

    def on(self, device: torch.device | str) -> DeviceData:
        """The sample on a device as one tensor, still in its stored dtype."""
        return DeviceData(
            x=torch.from_numpy(np.ascontiguousarray(self.x)).to(device),
            y=torch.from_numpy(np.ascontiguousarray(self.y)).to(device),
            scaling=self.scaling,
        )


@dataclass(frozen=True, slots=True)
class DeviceData:
    """A sample that lives on a device; inputs are scaled batch by batch."""

    x: Tensor
    y: Tensor
    scaling: Scaling

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.y)

    def batch(self, indices: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Scaled inputs and labels of the examples at ``indices``."""
        return self.scaling.apply(self.x[indices], dtype), self.y[indices]

    def chunks(self, chunk_size: int, dtype: torch.dtype = torch.float32) -> Iterator[tuple[Tensor, Tensor]]:
        """All examples in stored order, at most ``chunk_size`` of them in floating point at a time."""
        for start in range(0, self.n, chunk_size):
            stop = start + chunk_size
            yield self.scaling.apply(self.x[start:stop], dtype), self.y[start:stop]
