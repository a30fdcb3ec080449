"""Datasets that have a name: shapes, checksums, places of their files, and reading them."""

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


def find(known: KnownDataset, role: str, root: Path) -> tuple[Path, ...] | None:
    """Find the files of a split in the usual folders under ``root``."""
    for base in (root / known.folder, root / "raw", root):
        candidates = [
            [base / f"{name}{end}" for name in (file, file.replace("-idx", ".idx")) for end in ("", ".gz")]
            for file in known.files(role)
        ]
        files = [next((path for path in paths if path.is_file()), None) for paths in candidates]
        present = tuple(path for path in files if path is not None)
        if files and len(present) == len(files):
            return present
    return None


def _places(known: KnownDataset, folder: Path | None) -> list[Path]:
    return [*([folder] if folder is not None else []), cache_folder() / known.name]


def locate(known: KnownDataset, role: str, folder: Path | None) -> tuple[Path, ...]:
    """Find the files of a split in a folder or in the cache."""
    places = _places(known, folder)
    if files := next(filter(None, (find(known, role, place) for place in places)), None):
        return files
    raise DataError(
        f"the {role} split of {known.name} was not found; looked in {' and in '.join(map(str, places))}. To "
        f"get it: codebound data get {known.name}."
    )


def locate_all(folder: Path | None = None) -> dict[str, str]:
    """Return the place of each known dataset, in words. Empty when it is not here. Nothing is read."""
    places = {name: "" if known.digests else "embedded in scikit-learn" for name, known in KNOWN.items()}
    for name, known in KNOWN.items():
        hits = filter(None, (find(known, "train", place) for place in _places(known, folder)))
        places[name] = next((str(files[0].parent) for files in hits), places[name])
    return places


def read(
    known: KnownDataset, role: str, files: tuple[Path, ...]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Inputs and labels of a split, after the checksum of each file."""
    contents = [_verify(known, file, path) for file, path in zip(known.files(role), files, strict=True)]
    if known.layout == "idx":
        x, y = (parse_idx(content, name=known.title) for content in contents)
        return x[:, None], y.astype(np.int64)
    rows = np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(-1, 1 + 3 * PIXELS)  # the label first
    x = np.ascontiguousarray(rows[:, 1:]).reshape(-1, *known.input_shape)
    return x, rows[:, 0].astype(np.int64)


def digest_of(path: Path) -> str:
    """MD5 of the unpacked content of a file."""
    return hashlib.md5(read_whole(path), usedforsecurity=False).hexdigest()


def _verify(known: KnownDataset, file: str, path: Path) -> bytearray:
    content = read_whole(path)
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if actual != known.digests[file]:
        raise DataError(
            f"{path} is not {file} of {known.title}: its content has checksum {actual}, expected "
            f"{known.digests[file]}. The file is damaged or belongs to another dataset. Replace it "
            f"(`codebound data get {known.name}`), or load data of your own as an .npz file."
        )
    return content
