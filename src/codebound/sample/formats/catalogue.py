"""The datasets known by name: shapes and checksums, where their files are found, and reading them."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from codebound.run.errors import DataError
from codebound.sample.formats.idx import parse_idx, read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

PIXELS = 32 * 32
"""Pixels of an image of CIFAR-10."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDataset:
    """Facts of a dataset, fixed before any of its bytes are seen."""

    name: str
    title: str  # as in papers
    layout: Literal["embedded", "idx", "cifar10"]
    sizes: Mapping[str, int]  # by role
    input_shape: tuple[int, ...]
    classes: int
    divisor: float  # brings stored bytes into [0, 1]
    folder: str = ""  # the usual one under a root
    digests: Mapping[str, str] = field(default_factory=dict)  # published MD5 of the unpacked files

    def files(self, role: str) -> tuple[str, ...]:
        """Canonical file names of a split; inputs before labels where they are apart."""
        is_test = role == "test"
        return tuple(name for name in self.digests if name.startswith(("t10k", "test")) == is_test)


def _like_mnist(name: str, title: str, folder: str, *md5: str) -> KnownDataset:
    files = (f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
    return KnownDataset(
        name=name,
        title=title,
        layout="idx",
        sizes={"train": 60_000, "test": 10_000},
        input_shape=(1, 28, 28),
        classes=10,
        divisor=255.0,
        folder=folder,
        digests=dict(zip(files, md5, strict=True)),
    )


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
        KnownDataset(
            name="cifar10",
            title="CIFAR-10",
            layout="cifar10",
            sizes={"train": 50_000, "test": 10_000},
            input_shape=(3, 32, 32),
            classes=10,
            divisor=255.0,
            folder="cifar-10-batches-bin",
            digests={
                "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
                "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
            },
        ),
    )
}


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


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """The files of one split of a known dataset, in the order of ``known.files(role)``."""

    known: KnownDataset
    role: str
    files: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self.files[0].parent

    @property
    def digests(self) -> list[str]:
        """Checksums of the files, as their authors published them."""
        return [self.known.digests[file] for file in self.known.files(self.role)]


def find(known: KnownDataset, role: str, root: Path) -> SplitFiles | None:
    """Looks for a split in its usual folder under ``root``, then for its files in ``root`` itself."""
    for base in (root / known.folder, root / "raw", root):
        candidates = [
            [base / f"{name}{end}" for name in (file, file.replace("-idx", ".idx")) for end in ("", ".gz")]
            for file in known.files(role)
        ]
        files = [next((path for path in paths if path.is_file()), None) for paths in candidates]
        present = tuple(path for path in files if path is not None)
        if files and len(present) == len(files):
            return SplitFiles(known, role, present)
    return None


def _search(known: KnownDataset, role: str, folder: Path | None) -> SplitFiles | None:
    return next(filter(None, (find(known, role, place) for place in _places(known, folder))), None)


def _places(known: KnownDataset, folder: Path | None) -> list[Path]:
    return [*([folder] if folder is not None else []), cache_folder() / known.name]


def locate(known: KnownDataset, role: str, folder: Path | None) -> SplitFiles:
    """The files of a split, in the given folder or in the cache."""
    found = _search(known, role, folder)
    if found is None:
        looked = " and in ".join(map(str, _places(known, folder)))
        raise DataError(
            f"the {role} split of {known.name} was not found; looked in {looked}. To get it: codebound data "
            f"get {known.name}."
        )
    return found


def locate_all(folder: Path | None = None) -> dict[str, str]:
    """Return the place of each known dataset, in words. Empty when it is not here. Nothing is read."""
    where = {name: _search(known, "train", folder) for name, known in KNOWN.items()}
    return {
        name: str(hit.folder) if hit else "embedded in scikit-learn" if not KNOWN[name].digests else ""
        for name, hit in where.items()
    }


def has_digest(path: Path, digest: str) -> bool:
    """Return True if the unpacked content of a file has this checksum."""
    return _digest(read_whole(path)) == digest


def _digest(content: bytes | bytearray) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def read(found: SplitFiles) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Inputs ``(n, ...)`` and labels of a split, after the checksum of each file."""
    known = found.known
    contents = [
        _verify(known, file, path) for file, path in zip(known.files(found.role), found.files, strict=True)
    ]
    if known.layout == "idx":
        x, y = (parse_idx(content, name=known.title) for content in contents)
        return x[:, None], y.astype(np.int64)
    rows = np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(-1, 1 + 3 * PIXELS)  # the label first
    x = np.ascontiguousarray(rows[:, 1:]).reshape(-1, *known.input_shape)
    return x, rows[:, 0].astype(np.int64)


def _verify(known: KnownDataset, file: str, path: Path) -> bytearray:
    content = read_whole(path)
    if (actual := _digest(content)) != known.digests[file]:
        raise DataError(
            f"{path} is not {file} of {known.title}: its content has checksum {actual}, expected "
            f"{known.digests[file]}. The file is damaged or belongs to another dataset. Replace it "
            f"(`codebound data get {known.name}`), or load data of your own as an .npz file."
        )
    return content
