"""What differs between the versions of the format (docs/format.md, section 9); the rest is common to all."""

from __future__ import annotations

from dataclasses import dataclass

PAGE_SHA256 = "3e5c431a8f8b546f1db1695ecc75f417ec61a6402c7daa01706b7df2574a2f31"
FROZEN = "2026-11-16"


@dataclass(frozen=True)
class Version:
    """One version of the file.

    ``header_keys`` are those of the header itself. A file that ``names_page`` is believed only if it
    is the page that this program was written from: docs/format.md, of SHA-256 ``PAGE_SHA256``. One that
    ``names_graph`` has the hash of a factory's graph and of its sources, others a hash of its parts.
    """

    number: int
    header_keys: str
    names_page: bool
    has_witness: bool
    names_graph: bool


_KEYS = "claim declarations facts helper ledger made_by"

VERSIONS = {
    1: Version(1, _KEYS, names_page=False, has_witness=False, names_graph=False),
    2: Version(2, _KEYS + " format", names_page=True, has_witness=True, names_graph=True),
}
