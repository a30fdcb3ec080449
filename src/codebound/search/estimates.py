"""What is trained straight to few bits: judged on features that were computed once, and polished."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch

from codebound.bounds.occam import occam_binomial
from codebound.facts import OccamFacts
from codebound.numerics import kl_inverse_upper
from codebound.search.search import Search, UnsuitedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codebound.certificate.task import Task
    from codebound.chains.message import Message
    from codebound.train.subspace import Features, Learner

POLISHED = 3
"""Candidates that are polished a little, before the best of them is polished at length."""
_LEAST_LOG_ODDS = 0.1  # between error and bound: beyond it nothing is worth a search


def require_time(search: Search, name: str) -> None:
    """Refuses settings in which nothing may be trained, or g must stay near f, or nobody expects to wait.

    With a base that was given, such a training is what fine-tunes it.
    """
    task = search.task
    if search.effort == "quick":
        raise UnsuitedError(f"{name} trains, and the effort is quick. Choose the effort standard.")
    if task.claim.stays_near_f:
        raise UnsuitedError(f"{name} trains a network that does not stay near f.")
    is_expected = search.is_asked or search.effort == "max"
    if not is_expected and (task.base is None or task.claim.trains_base):
        raise UnsuitedError(f"{name} trains for minutes. Choose the method {name} or the effort max.")


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A message and its facts as the features show them: for choosing, no certificate."""

    message: Message
    facts: OccamFacts

    @property
    def bound(self) -> float:
        """What it would be certified for."""
        return occam_binomial(self.facts).value

    @property
    def price(self) -> float:
        """Errors that one bit is worth here."""
        return errors_per_bit(self.facts)


def estimate_on(features: Features, learner: Learner, message: Message, task: Task) -> Estimate:
    """Counts errors on the features, without evaluating the fixed part again."""
    bits, _ = message.encode()
    device, weights = features.labels.device, message.weights(task.base_tensors)
    tensors = {name: torch.from_numpy(value).to(device) for name, value in weights.items()}
    facts = OccamFacts(
        errors=features.errors(learner, tensors),
        n=len(features.labels),
        code_bits=bits.length,
        delta=task.delta,
    )
    return Estimate(message, facts)


class Candidate(Protocol):
    """What was trained."""

    @property
    def bound(self) -> float:
        """What it would be certified for."""


C = TypeVar("C", bound=Candidate)


def best_polished(candidates: Iterable[C], polish: Callable[[C, int], C], *, few: int, many: int) -> C:
    """The best candidate after local search.

    Args:
        candidates: What was trained; the best are polished a little, and the best of those at length.
        polish: A candidate that is as good or better, from a number of counts.
        few: Counts for a little.
        many: Counts for at length.
    """
    best = sorted(candidates, key=by_bound)[:POLISHED]
    return polish(min((polish(each, few) for each in best), key=by_bound), many)


def by_bound(candidate: Candidate) -> float:
    """The key that candidates are compared by."""
    return candidate.bound


def errors_per_bit(facts: OccamFacts) -> float:
    """The number of errors that moves the bound as far as one bit does.

    Along kl(error, bound) = (bits ln 2 + ln(1/delta)) / n an error is worth the difference in log-odds of
    bound and error, and a bit ln 2.

    Example:
        >>> round(errors_per_bit(OccamFacts(errors=900, n=60_000, code_bits=2000, delta=0.05)), 2)
        0.5
    """
    chance = (facts.errors + 0.5) / (facts.n + 1)  # neither 0 nor 1
    nats = (facts.code_bits * math.log(2.0) - math.log(facts.delta)) / facts.n
    risk = min(kl_inverse_upper(chance, nats), 1.0 - 0.5 / (facts.n + 1))
    gap = math.log(risk / (1.0 - risk)) - math.log(chance / (1.0 - chance))
    return math.log(2.0) / max(gap, _LEAST_LOG_ODDS)
