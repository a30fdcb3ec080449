r"""Likelihood ratios of a power law against other tails on the same values (Vuong 1989).

With :math:`u = \ln(x / x_{\min})` a power law is an exponential law of u, a lognormal tail a normal law cut
off at 0, and a power law with exponential cut-off has density :math:`e^{-s u - b e^u}`. The last two contain
the power law as a limit, where their likelihood may be largest; the ratio is then 0 and nothing is favoured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_PANELS, _NODES = 48, 12
_LARGEST = 1e250  # of x / xmin: what lies further out counts as this
_FLATTEST = 1e3  # a normal law cut off that many deviations above its mean is exponential to 1e-6


@dataclass(frozen=True, slots=True)
class Comparison:
    """A power law against another tail.

    Attributes:
        alternative: The other tail.
        ratio: Log-likelihood of the power law less that of the alternative; negative favours the latter.
        statistic: ``ratio`` over the root of n times the variance of its terms (Vuong); 0 when ``ratio`` is.
        p_value: How often equally good tails would differ that much: normal for ``statistic``, or, where
            the alternative contains the power law, chi-squared for twice ``ratio``.
    """

    alternative: str
    ratio: float
    statistic: float
    p_value: float


def compare_alternatives(tail: NDArray[np.float64], *, xmin: float) -> tuple[Comparison, ...]:
    """The power law that fits best on ``[xmin, inf)`` against three alternatives fitted to the same values.

    Args:
        tail: Values from ``xmin`` on, at least two different ones.
        xmin: Start of the tail.

    Example:
        >>> [c.alternative for c in compare_alternatives(np.array([1.0, 2.0, 9.0]), xmin=1.0)]
        ['exponential', 'lognormal', 'truncated power law']
    """
    with np.errstate(over="ignore"):
        excess = np.minimum(tail / xmin, _LARGEST)
    logs = np.log(excess)
    slope = 1.0 / float(logs.mean())
    power_law = math.log(slope) - slope * logs
    return (
        _compared("exponential", power_law - _exponential(excess) - logs, nested=False),
        _compared("lognormal", power_law - _lognormal(logs, slope), nested=True),
        _compared("truncated power law", power_law - _truncated(excess, logs, slope), nested=True),
    )


def _compared(alternative: str, terms: NDArray[np.float64], *, nested: bool) -> Comparison:
    ratio = float(terms.sum())
    spread = float(terms.std()) * math.sqrt(terms.size)
    statistic = ratio / spread if spread > 0.0 else 0.0
    p_value = math.erfc(math.sqrt(abs(ratio))) if nested else math.erfc(abs(statistic) / math.sqrt(2.0))
    return Comparison(alternative, ratio, statistic, p_value)


def _exponential(excess: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-density of ``x / xmin`` under the best exponential law."""
    rate = 1.0 / float((excess - 1.0).mean())
    log_density: NDArray[np.float64] = math.log(rate) - rate * (excess - 1.0)
    return log_density


def _lognormal(logs: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
    """Log-density of u under the best normal law cut off at 0.

    Its likelihood has a maximum only if the second moment is below twice the squared mean, as it is for
    every such law; otherwise it grows towards the exponential limit, the power law. The ratio of the two
    moments depends on the place z of the cut in deviations above the mean alone, and grows with it.
    """
    mean, second = float(logs.mean()), float((logs**2).mean())

    def drift(z: float) -> float:  # mean of the law in units of its deviation
        cut = torch.tensor(z / math.sqrt(2.0), dtype=torch.float64)
        return math.sqrt(2.0 / math.pi) / float(torch.special.erfcx(cut)) - z

    low, high = -_FLATTEST, _FLATTEST
    if second / mean**2 >= (1.0 - high * drift(high)) / drift(high) ** 2:
        return math.log(slope) - slope * logs
    for _ in range(80):
        middle = 0.5 * (low + high)
        if (1.0 - middle * drift(middle)) / drift(middle) ** 2 < second / mean**2:
            low = middle
        else:
            high = middle
    z = 0.5 * (low + high)
    deviation = mean / drift(z)
    mass = float(torch.special.log_ndtr(torch.tensor(-z, dtype=torch.float64)))
    constant = -math.log(deviation) - 0.5 * math.log(2.0 * math.pi) - mass
    log_density: NDArray[np.float64] = constant - 0.5 * (logs / deviation + z) ** 2
    return log_density


def _truncated(excess: NDArray[np.float64], logs: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
    """Log-density of u under the best law ``exp(-s u - b e^u)`` with s and b not negative.

    The likelihood is concave in (s, b). For each b Newton's method finds s; what is left has one maximum
    in b, found by golden section on its logarithm. The mean of ``e^u - 1`` is below 1/b, which bounds b.
    Integrals are by Gauss-Legendre panels, narrow near 0, up to where ``b e^u`` has grown by 60 or u is 60
    times its mean: a log-concave law with that mean has nothing left there.
    """
    mean, top = float(logs.mean()), float((excess - 1.0).mean())
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    edges = np.linspace(0.0, 1.0, _PANELS + 1) ** 3
    widths = np.diff(edges)[:, None]
    places = (edges[:-1, None] + widths * (nodes + 1.0) / 2.0).ravel()
    shares = (widths * weights / 2.0).ravel()

    def best_at(log_b: float) -> tuple[float, float, float]:
        """Log-likelihood per value, s, and the log of the integral for one b."""
        b = math.exp(log_b)
        end = min(math.log1p(60.0 / b), 60.0 * mean)
        u = places * end
        cut = b * np.expm1(u)
        s = 0.0
        for _ in range(100):
            density = shares * np.exp(-s * u - cut)
            total = float(density.sum())
            average = float(density @ u) / total
            variance = float(density @ u**2) / total - average**2
            step = max((average - mean) / variance, -s)
            if abs(step) <= 1e-10 * (1.0 + s):
                break
            s += step
        log_total = math.log(total * end)
        return -s * mean - b * top - log_total, s, log_total

    log_b = _golden(lambda t: best_at(t)[0], low=math.log(1e-9 / (1.0 + top)), high=-math.log(top))
    likelihood, s, log_total = best_at(log_b)
    if likelihood <= math.log(slope) - 1.0:
        return math.log(slope) - slope * logs
    log_density: NDArray[np.float64] = -s * logs - math.exp(log_b) * (excess - 1.0) - log_total
    return log_density


def _golden(function: Callable[[float], float], *, low: float, high: float) -> float:
    """Where a function with one maximum has it, to 1e-7 of the interval."""
    share = (math.sqrt(5.0) - 1.0) / 2.0
    inner, outer = high - share * (high - low), low + share * (high - low)
    at_inner, at_outer = function(inner), function(outer)
    for _ in range(34):
        if at_inner < at_outer:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + share * (high - low)
            at_outer = function(outer)
        else:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - share * (high - low)
            at_inner = function(inner)
    return 0.5 * (low + high)
