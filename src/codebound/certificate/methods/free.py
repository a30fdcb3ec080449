"""What the methods share that train straight to few bits, by themselves or from a base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from codebound.bounds.certified import occam_binomial
from codebound.certificate.build import AfterSplit, OnDomain
from codebound.certificate.search import Search, UnsuitedError
from codebound.facts import OccamFacts

if TYPE_CHECKING:
    from codebound.certificate.message import Message
    from codebound.train.subspace import Features, Learner


def require_time(search: Search, name: str) -> None:
    """Refuses settings in which nothing may be trained, or g must stay near f, or nobody expects to wait.

    With a base that was given, such a training is what fine-tunes it.
    """
    setting = search.setting
    if search.effort == "quick":
        raise UnsuitedError(f"{name} trains, and the effort is quick. Choose --effort standard.")
    if isinstance(setting.statement, OnDomain):
        raise UnsuitedError(f"{name} trains a network that does not stay near f.")
    is_expected = search.is_asked or search.effort == "max"
    if not is_expected and (setting.base is None or isinstance(setting.statement, AfterSplit)):
        raise UnsuitedError(f"{name} trains for minutes. Choose --method {name} or --effort max.")


def estimate(message: Message, learner: Learner, features: Features, search: Search) -> float:
    """The bound as the features show it, without evaluating the fixed part again: for choosing, no bound."""
    bits, _ = message.encode()
    device, weights = features.labels.device, message.weights(search.setting.base_tensors)
    tensors = {name: torch.from_numpy(value).to(device) for name, value in weights.items()}
    facts = OccamFacts(
        errors=features.errors(learner, tensors),
        n=len(features.labels),
        code_bits=bits.length,
        delta=search.setting.delta,
    )
    return occam_binomial(facts).value
