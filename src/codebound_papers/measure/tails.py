r"""Power-law tails by maximum likelihood, and whether the data can carry the claim.

Two exponents are in use and differ by one (S-E17): the **density** falls like :math:`x^{-a}`, the **tail**
:math:`P(X > x)` like :math:`x^{-(a - 1)}`. Programs that report "alpha" mean the density exponent; the theory
of heavy-tailed weights means the tail exponent. Every result here names both.

The start of the tail is the value whose fitted law is closest to the values above it, in the distance of
Kolmogorov and Smirnov to the left limits of their distribution (Clauset, Shalizi and Newman 2009). The scan
is exact: the distance on a few points of a tail bounds that on all of them from below, so candidates are
dropped on coarse grids and only the last few are seen in full.

Other tails are compared by likelihood ratios on the same values (Vuong 1989). With
:math:`u = \ln(x / x_{\min})` a power law is an exponential law of u, a lognormal tail a normal law cut off at
0, and a power law with exponential cut-off has density :math:`e^{-s u - b e^u}`. The last two contain the
power law as a limit, where their likelihood may be largest; the ratio is then 0 and nothing is favoured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from codebound.run.errors import UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound_networks.train.rng import numpy_stream

Status = Literal["power law", "no power law", "undecided"]

LEAST_TAIL_POINTS = 50
"""Fewer values in the tail cannot tell a power law from its alternatives."""

LEAST_P_VALUE = 0.1
"""A power law that fits worse than nine in ten samples of itself is ruled out."""

FAVOURED_P_VALUE = 0.05
"""An alternative is favoured when its likelihood ratio would be that rare between equals."""

_FIRST_GRID, _FINER = 64, 8  # points of the coarsest grid on a tail, and how much finer each next one is
_CHUNK = 2**18  # distances held at a time
_LARGEST_LOG = 709.0  # of a double


@dataclass(frozen=True, slots=True)
class TailEstimate:
    """The power law closest to the largest values of a sample; whether it is one is another question."""

    values: int  # size of the sample
    tail_points: int  # values from xmin on, which the exponent was fitted to
    xmin: float  # where the tail starts; one of the values
    density_exponent: float  # maximum-likelihood exponent of the density, what other programs call alpha
    distance: float  # Kolmogorov-Smirnov distance between the law and the tail

    @property
    @implements("S-E17", kind="measure")
    def tail_exponent(self) -> float:
        """Exponent of ``P(X > x)``: the density exponent less one."""
        return self.density_exponent - 1.0


@dataclass(frozen=True, slots=True)
class PowerLawFit:
    """A verdict on a tail, with everything it rests on.

    The rules, in this order:

    1. Fewer than two different values: "undecided", nothing was fitted.
    2. ``p_value`` below ``LEAST_P_VALUE``: "no power law", however many points there are.
    3. Fewer than ``LEAST_TAIL_POINTS`` values in the tail: "undecided".
    4. An alternative is favoured with ``FAVOURED_P_VALUE``: "no power law".
    5. An exponential tail is not ruled out with ``FAVOURED_P_VALUE``: "undecided".
    6. Otherwise "power law".
    """

    status: Status  # the verdict; "undecided" is a refusal to give one
    reason: str  # the verdict in words, with the numbers that decided it
    estimate: TailEstimate | None = None  # the closest power law, whatever the verdict; None only by rule 1
    # share of samples from the fitted law, fitted again, that lie at least as far from their fit
    p_value: float | None = None
    # 95 % percentile interval of the density exponent over resampled and refitted values
    interval: tuple[float, float] | None = None
    comparisons: "tuple[Comparison, ...]" = ()  # likelihood ratios against other tails
    resamples: int = 0  # how many samples p_value and interval rest on


@implements("I-26", kind="measure")
def estimate_tail(values: ArrayLike, *, least_points: int = 2) -> TailEstimate:
    """The exponent of a tail by maximum likelihood, its start by the smallest distance.

    The values are positive, at least two of them different. Of equal distances the longest tail counts.

    >>> fit = estimate_tail([1.0, 2.0, 4.0, 8.0])
    >>> fit.tail_points, round(fit.density_exponent, 6), round(fit.tail_exponent, 6)
    (4, 1.961797, 0.961797)
    """
    if least_points < 2:
        raise UsageError(f"least_points must be at least 2. Got {least_points}.")
    ordered = _check(values)
    if ordered.size < least_points or not _has_spread(ordered):
        raise UsageError(
            f"no tail of {least_points} values with two different ones. Got {ordered.size} values"
            + (f" from {ordered[0]:g} to {ordered[-1]:g}." if ordered.size else ".")
        )
    return _scan(ordered, least_points)


def fit_power_law(
    values: ArrayLike, *, resamples: int = 200, seed: int = 0, progress: Progress = silent
) -> PowerLawFit:
    """Fits a power law, tests it, compares it with other tails; the verdict is that of :class:`PowerLawFit`.

    The p-value follows Clauset, Shalizi and Newman: each synthetic sample takes values below ``xmin`` from
    the data and values above from the law, and is fitted again, its start included. It counts the data as one
    of the samples, so it is never 0. As many resamples of the data give the interval. The time is that of
    ``2 resamples`` estimates: half a second for 800 values, minutes for half a million.

    >>> from codebound_papers.shin21.laws import PowerLaw
    >>> sample = PowerLaw(tail_exponent=1.5, xmin=1.0).sample(500, seed=1)
    >>> fit_power_law(sample, resamples=50).status
    'power law'
    >>> fit_power_law([1.0, 2.0, 3.0], resamples=50).reason
    'undecided: 3 of 3 values in the tail, fewer than 50'
    """
    if resamples < 20:
        raise UsageError(f"resamples must be at least 20. Got {resamples}.")
    ordered = _check(values)
    if not _has_spread(ordered):
        why = f"undecided: {ordered.size} values, all equal, leave nothing to fit"
        return PowerLawFit(status="undecided", reason=why)
    estimate = _scan(ordered, 2)
    body, tail = np.split(ordered, [ordered.size - estimate.tail_points])
    rng = numpy_stream(seed, "tail resamples")
    distances, exponents = np.empty(resamples), np.empty(resamples)
    for i in range(resamples):
        above = rng.binomial(ordered.size, tail.size / ordered.size) if body.size else ordered.size
        logs = math.log(estimate.xmin) + rng.standard_exponential(above) / estimate.tail_exponent
        law = np.exp(np.minimum(logs, _LARGEST_LOG))
        below = body[rng.integers(body.size, size=ordered.size - above)] if body.size else body
        distances[i] = _refit(np.concatenate([below, law]), estimate).distance
        again = ordered[rng.integers(ordered.size, size=ordered.size)]
        exponents[i] = _refit(again, estimate).density_exponent
        progress(i + 1, resamples)
    p_value = (1 + int((distances >= estimate.distance).sum())) / (1 + resamples)
    low, high = np.quantile(exponents, [0.025, 0.975])
    comparisons = compare_alternatives(tail, xmin=estimate.xmin)
    status, why = _verdict(estimate, p_value, comparisons)
    return PowerLawFit(
        status=status,
        reason=f"{status}: {why}",
        estimate=estimate,
        p_value=p_value,
        interval=(float(low), float(high)),
        comparisons=comparisons,
        resamples=resamples,
    )


def _verdict(
    estimate: TailEstimate, p_value: float, comparisons: "tuple[Comparison, ...]"
) -> tuple[Status, str]:
    points = f"{estimate.tail_points} of {estimate.values} values in the tail"
    if p_value < LEAST_P_VALUE:
        return "no power law", f"p = {p_value:.2f}, {points}"
    if estimate.tail_points < LEAST_TAIL_POINTS:
        return "undecided", f"{points}, fewer than {LEAST_TAIL_POINTS}"
    better = [c for c in comparisons if c.ratio < 0.0 and c.p_value < FAVOURED_P_VALUE]
    if better:
        best = min(better, key=lambda comparison: comparison.ratio)
        return "no power law", f"a {best.alternative} tail is favoured (p = {best.p_value:.2g}), {points}"
    exponential = comparisons[0]
    if exponential.ratio <= 0.0 or exponential.p_value >= FAVOURED_P_VALUE:
        return "undecided", f"an exponential tail is not ruled out (p = {exponential.p_value:.2g}), {points}"
    return "power law", f"p = {p_value:.2f}, {points}, no other tail is favoured"


def _check(values: ArrayLike) -> NDArray[np.float64]:
    """The values in ascending order."""
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=None)
    if ordered.size and not np.isfinite(ordered[[0, -1]]).all():
        raise UsageError("a tail needs finite values. Found NaN or infinity.")
    if ordered.size and ordered[0] <= 0.0:
        count = int(np.searchsorted(ordered, 0.0, side="right"))
        raise UsageError(
            f"a power law lives on positive numbers. Found {count} of {ordered.size} values at or below 0. "
            "Take absolute values or the positive part, and leave out zeros."
        )
    return ordered


def _refit(values: NDArray[np.float64], estimate: TailEstimate) -> TailEstimate:
    """The fit of a resample; where it has no two different values, the fit it was drawn from."""
    ordered = np.sort(values)
    return _scan(ordered, 2) if _has_spread(ordered) else estimate


def _has_spread(ordered: NDArray[np.float64]) -> bool:
    """Return True if two values have different logarithms."""
    return ordered.size > 1 and bool(np.log(ordered[0]) < np.log(ordered[-1]))


def _scan(ordered: NDArray[np.float64], least_points: int) -> TailEstimate:
    """The start with the smallest distance among all different values but the largest."""
    size = ordered.size
    logs = np.log(ordered)
    logs -= logs[-1]  # sums of small numbers where tails are short
    starts = np.flatnonzero(np.diff(logs, prepend=-np.inf) > 0.0)  # values a rounding apart are one
    ranks = np.repeat(starts, np.diff(starts, append=size)).astype(np.float64)  # values strictly below
    starts = starts[:-1]
    starts = starts[size - starts >= least_points]
    sums = np.cumsum(logs[::-1])[::-1][starts] - (size - starts) * logs[starts]
    slopes = (size - starts) / sums

    def distances(chosen: NDArray[np.intp], points: int) -> NDArray[np.float64]:
        """Largest gap between law and tail over ``points`` places of each tail; exact from its length on."""
        found = np.empty(chosen.size)
        rows = max(1, _CHUNK // points)
        for first in range(0, chosen.size, rows):
            block = chosen[first : first + rows, None]
            start, slope = starts[block], slopes[block]
            length = size - start
            columns = min(points, int(length.max()))
            at = start + (np.arange(columns) * (length / columns)).astype(np.intp)
            gap = 1.0 - np.exp(slope * (logs[start] - logs[at])) - (ranks[at] - start) / length
            found[first : first + rows] = np.abs(gap, out=gap).max(axis=1)
        return found

    left, least, points = np.arange(starts.size), math.inf, _FIRST_GRID
    while True:
        bounds = distances(left, points)
        if points >= size:
            break
        leader = left[[bounds.argmin()]]
        least = min(least, float(distances(leader, size)[0]))
        left, points = left[bounds <= least], points * _FINER
    best = int(left[bounds.argmin()])
    return TailEstimate(
        values=size,
        tail_points=int(size - starts[best]),
        xmin=float(ordered[starts[best]]),
        density_exponent=1.0 + float(slopes[best]),
        distance=float(bounds.min()),
    )


_PANELS, _NODES = 48, 12
_LARGEST = 1e250  # of x / xmin: what lies further out counts as this
_FLATTEST = 1e3  # a normal law cut off that many deviations above its mean is exponential to 1e-6


@dataclass(frozen=True, slots=True)
class Comparison:
    """A power law against another tail."""

    alternative: str  # the other tail
    ratio: float  # log-likelihood of the power law less that of the alternative; negative favours the latter
    statistic: float  # ratio over the root of n times the variance of its terms (Vuong); 0 when ratio is
    # how often equally good tails would differ that much: normal, or chi-squared for nested ones
    p_value: float


def compare_alternatives(tail: NDArray[np.float64], *, xmin: float) -> tuple[Comparison, ...]:
    """The power law that fits best on ``[xmin, inf)`` against three alternatives fitted to the same values.

    >>> [c.alternative for c in compare_alternatives(np.array([1.0, 2.0, 9.0]), xmin=1.0)]
    ['exponential', 'lognormal', 'truncated power law']
    """
    with np.errstate(over="ignore"):
        excess = np.minimum(tail / xmin, _LARGEST)
    logs = np.log(excess)
    slope = 1.0 / float(logs.mean())
    rate = 1.0 / float((excess - 1.0).mean())  # of the best exponential law of x / xmin
    power_law, exponential = math.log(slope) - slope * logs, math.log(rate) - rate * (excess - 1.0)
    return (
        _compare("exponential", power_law - exponential - logs, nested=False),
        _compare("lognormal", power_law - _lognormal(logs, slope), nested=True),
        _compare("truncated power law", power_law - _truncated(excess, logs, slope), nested=True),
    )


def _compare(alternative: str, terms: NDArray[np.float64], *, nested: bool) -> Comparison:
    ratio = float(terms.sum())
    spread = float(terms.std()) * math.sqrt(terms.size)
    statistic = ratio / spread if spread > 0.0 else 0.0
    p_value = math.erfc(math.sqrt(abs(ratio))) if nested else math.erfc(abs(statistic) / math.sqrt(2.0))
    return Comparison(alternative, ratio, statistic, p_value)


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

    log_b = golden_section(lambda t: best_at(t)[0], low=math.log(1e-9 / (1.0 + top)), high=-math.log(top))
    likelihood, s, log_total = best_at(log_b)
    if likelihood <= math.log(slope) - 1.0:
        return math.log(slope) - slope * logs
    log_density: NDArray[np.float64] = -s * logs - math.exp(log_b) * (excess - 1.0) - log_total
    return log_density


def golden_section(function: Callable[[float], float], *, low: float, high: float, steps: int = 34) -> float:
    """Maximise a function that has one maximum, to 1e-7 of the interval or in fewer steps."""
    share = (math.sqrt(5.0) - 1.0) / 2.0
    inner, outer = high - share * (high - low), low + share * (high - low)
    at_inner, at_outer = function(inner), function(outer)
    for _ in range(steps):
        if at_inner < at_outer:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + share * (high - low)
            at_outer = function(outer)
        else:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - share * (high - low)
            at_inner = function(inner)
    return 0.5 * (low + high)
