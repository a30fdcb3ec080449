"""Limits of a certificate by two laws, and the bound that follows (docs/format.md, 6.4 to 6.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from codebound.bounds.numerics import binomial_inverse_upper, float_above, picked_inverse_upper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound.certificate.file import Certificate


@dataclass(frozen=True, slots=True)
class Term:
    """One limit that a bound is made of.

    Attributes:
        law: ``binomial`` as in C-2, or ``picked`` as in C-15.
        count: Errors, and picks under the picked law.
        n: Out of how many.
        bits: Length of the message.
        share: Of the failure probability.
    """

    law: Literal["binomial", "picked"]
    count: int
    n: int
    bits: float = 0.0
    share: float = 1.0

    def limit(self, delta: float) -> float:
        """The limit at a failure probability of the whole bound; 1 where nothing was counted."""
        if self.n == 0:
            return 1.0
        log_delta = math.log(delta) + math.log(self.share) - self.bits * math.log(2.0)
        inverse = binomial_inverse_upper if self.law == "binomial" else picked_inverse_upper
        return min(1.0, inverse(self.count, self.n, log_delta))


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits of a claim, and how its bound follows from them.

    Example:
        >>> terms = Terms((Term("picked", 800, 60_000, bits=30),))
        >>> round(terms.bound(terms.limits(0.05)), 5)
        0.01703
    """

    each: tuple[Term, ...]
    joined: Literal["first", "largest", "sum"] = "first"

    def limits(self, delta: float) -> tuple[float, ...]:
        """All limits; together they hold with probability 1 - delta."""
        return tuple(term.limit(delta) for term in self.each)

    def bound(self, limits: Sequence[float]) -> float:
        """The bound that follows, rounded up."""
        if self.joined == "first":
            return limits[0]
        if self.joined == "largest":
            return max(limits)
        return min(1.0, float_above(sum(map(Fraction, limits), Fraction(0))))


def share_of(on: str, parts: int) -> tuple[float, Literal["first", "largest"]]:
    """Share of delta of each limit, for the rows that count, and how they are joined."""
    if on.startswith("answered"):
        return 0.5, "first"
    return (1.0 / parts, "largest") if on.startswith("each ") else (1.0, "first")


def terms_of(certificate: Certificate) -> Terms:
    """The terms behind a certificate."""
    claim, bits = certificate.claim, certificate.message.bits
    if claim.law == "sum":
        each = tuple(Term("binomial", limit.errors, limit.n, bits, 0.5) for limit in claim.limits)
        return Terms(each, "sum")
    share, joined = share_of(claim.on, len(claim.limits))
    return Terms(
        tuple(
            Term(claim.law, limit.errors + (limit.picks or 0), limit.n, bits, share) for limit in claim.limits
        ),
        joined,
    )


def guess_rate(classes: int, commonest: Fraction | None) -> Fraction:
    """Error rate of guessing, for the loss ``wrong``: the bound of a claim says nothing from here on.

    Args:
        classes: Number of classes.
        commonest: Share of the commonest label among the counted rows, where all of them count.
    """
    at_random = 1 - Fraction(1, classes)
    return at_random if commonest is None else min(at_random, 1 - commonest)
