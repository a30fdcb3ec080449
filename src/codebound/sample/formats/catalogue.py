"""The datasets known by name: shapes and checksums, where their files are found, and reading them."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from codebound.run.errors import DataError
from codebound.sample.formats.cifar import read_binary, read_pickled
from codebound.sample.formats.idx import parse_idx, read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

Layout = Literal["embedded", "idx", "cifar10", "cifar100"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDataset:
    """Facts of a dataset, fixed before any of its bytes are seen.

    Attributes:
        name: The name that ``load_dataset`` takes.
        title: How papers call it.
        layout: How its files are arranged; ``embedded`` needs none.
        sizes: Examples by role.
        input_shape: Shape of one input.
        classes: Number of classes.
        divisor: Literal constant that brings stored bytes into [0, 1].
        folder: The usual folder under a root (torchvision's), empty when there is none.
        digests: MD5 of the unpacked content by canonical file name, as its authors published it. CIFAR-10
            counts in its binary form (one label byte, then the red, green and blue planes), whatever form it
            is found in.
    """

    name: str
    title: str
    layout: Layout
    sizes: Mapping[str, int]
    input_shape: tuple[int, ...]
    classes: int
    divisor: float
    folder: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)

    def files(self, role: str) -> tuple[str, ...]:
        """Canonical file names of a split; inputs before labels where they are apart."""
        if self.layout == "idx":
            stem = {"train": "train", "test": "t10k"}[role]
            return f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte"
        if self.layout == "cifar10":
            return (
                tuple(f"data_batch_{i}.bin" for i in range(1, 6)) if role == "train" else ("test_batch.bin",)
            )
        if self.layout == "cifar100":
            return (f"{role}.bin",)
        return ()

    def all_files(self) -> tuple[str, ...]:
        """Canonical file names of all splits."""
        return tuple(name for role in self.sizes for name in self.files(role))


def _like_mnist(name: str, title: str, folder: str, *md5: str) -> KnownDataset:
    known = KnownDataset(
        name=name,
        title=title,
        layout="idx",
        sizes=MappingProxyType({"train": 60_000, "test": 10_000}),
        input_shape=(1, 28, 28),
        classes=10,
        divisor=255.0,
        folder=folder,
    )
    return replace(known, digests=dict(zip(known.all_files(), md5, strict=False)))


def _cifar(classes: Literal[10, 100], folder: str, *md5: str) -> KnownDataset:
    known = KnownDataset(
        name=f"cifar{classes}",
        title=f"CIFAR-{classes}",
        layout="cifar10" if classes == 10 else "cifar100",
        sizes=MappingProxyType({"train": 50_000, "test": 10_000}),
        input_shape=(3, 32, 32),
        classes=classes,
        divisor=255.0,
        folder=folder,
    )
    return replace(known, digests=dict(zip(known.all_files(), md5, strict=False)))


KNOWN: dict[str, KnownDataset] = {
    known.name: known
    for known in (
        KnownDataset(
            name="digits",
            title="Digits",
            layout="embedded",
            sizes={"train": 1_797},
            input_shape=(1, 8, 8),
            classes=10,
            divisor=16.0,
        ),
        _like_mnist(
            "mnist",
            "MNIST",
            "MNIST/raw",
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
        _like_mnist(
            "fashion-mnist",
            "Fashion-MNIST",
            "FashionMNIST/raw",
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
        _cifar(
            10,
            "cifar-10-batches-py",
            "5dd7e06a14cb22eb9f671a540d1b7c25",
            "5ea93a67294ea407fff1d09f752e9692",
            "942cd6a4bcdd0dd3c604fbe906cb4421",
            "ae636b3ba5c66a11e91e8cb52e771fcb",
            "53f37980c15c3d472c316c40844f3f0d",
            "803d5f7f4d78ea53de84dbe85f74fb6d",
        ),
        _like_mnist("kmnist", "KMNIST", "KMNIST/raw"),
        _cifar(100, "cifar-100-python"),
    )
}

NOT_READ: Mapping[str, str] = MappingProxyType(
    {
        "svhn": "SVHN comes as MATLAB files",
        "emnist": "EMNIST has six overlapping splits and transposed images",
    }
)


def cache_folder() -> Path:
    """Return the folder of fetched datasets.

    It is in ``$CODEBOUND_CACHE``, or in ``codebound`` in the user's cache directory.
    """
    chosen = os.environ.get("CODEBOUND_CACHE")
    if chosen:
        return Path(chosen).expanduser() / "data"
    if sys.platform == "darwin":
        user_cache = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        user_cache = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return user_cache / "codebound" / "data"


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

    known: KnownDataset
    role: str
    files: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self.files[0].parent


def _spellings(known: KnownDataset, file: str) -> tuple[str, ...]:
    if known.layout == "idx":
        dotted = file.replace("-idx", ".idx")
        return file, f"{file}.gz", dotted, f"{dotted}.gz"
    return file, file.removesuffix(".bin")


def find(known: KnownDataset, role: str, root: Path) -> Found | None:
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


def places(known: KnownDataset, folder: Path | None) -> list[Path]:
    """Return the folders to search: the given one, then the cache."""
    return [*([folder] if folder is not None else []), cache_folder() / known.name]


def located(known: KnownDataset, role: str, folder: Path | None) -> Found:
    """The files of a split, where they are.

    Raises:
        DataError: They are nowhere; the message says what to do.
    """
    for place in places(known, folder):
        found = find(known, role, place)
        if found is not None:
            return found
    looked = " and in ".join(map(str, places(known, folder)))
    raise DataError(
        f"the {role} split of {known.name} was not found; looked in {looked}. To get it: {remedy(known)}."
    )


def known_datasets(folder: Path | None = None) -> dict[str, str]:
    """Return the place of each known dataset, in words. Empty when it is not here. Nothing is read."""
    where = {}
    for known in KNOWN.values():
        hits = (find(known, "train", place) for place in places(known, folder))
        hit = next((found for found in hits if found is not None), None)
        embedded = "embedded in scikit-learn" if known.layout == "embedded" else ""
        where[known.name] = str(hit.folder) if hit else embedded
    return where


def remedy(known: KnownDataset) -> str:
    """Return advice for a known dataset that is not here."""
    fetch = f"codebound data get {known.name}"
    return fetch if known.digests else f"give the folder that has {usual_place(known)}"


def usual_place(known: KnownDataset) -> str:
    """Describe the files that identify a dataset in a folder."""
    return f"torchvision's {known.folder}"


def has_digest(path: Path, digest: str) -> bool:
    """Return True if a file has this checksum."""
    return _digest(read_whole(path)) == digest


def _digest(content: bytes | bytearray | memoryview) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def check_content(
    known: KnownDataset, file: str, content: bytes | bytearray | memoryview, *, path: Path
) -> None:
    """Compares content with the catalogue's checksum, where it has one.

    Raises:
        DataError: The bytes are not those of ``file``.
    """
    expected = known.digests.get(file)
    if expected is not None and (actual := _digest(content)) != expected:
        raise DataError(
            f"{path} is not {file} of {known.title}: its content has checksum {actual}, expected {expected}. "
            "The file is damaged or belongs to another dataset. Replace it "
            f"(`codebound data get {known.name}`), or load data of your own as an .npz file."
        )


def read(found: Found) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Inputs ``(n, ...)`` and labels of a split, after the checksum of each file."""
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


def _read_idx(known: KnownDataset, file: str, path: Path) -> NDArray[np.uint8]:
    content = read_whole(path)
    values = parse_idx(content, name=str(path))
    check_content(known, file, content, path=path)
    return values


def _read_cifar(known: KnownDataset, file: str, path: Path, labels: tuple[str, ...]) -> NDArray[np.uint8]:
    is_binary = path.suffix == ".bin"
    rows = read_binary(path, labels=len(labels)) if is_binary else read_pickled(path, labels=labels)
    check_content(known, file, rows.data, path=path)
    return rows
