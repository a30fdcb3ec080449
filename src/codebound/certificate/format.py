"""Versions of the file: the page that new ones are written by, and what those of version 1 do not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VERSION = 2
"""The version that is written; files of version 1 are read on."""
PAGE_SHA256 = "3e5c431a8f8b546f1db1695ecc75f417ec61a6402c7daa01706b7df2574a2f31"
FROZEN = "2026-11-16"

_NEW = {"": ("format",), "helper.architecture": ("sources",)}
"""What headers have had since version 2, by the object that it stands in."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page that defines every bit of a file, and the day from which on it does not change."""

    sha256: str
    frozen: str


PAGE = Page(PAGE_SHA256, FROZEN)
"""docs/format.md; ``make freeze`` writes its hash here and into the second program."""


def without_new(header: dict[str, Any], where: str = "") -> dict[str, Any]:
    """A header, or the object in it at ``where``, as version 1 has it."""
    return {
        name: without_new(value, f"{where}.{name}".lstrip(".")) if isinstance(value, dict) else value
        for name, value in header.items()
        if name not in _NEW.get(where, ())
    }


def with_new(header: dict[str, Any], where: str = "") -> dict[str, Any]:
    """A header of version 1, or the object in it at ``where``, with None for what it does not have."""
    return {
        **dict.fromkeys(_NEW.get(where, ())),
        **{
            name: with_new(value, f"{where}.{name}".lstrip(".")) if isinstance(value, dict) else value
            for name, value in header.items()
        },
    }
