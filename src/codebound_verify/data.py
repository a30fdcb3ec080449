"""Arrays of data in files; ``datasets`` reads those that have a name.

Nothing is downloaded or unpickled. No checksums are kept here: the hash of the sample in the certificate
decides whether these are the right data.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import TypeAlias

import numpy as np

from .refusal import Refused
from .rooms import room
from .sample import Inputs

BYTES_LIMIT = 1 << 34  # uncompressed, of one array
ITEM = 8  # bytes that a number has at most
READ_ANYWAY = 1 << 28  # bytes of an array that are read, so that all that is wrong with it can be said
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

Sample: TypeAlias = tuple[Inputs, Inputs | None]

FOLDERS = {  # torchvision's folder below its root; the files themselves may also lie in the given folder
    "mnist": "MNIST/raw",
    "fashion-mnist": "FashionMNIST/raw",
    "kmnist": "KMNIST/raw",
    "cifar10": "cifar-10-batches-bin",
}
NAMES = ("digits", *FOLDERS)


class TooLarge(Refused):
    """Refusal of an array larger than what the certificate is about, left unread."""


def load_data(spec: str, folder: Path | None = None, *, expected: int | None = None) -> Sample:
    """Inputs and labels of ``file.npz``, a folder with ``x.npy`` and ``y.npy``, ``NAME`` or ``NAME:test``.

    Labels are None if there are none. Files of a folder stay on the disk; parts are read when needed. Where
    ``expected`` says how many numbers the inputs have, a large array of an ``.npz`` with more is not read.
    """
    if spec.endswith(".npz"):
        if Path(spec).exists() and not Path(spec).is_file():
            raise Refused(f"Data: {spec} is no file: a folder, a queue or a device.")
        return _npz(Path(spec), expected)
    if (Path(spec) / "x.npy").is_file():
        labels = Path(spec) / "y.npy"
        return _map_array(Path(spec) / "x.npy"), _map_array(labels) if labels.is_file() else None
    name, _, role = spec.partition(":")
    if name not in NAMES or role not in ("", "train", "test"):
        raise Refused(
            f"Data: {spec!r} is unknown. Give an .npz file with x and y, a folder with x.npy and y.npy, or "
            f"one of {', '.join(NAMES)}, followed by :test for the test part. Where the sample was anything "
            "else, it lies as sample.npz beside the certificate."
        )
    sample: Sample = room("named data").load_named(name, role, folder)
    return sample


def _npz(path: Path, expected: int | None) -> Sample:
    try:
        with zipfile.ZipFile(path) as archive:
            x = _npy(archive, "x.npy", expected)
            y = _npy(archive, "y.npy", expected) if "y.npy" in archive.namelist() else None
    except (*_UNREADABLE, OSError) as error:  # of a file that is there: from offsets that lead nowhere
        if isinstance(error, OSError) and not path.is_file():
            raise
        raise Refused(f"Data: {path} is no .npz file with plain arrays x and y ({error}).") from None
    return x, y


def _map_array(path: Path) -> Inputs:
    try:
        with path.open("rb") as file:
            if file.read(7)[6:] != b"\x01":  # a later header may promise gigabytes
                raise ValueError("not version 1 of the format")
        array: Inputs = np.load(path, mmap_mode="c", allow_pickle=False)
    except (*_UNREADABLE, OSError) as error:
        raise Refused(f"Data: {path} is no .npy file of plain numbers ({error}).") from None
    return array


def _npy(archive: zipfile.ZipFile, name: str, expected: int | None) -> Inputs:
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
        if expected is not None and size > max(READ_ANYWAY, ITEM * expected + file.tell()):
            raise TooLarge(
                f"Data: {name} has shape {shape} and {size} bytes; the certificate is about {expected} "
                "numbers. It was not read."
            )
    with archive.open(name) as file:
        array: Inputs = np.lib.format.read_array(file, allow_pickle=False)
        return array
