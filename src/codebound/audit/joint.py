"""Several statements on the same samples: with what probability all of them hold."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
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
    """The statement that a certificate or a ledger makes; checks nothing about a certificate."""
    if path.suffix == ".jsonl":
        ledger = read_ledger(path)
        if ledger.seal["kind"] != "seal":
            raise UsageError(f"{path} is a watch, whose alarm has a level of its own.")
        data = ledger.seal["label"]["sha256"]
        return FileStatement(str(path), "C-16", data, ledger.seal["delta"], f"ledger {ledger.origin}")
    certificate = Certificate.load(path)
    return FileStatement(
        str(path),
        certificate.statement,
        certificate.sample.sha256,
        certificate.claim.delta,
        event_of(certificate),
    )


def event_of(certificate: Certificate) -> str:
    """Event on which a certificate holds: that of all messages about a sample with what is known and claimed.

    Bounds of other losses, of other parts or with other things known are other events.
    """
    claim, known = certificate.claim, certificate.known
    if claim.law == "sum" or certificate.original is not None:
        return f"file {hashlib.sha256(certificate.to_bytes()).hexdigest()}"
    of_sample = asdict(certificate.sample) | {"classes": None}
    of_known = asdict(known) | {"rows": None}
    content = repr((of_sample, of_known, claim.subject, asdict(certificate.format)))
    return f"code {hashlib.sha256(content.encode()).hexdigest()}"


@implements("C-18", kind="certificate")
def joint_delta(made: Sequence[FileStatement]) -> float:
    """Failure probability of all statements together, rounded up.

    Statement.  The probabilities of different events add up. Certificates by C-2 on one sample with one code
                (the same page, order, tables, features and base) hold on one and the same event, that of the
                largest delta: the code is about all messages at once, so as many as one likes cost nothing
                more.
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
