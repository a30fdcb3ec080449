r"""Resilient classification (S-5.2): weights of a row between powers of the scale of a stable law.

Bracket i holds the weights between :math:`c^i` and :math:`c^{i+1}`, with c > 1 the scale of the law; it
takes :math:`\kappa = c^{M-i}` of them to sum to :math:`c^M`. The published probability of at least kappa
of them in a row of N is a Chernoff bound with the asymptotic density of the law; beside it stand the exact
probability, and what the released script plots. An upper bound cannot show that anything is probable.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from codebound.errors import UsageError
from codebound.numerics import log_binomial_tail, log_chernoff_tail
from codebound.refs import implements
from codebound_papers.shin21.laws import Stable, tail_constant

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Resilience:
    """The chance of kappa or more weights of one bracket in a row.

    Attributes:
        kappa: Weights needed; not an integer.
        probability: Of one weight to lie in the bracket.
        expected: Weights of a row in the bracket, N times ``probability``.
        chernoff: Upper bound of Eq. (15), (16); 1, which says nothing, unless ``kappa > expected``.
        exact: Binomial probability of ``ceil(kappa)`` or more.
        released: What the released script evaluates: no bound, a parenthesis is misplaced (S-E26).
    """

    kappa: float
    probability: float
    expected: float
    chernoff: float
    exact: float
    released: float


@implements("S-5.2", kind="published-form")
def asymptotic_bracket_probability(alpha: float, bracket: float, *, scale: float) -> float:
    """Eq. (14): mass of the asymptotic density of a symmetric stable law on ``[c^i, c^(i+1)]``.

    The asymptotic density is far from the density at these sizes; see :func:`bracket_probability`.

    Example:
        >>> round(asymptotic_bracket_probability(1.0, 0, scale=1.3), 4)
        0.0955
    """
    _check(alpha, scale)
    share = -math.expm1(-alpha * math.log(scale))
    return tail_constant(alpha) * math.pow(scale, -alpha * (bracket - 1.0)) * share


@implements("S-E14", kind="measure")
def bracket_probability(
    alpha: float, bracket: float, *, scale: float, of: Literal["signed", "absolute"] = "signed"
) -> float:
    """Mass of a symmetric stable law itself on ``[c^i, c^(i+1)]``; of |W| it is twice that of W.

    What lies below ``c^0 = 1``, and all negative weights, is in no bracket of the published split.

    Example:
        >>> round(bracket_probability(1.0, 0, scale=1.3), 4)
        0.0413
    """
    _check(alpha, scale)
    if alpha == 0.0:
        raise UsageError("a stable law has alpha above 0. Got 0.")
    law = Stable(alpha=alpha, scale=scale)
    low, high = law.tail([scale**bracket, scale ** (bracket + 1.0)])
    return float(low - high) * (2.0 if of == "absolute" else 1.0)


@implements("S-E15", kind="measure")
def resilience(probability: float, bracket: float, *, scale: float, top: int, width: int) -> Resilience:
    """Published bound, exact value and released expression for one bracket.

    Args:
        probability: Of one weight to lie in the bracket, by either function above.
        bracket: i, at most ``top``; the published figure takes values between integers too.
        scale: c, above 1.
        top: M, the power to be reached.
        width: N, weights in a row.

    Example:
        >>> p = asymptotic_bracket_probability(1.9, 3, scale=1.3)
        >>> row = resilience(p, 3, scale=1.3, top=5, width=64)
        >>> round(row.kappa, 2), round(row.expected, 2), round(row.chernoff, 4), round(row.exact, 4)
        (1.69, 0.44, 0.3587, 0.0732)
    """
    kappa = scale ** (top - bracket)
    if not 0.0 <= probability <= 1.0:
        raise UsageError(f"a probability lies in [0, 1]. Got {probability}.")
    if not 1.0 <= kappa < width:
        raise UsageError(
            f"{kappa:.3g} weights of one bracket are needed: at least 1 and fewer than the {width} of a row "
            "is possible. Choose a bracket of at most top, or a wider row."
        )
    return Resilience(
        kappa=kappa,
        probability=probability,
        expected=width * probability,
        chernoff=math.exp(log_chernoff_tail(kappa, width, probability)),
        exact=math.exp(log_binomial_tail(math.ceil(kappa), width, probability)),
        released=released_resilience(probability, kappa=kappa, width=width),
    )


@implements("S-E26", kind="published-form")
def released_resilience(probability: float, *, kappa: float, width: int) -> float:
    """``(Np/k)^k (1 - p/(1 - k/N))^(N-k)``, plotted in Fig. 2; Eq. (16) has ``((1-p)/(1-k/N))^(N-k)``.

    It lies below the probability it should bound, and takes no notice of ``k > Np``. Where
    ``p > 1 - k/N`` a negative number has no such power; 0 is returned.
    """
    base = max(0.0, 1.0 - probability / (1.0 - kappa / width))
    return math.pow(width * probability / kappa, kappa) * math.pow(base, width - kappa)


@implements("I-30", kind="measure")
def resilience_grid(
    alphas: Iterable[float], brackets: Iterable[float], *, scale: float = 1.3, top: int = 5, width: int = 64
) -> tuple[dict[str, float], ...]:
    """The rows of Fig. 2 (its grid: 50 alphas in [0, 2], 50 brackets in [0, 5]) by Eq. (14) and (16).

    Returns:
        For each pair: alpha, bracket, and the fields of :class:`Resilience`.

    Example:
        >>> [round(row["exact"], 3) for row in resilience_grid([1.0], range(6))]
        [0.871, 0.858, 0.708, 0.773, 0.635, 0.811]
    """
    brackets = tuple(brackets)
    rows = []
    for alpha in alphas:
        for bracket in brackets:
            p = asymptotic_bracket_probability(alpha, bracket, scale=scale)
            cell = resilience(p, bracket, scale=scale, top=top, width=width)
            rows.append({"alpha": alpha, "bracket": bracket, **asdict(cell)})
    return tuple(rows)


def _check(alpha: float, scale: float) -> None:
    if not (0.0 <= alpha <= 2.0 and 1.0 < scale < math.inf):
        raise UsageError(f"brackets need alpha in [0, 2] and a scale above 1. Got {alpha} and {scale}.")
