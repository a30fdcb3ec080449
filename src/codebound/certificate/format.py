"""Versions of the file: the page that new ones are written by, and what those of version 1 do not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VERSION = 2
"""The version that is written; files of version 1 are read on."""
PAGE_SHA256 = "cd227b0c07e271b677a673138b75c830a1c44b855ebd2a6655d4ca5c6ea0eab0"
FROZEN = "2026-11-16"

_NEW = {"": ("format",)}
"""What headers have had since version 2, by the object that it stands in."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page that defines every bit of a file, and the day from which on it does not change."""

    sha256: str
    frozen: str


PAGE = Page(PAGE_SHA256, FROZEN)
"""docs/format.md; ``make freeze`` writes its hash here and into the second program."""


def without_new(header: dict[str, Any]) -> dict[str, Any]:
    """A header as version 1 has it."""
    return {
        name: {key: entry for key, entry in value.items() if key not in _NEW.get(name, ())}
        if isinstance(value, dict)
        else value
        for name, value in header.items()
        if name not in _NEW[""]
    }


def with_new(header: dict[str, Any]) -> dict[str, Any]:
    """A header of version 1 with None for what it does not have."""
    return {
        **dict.fromkeys(_NEW[""]),
        **{
            name: {**dict.fromkeys(_NEW.get(name, ())), **value} if isinstance(value, dict) else value
            for name, value in header.items()
        },
    }
