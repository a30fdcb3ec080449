"""Training straight to few bits, from nothing or from a base: shared parts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

from codebound.bounds.numerics import kl_inverse_upper
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.methods.search import Search, UnsuitedError
from codebound_networks.methods.pruned import SMALLEST_SHARE
from codebound_networks.train.subspace import Features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from codebound_networks.chains.chain import Chain
    from codebound_networks.chains.message import Message
    from codebound_networks.train.subspace import Learner

POLISHED = 3
"""Candidates that are polished a little, before the best of them is polished at length."""
_BY_BOUND = attrgetter("bound")  # how candidates are compared
_LEAST_LOG_ODDS = 0.1  # between error and bound: beyond it nothing is worth a search

P = TypeVar("P")
"""By which plan integers are trained."""


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
class Candidate(Generic[P]):
    """Integers that were trained, and their facts as the features show them: for choosing, no certificate."""

    plan: P
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


class AbstractTrainer(ABC, Generic[P]):
    """Trains one network by many plans, on features that are computed once.

    Attributes:
        search: What it is for.
        chain: The architecture.
        learner: What is to be learned.
        features: What the fixed part makes of the sample.
        found: What was trained by each plan.
    """

    def __init__(self, search: Search, chain: Chain, learner: Learner) -> None:
        self.search, self.chain = search, chain
        self.features = Features.of(learner, search.sample, search.progress)
        self.found: dict[P, Candidate[P]] = {}

    @abstractmethod
    def message(self, plan: P, integers: NDArray[np.int32]) -> Message:
        """The message of integers that were trained by a plan."""

    @abstractmethod
    def polish(self, candidate: Candidate[P], counts: int) -> NDArray[np.int32]:
        """Integers near those of a candidate that count fewer errors and bits together."""

    def judge(self, plan: P, integers: NDArray[np.int32]) -> Candidate[P]:
        """Counts errors on the features; the search holds the message, in case that it is interrupted."""
        message, task = self.message(plan, integers), self.search.task
        bits, _ = message.encode()
        tensors = {
            name: torch.from_numpy(value).to(self.features.labels.device)
            for name, value in message.weights(task.base_tensors).items()
        }
        facts = OccamFacts(
            errors=self.features.errors(tensors),
            n=len(self.features.labels),
            code_bits=bits.length,
            delta=task.delta,
        )
        candidate = Candidate(plan, integers, message, facts)
        self.search.hold(message, candidate.bound)
        return candidate

    def require_promise(self, candidate: Candidate[P]) -> None:
        """Ends the method where what its first candidate may become is no better than the best."""
        facts = candidate.facts
        self.search.require_promise(errors=facts.errors, code_bits=facts.code_bits / SMALLEST_SHARE)

    def polish_candidate(self, candidate: Candidate[P], counts: int) -> Candidate[P]:
        """The candidate after a local search, or as it is."""
        return min(candidate, self.judge(candidate.plan, self.polish(candidate, counts)), key=_BY_BOUND)


def best_polished(
    candidates: Iterable[Candidate[P]],
    polish: Callable[[Candidate[P], int], Candidate[P]],
    *,
    few: int,
    many: int,
) -> Candidate[P]:
    """The best candidates, polished with ``few`` counts each, and the best of those with ``many``."""
    best = sorted(candidates, key=_BY_BOUND)[:POLISHED]
    return polish(min((polish(each, few) for each in best), key=_BY_BOUND), many)


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
