"""Samples: canonical form, hash (docs/format.md, section 2) and the permutation of C-10 (7, 8)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .refusal import Refused
from .stream import Stream

Inputs: TypeAlias = NDArray[Any]
Labels: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Callable[[int, int], None]  # called with the examples done and their total


def canonical_inputs(x: Inputs) -> Inputs:
    """Inputs as uint8, float32 or float64, images with an axis for channels."""
    if x.ndim < 2 or not x.size or x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
        raise Refused(
            f"Data: the inputs must be numbers of shape (n, ...) without empty axes; "
            f"found {x.dtype} of shape {x.shape}."
        )
    if x.dtype != np.uint8 and x.dtype.name not in ("float32", "float64"):
        x = x.astype(np.float32 if x.dtype.itemsize <= 2 else np.float64)
    return x[:, None] if x.ndim == 3 else x


def canonical_labels(y: Inputs, n: int) -> Labels:
    """Labels as int64, one for each of n inputs."""
    if y.shape != (n,) or y.dtype.kind not in "biu":
        raise Refused(f"Data: the labels must be {n} integers; found {y.dtype} of shape {y.shape}.")
    return y.astype(np.int64)


def canonical_values(y: Inputs, n: int) -> NDArray[np.float64]:
    """Values as float64, one for each of n inputs."""
    if y.shape != (n,) or y.dtype.kind not in "iuf" or y.dtype.itemsize > 8:
        raise Refused(f"Data: the values must be {n} numbers; found {y.dtype} of shape {y.shape}.")
    return y.astype(np.float64)


def sample_sha256(x: Inputs, y: Inputs) -> str:
    """The hash that names a sample."""
    digest = hashlib.sha256()
    for values in (x, y):
        digest.update(f"{values.dtype.name}|{','.join(map(str, values.shape))}|".encode("ascii"))
        digest.update(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data.cast("B"))
    return digest.hexdigest()


def permutation(n: int) -> NDArray[np.int64]:
    """The fixed order in which C-10 splits a sample: by the stream "split" of seed 0."""
    return np.argsort(Stream(0, "split").words(0, n), kind="stable")
