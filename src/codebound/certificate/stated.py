"""What a certificate states: its words, its counts, and what its bound is the sum of.

Whoever has a certificate asks its ``kind``, a class of ``certificate/claims.py``; nobody compares statements.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from codebound.faults import WRONG

if TYPE_CHECKING:
    from codebound.bounds.terms import Law, Term
    from codebound.certificate.file import Certificate, CertificateFacts
    from codebound.faults import Fault


@dataclass(frozen=True, slots=True)
class Counted:
    """A count that a claim rests on, and what it is.

    Attributes:
        key: Its name in JSON.
        name: Its name in tables.
        count: How many.
        of: Out of how many.
        meaning: A sentence about what was counted, and on what.
    """

    key: str
    name: str
    count: int
    of: int
    meaning: str

    def __str__(self) -> str:
        return f"{self.name}: {self.count} of {self.of}"


class AbstractStatement(ABC):
    """What a certificate states, in which words, and what its network is.

    Attributes:
        statement: Its ID in docs/references.md and in the file.
        fault: What is counted.
        drawn: What its failure probability is over.
        faults_since: The version of the format that first states it of another fault than plain errors.
        trains_base: Whether a base is trained on a part of the sample.
        unseen: What a base must not have seen.
        is_learned: Whether g is learned from examples of the sample: then no message has it, it stands in a
            file of its own, and takes inputs as they are stored.
        has_looser_forms: Whether forms of the bound that are easier to compute stand beside it.
        route: What it is called among the routes to a bound; empty for what is compared with nothing.
    """

    statement: ClassVar[str]
    fault: Fault = WRONG
    drawn: ClassVar[str] = "sample"
    faults_since: ClassVar[int] = 3
    trains_base: ClassVar[bool] = False
    unseen: ClassVar[str] = "the sample"
    is_learned: ClassVar[bool] = False
    has_looser_forms: ClassVar[bool] = True
    route: ClassVar[str] = ""

    @staticmethod
    @abstractmethod
    def counts(facts: CertificateFacts) -> tuple[Counted, ...]:
        """The counts of a certificate with this claim, each with what it is."""

    @classmethod
    @abstractmethod
    def terms(cls, certificate: Certificate) -> list[Term]:
        """What the bound of a certificate is the sum of."""

    @staticmethod
    def law(certificate: Certificate) -> Law:
        """What a count of examples is limited by."""
        return "binomial"

    @staticmethod
    def is_held_out(certificate: Certificate) -> bool:
        """Whether nothing was learned from the examples that are counted."""
        return False

    @staticmethod
    def about(facts: CertificateFacts) -> str:
        """The data on which the network errs that little."""
        return "new data"

    @staticmethod
    def event(certificate: Certificate) -> str:
        """What names the event on which it holds: statements with the same event fail together."""
        return f"file {hashlib.sha256(certificate.to_bytes()).hexdigest()}"


def fault_counts(fault: Fault, facts: CertificateFacts, plain: tuple[Counted, ...]) -> tuple[Counted, ...]:
    """The counts of a certificate about a fault, from those that a claim about plain errors has."""
    tally, of = facts.tally or {}, next((each.of for each in plain if each.key in _ERRORS), facts.n)
    meaning = (
        f"examples on which the decoded network makes the fault {fault}, among those that it can happen on; "
        "whatever is not clear counts"
    )
    found = [Counted("faults", f"faults of g ({fault})", facts.errors, tally.get("kept", of), meaning)]
    if fault.kind == "cost":
        most, meaning = of * fault.largest_cost(facts.classes), "of all examples; the worst counts"
        found = [Counted("cost", f"costs of g ({fault})", tally["cost"], most, meaning)]
        plain = tuple(
            replace(each, meaning=each.meaning.replace("as an error", "as the largest cost"))
            for each in plain
        )
    if "abstained" in tally:
        meaning = "examples that g abstains from, or may abstain from"
        found.append(Counted("abstained", "abstained", tally["abstained"], of, meaning))
    return (*(each for each in plain if each.key not in _ERRORS), *found)


_ERRORS = ("train_errors", "errors_not_picked", "errors_after_split", "margins_within_theta")
"""Counts that are those of a fault where one is counted."""
