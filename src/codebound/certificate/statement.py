"""Statements of certificates, with their counts and terms.

Whoever has a certificate asks its ``kind``, a class of ``certificate/claims.py``; nobody compares statements.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from codebound.bounds.numerics import binomial_inverse_upper, picked_inverse_upper
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound.certificate.file import Certificate, CertificateFacts
    from codebound.sample.losses import Loss


@dataclass(frozen=True, slots=True)
class Term:
    """A limit that a bound is a sum of.

    Attributes:
        law: ``binomial`` as in C-2, or ``picked`` as in C-15.
        count: What was counted.
        n: Out of how many.
        bits: Length of the message.
        share: Of the failure probability.
        outside: A limit on how often it does not apply; it is divided by the rest.
    """

    law: Literal["binomial", "picked"]
    count: int
    n: int
    bits: float = 0.0
    share: float = 1.0
    outside: Term | None = None

    def limit(self, delta: float) -> float:
        """The limit at a failure probability of the whole bound."""
        log_delta = math.log(delta * self.share) - self.bits * math.log(2.0)
        inverse = binomial_inverse_upper if self.law == "binomial" else picked_inverse_upper
        found = inverse(self.count, self.n, log_delta)
        if self.outside is None:
            return found
        rest = 1.0 - self.outside.limit(delta)
        return found / rest if rest > 0.0 else 1.0


def bound_at(terms: Sequence[Term], delta: float) -> float:
    """The bound that is the sum of some terms.

    Example:
        >>> round(bound_at([Term("picked", 800, 60_000, bits=30)], 0.05), 5)
        0.01703
    """
    return min(1.0, sum(term.limit(delta) for term in terms))


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
    """Statement of a certificate, with its counts and its words.

    Attributes:
        statement: Its ID in docs/references.md and in the file.
        loss: What is counted.
        errors_key: The name in JSON of its count of errors, in whose place a loss has its own.
        has_margin: Whether examples that are right by a small margin are among them.
        drawn: What its failure probability is over.
        losses_since: The version of the format that first states it of another loss than plain errors.
        trains_base: Whether a base is trained on a part of the sample.
        unseen: What a base must not have seen.
        is_learned: Whether g is learned from examples of the sample: then no message has it, it stands in a
            file of its own, and takes inputs as they are stored.
        has_looser_forms: Whether forms of the bound that are easier to compute stand beside it.
        route: What it is called among the routes to a bound; empty for what is compared with nothing.
    """

    statement: ClassVar[str]
    loss: Loss = WRONG
    errors_key: ClassVar[str] = "train_errors"
    has_margin: ClassVar[bool] = False
    drawn: ClassVar[str] = "sample"
    losses_since: ClassVar[int] = 3
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
        """Terms whose sum is the bound of a certificate."""

    @staticmethod
    def is_held_out(certificate: Certificate) -> bool:
        """Return True if labels were set apart to learn from. The message pays for any use of the others."""
        return False

    @staticmethod
    def about(facts: CertificateFacts) -> str:
        """The data on which the network errs that little."""
        return "new data"

    @staticmethod
    def event(certificate: Certificate) -> str:
        """Key of the event on which it holds. Statements with the same event fail together."""
        return f"file {hashlib.sha256(certificate.to_bytes()).hexdigest()}"
