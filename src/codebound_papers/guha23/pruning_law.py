"""Statistics of randomised magnitude pruning (G-Alg1) on a matrix of independent Gaussian entries.

An entry a is pruned with probability exp(-a^2 / (d Psi)), d the strength and Psi the variance. Trained
weights are not Gaussian: these are predictions, and what is measured on a pruned network needs none of them.
"""

import math

from codebound.errors import UsageError
from codebound.refs import implements


@implements("G-chi", "G-E3", kind="numerics")
def kept_share(strength: float) -> float:
    r"""Probability that an off-diagonal Gaussian entry is kept: :math:`\chi = 1 - \sqrt{d/(d+2)}`.

    Differs.    G's Eq. (11) calls it the probability of being pruned; the proof uses it as the other one.

    Example:
        >>> round(kept_share(2.0), 12)
        0.292893218813
    """
    check_strength(strength)
    root = math.sqrt(strength + 2.0)
    return 2.0 / (root * (root + math.sqrt(strength)))  # the same without cancellation


@implements("G-chi:inverse", kind="numerics")
def strength_for(kept: float) -> float:
    """The strength at which a share ``kept`` of Gaussian entries is kept.

    Example:
        >>> round(strength_for(0.1), 10)
        8.5263157895
    """
    if not 0.0 < kept <= 1.0:
        raise UsageError(f"the share of entries to keep lies in (0, 1]. Got {kept}.")
    return 2.0 * (1.0 - kept) ** 2 / (kept * (2.0 - kept))


@implements("G-Lem4.1", kind="numerics")
def change_moments(strength: float, variance: float) -> tuple[float, float]:
    """Second and fourth moment of what pruning takes from an off-diagonal Gaussian entry; the first is 0.

    Example:
        >>> [round(moment, 6) for moment in change_moments(2.0, 1.0)]
        [0.353553, 0.53033]
    """
    check_strength(strength)
    ratio = strength / (strength + 2.0)
    return variance * ratio**1.5, 3.0 * variance**2 * ratio**2.5


@implements("G-E4", kind="numerics")
def expected_nonzeros(rows: int, columns: int, *, strength: float, keep_diagonal: bool = True) -> float:
    """Mean number of kept entries of a Gaussian matrix.

    Differs.    G's Lemma 5.1 counts the diagonal, which is always kept, like any other entry.

    Example:
        >>> round(expected_nonzeros(784, 784, strength=strength_for(0.001)), 1)
        1397.9
    """
    diagonal = min(rows, columns) if keep_diagonal else 0
    return kept_share(strength) * (rows * columns - diagonal) + diagonal


@implements("G-Lem4.2", "G-LemB.1", "G-E8", kind="published-form")
def expected_change_norm(
    rows: int, columns: int, *, strength: float, variance: float, constant: float = 1.0
) -> float:
    """Gamma_l: bound on the mean spectral norm of the change of a Gaussian matrix, by Latala's inequality.

    No guarantee: ``constant`` is universal but unknown. By Markov the norm exceeds eps Gamma with probability
    at most 1/eps. With constant 1, Gamma was 1.75 to 2.03 times the measured norm at 784 x 784.

    Example:
        >>> round(expected_change_norm(784, 784, strength=1.0, variance=1.0), 2)
        43.11
    """
    if not 0.0 < constant < math.inf:
        raise UsageError(f"the constant of lemma 4.2 is a finite number > 0. Got {constant}.")
    second, fourth = change_moments(strength, variance)
    sides = math.sqrt(rows) + math.sqrt(columns)
    return constant * (math.sqrt(second) * sides + math.sqrt(math.sqrt(rows * columns * fourth)))


@implements("G-E6", kind="numerics")
def least_kept_share(depth: int, *, slack: float = 1.0) -> float:
    """Share of weights that must stay for ``slack ||Delta|| <= ||A|| / depth``, the condition of G-LemB.2.

    For a large Gaussian matrix ``||Delta|| / ||A||`` is ``(d / (d + 2))^(3/4)``. Markov's inequality over all
    layers asks for ``slack = 2 depth``.

    Example:
        >>> round(least_kept_share(5), 2), round(least_kept_share(5, slack=10), 3)
        (0.66, 0.926)
    """
    if depth < 1 or slack * depth < 1.0:
        raise UsageError(f"depth and slack times depth are at least 1. Got {depth} and {slack}.")
    return 1.0 - math.pow(slack * depth, -2.0 / 3.0)


def check_strength(strength: float) -> None:
    """Refuses a strength of pruning that is negative or not finite."""
    if not 0.0 <= strength < math.inf:
        raise UsageError(f"the strength of pruning is a finite number >= 0. Got {strength}.")
