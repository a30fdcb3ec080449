"""Samples that the format was developed on, known by their values: parts of them, and rescaled ones, too."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .sample import parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .header import Header
    from .sample import Inputs

SKETCHES = Path(__file__).with_name("developed.json")
"""``samples`` has hashes of the samples that versions 2 and 3 were made with; ``rows`` for each the 1,024
smallest keys of its rows, of 12 hexadecimal digits, how many values a row has, and in how many ``blocks``
(channels) they were scaled; ``tables`` hashes of tables of features and scores that were made of them."""

SENTENCE = (
    "This format was developed on this very sample: choices among what it lists are paid for, its own design "
    "is not."
)
LEVELS = 4096  # a multiple of 256, so that no ratio of two bytes lies between two of them


def find_development(header: Header, x: Inputs | None) -> str | None:
    """The sample that the version of the file was made with a view of, if this one comes from it."""
    samples = (lists := read_lists())["samples"]
    known: dict[str, str] = {**samples["2"], **samples["3"]} if header.version.is_third else samples["2"]
    if header.sample_sha256 in known:
        return known[header.sample_sha256]
    if (name := lists["tables"].get(header.sample_sha256)) in known.values():
        return f"a table made of {name}"
    for name, sketch in lists["rows"].items():
        if x is not None and name in known.values() and x[0].size == sketch["width"]:
            digits = sketch["keys"]
            looked_for = {bytes.fromhex(digits[at : at + 12]) for at in range(0, len(digits), 12)}
            if not looked_for.isdisjoint(row_keys(x, sketch["blocks"])):
                return f"a part of {name}, or shares examples with it"
    return (
        "one of those that it was developed on, as the file says" if SENTENCE in header.declarations else None
    )


@cache
def read_lists() -> dict[str, Any]:
    """Read the lists in ``SKETCHES``."""
    found: dict[str, Any] = json.loads(SKETCHES.read_text())
    return found


def row_keys(x: Inputs, blocks: int) -> Iterator[bytes]:
    """The first six bytes of a hash of every row, the same for all scales and offsets of a block.

    Each block goes from 0 to 4,096, rounded; a row with a block of equal values has none.
    """
    for part in parts(x):
        rows = part.astype(np.float64).reshape(-1, blocks, x[0].size // blocks)
        low = rows.min(axis=2, keepdims=True)
        with np.errstate(over="ignore", invalid="ignore"):
            span = rows.max(axis=2, keepdims=True) - low
            is_plain = ((span > 0) & np.isfinite(span)).all(axis=(1, 2))
            levels = np.rint((rows - low)[is_plain] / span[is_plain] * LEVELS).astype("<u2")
        yield from (hashlib.sha256(row.tobytes()).digest()[:6] for row in levels)
