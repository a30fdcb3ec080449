"""Samples: the papers' datasets, arrays, image folders and the user's own, with checksums and fixed splits.

Names are resolved on first use: the catalogue and the cache can be asked without loading PyTorch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codebound.data.arrays import from_arrays
    from codebound.data.catalogue import KNOWN, Known, cache_folder
    from codebound.data.dataset import Dataset, DeviceData, Scaling
    from codebound.data.download import Fetched, fetch
    from codebound.data.duplicates import Duplicates, cross_duplicates
    from codebound.data.layouts import Listing, known_datasets
    from codebound.data.load import load_dataset
    from codebound.data.splits import ROLES, Split, split

_HOME = {
    "Dataset": "dataset",
    "DeviceData": "dataset",
    "Duplicates": "duplicates",
    "Fetched": "download",
    "KNOWN": "catalogue",
    "Known": "catalogue",
    "Listing": "layouts",
    "ROLES": "splits",
    "Scaling": "dataset",
    "Split": "splits",
    "cache_folder": "catalogue",
    "cross_duplicates": "duplicates",
    "fetch": "download",
    "from_arrays": "arrays",
    "known_datasets": "layouts",
    "load_dataset": "load",
    "split": "splits",
}

__all__ = [
    "KNOWN",
    "ROLES",
    "Dataset",
    "DeviceData",
    "Duplicates",
    "Fetched",
    "Known",
    "Listing",
    "Scaling",
    "Split",
    "cache_folder",
    "cross_duplicates",
    "fetch",
    "from_arrays",
    "known_datasets",
    "load_dataset",
    "split",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(f"codebound.data.{_HOME[name]}"), name)
    raise AttributeError(f"module 'codebound.data' has no attribute {name!r}")
