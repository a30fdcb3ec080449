"""Logarithms of numbers that are too large, or zero: products over many layers stay finite there."""

import math
from collections.abc import Sequence

from codebound.run.errors import UsageError


def safe_exp(log_value: float) -> float:
    """``exp``, or infinity where a double overflows."""
    try:
        return math.exp(log_value)
    except OverflowError:
        return math.inf


def safe_log(value: float) -> float:
    """Natural logarithm of a number >= 0, -inf at zero."""
    if value < 0.0 or math.isnan(value):
        raise UsageError(f"a logarithm needs a number >= 0. Got {value}.")
    return math.log(value) if value > 0.0 else -math.inf


def log_sum(logs: Sequence[float]) -> float:
    """``log(sum(exp(logs)))`` without overflow; -inf for nothing.

    >>> round(log_sum([1000.0, 1000.0]), 6)
    1000.693147
    """
    top = max(logs, default=-math.inf)
    if not math.isfinite(top):
        return top
    return top + math.log(math.fsum(math.exp(each - top) for each in logs))


def risk_of(margin_loss: float, log_excess: float) -> float:
    """``log(margin_loss + exp(log_excess))``: the right-hand side of a published bound."""
    return log_sum([safe_log(margin_loss), log_excess])
