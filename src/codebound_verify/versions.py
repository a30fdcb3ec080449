"""What differs between the versions of the format (docs/format.md, section 9); the rest is common to all."""

from __future__ import annotations

from dataclasses import dataclass

PAGE_SHA256 = "9d765c4d6c90aeb5573026259ad4c9aaa44b1a1d638b62521748891ef1fc28ac"
FROZEN = "2026-11-16"


@dataclass(frozen=True)
class Version:
    """One version of the file.

    The keys are those of the header itself, of its claim, its facts and ``made_by``. A file that
    ``names_page`` is believed only if it is the page that this program was written from: docs/format.md, of
    SHA-256 ``PAGE_SHA256``. One that ``names_graph`` has the hash of a factory's graph and of its sources,
    others a hash of its parts.
    """

    number: int
    header_keys: str
    claim_keys: str
    facts_keys: str
    maker_keys: str
    names_page: bool
    has_witness: bool
    names_graph: bool
    codes_setting: bool  # classes and scaling are in the message
    schemes: int  # those of messages are 1 .. schemes


FIRST = Version(
    1,
    header_keys="claim declarations facts helper ledger made_by",
    claim_keys="bound delta hoeffding kl statement subject vacuous",
    facts_keys="classes code_bits errors extra message_sha256 n sample_sha256",
    maker_keys="codebound date",
    names_page=False,
    has_witness=False,
    names_graph=False,
    codes_setting=False,
    schemes=2,
)
SECOND = Version(
    2,
    header_keys=FIRST.header_keys + " format",
    claim_keys=FIRST.claim_keys + " fault",
    facts_keys=FIRST.facts_keys + " commonest copies contradictions",
    maker_keys=FIRST.maker_keys + " commit",
    names_page=True,
    has_witness=True,
    names_graph=True,
    codes_setting=True,
    schemes=3,
)
VERSIONS = {version.number: version for version in (FIRST, SECOND)}
