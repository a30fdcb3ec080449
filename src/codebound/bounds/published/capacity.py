"""Products of norms over the squared margin, in logarithms: what norm-based bounds are made of."""

import math
from collections.abc import Sequence

from codebound.bounds.published.facts import NetworkFacts
from codebound.bounds.published.value import log_sum, safe_log


def spectral_products(facts: NetworkFacts, norms: Sequence[float]) -> list[float]:
    """Logs of every layer's norm times the spectral norms of all others: ``prod ||A|| N_l / ||A_l||``.

    Nothing is divided, so a layer of zeros gives a product of zero and no error.
    """
    logs = [safe_log(layer.spectral) for layer in facts.layers]
    return [safe_log(norm) + math.fsum(logs[:place] + logs[place + 1 :]) for place, norm in enumerate(norms)]


def spectral_capacity(facts: NetworkFacts, norms: Sequence[float]) -> float:
    """Log of ``prod ||A||_2^2 sum_l N_l^2 / ||A_l||_2^2`` for one norm N_l per layer."""
    return log_sum([2.0 * product for product in spectral_products(facts, norms)])


def over_squared_margin(log_value: float, facts: NetworkFacts) -> float:
    """``log(value / gamma^2)``; infinite without a positive margin, whatever the value."""
    return log_value - 2.0 * math.log(facts.margin) if facts.margin > 0.0 else math.inf
