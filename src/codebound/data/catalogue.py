"""The datasets known by name: shapes, checksums of their content, and the folder they are cached in."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Layout = Literal["embedded", "idx", "cifar10", "cifar100"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is fixed about a dataset before any of its bytes are seen.

    Attributes:
        name: The name that ``load_dataset`` takes.
        title: How papers call it.
        layout: How its files are arranged; ``embedded`` needs none.
        sizes: Examples by role.
        input_shape: Shape of one input.
        classes: Number of classes.
        divisor: Literal constant that brings stored bytes into [0, 1].
        folder: torchvision's folder under its root, empty when embedded.
        md5: Checksum of the unpacked content by canonical file name. CIFAR-10 counts in its binary form
            (one label byte, then the red, green and blue planes), whatever form it is found in.
    """

    name: str
    title: str
    layout: Layout
    sizes: Mapping[str, int]
    input_shape: tuple[int, ...]
    classes: int
    divisor: float
    folder: str = ""
    md5: Mapping[str, str] = field(default_factory=dict)

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


_IDX_SIZES = MappingProxyType({"train": 60_000, "test": 10_000})
_CIFAR_SIZES = MappingProxyType({"train": 50_000, "test": 10_000})

KNOWN: dict[str, Known] = {
    known.name: known
    for known in (
        Known(
            name="digits",
            title="Digits",
            layout="embedded",
            sizes={"train": 1_797},
            input_shape=(1, 8, 8),
            classes=10,
            divisor=16.0,
        ),
        Known(
            name="mnist",
            title="MNIST",
            layout="idx",
            sizes=_IDX_SIZES,
            input_shape=(1, 28, 28),
            classes=10,
            divisor=255.0,
            folder="MNIST/raw",
            md5={
                "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
                "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
                "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
                "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
            },
        ),
        Known(
            name="fashion-mnist",
            title="Fashion-MNIST",
            layout="idx",
            sizes=_IDX_SIZES,
            input_shape=(1, 28, 28),
            classes=10,
            divisor=255.0,
            folder="FashionMNIST/raw",
            md5={
                "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
                "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
                "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
            },
        ),
        Known(
            name="cifar10",
            title="CIFAR-10",
            layout="cifar10",
            sizes=_CIFAR_SIZES,
            input_shape=(3, 32, 32),
            classes=10,
            divisor=255.0,
            folder="cifar-10-batches-py",
            md5={
                "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
                "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
            },
        ),
        Known(
            name="kmnist",
            title="KMNIST",
            layout="idx",
            sizes=_IDX_SIZES,
            input_shape=(1, 28, 28),
            classes=10,
            divisor=255.0,
            folder="KMNIST/raw",
        ),
        Known(
            name="cifar100",
            title="CIFAR-100",
            layout="cifar100",
            sizes=_CIFAR_SIZES,
            input_shape=(3, 32, 32),
            classes=100,
            divisor=255.0,
            folder="cifar-100-python",
        ),
    )
}

NOT_READ: Mapping[str, str] = MappingProxyType(
    {
        "svhn": "SVHN comes as MATLAB files",
        "emnist": "EMNIST has six overlapping splits and transposed images",
    }
)


def cache_folder() -> Path:
    """Where fetched datasets live: ``$CODEBOUND_CACHE``, or ``codebound`` in the user's cache directory."""
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
