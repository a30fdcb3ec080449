"""Samples in arrays: in memory, in an ``.npz`` file or in ``.npy`` files, by fixed rules."""

from __future__ import annotations

import math
import zipfile
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib import format as npy

from codebound.run.errors import DataError
from codebound.run.extensions import LazyModule
from codebound.sample.caveats import STANDARDISED, looks_standardised
from codebound.sample.columns import as_cells
from codebound.sample.dataset import Sample, Scaling, row_parts
from codebound.sample.formats.idx import MAX_BYTES, read_exactly

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from numpy.typing import ArrayLike, NDArray
else:
    torch = LazyModule("torch")

MAX_CLASSES = 1 << 16
SCALED = (
    "every column was scaled by constants of its own before it was stored: they were fixed before the sample "
    "was drawn, and new inputs have to be scaled by the same (Scaling.apply)"
)
_EXACT_IN_FLOAT64 = 1 << 53
_NAMED = 8  # arrays of a file, in a message
_ADVICE = "Save it with numpy.savez(path, x=inputs, y=labels)."


def from_arrays(
    x: ArrayLike,
    y: ArrayLike | None,
    *,
    name: str,
    role: str = "train",
    classes: int | None = None,
    scaling: Scaling | None = None,
    source: str = "arrays in memory",
    cells: bool | None = None,
) -> Sample:
    """Make a sample of inputs and labels; stored type and scaling follow from the dtype, never from values.

    ======================================  =============================  ==========================
    dtype of ``x``                          stored as                      scaling, unless given
    ======================================  =============================  ==========================
    uint8                                   uint8                          divided by 255
    float32, float64                        unchanged                      none
    float16, bool, int8, int16, uint16      float32, exactly               none
    int32, uint32, int64, uint64            float64, exactly or refused    none
    ======================================  =============================  ==========================

    A table of floats in which numbers are missing (NaN) is stored as cells, which are float64.
    ``(n, height, width)`` becomes ``(n, 1, height, width)``; other shapes stay, channels come first. A table
    whose columns have constants of their own is stored scaled, and that these were fixed before is declared.

    Args:
        x: Inputs, at least two-dimensional, examples along the first axis.
        y: Integer labels from 0, one per input; None with the role ``unlabelled``.
        name: Name of the sample in results.
        role: Use of the sample.
        classes: Number of classes; by default the largest label plus one.
        scaling: Literal constants instead of those in the table.
        source: Origin of the arrays, in words.
        cells: True to store a table as cells; by default where numbers are missing.

    Example:
        >>> sample = from_arrays(np.zeros((5, 8, 8), dtype=np.uint8), [0, 1, 2, 0, 1], name="blank")
        >>> sample.x.shape, sample.classes, sample.scaling.divisor
        ((5, 1, 8, 8), 3, 255.0)
    """
    inputs = np.asarray(x)
    if inputs.ndim < 2:
        raise DataError(f"{name}: inputs need shape (n, features) or more. Got shape {inputs.shape}.")
    stored = _convert_inputs(inputs, name)
    if stored.ndim == 3:
        stored = stored[:, None]
    if cells is None:
        is_table = stored.ndim == 2 and stored.dtype.kind == "f"
        cells = is_table and any(np.isnan(stored[rows]).any() for rows in row_parts(stored))
    if cells:
        stored = as_cells(stored)
    warnings = []
    if scaling is not None and stored.ndim == 2 and max(len(scaling.mean), len(scaling.std)) > 1:
        scaling.check(stored.shape[1], name=name)  # a message has no room for so many
        numbers = torch.from_numpy(stored.astype(np.float64))
        stored, scaling = scaling.apply(numbers, torch.float64).numpy(), None
        warnings.append(SCALED)
    if y is None and role != "unlabelled":
        raise DataError(
            f"{name} has no labels: give a pair (inputs, labels). Only a sample with the role 'unlabelled' "
            "may come without."
        )
    labels = (
        np.zeros(len(stored), np.int64) if y is None or role == "unlabelled" else _labels(np.asarray(y), name)
    )
    if inputs.dtype.kind in "iub" and inputs.dtype != np.uint8 and SCALED not in warnings:
        warnings.append(
            f"the inputs are {inputs.dtype.name} and enter the network as they are, undivided; "
            "store them as uint8 to have them divided by 255"
        )
    if stored.ndim == 4 and stored.shape[3] in (1, 3, 4) and stored.shape[1] not in (1, 3, 4):
        warnings.append(
            f"inputs of shape {stored.shape[1:]} look like channels last; they are read as "
            "(channels, height, width)"
        )
    if scaling is None and looks_standardised(stored):
        warnings.append(STANDARDISED)
    return Sample(
        name=name,
        role=role,
        x=stored,
        y=labels,
        classes=classes if classes is not None else int(labels.max(initial=0)) + 1,
        scaling=scaling or Scaling(divisor=255.0 if stored.dtype == np.uint8 else 1.0),
        source=source,
        warnings=tuple(warnings),
        is_cells=cells,
    )


def _convert_inputs(x: NDArray[np.generic], name: str) -> NDArray[np.generic]:
    kind, bits = x.dtype.kind, 8 * x.dtype.itemsize
    if x.dtype == np.uint8 or (kind == "f" and bits in (32, 64)):
        return x.astype(x.dtype.newbyteorder("="), copy=False)
    if kind == "b" or (kind in "iuf" and bits <= 16):
        return x.astype(np.float32)
    if kind in "iu":
        if x.size and (int(x.max()) > _EXACT_IN_FLOAT64 or int(x.min()) < -_EXACT_IN_FLOAT64):
            raise DataError(
                f"{name}: {x.dtype.name} inputs beyond 2^53 have no exact float64. Rescale them first."
            )
        return x.astype(np.float64)
    raise DataError(
        f"{name}: inputs must be numbers: integers, float16, float32 or float64. Got {x.dtype}. A data frame "
        "may have words and days too, and values that are missing."
    )


def _labels(y: NDArray[np.generic], name: str) -> NDArray[np.int64]:
    if y.ndim != 1 or y.dtype.kind not in "iub":
        raise DataError(
            f"{name}: labels must be integers in a row, from 0. Got {y.dtype} of shape {y.shape}."
        )
    if y.size and int(y.max()) >= MAX_CLASSES:
        raise DataError(f"{name}: labels must be below {MAX_CLASSES}. Got {int(y.max())}.")
    return y.astype(np.int64)


def read_arrays(path: Path, *, role: str) -> dict[str, NDArray[np.generic]]:
    """Arrays ``x`` and ``y`` of an ``.npz`` file, or of a folder.

    ``x_train`` and ``y_train``, or ``x_test`` and ``y_test`` by the role, stand for them in a file without
    ``x``, and keep their names. Arrays of a folder are mapped: parts are read from the disk when needed, so
    that a sample can be larger than the memory if its inputs are uint8, float32 or float64.

    Shapes in a file are checked before anything is allocated; pickled objects are refused.
    """
    wanted: tuple[str, ...] = ("x",) if role == "unlabelled" else ("x", "y")
    if path.is_dir():
        return {key: read_npy(path / f"{key}.npy") for key in wanted}
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            part = "test" if role == "test" else "train"
            if "x" not in members and f"x_{part}" in members:
                wanted = tuple(f"{key}_{part}" for key in wanted)
            if missing := [key for key in wanted if key not in members]:
                raise DataError(
                    f"{path}: no array {' and '.join(missing)}; "
                    f"the file holds {', '.join(list(members)[:_NAMED]) or 'nothing'}. {_ADVICE}"
                )
            present = [key for key in (*wanted, "cells") if key in members]
            return {key: _read_member(archive, members[key], name=f"{path}, array {key}") for key in present}
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # a crafted archive can make the parsers raise nearly anything
        raise DataError(f"{path} is no readable .npz file: {error}. {_ADVICE}") from error


def read_npy(path: Path) -> NDArray[np.generic]:
    """The array in a ``.npy`` file, which is mapped."""
    try:
        with path.open("rb") as file:
            if file.read(7)[6:] != b"\x01":  # later versions may promise a header of gigabytes
                raise DataError(f"{path} is no readable .npy file of version 1, as numpy.save writes it.")
        # writable pages are copies of ours: nothing is ever written to the file
        found: NDArray[np.generic] = np.load(path, mmap_mode="c", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{path.parent} has no {path.name}. Save it with numpy.save.") from error
    except DataError:
        raise
    except OSError as error:  # such as no room among addresses, which says nothing about the file
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # a crafted file can make the parser raise nearly anything
        raise DataError(
            f"{path} is no readable .npy file: {error}. Save it with numpy.save; "
            "words first become words.astype(str)."
        ) from error
    return found


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *, name: str) -> NDArray[np.generic]:
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise DataError(f"{name}: .npy format {version} is not read; numpy.savez writes version 1.")
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = header(stream)
        if dtype.hasobject:
            raise DataError(
                f"{name} holds Python objects, which would have to be unpickled. Save numbers, or words as "
                "words.astype(str)."
            )
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or not 0 < size <= MAX_BYTES:
            raise DataError(f"{name}: {shape} of {dtype} is {size} bytes; 1 to {MAX_BYTES} are allowed.")
        content = read_exactly(stream, size, name=name)
        if stream.read(1):
            raise DataError(f"{name} has bytes after its last value. Save the file again.")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if is_fortran else "C")
