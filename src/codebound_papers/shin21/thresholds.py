"""Which weights of a heavy-tailed matrix are kept (Shin 2021, section 3), and how far a product moves.

Shin replaces the entries below a threshold tau by Gaussian noise of variance t and asks how much a product
u^T W v moves. Everything depends on tau^2 + t. The published constants are too small (S-E2), and the claim
itself is false for weights of one sign (S-E1); the corrected one holds for independent entries of mean zero.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, ClassVar

from codebound.errors import UsageError
from codebound.numerics import log_chernoff_tail
from codebound.refs import implements

if TYPE_CHECKING:
    from torch import Tensor


class AbstractThreshold(ABC):
    """A rule that gives every matrix its threshold.

    Attributes:
        word: Its name on a command line; its numbers follow, as in ``scale-free:0.1:0.05``.
    """

    word: ClassVar[str] = ""

    def __str__(self) -> str:
        return ":".join([self.word, *map(str, astuple(self))])  # type: ignore[call-overload]

    @abstractmethod
    def of(self, matrix: Tensor, *, variance: float) -> float:
        """The threshold tau of a matrix whose bulk is replaced by noise of that variance, t."""


@dataclass(frozen=True, slots=True)
class StandardDeviation(AbstractThreshold):
    """The standard deviation of all entries, as in S-AppE."""

    word: ClassVar[str] = "std"

    def of(self, matrix: Tensor, *, variance: float) -> float:  # noqa: D102
        return float(matrix.double().std(correction=0))


@dataclass(frozen=True, slots=True)
class Published(AbstractThreshold):
    """From (epsilon, eta) with the constant of S-Alg1: a threshold that is too high (S-E2)."""

    word: ClassVar[str] = "published"

    epsilon: float
    eta: float

    def of(self, matrix: Tensor, *, variance: float) -> float:  # noqa: D102
        return _threshold(published_spread(self.epsilon, self.eta), variance)


@dataclass(frozen=True, slots=True)
class Corrected(AbstractThreshold):
    """From (epsilon, eta) with the constant of S-Prop1.1x."""

    word: ClassVar[str] = "corrected"

    epsilon: float
    eta: float

    def of(self, matrix: Tensor, *, variance: float) -> float:  # noqa: D102
        return _threshold(spread(self.epsilon, self.eta), variance)


@dataclass(frozen=True, slots=True)
class ScaleFree(AbstractThreshold):
    """The same relative to the Frobenius norm of the matrix: what S-Thm2 needs (S-E8)."""

    word: ClassVar[str] = "scale-free"

    epsilon: float
    eta: float

    @implements("S-Thm2:threshold", "S-E8", kind="numerics")
    def of(self, matrix: Tensor, *, variance: float) -> float:
        """``tau^2 + t = eps^2 ||W||_F^2 / (2 ln(2/eta))``."""
        norm = float(matrix.double().norm())
        return _threshold(spread(self.epsilon, self.eta) * norm**2, variance)


RULES = {rule.word: rule for rule in (StandardDeviation, Published, Corrected, ScaleFree)}


def _threshold(total: float, variance: float) -> float:
    if variance > total:
        raise UsageError(
            f"noise of variance {variance:g} alone exceeds the {total:g} that threshold and noise may have "
            "together. Take less noise, or a larger epsilon."
        )
    return math.sqrt(total - variance)


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
