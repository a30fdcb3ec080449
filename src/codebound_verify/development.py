"""Samples that this page was made with, known by their values at any scale (docs/format.md, section 11)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SKETCHES = Path(__file__).with_name("developed.json")
"""``rows`` has, by the name of a sample, the smallest ``keys`` of its rows, 12 hexadecimal digits each, how
many values a row has (``width``), and in how many ``blocks`` (channels) they are scaled."""
SENTENCE = (
    "This format was developed on this very sample: choices among what it lists are paid for, its own design "
    "is not."
)
LEVELS = 4096  # a multiple of 256, so that no ratio of two bytes lies between two of them
BYTES = 6  # of a key
NUMBERS = 1 << 20  # looked at together


def find_development(x: NDArray[Any], sources: Iterable[str]) -> str | None:
    """The sample that the page was made with a view of, if this one is a part of it or was made from it.

    ``sources`` are what tables, features and a base were made of.
    """
    sketches, sources = read_sketches(), [each.lower() for each in sources]
    for name in sorted(sketches, key=len, reverse=True):  # Fashion-MNIST before MNIST
        names = "|".join(map(re.escape, [name, *sketches[name].get("also", ())]))
        word = re.compile(rf"(?<![a-z0-9])({names})(?![a-z0-9])")
        if any(map(word.search, sources)):
            return name
    keys: dict[int, NDArray[np.uint64]] = {}  # by the number of blocks
    for name, sketch in sketches.items():
        blocks = sketch["blocks"]
        if x[0].size == sketch["width"]:
            if blocks not in keys:
                keys[blocks] = row_keys(x, blocks)
            if is_part(keys[blocks], sketch["keys"]):
                return name
    return None


def is_part(keys: NDArray[np.uint64], digits: str) -> bool:
    """Return True if of the keys up to the largest listed one at least one, and half of them, are listed."""
    size = 2 * BYTES
    listed = np.array([int(digits[at : at + size], 16) for at in range(0, len(digits), size)], np.uint64)
    low = keys[keys <= listed.max()]
    hits = int(np.isin(low, listed).sum())
    return hits >= 1 and 2 * hits >= len(low)


@cache
def read_sketches() -> dict[str, Any]:
    """Read the lists in ``SKETCHES``."""
    found: dict[str, Any] = json.loads(SKETCHES.read_text(encoding="utf-8"))["rows"]
    return found


def row_keys(x: NDArray[Any], blocks: int) -> NDArray[np.uint64]:
    """The first six bytes of a hash of every row, the same for all scales and offsets of a block.

    Each block goes from 0 to 4,096, rounded; a row with a block of equal values, or with a gap, has none.
    """
    return np.fromiter((int.from_bytes(key, "big") for key in _keys(x, blocks)), dtype=np.uint64)


def _keys(x: NDArray[Any], blocks: int) -> Iterator[bytes]:
    width = x[0].size
    step = max(1, NUMBERS // width)
    for start in range(0, len(x), step):
        rows = np.asarray(x[start : start + step], dtype=np.float64).reshape(-1, blocks, width // blocks)
        with np.errstate(over="ignore", invalid="ignore"):
            low = rows.min(axis=2, keepdims=True)
            span = rows.max(axis=2, keepdims=True) - low
            is_plain = ((span > 0) & np.isfinite(span)).all(axis=(1, 2))
            levels = np.rint((rows - low)[is_plain] / span[is_plain] * LEVELS).astype("<u2")
        yield from (hashlib.sha256(row.tobytes()).digest()[:BYTES] for row in levels)
