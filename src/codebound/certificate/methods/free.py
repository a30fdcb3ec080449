"""What the methods share that train a network of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from codebound.bounds.certified import occam_binomial
from codebound.certificate.build import OnDomain
from codebound.certificate.search import Search, UnsuitedError
from codebound.facts import OccamFacts

if TYPE_CHECKING:
    from codebound.certificate.message import Message
    from codebound.train.subspace import Features, Learner


def require_free(search: Search, name: str) -> None:
    """Refuses settings in which g must stay near f or a base, or in which nothing may be trained."""
    if search.effort == "quick":
        raise UnsuitedError(f"{name} trains, and the effort is quick. Choose --effort standard.")
    if search.setting.base is not None or isinstance(search.setting.statement, OnDomain):
        raise UnsuitedError(f"{name} trains a network of its own, which is near no base and not near f.")
    if not search.is_asked and search.effort != "max":
        raise UnsuitedError(f"{name} trains for minutes. Choose --method {name} or --effort max.")


def estimate(message: Message, learner: Learner, features: Features, search: Search) -> float:
    """The bound as the features show it, without evaluating the fixed part again: for choosing, no bound."""
    bits, _ = message.encode()
    device = features.labels.device
    tensors = {name: torch.from_numpy(value).to(device) for name, value in message.weights().items()}
    facts = OccamFacts(
        errors=features.errors(learner, tensors),
        n=len(features.labels),
        code_bits=bits.length,
        delta=search.setting.delta,
    )
    return occam_binomial(facts).value
