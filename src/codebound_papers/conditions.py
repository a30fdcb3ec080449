"""Conditions that many published theorems share, and whether they hold on a network."""

from codebound_papers.facts import NetworkFacts
from codebound_papers.value import Hypothesis

POSITIVE_MARGIN = "f separates the sample with a positive margin"


def separates(facts: NetworkFacts) -> Hypothesis:
    """The margin at which an expression is evaluated is positive."""
    return Hypothesis(POSITIVE_MARGIN, facts.margin > 0.0, f"margin {facts.margin:.4g}")


def has_no_biases(facts: NetworkFacts) -> Hypothesis:
    """All parameters are entries of the layers' matrices, as the theory assumes."""
    others = facts.parameters - sum(layer.weights for layer in facts.layers)
    found = f"{others:,} parameters besides the layers' matrices"
    return Hypothesis("the network has no biases", others == 0, found)


def is_fully_connected(facts: NetworkFacts) -> Hypothesis:
    """The matrices are the linear maps themselves; of a convolution they are only its filters."""
    convolutions = [layer for layer in facts.layers if layer.patch is not None]
    found = ""
    if convolutions:
        known = (each for each in convolutions if each.operator_norm is not None and each.spectral > 0.0)
        ratio = max(((each.operator_norm or 0.0) / each.spectral for each in known), default=1.0)
        names = ", ".join(each.name for each in convolutions)
        found = f"taken as its filter matrix: {names}; the map on images has up to {ratio:.3g} times its norm"
    return Hypothesis("every layer is fully connected", not convolutions, found)
