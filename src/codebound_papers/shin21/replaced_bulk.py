"""How far a product moves when the bulk of a heavy-tailed matrix is replaced by noise (Shin 2021, section 3).

Shin replaces the entries below a threshold tau by Gaussian noise of variance t and asks how much a product
u^T W v moves. Everything depends on tau^2 + t. The published constants are too small (S-E2), and the claim
itself is false for weights of one sign (S-E1); the corrected one holds for independent entries of mean zero.
"""

import math

from codebound.errors import UsageError
from codebound.numerics import log_chernoff_tail
from codebound.refs import implements


@implements("S-Prop1.1", kind="published-form")
def published_product_tail(size: float, *, threshold: float, variance: float) -> float:
    """``3 exp(-s^2 / (2 (tau^2 + t)))``, published for ``P(|u^T (W - W(t)) v| >= s)`` at unit vectors.

    No guarantee: false for weights with a mean (S-E1).
    """
    return _sides(3.0, size, threshold**2 + variance)


@implements("S-Prop1.1x", "S-E1", kind="numerics")
def product_tail(size: float, *, threshold: float, variance: float) -> float:
    r"""Probability that replacing the bulk moves ``u^T W v`` by more than ``size``, at unit vectors u and v.

    Statement.  Let the entries of A be independent, of mean zero and at most ``threshold`` in magnitude, G
                Gaussian, all independent of u and v. Then
                :math:`P(|u^T (A - \sqrt t G) v| > s) \le 2 \exp(-s^2 / (2 (\tau^2 + t)))`.
    Proof.      Hoeffding's lemma for every entry, the moment generating function of G, two tails.
    Needs.      A random A. For trained weights it is a model; measure instead (S-E6).

    Example:
        >>> round(product_tail(3.0, threshold=1.0, variance=0.5), 4)
        0.0996
    """
    return _sides(2.0, size, threshold**2 + variance)


@implements("S-Prop1.2", "I-28", kind="numerics")
def count_tail_bound(count: int, *, entries: int, probability: float) -> float:
    """Chernoff bound on the probability that ``count`` or more of ``entries`` exceed the threshold.

    ``exp(-n kl(k/n, p))`` for ``k > n p``, else 1; p is the probability of one: ``(w_m / tau)^alpha``.
    With the entries of one row it is Eq. (11). The exact value is ``binomial_tail``.

    Example:
        >>> round(count_tail_bound(300, entries=1000, probability=0.25), 6)
        0.001659
    """
    if not 0 <= count <= entries or not 0.0 <= probability <= 1.0:
        raise UsageError(f"no count among {entries} of probability {probability}: {count}.")
    return math.exp(log_chernoff_tail(count, entries, probability))


@implements("S-E2", kind="published-form")
def published_spread(epsilon: float, eta: float) -> float:
    """``tau^2 + t`` as S-Prop1.1 states it for failure ``eta``: ``eps^2 / ln(3/eta)``, too large.

    The appendix has ``2 eps^2 / ln(3/eta)``; the tail bound that both cite needs ``eps^2 / (2 ln(3/eta))``.
    """
    _check(epsilon, eta)
    return epsilon**2 / math.log(3.0 / eta)


@implements("S-Prop1.1x:spread", kind="numerics")
def spread(epsilon: float, eta: float) -> float:
    """``eps^2 / (2 ln(2/eta))``: the largest ``tau^2 + t`` with ``product_tail(epsilon)`` at most ``eta``."""
    _check(epsilon, eta)
    return epsilon**2 / (2.0 * math.log(2.0 / eta))


def _sides(factor: float, size: float, total: float) -> float:
    """``factor exp(-s^2 / (2 total))``, at most 1; 0 where nothing is replaced."""
    return min(1.0, factor * math.exp(-(size**2) / (2.0 * total))) if total > 0.0 else 0.0


def _check(epsilon: float, eta: float) -> None:
    if not (epsilon > 0.0 and 0.0 < eta < 1.0):
        raise UsageError(f"epsilon is positive and eta a probability. Got {epsilon} and {eta}.")
