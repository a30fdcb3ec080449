"""The samples that the format was developed on; parts, rescaled copies and tables of them are recognised."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.sample.dataset import Dataset

DEVELOPED = (
    "This format was developed on this very sample: choices among what it lists are paid for, its own design "
    "is not."
)
_DEVELOPMENT = {
    "d22e38850101f68adc84e9f356f78162646d7c52307dca0577fe23ca92e5960c": "digits",
    "b98a22f5f10987daca90a92b002c534ab2b9adfd56c62d12f1ad12ef9fac35b9": "mnist",
    "fddd55df4bf9137d7e42a8735dc4d26d0cdb543d359e849ee30b5c484a622f14": "fashion-mnist",
    "fff8faed6be6904782e23de72ba76d01c46b8aab6852f2561df24df2713b2f51": "cifar10",
}
_DEVELOPMENT_3 = _DEVELOPMENT | {
    "fbe387d1f393d5163c790f722c0453ec701206a865fffc6b138925f5eb815b25": "dna",
    "84110e3964343c2b06d4a3003ebe446934029f6f81547e85d980e53f62ec34fd": "italy-power",
    "e149879f2c4422478ca9c9b65ecc15879b350c9f0d3c56c035b61dc800d5cc99": "japanese-vowels",
    "ad216d090bd788ccf4760f633feb0e07dc0f6e7ae2f8976f7d5f25007dd2e010": "letter",
    "a2fec3baa0e09a7c7e6b874695b1a6d7567e764083b4c5e16f1b502ab8c6845a": "mfeat",
    "96b1fa6c240e7dc41b52b96cd1041d08274a74f3d24981b83f61670db78f4162": "newsgroups",
    "ce3daef585be9476ce75e2de7b627e1fc8369a85f6a1ed377c50ccd1cc406abe": "r8",
    "6ab00670da4da6b2307179569e804f843c61898cd5d2ba7c1eba0c606d142f5c": "satellite",
    "fe8d458016dca4c31f24bfb869b6a8242ed29215b1d1e2d95a50f75bd61f9e92": "shuttle",
    "ee2439416354aa432218362894436ff94efecbe47dc67ab1aaf08835aee04152": "sklearn-breast-cancer",
    "c2a1ded42f51394ed96b32f9804d08b77295ae14e844bb3d7fb7789e3cca17f8": "sklearn-wine",
}
LISTS = Path(__file__).with_name("developed.json")
"""``rows`` has for each sample the 1,024 smallest keys of its rows (``row_keys``), how many values a row has,
and in how many blocks they were scaled; ``tables`` has hashes of tables that were made of such samples."""
_KEY_BYTES = 6
_STEPS = 4096  # a multiple of 256: then no ratio of two bytes lies halfway between two steps
_VALUES = 1 << 21  # in floating point at a time

_RECOGNISED: dict[str, tuple[str, ...]] = {}
"""Answers by the hash of a sample: it is asked for several times."""


def development_sample(sample: Dataset, version: int) -> str:
    """The sample that this one is, or comes from, if that version was made with a view of it."""
    names = (_DEVELOPMENT_3 if version > 2 else _DEVELOPMENT).values()
    known = (known_by_name(sample.name), sample.development, *_by_content(sample))
    return next((each for each in known if each in names), "")


def known_by_name(name: str) -> str:
    """The sample that a name begins with, in ``name:part``; empty where it is none of them."""
    beginning = name.partition(":")[0]
    return beginning if beginning in _DEVELOPMENT_3.values() else ""


def _by_content(sample: Dataset) -> tuple[str, ...]:
    """Every sample that this one shares an example with, by what is stored."""
    sha256 = sample.sha256
    if sha256 not in _RECOGNISED:
        lists = _lists()
        whole = [each[sha256] for each in (_DEVELOPMENT_3, lists["tables"]) if sha256 in each]
        keys = {
            blocks: row_keys(sample.x, blocks)
            for blocks in {
                each["blocks"] for each in lists["rows"].values() if each["width"] == sample.x[0].size
            }
        }
        _RECOGNISED[sha256] = (
            *whole,
            *(
                name
                for name, each in lists["rows"].items()
                if each["width"] == sample.x[0].size and not each["keys"].isdisjoint(keys[each["blocks"]])
            ),
        )
    return _RECOGNISED[sha256]


@cache
def _lists() -> dict[str, Any]:
    lists: dict[str, Any] = json.loads(LISTS.read_text())
    for each in lists["rows"].values():
        content = bytes.fromhex(each["keys"])
        each["keys"] = {content[at : at + _KEY_BYTES] for at in range(0, len(content), _KEY_BYTES)}
    return lists


def row_keys(x: NDArray[np.generic], blocks: int = 1) -> set[bytes]:
    """Hashes of rows that do not change when a block of them, such as a channel, is scaled or shifted.

    A row is cut into equal blocks; each is mapped to 0 to 4,096 and rounded. Rows with a constant block have
    no key: too many samples share them.
    """
    values = x.reshape(len(x), blocks, -1)
    keys: set[bytes] = set()
    rows = max(1, _VALUES // x[0].size)
    for start in range(0, len(x), rows):
        part = values[start : start + rows].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            part -= part.min(axis=2, keepdims=True)
            largest = part.max(axis=2, keepdims=True)
            part = np.rint(part / np.where(largest > 0, largest, 1.0) * _STEPS)
        varies = ((largest > 0) & np.isfinite(largest)).all(axis=(1, 2))
        for row in part[varies].astype("<u2"):
            keys.add(hashlib.sha256(row.tobytes()).digest()[:_KEY_BYTES])
    return keys
