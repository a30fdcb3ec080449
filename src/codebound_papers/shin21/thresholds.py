"""Which weights of a heavy-tailed matrix are kept (Shin 2021): rules that give every matrix its threshold."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, ClassVar

from codebound.errors import UsageError
from codebound.refs import implements
from codebound_papers.shin21.replaced_bulk import published_spread, spread

if TYPE_CHECKING:
    from torch import Tensor


class AbstractThreshold(ABC):
    """A rule that gives every matrix its threshold.

    Attributes:
        word: Its name on a command line; its numbers follow, as in ``scale-free:0.1:0.05``.
    """

    word: ClassVar[str]

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
