"""Several statements on the same samples: with what probability all of them hold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from codebound.bounds.numerics import float_above
from codebound.certificate.file import Certificate
from codebound.holdout.ledger import read_ledger
from codebound.run.errors import UsageError
from codebound.run.references import implements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileStatement:
    """The statement that a file makes. Those that hold on the same event fail together."""

    name: str
    statement: str
    sample_sha256: str
    delta: float
    event: str


def read_statement(path: Path) -> FileStatement:
    """The statement that a certificate or a ledger of looks makes; checks nothing about a certificate."""
    if path.suffix == ".jsonl":
        ledger = read_ledger(path)
        data = ledger.seal["data"]["sha256"]
        return FileStatement(
            str(path), "C-16", data, ledger.seal["delta"], f"looks {ledger.content.split()[0]!r}"
        )
    certificate = Certificate.load(path)
    claim, facts = certificate.claim, certificate.facts
    event = certificate.kind.event(certificate)
    return FileStatement(str(path), claim.statement, facts.sample_sha256, claim.delta, event)


@implements("C-18", kind="certificate")
def joint_delta(made: Sequence[FileStatement]) -> float:
    """Failure probability of all statements together, rounded up.

    Statement.  The probabilities of different events add up. Certificates by C-2 on one sample with one code
                (the same page, base, factory and scaling) hold on one and the same event, that of the
                largest delta: C-2 is about all messages at once, so as many as one likes cost nothing more.
    Checked by. unit, validity (a table of certificates from one sample; teeth: different codes not added).

    Example:
        >>> both = [FileStatement(name, "C-2", "s", 0.05, "one code") for name in "ab"]
        >>> joint_delta(both), joint_delta([*both, FileStatement("c", "C-10", "s", 0.05, "another")])
        (0.05, 0.1)
    """
    if not made:
        raise UsageError("give at least one statement.")
    largest: dict[str, float] = {}
    for each in made:
        largest[each.event] = max(each.delta, largest.get(each.event, 0.0))
    total = sum(map(Fraction, largest.values()), Fraction(0))
    return min(1.0, float_above(total))
