"""What differs between the versions of the format (docs/format.md, section 9); the rest is common to all."""

from __future__ import annotations

from dataclasses import dataclass

PAGE_SHA256 = "cd227b0c07e271b677a673138b75c830a1c44b855ebd2a6655d4ca5c6ea0eab0"
FROZEN = "2026-11-16"


@dataclass(frozen=True)
class Version:
    """One version of the file.

    ``header_keys`` are those of the header itself. A file that ``names_page`` is believed only if it
    is the page that this program was written from: docs/format.md, of SHA-256 ``PAGE_SHA256``.
    """

    number: int
    header_keys: str
    names_page: bool
    has_witness: bool


_KEYS = "claim declarations facts helper ledger made_by"

VERSIONS = {
    1: Version(1, _KEYS, names_page=False, has_witness=False),
    2: Version(2, _KEYS + " format", names_page=True, has_witness=True),
}
