"""Dictionaries: literal filters, of rules and of networks (docs/format.md, section 8.7)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..refusal import Refused
from .exact import Doubles

FILE = Path(__file__).parents[1] / "dictionaries.json"  # beside the kernel: part of the program
SHA256 = "1a3375e1242968b4599e4f84121724a3e2b93b5a0a5914d00679b4dfaacf28ea"
UNIT = 4096  # the integers of the file are multiples of 1/4096


@dataclass(frozen=True, eq=False)
class FilterTable:
    """Complex filters of one size: ``filters[f]`` is the real and the imaginary part of filter f."""

    size: int
    filters: Doubles  # (filters, 2, size, size)


def tables(number: int) -> tuple[FilterTable, ...]:
    """The tables of a dictionary, in their order. None if there is no dictionary of that number.

    Example:
        >>> [(table.size, table.filters.shape[0]) for table in tables(3)]
        [(7, 8), (13, 8)]
        >>> tables(2)
        ()
    """
    return _read().get(number, ())


@lru_cache(maxsize=1)
def _read() -> dict[int, tuple[FilterTable, ...]]:
    """All dictionaries. Their file is part of this program, and must be the one that the page names."""
    data = FILE.read_bytes()
    if (found := hashlib.sha256(data).hexdigest()) != SHA256:
        raise Refused(
            f"Dictionary: {FILE} has SHA-256 {found} instead of {SHA256}. "
            "This program is damaged: install it again."
        )
    return {
        int(number): tuple(
            FilterTable(size, np.array(entry["filters"], np.float64).reshape(-1, 2, size, size) / UNIT)
            for entry in entries
            for size in [entry["size"]]
        )
        for number, entries in json.loads(data).items()
    }
