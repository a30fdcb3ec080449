"""Candidates of training straight to few bits: what they are worth, and which of them are polished."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from codebound.bounds.numerics import kl_inverse_upper
from codebound.bounds.occam import occam_binomial
from codebound.methods.search import Search, UnsuitedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from codebound.bounds.risk import OccamFacts
    from codebound_networks.chains.message import Message
    from codebound_networks.train.subspace import SubspaceSettings

POLISHED = 3
"""Candidates that are polished a little, before the best of them is polished at length."""
BY_BOUND = attrgetter("bound")
"""The order of candidates."""
_LEAST_LOG_ODDS = 0.1  # between error and bound: beyond it nothing is worth a search


def require_training(search: Search, *, starts_from_f: bool = False) -> None:
    """Refuses where nothing may be trained, g must stay near f, or there is no f to start from."""
    if starts_from_f and search.task.original is None:
        raise UnsuitedError("there is no network to start from. Give a model.")
    if search.effort == "quick":
        more = "Choose the effort standard." if search.until == math.inf else "Give more minutes."
        raise UnsuitedError(f"training takes longer than a quick search. {more}")
    if search.task.stays_near_f:
        raise UnsuitedError("what is trained does not stay near f, which this claim is about.")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Integers that were trained, and their facts as the features show them: for choosing, no certificate."""

    plan: SubspaceSettings
    integers: NDArray[np.int32]
    message: Message
    facts: OccamFacts

    @property
    def bound(self) -> float:
        """Bound that it would be certified for."""
        return occam_binomial(self.facts).value

    @property
    def price(self) -> float:
        """Errors that one bit is worth here."""
        return errors_per_bit(self.facts)


def best_polished(
    candidates: Iterable[Candidate], polish: Callable[[Candidate, int], Candidate], *, few: int, many: int
) -> Candidate:
    """The best candidates, polished with ``few`` counts each, and the best of those with ``many``."""
    best = sorted(candidates, key=BY_BOUND)[:POLISHED]
    return polish(min((polish(each, few) for each in best), key=BY_BOUND), many)


def errors_per_bit(facts: OccamFacts) -> float:
    """The number of errors that moves the bound as far as one bit does.

    Along kl(error, bound) = (bits ln 2 + ln(1/delta)) / n an error is worth the difference in log-odds of
    bound and error, and a bit ln 2.

    >>> round(errors_per_bit(OccamFacts(errors=900, n=60_000, code_bits=2000, delta=0.05)), 2)
    0.5
    """
    chance = (facts.errors + 0.5) / (facts.n + 1)  # neither 0 nor 1
    nats = (facts.code_bits * math.log(2.0) - math.log(facts.delta)) / facts.n
    risk = min(kl_inverse_upper(chance, nats), 1.0 - 0.5 / (facts.n + 1))
    gap = math.log(risk / (1.0 - risk)) - math.log(chance / (1.0 - chance))
    return math.log(2.0) / max(gap, _LEAST_LOG_ODDS)
