"""A bound as a sum of limits, to compute it at another failure probability; pages have the same formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from codebound.bounds.numerics import binomial_inverse_upper, kl_inverse_upper, picked_inverse_upper

if TYPE_CHECKING:
    from collections.abc import Sequence

Law = Literal["binomial", "picked", "kl"]


@dataclass(frozen=True, slots=True)
class Term:
    """A limit that a bound is a sum of.

    Attributes:
        law: ``binomial`` as in C-2, ``picked`` as in C-15, or ``kl`` as in C-17 for costs.
        count: What was counted; of costs, their sum divided by the largest.
        n: Out of how many.
        bits: Length of the message.
        share: Of the failure probability.
        outside: A limit on how often it does not apply; it is divided by the rest.
        weight: What the limit is multiplied by.
    """

    law: Law
    count: float
    n: int
    bits: float = 0.0
    share: float = 1.0
    outside: Term | None = None
    weight: float = 1.0

    def limit(self, delta: float) -> float:
        """The limit at a failure probability of the whole bound."""
        log_delta = math.log(delta * self.share) - self.bits * math.log(2.0)
        if self.law == "kl":
            found = kl_inverse_upper(self.count / self.n, -log_delta / self.n)
        else:
            inverse = binomial_inverse_upper if self.law == "binomial" else picked_inverse_upper
            found = inverse(int(self.count), self.n, log_delta)
        found *= self.weight
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
