"""The papers' bounds as published: expressions on measured numbers. None of them is a guarantee."""

from codebound.bounds.published.facts import LayerFacts, NetworkFacts
from codebound.bounds.published.value import Constant, Hypothesis, PublishedValue, Unit

__all__ = ["Constant", "Hypothesis", "LayerFacts", "NetworkFacts", "PublishedValue", "Unit"]
