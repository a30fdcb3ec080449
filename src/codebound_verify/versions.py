"""Versions of the format and their differences (docs/format.md, section 9, and docs/format-3.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

PAGE_SHA256 = "9d765c4d6c90aeb5573026259ad4c9aaa44b1a1d638b62521748891ef1fc28ac"
FROZEN = "2026-11-16"
PAGE_3_SHA256 = "77b895c927d3549eb9dbabfd9ea7bafc2861d76ae4c5279da8e671a6e0ff74ef"
FROZEN_3 = "2026-11-16"


@dataclass(frozen=True)
class Page:
    """Page that defines a version: its hash, and the day from which on it does not change."""

    sha256: str
    frozen: str


@dataclass(frozen=True)
class Version:
    """One version of the file.

    The keys are those of the header itself, of its claim, its facts and ``made_by``. A file names its
    ``page`` where there is one, and is believed only if this program was written from that page.
    """

    number: int
    header_keys: str
    claim_keys: str
    facts_keys: str
    maker_keys: str
    page: Page | None

    @property
    def is_second(self) -> bool:
        """Return True from version 2 on: setting, losses and rules in messages, and a witness behind them."""
        return self.number >= 2

    @property
    def is_third(self) -> bool:
        """Return True from version 3 on: short messages, layers of rules, tallies and costs above a limit."""
        return self.number >= 3


FIRST = Version(
    1,
    header_keys="claim declarations facts helper ledger made_by",
    claim_keys="bound delta hoeffding kl statement subject vacuous",
    facts_keys="classes code_bits errors extra message_sha256 n sample_sha256",
    maker_keys="codebound date",
    page=None,
)
SECOND = Version(
    2,
    header_keys=FIRST.header_keys + " format",
    claim_keys=FIRST.claim_keys + " fault",
    facts_keys=FIRST.facts_keys + " commonest copies contradictions",
    maker_keys=FIRST.maker_keys + " commit",
    page=Page(PAGE_SHA256, FROZEN),
)
THIRD = replace(SECOND, number=3, page=Page(PAGE_3_SHA256, FROZEN_3), facts_keys=SECOND.facts_keys + " tally")
VERSIONS = {version.number: version for version in (FIRST, SECOND, THIRD)}
