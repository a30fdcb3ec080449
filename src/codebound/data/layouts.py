"""Finds the files of a known dataset under a folder, reads them, and checks their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from codebound.data.catalogue import KNOWN, cache_folder
from codebound.data.cifar import read_binary, read_pickled
from codebound.data.idx import parse_idx, read_whole
from codebound.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from codebound.data.catalogue import Known, Layout

_FOLDERS: dict[Layout, tuple[str, ...]] = {
    "idx": ("raw",),
    "cifar10": ("cifar-10-batches-bin", "cifar-10-batches-py"),
    "cifar100": ("cifar-100-binary", "cifar-100-python"),
}
_CIFAR_LABELS: dict[Layout, tuple[str, ...]] = {
    "cifar10": ("labels",),
    "cifar100": ("coarse_labels", "fine_labels"),
}


@dataclass(frozen=True, slots=True)
class Found:
    """The files of one split of a known dataset, in the order of ``known.files(role)``."""

    known: Known
    role: str
    files: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        """Where the files lie."""
        return self.files[0].parent


def _spellings(known: Known, file: str) -> tuple[str, ...]:
    if known.layout == "idx":
        dotted = file.replace("-idx", ".idx")
        return file, f"{file}.gz", dotted, f"{dotted}.gz"
    return file, file.removesuffix(".bin")


def find(known: Known, role: str, root: Path) -> Found | None:
    """Looks for a split in torchvision's layout under ``root``, then for its files in ``root`` itself."""
    if not known.files(role):
        return None
    for base in (root / known.folder, *(root / folder for folder in _FOLDERS[known.layout]), root):
        candidates = [[base / name for name in _spellings(known, file)] for file in known.files(role)]
        files = [next((path for path in paths if path.is_file()), None) for paths in candidates]
        present = tuple(path for path in files if path is not None)
        if len(present) == len(files):
            return Found(known, role, present)
    return None


def places(known: Known, folder: Path | None) -> list[Path]:
    """Where a known dataset is looked for: the given folder, then its entry in the cache."""
    return [*([folder] if folder is not None else []), cache_folder() / known.name]


@dataclass(frozen=True, slots=True)
class Listing:
    """A known dataset and where it is.

    Attributes:
        known: What is fixed about it.
        found: Where its training split was found, in words; empty when it is not here.
        remedy: How to get it, when it is not here.
    """

    known: Known
    found: str
    remedy: str

    @property
    def name(self) -> str:
        """The name that ``load_dataset`` takes."""
        return self.known.name


def known_datasets(folder: Path | None = None) -> tuple[Listing, ...]:
    """Every dataset known by name; files are looked for, not read."""
    listings = []
    for known in KNOWN.values():
        hits = (find(known, "train", place) for place in places(known, folder))
        hit = next((found for found in hits if found is not None), None)
        found = "embedded in scikit-learn" if known.layout == "embedded" else str(hit.folder) if hit else ""
        listings.append(Listing(known, found, "" if found else remedy(known)))
    return tuple(listings)


def remedy(known: Known) -> str:
    """What to do when a known dataset is not here."""
    fetch = f"codebound data get {known.name}"
    return fetch if known.md5 else f"give the folder that has torchvision's {known.folder}"


def md5_of(path: Path) -> str:
    """Checksum of a file's content, unpacked when its name ends in ``.gz``."""
    return hashlib.md5(read_whole(path), usedforsecurity=False).hexdigest()


def check_content(known: Known, file: str, content: bytearray | memoryview, *, path: Path) -> None:
    """Compares content with the catalogue's checksum, where it has one.

    Raises:
        DataError: The bytes are not those of ``file``.
    """
    expected = known.md5.get(file)
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if expected is not None and actual != expected:
        raise DataError(
            f"{path} is not {file} of {known.title}: its content has md5 {actual}, expected {expected}. "
            "The file is damaged or belongs to another dataset. Replace it "
            f"(`codebound data get {known.name}`), or load data of your own as an .npz file."
        )


def read(found: Found) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Inputs ``(n, channels, height, width)`` and labels of a split, after the checksum of each file."""
    known = found.known
    pairs = list(zip(known.files(found.role), found.files, strict=True))
    if known.layout == "idx":
        x, y = (_read_idx(known, file, path) for file, path in pairs)
        if x.ndim != 3 or y.shape != (len(x),):
            raise DataError(
                f"{found.folder}: the images have shape {x.shape} and the labels {y.shape}; "
                "expected n x height x width and n."
            )
        x = x[:, None]
    else:
        labels = _CIFAR_LABELS[known.layout]
        batches = [_read_cifar(known, file, path, labels) for file, path in pairs]
        x = np.concatenate([rows[:, len(labels) :] for rows in batches]).reshape(-1, 3, 32, 32)
        y = np.concatenate([rows[:, len(labels) - 1] for rows in batches])
    if x.shape[1:] != known.input_shape:
        raise DataError(
            f"{found.folder}: {known.title} has inputs of {known.input_shape}. Got {x.shape[1:]}."
        )
    return x, y.astype(np.int64)


def _read_idx(known: Known, file: str, path: Path) -> NDArray[np.uint8]:
    content = read_whole(path)
    values = parse_idx(content, name=str(path))
    check_content(known, file, content, path=path)
    return values


def _read_cifar(known: Known, file: str, path: Path, labels: tuple[str, ...]) -> NDArray[np.uint8]:
    is_binary = path.suffix == ".bin"
    rows = read_binary(path, labels=len(labels)) if is_binary else read_pickled(path, labels=labels)
    check_content(known, file, rows.data, path=path)
    return rows
