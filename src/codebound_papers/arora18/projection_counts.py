"""How many numbers a random projection keeps (Arora et al. 2018, algorithms 1 and 4): printed, and proven."""

import math
from dataclasses import dataclass

from codebound.errors import UsageError
from codebound.refs import implements


@implements("A-Alg1:count", kind="published-form")
def published_count(epsilon: float, eta: float) -> int:
    """The number of sign matrices that algorithm 1 prints: ``log(1/eta) / epsilon^2``, too few by A-E4.

    Example:
        >>> published_count(0.1, 1e-6)
        1382
    """
    _check_accuracy(epsilon, eta)
    return max(1, math.ceil(math.log(1.0 / eta) / epsilon**2))


@implements("A-E4", kind="algorithm")
def sign_count(epsilon: float, eta: float) -> int:
    r"""The number of sign matrices with which algorithm 1 keeps its promise.

    Statement.  For fixed unit u, v and ``k = ceil(4 ln(4/eta) / (eps^2 - 2 eps^3/3))``,
                :math:`P(|u^T (\hat A - A) v| \ge \epsilon \|A\|_F) \le \eta`.
    Proof.      Polarise: ``<a,M><b,M> = (<a+b,M>^2 - <a-b,M>^2) / 4`` with
                ``||a+b||^2 + ||a-b||^2 = 4`` for unit a and b, and bound either mean of squares by
                Achlioptas' inequality for signs.
    Differs.    The paper has ``log(1/eta) / eps^2``: neither the two sides nor the variance ``1 + rho^2``
                of the product are in it.
    Checked by. simulation (teeth: the published count fails up to four times too often).

    Example:
        >>> sign_count(0.1, 1e-6)
        6516
    """
    _check_accuracy(epsilon, eta)
    return math.ceil(4.0 * math.log(4.0 / eta) / (epsilon**2 - 2.0 * epsilon**3 / 3.0))


@implements("A-E4:gaussian", kind="algorithm")
def gaussian_count(epsilon: float, eta: float) -> int:
    r"""The number of Gaussian matrices, or vectors, with which the same promise holds.

    ``k = ceil(2 ln(2/eta) / (eps - ln(1 + eps)))``: the Cramer rate of a product of two Gaussians of
    correlation rho is smallest at ``rho = 1``, where it is ``(eps - ln(1 + eps)) / 2``.

    Example:
        >>> gaussian_count(0.1, 1e-6)
        6188
    """
    _check_accuracy(epsilon, eta)
    return math.ceil(2.0 * math.log(2.0 / eta) / (epsilon - math.log1p(epsilon)))


@implements("A-Lem2", "S-Lem2.1", kind="algorithm")
def eta_for_pairs(delta: float, *, pairs: int, rows: int) -> float:
    r"""The failure probability to ask of algorithm 1 for many directions at once: ``delta / (m n)``.

    Statement.  With it, :math:`\|U (\hat A - A) x\| \le \epsilon \|A\|_F \|U\|_F \|x\|` holds with
                probability ``1 - delta`` for all m pairs of a matrix U with n rows and a vector x, fixed
                beforehand.
    Differs.    The paper's last line prints the inequality the other way round (A-E5).

    Example:
        >>> eta_for_pairs(0.05, pairs=1000, rows=10)
        5e-06
    """
    if not 0.0 < delta < 1.0 or min(pairs, rows) < 1:
        raise UsageError(f"delta is in (0, 1), pairs and rows at least 1. Got {delta}, {pairs}, {rows}.")
    return delta / (pairs * rows)


@dataclass(frozen=True, slots=True)
class ConvCount:
    """What algorithm 4 asks for.

    Attributes:
        mixes: k, Gaussian tensors per location.
        order: p, the even number of locations that were to be independent.
    """

    mixes: int
    order: int

    @property
    def numbers(self) -> int:
        """k p, the dimension of the subspace and the numbers that are kept."""
        return self.mixes * self.order


@implements("A-Alg4:count", kind="published-form")
def published_conv_count(epsilon: float, eta: float, *, patch: int, constant: float = 1.0) -> ConvCount:
    """``k = Q ceil(kappa/s)^2 log^2(1/eta) / eps^2`` and ``p = log_2(1/eta)``, rounded up to an even number.

    Args:
        epsilon: Accuracy, positive.
        eta: Failure probability.
        patch: ``ceil(kappa / s)``.
        constant: Q, which the paper leaves open.

    Example:
        >>> published_conv_count(1.0, 0.1, patch=3)
        ConvCount(mixes=48, order=4)
    """
    if not (epsilon > 0.0 and 0.0 < eta < 1.0 and patch >= 1 and constant > 0.0):
        raise UsageError("epsilon and the constant are positive, eta is in (0, 1), patch at least 1.")
    mixes = math.ceil(constant * (patch * math.log(1.0 / eta) / epsilon) ** 2)
    return ConvCount(mixes, 2 * math.ceil(math.log2(1.0 / eta) / 2.0))


def _check_accuracy(epsilon: float, eta: float) -> None:
    if not (0.0 < epsilon <= 1.0 and 0.0 < eta < 1.0):
        raise UsageError(f"epsilon is in (0, 1] and eta in (0, 1). Got {epsilon} and {eta}.")
