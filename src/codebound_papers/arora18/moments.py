"""Sums of p-wise independent subexponential terms (Arora et al. 2018, appendix C).

A variable is sigma-subexponential when ``E|X - EX|^k <= sigma^k k^k`` for every k. The lemmas hold; what
fails is that the filters of different locations satisfy their hypothesis (A-E17).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from codebound.errors import UsageError
from codebound.refs import implements

if TYPE_CHECKING:
    from collections.abc import Sequence


@implements("A-Def11", kind="measure")
def subexponential_sigma(moments: Sequence[float]) -> float:
    """The smallest sigma with ``E|X - EX|^k <= sigma^k k^k`` for the given k = 1, 2, ...: absolute moments.

    Example:
        >>> subexponential_sigma([0.5, 4.0])  # 0.5 / 1 and sqrt(4) / 2
        1.0
    """
    if not moments or min(moments) < 0.0:
        raise UsageError("absolute moments are numbers >= 0, at least one of them.")
    return max(math.pow(moment, 1.0 / k) / k for k, moment in enumerate(moments, start=1))


@implements("A-Lem15", "I-24", kind="algorithm")
def moment_bound(sigmas: Sequence[float], order: int) -> float:
    """Most that ``E(X - EX)^p`` can be for a sum X: ``(3 sigma)^p (2p)^p``, ``sigma^2 = sum sigma_i^2``.

    The terms are p-wise independent for ``order`` = p, even and at least 2 (A-E19).

    Example:
        >>> moment_bound([1.0], 2)
        144.0
    """
    _check_order(order)
    return float((3.0 * _total(sigmas) * 2.0 * order) ** order)


@implements("A-CorC.2", kind="algorithm")
def tail_bound(sigmas: Sequence[float], order: int, distance: float) -> float:
    """Probability that the sum is ``distance`` or more from its mean, at most: ``(6 sigma p / distance)^p``.

    For vectors too, with norms in place of absolute values; the hypothesis is then about
    ``E||X_i - EX_i||^k`` (A-E18).

    Example:
        >>> tail_bound([1.0], 2, 24.0)  # t = 2
        0.25
    """
    _check_order(order)
    if distance <= 0.0:
        raise UsageError(f"a distance is positive. Got {distance}.")
    return min(1.0, (6.0 * _total(sigmas) * order / distance) ** order)


@implements("A-Claim1", kind="numerics")
def mixed_moment_sum(sigmas: Sequence[float], order: int) -> float:
    """The sum of ``prod sigma_i^{a_i}`` over all a with ``a_i`` in 0, 2, 3, .. and ``sum a_i = order``.

    Statement.  It is at most ``(9 sum sigma_i^2)^{p/2}`` for an even order p.

    It is the coefficient of x^p in ``prod_i (1 + sigma_i^2 x^2 + sigma_i^3 x^3 + ..)``: one product of
    polynomials per term, instead of a sum over all a.

    Example:
        >>> mixed_moment_sum([1.0, 2.0], 4)  # 1 + 16 from one of them alone, 1 * 4 from both
        21.0
    """
    _check_order(order)
    coefficients = [1.0] + [0.0] * order
    for sigma in sigmas:
        factor = [1.0, 0.0, *(sigma**power for power in range(2, order + 1))]
        coefficients = [
            sum(coefficients[degree - power] * factor[power] for power in range(degree + 1))
            for degree in range(order + 1)
        ]
    return coefficients[order]


def _total(sigmas: Sequence[float]) -> float:
    if not sigmas or min(sigmas) < 0.0:
        raise UsageError("sigmas are numbers >= 0, at least one of them.")
    return math.hypot(*sigmas)


def _check_order(order: int) -> None:
    if order < 2 or order % 2:
        raise UsageError(f"the order of a moment is even and at least 2. Got {order}.")
