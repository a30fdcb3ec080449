"""Versions of the file, their pages and their new fields."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from codebound.run.errors import FormatError

PAGE_SHA256 = "9d765c4d6c90aeb5573026259ad4c9aaa44b1a1d638b62521748891ef1fc28ac"
FROZEN = "2026-11-16"
PAGE_3_SHA256 = "77b895c927d3549eb9dbabfd9ea7bafc2861d76ae4c5279da8e671a6e0ff74ef"
FROZEN_3 = "2026-11-16"

_NEW: dict[int, dict[str, tuple[str, ...]]] = {
    2: {
        "": ("format",),
        "claim": ("fault",),
        "facts": ("commonest", "copies", "contradictions"),
        "made_by": ("commit",),
    },
    3: {"facts": ("tally",)},
}
"""Header fields that each version added, by object."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page that defines every bit of a file, and the day from which on it does not change."""

    sha256: str
    frozen: str

    @property
    def named(self) -> str:
        """The page in words."""
        if not self.frozen:
            return "a draft whose page may still change: keep no file of it"
        return f"its page of SHA-256 {self.sha256}, frozen on {self.frozen}"


PAGE = Page(PAGE_SHA256, FROZEN)
"""docs/format.md."""
PAGE_3 = Page(PAGE_3_SHA256, FROZEN_3)
"""docs/format-3.md; ``make freeze`` writes its hash here and into the second program."""
PAGES = {2: PAGE, 3: PAGE_3}
"""The pages that files are written by: that of version 3 only where version 2 cannot say it."""
VERSIONS = (1, *PAGES)
"""The versions that are read."""


def version_of(page: Page | None) -> int:
    """The version of a file by the page it names; only those of version 1 name none."""
    return next((number for number, each in PAGES.items() if each == page), 1)


@cache
def code_commit() -> str:
    """The commit of this code where it runs from a clean repository, else nothing."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        return "" if git("status", "-s", "src") else git("rev-parse", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return ""


def drop_new(header: dict[str, Any], version: int, where: str = "") -> dict[str, Any]:
    """A header, or the object in it at ``where``, as a version has it."""
    return {
        name: drop_new(value, version, f"{where}.{name}".lstrip(".")) if isinstance(value, dict) else value
        for name, value in header.items()
        if name not in _newer(version, where)
    }


def add_new(header: dict[str, Any], version: int, where: str = "") -> dict[str, Any]:
    """A header of a version, or the object in it at ``where``, with None for what it does not have."""
    if early := set(header) & set(_newer(version, where)):
        raise FormatError(f"files of version {version} have no {', '.join(sorted(early))}.")
    inner = {
        name: add_new(value, version, f"{where}.{name}".lstrip(".")) if isinstance(value, dict) else value
        for name, value in header.items()
    }
    return {**dict.fromkeys(_newer(version, where)), **inner}


def _newer(version: int, where: str) -> tuple[str, ...]:
    """Fields of an object that later versions added."""
    return tuple(name for since, new in _NEW.items() if since > version for name in new.get(where, ()))
