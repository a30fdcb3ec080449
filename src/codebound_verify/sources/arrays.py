"""Arrays of data in files, and datasets that have a name.

Nothing is downloaded or unpickled. No checksums are kept here: the hash of the sample in the certificate
decides whether these are the right data.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from ..container import read_container
from ..files import GivenFiles
from ..refusal import Refused, TooLarge
from ..rooms import room
from ..sample import Inputs
from ..weights import read_tensors, read_weights

BYTES_LIMIT = 1 << 34  # uncompressed, of all arrays that are read of one file
ITEM = 8  # bytes that a number has at most
NPY = b"\x93NUMPY\x01\0"
READ_ANYWAY = 1 << 28  # bytes of an array that are read, so that all that is wrong with it can be said
_UNREADABLE = (  # what zipfile, zlib and NumPy raise for archives that are none
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, TypeError, KeyError, ValueError),
    *(EOFError, RuntimeError, SystemError, OverflowError),
)

Sample: TypeAlias = tuple[Inputs, Inputs]  # inputs and labels of what has a name
Arrays: TypeAlias = dict[str, Inputs]

ARRAYS = ("x", "y", "clusters", "groups", "cells")

FOLDERS = {  # torchvision's folder below its root; the files themselves may also lie in the given folder
    "mnist": "MNIST/raw",
    "fashion-mnist": "FashionMNIST/raw",
    "kmnist": "KMNIST/raw",
    "cifar10": "cifar-10-batches-bin",
}
NAMES = ("digits", *FOLDERS)


@dataclass(frozen=True)
class Loaded:
    """Arrays of a sample as they lie in a file: inputs, and what is there beside them."""

    x: Inputs
    y: Inputs | None = None
    clusters: Inputs | None = None
    groups: Inputs | None = None
    is_cells: bool = False

    @property
    def labels(self) -> Inputs:
        """Labels, where there have to be some."""
        if self.y is None:
            raise Refused("Data: a file has no labels y.")
        return self.y


def read_given(content: bytes, given: GivenFiles) -> dict[str, Any]:
    """All that a certificate is checked with, by the names of ``verify``, from the files that were given."""
    assert given.data is not None  # else nobody asks
    most, most_unlabelled = _count_numbers(content)
    data = load_data(given.data, given.data_folder, expected=most)
    found: dict[str, Any] = {
        "x": data.x,
        "y": data.labels,
        "cells": data.is_cells,
        "clusters": load_numbers(given.clusters, "clusters") if given.clusters else data.clusters,
        "groups": load_numbers(given.groups, "groups") if given.groups else data.groups,
        "tables": tuple(given.scores),
        "answers": given.answers,
        "by_class": given.by_class,
    }
    if given.unlabelled:
        found["unlabelled"] = load_data(given.unlabelled, given.data_folder, expected=most_unlabelled).x
    if given.test:
        test = load_data(given.test, given.data_folder)
        found["test"] = test.x, test.labels
    if given.base:
        found["base"] = read_weights(given.base)
    if given.subject_weights:
        found["subject_weights"] = read_weights(given.subject_weights)
    if given.weights:
        found["learned_weights"] = read_tensors(given.weights)
    return found


def _count_numbers(content: bytes) -> tuple[int | None, int | None]:
    """Number of values in the sample and in unlabelled inputs. None of a file that is no certificate."""
    try:
        header = read_container(content).header
    except Refused:
        return None, None
    each, original = math.prod(header.sample.input_shape), header.original
    unlabelled = None if original is None else original.unlabelled
    return each * header.sample.rows, 0 if unlabelled is None else each * unlabelled.rows


def load_data(spec: str, folder: Path | None = None, *, expected: int | None = None) -> Loaded:
    """The arrays of ``file.npz``, of a folder with ``x.npy`` and others, of ``NAME`` or of ``NAME:test``.

    Files of a folder stay on the disk; parts are read when needed. Where ``expected`` says how many numbers
    the inputs have, a large array of an ``.npz`` with more is not read.
    """
    if spec.endswith(".npz"):
        return _loaded(_npz(Path(spec), ARRAYS, expected), spec)
    if (Path(spec) / "x.npy").is_file():
        paths = {name: Path(spec) / f"{name}.npy" for name in ARRAYS}
        return _loaded({name: _map_array(path) for name, path in paths.items() if path.is_file()}, spec)
    name, _, role = spec.partition(":")
    if name not in NAMES or role not in ("", "train", "test"):
        raise Refused(
            f"Data: {spec!r} is unknown. Give an .npz file with x and y, a folder with x.npy and y.npy, or "
            f"one of {', '.join(NAMES)}, followed by :test for the test part. Where the sample was anything "
            "else, it lies as sample.npz beside the certificate."
        )
    sample: Sample = room("named data").load_named(name, role, folder)
    return Loaded(*sample)


def load_numbers(path: Path, name: str) -> Inputs:
    """The numbers of clusters or groups: an ``.npy`` file, or the array of that name in an ``.npz``."""
    if path.suffix != ".npz":
        return _map_array(path)
    arrays = _npz(path, (name,), None)
    if name not in arrays:
        raise Refused(f"Data: {path} has no array {name}.")
    return arrays[name]


def load_arrays(path: Path) -> Arrays:
    """All arrays of an ``.npz`` file, by their names."""
    return _npz(path, None, None)


def _loaded(arrays: Arrays, spec: str) -> Loaded:
    if "x" not in arrays:
        raise Refused(f"Data: {spec} has no inputs x.")
    mark = arrays.pop("cells", np.array(False))
    if mark.shape != () or mark.dtype != np.bool_:
        raise Refused(f"Data: the mark of cells in {spec} is true or false; found {mark.dtype}.")
    return Loaded(**arrays, is_cells=bool(mark))


def _npz(path: Path, names: tuple[str, ...] | None, expected: int | None) -> Arrays:
    if path.exists() and not path.is_file():
        raise Refused(f"Data: {path} is no file: a folder, a queue or a device.")
    try:
        with zipfile.ZipFile(path) as archive:
            found = {name[:-4]: archive.getinfo(name) for name in archive.namelist() if name.endswith(".npy")}
            chosen = {name: found[name] for name in (found if names is None else names) if name in found}
            if (size := sum(each.file_size for each in chosen.values())) > BYTES_LIMIT:
                raise ValueError(f"what it holds does not fit {BYTES_LIMIT} bytes; it has {size}")
            return {name: _npy(archive, each, expected) for name, each in chosen.items()}
    except (*_UNREADABLE, OSError) as error:  # of a file that is there: from offsets that lead nowhere
        if isinstance(error, OSError) and not path.is_file():
            raise
        raise Refused(f"Data: {path} is no .npz file with plain arrays ({error}).") from None


def _map_array(path: Path) -> Inputs:
    try:
        with path.open("rb") as file:
            _npy_header(file)
        array: Inputs = np.lib.format.open_memmap(path, mode="c")
    except (*_UNREADABLE, OSError) as error:
        raise Refused(f"Data: {path} is no .npy file of plain numbers ({error}).") from None
    return array


def _npy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, expected: int | None) -> Inputs:
    """An array whose header fits the size of its file: checked before anything is allocated."""
    name, size = entry.filename, entry.file_size
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is neither stored nor deflated")  # others promise gigabytes in a few bytes
    with archive.open(entry) as file:
        shape, dtype = _npy_header(file)
        if file.tell() + math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"{name} of shape {shape} does not fit its {size} bytes")
        if expected is not None and size > max(READ_ANYWAY, ITEM * expected + file.tell()):
            raise TooLarge(
                f"Data: {name} has shape {shape} and {size} bytes; the certificate is about {expected} "
                "numbers. It was not read."
            )
    with archive.open(entry) as file:
        array: Inputs = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array. A later version, or texts of no length, may promise gigabytes."""
    if file.read(len(NPY)) != NPY:
        raise ValueError("not version 1 of the format")
    try:
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except MemoryError:
        raise ValueError("its header is nested too deeply") from None
    if not dtype.itemsize:
        raise ValueError("its entries have no size")
    return shape, dtype
