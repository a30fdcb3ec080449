"""Datasets that the verifier knows by name: scikit-learn's digits, IDX files and CIFAR-10 batches."""

from __future__ import annotations

import gzip
import math
import os
import sys
import zlib
from pathlib import Path

import numpy as np

from ..refusal import Refused
from ..sample import Inputs
from .arrays import BYTES_LIMIT, FOLDERS, Sample

CHUNK = 1 << 20  # bytes read at a time where a file does not say how long it is
RECORD = 1 + 3 * 32 * 32  # a label and three planes


def load_named(name: str, role: str, folder: Path | None) -> Sample:
    """Inputs and labels of one of ``data.NAMES``, from its files in a folder or in the cache."""
    if name == "digits":
        if role == "test":
            raise Refused("Data: digits has no test part.")
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        return x.reshape(-1, 1, 8, 8).astype(np.uint8), y
    for place in _places(name, folder):
        found = _cifar(place, role) if name == "cifar10" else _idx(place, role)
        if found is not None:
            return found
    searched = ", ".join(map(str, _places(name, folder)))
    raise Refused(f"Data: no files of {name} in {searched}. Give their folder with --data-folder.")


def _places(name: str, folder: Path | None) -> list[Path]:
    if cache := os.environ.get("CODEBOUND_CACHE"):
        root = Path(cache)
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "codebound"
    elif sys.platform == "darwin":
        root = Path.home() / "Library/Caches/codebound"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "codebound"
    given = [folder, folder / FOLDERS[name], folder / name] if folder is not None else []
    return [*given, root / "data" / name]


def _idx(folder: Path, role: str) -> Sample | None:
    part = "t10k" if role == "test" else "train"
    images = _read(folder, f"{part}-images-idx3-ubyte")
    labels = _read(folder, f"{part}-labels-idx1-ubyte")
    if images is None or labels is None:
        return None
    return _parse_idx(images)[:, None], _parse_idx(labels)


def _parse_idx(data: bytearray) -> Inputs:
    """Two zero bytes, the type (8: unsigned bytes), the number of sizes, big-endian sizes, the bytes."""
    axes = data[3] if len(data) > 3 else 0
    start = 4 + 4 * axes
    shape = np.frombuffer(data[4:start], ">u4").tolist() if len(data) >= start else []
    if data[:3] != b"\0\0\x08" or not 0 < len(shape) < 9 or len(data) - start != math.prod(shape):
        raise Refused("Data: a file is no IDX file of unsigned bytes.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _cifar(folder: Path, role: str) -> Sample | None:
    names = ["test_batch.bin"] if role == "test" else [f"data_batch_{i}.bin" for i in range(1, 6)]
    batches = []
    for name in names:
        data = _read(folder, name)
        if data is None:
            return None
        if len(data) % RECORD:
            raise Refused(f"Data: {folder / name} is no batch of CIFAR-10: records have {RECORD} bytes.")
        batches.append(np.frombuffer(data, np.uint8).reshape(-1, RECORD))
    records = np.concatenate(batches)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def _read(folder: Path, name: str) -> bytearray | None:
    """The content of a file, plain or compressed, or None. PyTorch warns of arrays that none may write to."""
    plain, packed = folder / name, folder / f"{name}.gz"
    if not (plain.is_file() or packed.is_file()):
        return None
    data = bytearray()
    try:
        with plain.open("rb") if plain.is_file() else gzip.open(packed) as file:
            while chunk := file.read(CHUNK):  # a short file may unpack to a large one
                data += chunk
                if len(data) > BYTES_LIMIT:
                    raise Refused(f"Data: {plain} is larger than {BYTES_LIMIT} bytes.")
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(f"Data: {packed} cannot be unpacked ({error}).") from None
    return data
