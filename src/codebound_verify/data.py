"""Where the verifier finds data: arrays in files, scikit-learn's digits, IDX files and CIFAR-10 batches.

Nothing is downloaded or unpickled. No checksums are kept here: the hash of the sample in the certificate
decides whether these are the right data.
"""

from __future__ import annotations

import gzip
import math
import os
import sys
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from .refusal import Refused
from .sample import Inputs

BYTES_LIMIT = 1 << 34  # uncompressed, of one array
CHUNK = 1 << 20  # bytes read at a time where a file does not say how long it is
_UNREADABLE = (  # what zipfile, zlib and NumPy raise for archives that are none
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    SyntaxError,
    TypeError,
    KeyError,
    ValueError,
    EOFError,
    RuntimeError,
    SystemError,
    OverflowError,
)
RECORD = 1 + 3 * 32 * 32  # a label and three planes

Sample: TypeAlias = tuple[Inputs, Inputs | None]

FOLDERS = {  # torchvision's folder below its root; the files themselves may also lie in the given folder
    "mnist": "MNIST/raw",
    "fashion-mnist": "FashionMNIST/raw",
    "kmnist": "KMNIST/raw",
    "cifar10": "cifar-10-batches-bin",
}
NAMES = ("digits", *FOLDERS)


def load_data(spec: str, folder: Path | None = None) -> Sample:
    """Inputs and labels of ``file.npz``, a folder with ``x.npy`` and ``y.npy``, ``NAME`` or ``NAME:test``.

    Labels are None if there are none. Files of a folder stay on the disk; parts are read when needed.
    """
    if spec.endswith(".npz"):
        return _npz(Path(spec))
    if (Path(spec) / "x.npy").is_file():
        labels = Path(spec) / "y.npy"
        return _mapped(Path(spec) / "x.npy"), _mapped(labels) if labels.is_file() else None
    name, _, role = spec.partition(":")
    if name not in NAMES or role not in ("", "train", "test"):
        raise Refused(
            f"Data: {spec!r} is unknown. Give an .npz file with x and y, a folder with x.npy and y.npy, or "
            f"one of {', '.join(NAMES)}, followed by :test for the test part. Where the sample was anything "
            "else, it lies as sample.npz beside the certificate."
        )
    if name == "digits":
        if role == "test":
            raise Refused("Data: digits has no test part.")
        return _digits()
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


def _digits() -> Sample:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return x.reshape(-1, 1, 8, 8).astype(np.uint8), y


def _npz(path: Path) -> Sample:
    try:
        with zipfile.ZipFile(path) as archive:
            x = _npy(archive, "x.npy")
            y = _npy(archive, "y.npy") if "y.npy" in archive.namelist() else None
    except (*_UNREADABLE, OSError) as error:  # of a file that is there: from offsets that lead nowhere
        if isinstance(error, OSError) and not path.is_file():
            raise
        raise Refused(f"Data: {path} is no .npz file with plain arrays x and y ({error}).") from None
    return x, y


def _mapped(path: Path) -> Inputs:
    try:
        with path.open("rb") as file:
            if file.read(7)[6:] != b"\x01":  # a later header may promise gigabytes
                raise ValueError("not version 1 of the format")
        array: Inputs = np.load(path, mmap_mode="c", allow_pickle=False)
    except (*_UNREADABLE, OSError) as error:
        raise Refused(f"Data: {path} is no .npy file of plain numbers ({error}).") from None
    return array


def _npy(archive: zipfile.ZipFile, name: str) -> Inputs:
    """An array whose header fits the size of its file: checked before anything is allocated."""
    size = archive.getinfo(name).file_size
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of the .npy format is not known")
        read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
        shape, _, dtype = read_header(file)
        if size > BYTES_LIMIT or file.tell() + math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"{name} of shape {shape} does not fit its {size} bytes")
    with archive.open(name) as file:
        array: Inputs = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _idx(folder: Path, role: str) -> Sample | None:
    part = "t10k" if role == "test" else "train"
    images = _read(folder, f"{part}-images-idx3-ubyte")
    labels = _read(folder, f"{part}-labels-idx1-ubyte")
    if images is None or labels is None:
        return None
    return _parse_idx(images)[:, None], _parse_idx(labels)


def _parse_idx(data: bytes) -> Inputs:
    """Two zero bytes, the type (8: unsigned bytes), the number of sizes, big-endian sizes, the bytes."""
    axes = data[3] if len(data) > 3 else 0
    start = 4 + 4 * axes
    shape = np.frombuffer(data[4:start], ">u4").tolist() if len(data) >= start else []
    if data[:3] != b"\0\0\x08" or not shape or len(data) - start != math.prod(shape):
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


def _read(folder: Path, name: str) -> bytes | None:
    """The content of a file, plain or compressed, or None."""

    def limited(file: IO[bytes] | gzip.GzipFile) -> bytes:
        data = bytearray()
        while chunk := file.read(CHUNK):
            data += chunk
            if len(data) > BYTES_LIMIT:
                raise Refused(f"Data: {folder / name} is larger than {BYTES_LIMIT} bytes.")
        return bytes(data)

    if (plain := folder / name).is_file():
        with plain.open("rb") as file:
            return limited(file)
    if (packed := folder / f"{name}.gz").is_file():
        try:
            with gzip.open(packed) as unpacked:
                return limited(unpacked)
        except (OSError, EOFError, zlib.error) as error:
            raise Refused(f"Data: {packed} cannot be unpacked ({error}).") from None
    return None
