"""Files of tensors in the safetensors format, and their hash (docs/format.md, section 4.4)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .refusal import Refused, quote

Floats: TypeAlias = NDArray[np.float32]

HEADER_LIMIT = 1 << 24
FILE_LIMIT = 1 << 31
AXES_LIMIT = 32
TYPES = {"F32": "<f4", "F64": "<f8", "U8": "|u1", "I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}


def read_weights(path: Path) -> dict[str, Floats]:
    """The tensors of a safetensors file: a length, a JSON header and numbers in float32. Nothing is run."""
    return read_tensors(path, ("F32",))


def read_tensors(path: Path, types: Iterable[str] = tuple(TYPES)) -> dict[str, NDArray[Any]]:
    """The same for several types of numbers."""
    return {name: np.array(values) for name, values in map_tensors(path, types, FILE_LIMIT).items()}


def map_tensors(path: Path, types: Iterable[str], limit: int) -> dict[str, NDArray[Any]]:
    """The same, of a file that may be larger than memory: its numbers stay on the disk."""
    size = path.stat().st_size
    if not (path.is_file() and 8 <= size <= limit):
        raise Refused(f"{path}: {size} bytes are no safetensors file of at most {limit} bytes.")
    data: memoryview = np.memmap(path, np.uint8, "r").data
    start = 8 + int.from_bytes(data[:8], "little")
    if start > min(size, HEADER_LIMIT):
        raise Refused(f"{path}: not a safetensors file: its header does not fit into it.")
    try:
        entries = json.loads(bytes(data[8:start]))
        entries.pop("__metadata__", None)
        ends = sorted(tuple(entry["data_offsets"]) for entry in entries.values())
        if [0, *(end for _, end in ends)] != [*(begin for begin, _ in ends), size - start]:
            raise ValueError("tensors overlap, or leave something out")  # so all of them fit into memory
        return {name: _tensor(data[start:], types, **entry) for name, entry in entries.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Refused(f"{path}: not a safetensors file of {', '.join(types)} ({error}).") from None


def _tensor(
    data: memoryview, types: Iterable[str], dtype: Any, shape: Any, data_offsets: Any
) -> NDArray[Any]:
    """One tensor of the file. Arguments are what its header says, and of any type."""
    if dtype not in types:
        raise ValueError(f"one has dtype {dtype}")
    numbers = (*shape, *data_offsets)
    if len(shape) > AXES_LIMIT or any(type(each) is not int or not 0 <= each < 2**63 for each in numbers):
        raise ValueError("shapes and offsets are short lists of integers")
    begin, end = data_offsets
    stored = np.dtype(TYPES[dtype])
    if end > len(data) or end - begin != stored.itemsize * math.prod(shape):
        raise ValueError("a tensor does not fit into the file")
    return np.frombuffer(data[begin:end], stored).astype(stored.newbyteorder("="), copy=False).reshape(shape)


def tensors_sha256(tensors: Mapping[str, Floats]) -> str:
    """The hash that names a set of tensors."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        if "|" in name or not (name.isascii() and name.isprintable()):  # else two sets could have one hash
            raise Refused(f"Tensors: the name {quote(name)} is not of printable ASCII characters without |.")
        digest.update(f"{name}|{','.join(map(str, tensors[name].shape))}|".encode())
        digest.update(np.ascontiguousarray(tensors[name], dtype="<f4").tobytes())
    return digest.hexdigest()


def same_tensors(tensors: Mapping[str, Floats], sha256: str, what: str) -> Mapping[str, Floats]:
    """The tensors, if they are finite, float32, and those that a hash names."""
    for name, values in tensors.items():
        if values.dtype != np.float32 or not np.isfinite(values).all():
            raise Refused(f"{what}: tensor {name} must be float32 and finite; found {values.dtype}.")
    if (found := tensors_sha256(tensors)) != sha256:
        raise Refused(f"{what}: its tensors have SHA-256 {found}, but the header names {sha256}.")
    return tensors
