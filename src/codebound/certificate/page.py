"""The page that defines every bit of a file, and the commit of the code that wrote it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

VERSION = 4
"""Version byte of the files that are written and read."""
PAGE_SHA256 = "b45e2a14cf3b571aeaa1299bb8f4e7927dc3a3ee2c68ffecc02185c686b504f3"
FROZEN = "2026-11-19"


@dataclass(frozen=True, slots=True)
class Page:
    """The page of the format, and the day from which on it does not change."""

    frozen: str
    sha256: str

    @property
    def is_draft(self) -> bool:
        """Return True if the page may still change."""
        return self.frozen == "0001-01-01"

    @property
    def named(self) -> str:
        """The page in words."""
        if self.is_draft:
            return "a draft whose page may still change: keep no file of it"
        return f"its page of SHA-256 {self.sha256}, frozen on {self.frozen}"


PAGE = Page(FROZEN, PAGE_SHA256)
"""docs/format.md; ``make freeze`` writes its hash here and into the second program."""


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
