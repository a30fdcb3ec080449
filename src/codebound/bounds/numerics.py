"""Scalar numerics of the guarantee. Every inverse returns the end of its bracket that keeps a bound true.

All probabilities live in log space: a certificate needs tails at ``delta * 2**-code_bits``, far below the
smallest double. Binomial tails use the saddle-point form of the probability mass and a series with
decreasing ratios, so both the truncation error and the rounding error are bounded, not guessed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

from codebound.run.extensions import LazyModule
from codebound.run.references import implements

if TYPE_CHECKING:
    import numpy as np
else:
    np = LazyModule("numpy")

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_Series = Callable[[int, int, float, float], tuple[float, int]]
_BLOCK_TERMS = 1 << 16  # terms of the tail series held at a time: 512 KiB


def round_up(value: float) -> float:
    """The next double above ``value``: absorbs one rounding of a result that must not be too small."""
    return math.nextafter(value, math.inf)


def float_above(value: Fraction) -> float:
    """The smallest double that is not below an exact number.

    Example:
        >>> float_above(Fraction(1, 10)) == 0.1, float_above(Fraction(1, 3)) > Fraction(1, 3)
        (True, True)
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else round_up(nearest)


def bernoulli_kl(q: float, p: float) -> float:
    r"""Relative entropy ``kl(q || p)`` of two Bernoulli distributions, in nats.

    A sum of two non-negative deviances: no cancellation, so the relative error stays below 1e-13 however
    close ``p`` is to ``q``.

    Example:
        >>> bernoulli_kl(0.0, 0.5) == math.log(2.0)
        True
    """
    if q == p:
        return 0.0
    if p == 0.0 or p == 1.0:
        return math.inf
    difference = q - p
    return _deviance(q, p, difference) + _deviance(1.0 - q, 1.0 - p, -difference)


def _deviance(x: float, mean: float, difference: float) -> float:
    """``x ln(x/mean) - x + mean >= 0``, accurate near zero, given ``difference = x - mean``."""
    u = difference / mean
    if abs(u) > 0.1:
        if x == 0.0:
            return mean
        ratio = x / mean
        return x * (math.log(ratio) if ratio < math.inf else math.log(x) - math.log(mean)) - difference
    total, power = 0.0, u * u
    for i in range(2, 20):  # sum of (-u)^i / (i (i-1)); the terms left out are below 1e-19 relative
        total += power / (i * (i - 1))
        power *= -u
    return mean * total


@implements("C-5b", kind="numerics")
def kl_inverse_upper(q: float, nats: float) -> float:
    r"""Smallest double known to be at least ``max{p >= q : kl(q || p) <= nats}``, capped at 1.

    Direction.  Upper; the bracket's safe end is returned. At most 1e-12 (relative) above the exact value.

    Example:
        >>> round(kl_inverse_upper(0.02, 0.1), 12)
        0.150811512119
    """
    if nats <= 0.0:
        return q
    target = nats * (1.0 + 1e-13)  # dominates the relative error of bernoulli_kl
    low, high = q, 1.0
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if bernoulli_kl(q, middle) < target:
            low = middle
        else:
            high = middle


@dataclass(frozen=True, slots=True)
class _Tail:
    """``ln P(Bin(n, p) <= k)``, how far it can be off, and the slope of it against ``ln(1-p)``."""

    log_value: float
    error: float
    slope: float


@implements("C-5a", kind="numerics")
def log_binomial_cdf(k: int, n: int, p: float) -> float:
    """``ln P(Bin(n, p) <= k)`` without underflow, for ``n`` up to 1e12.

    Example:
        >>> round(log_binomial_cdf(100, 60_000, 0.5), 1)
        -40852.4
    """
    if k >= n or p <= 0.0:
        return 0.0
    if k < 0 or p >= 1.0:
        return -math.inf
    if k < (n + 1) * p:
        return min(0.0, _log_tail(k, n, p, 1.0 - p).log_value)
    return math.log1p(-math.exp(min(0.0, _log_tail(n - k - 1, n, 1.0 - p, p).log_value)))


def log_binomial_tail(k: int, n: int, p: float) -> float:
    """``ln P(Bin(n, p) >= k)`` without underflow, also for a ``p`` that ``1 - p`` would lose.

    Example:
        >>> round(math.exp(log_binomial_tail(17, 50, 0.3)), 8)
        0.31612138
        >>> round(log_binomial_tail(1, 1000, 1e-30) / math.log(10.0), 9)
        -27.0
    """
    if k <= 0 or p >= 1.0:
        return 0.0
    if k > n or p <= 0.0:
        return -math.inf
    if k > (n + 1) * p - 1.0:
        return min(0.0, _log_tail(n - k, n, 1.0 - p, p).log_value)
    return math.log1p(-math.exp(min(0.0, _log_tail(k - 1, n, p, 1.0 - p).log_value)))


def log_binomial_mass_upper(k: int, n: int, p: float) -> float:
    """A double that is at least ``ln P(Bin(n, p) = k)``, and at most 1e-9 above it for ``n`` up to 1e5.

    Example:
        >>> round(math.exp(log_binomial_mass_upper(17, 50, 0.3)), 8)
        0.09831444
    """
    if not 0 <= k <= n:
        return -math.inf
    if p <= 0.0 or p >= 1.0:
        return 0.0 if k == (0 if p <= 0.0 else n) else -math.inf
    value, magnitude = _log_pmf_exponent(k, n, p, 1.0 - p) if k < n else _log_pmf_exponent(0, n, 1.0 - p, p)
    return value + 4e-15 * magnitude + 1e-13


@implements("C-5c", kind="numerics")
def binomial_tail_upper(k: int, n: int, p: float) -> float:
    """A double that is at least ``P(Bin(n, p) >= k)``, and at most 1e-9 (relative) above it.

    Direction.  Upper: the rounding error of the tail is added.

    Example:
        >>> round(binomial_tail_upper(17, 50, 0.3), 8)
        0.31612138
    """
    if k <= 0 or p >= 1.0:
        return 1.0
    if k > n or p <= 0.0:
        return 0.0
    if k > (n + 1) * p - 1.0:
        tail = _log_tail(n - k, n, 1.0 - p, p)
        return min(1.0, round_up(math.exp(min(0.0, tail.log_value + tail.error)) * (1.0 + 1e-15)))
    below = _log_tail(k - 1, n, p, 1.0 - p)
    return min(1.0, round_up(-math.expm1(min(0.0, below.log_value - below.error)) * (1.0 + 1e-15)))


def log_chernoff_tail(k: float, n: int, p: float) -> float:
    """Chernoff's bound on :func:`log_binomial_tail`: ``-n kl(k/n, p)`` for ``k > n p``, else 0.

    Example:
        >>> round(math.exp(log_chernoff_tail(300, 1000, 0.25)), 6)
        0.001659
    """
    return -n * bernoulli_kl(k / n, p) if k > n * p else 0.0


@implements("C-5", kind="numerics")
def binomial_inverse_upper(k: int, n: int, log_delta: float) -> float:
    r"""Smallest double known to be at least ``max{p : P(Bin(n, p) <= k) >= exp(log_delta)}``.

    The one-sided Clopper-Pearson limit at any confidence, also where ``exp(log_delta)`` underflows.

    Direction.  Upper: the returned value passes a check that includes the rounding error of the tail.
                At most 1e-9 (relative) above the exact value, for ``n`` up to 1e9 and ``log_delta`` down
                to ``-1e7 ln 2``.
    Method.     ``ln P`` is concave in ``ln(1-p)``, so each of Newton's steps lands on the safe side of the
                root. For levels above 1/2 the upper tail is solved instead.

    Example:
        >>> round(binomial_inverse_upper(5, 100, math.log(0.05)), 12)
        0.102253377643
    """
    if k >= n or log_delta == -math.inf:
        return 1.0
    if log_delta > -math.log(2.0):
        return _inverse_above_one_half(k, n, log_delta)
    p = kl_inverse_upper(round_up(k / n), -log_delta / n)
    if log_delta > -700.0:  # a normal quantile exists: few steps are left from Wilson's limit
        p = min(p, max(_wilson_limit(k, n, log_delta), (k + 1.0) / (n + 1.0)))
    widening = 1e-13
    while p < 1.0:
        tail = _log_tail(k, n, p, 1.0 - p)
        gap = log_delta - tail.log_value - tail.error
        proposal = -math.expm1(math.log1p(-p) + gap / tail.slope)
        if gap >= 0.0 and proposal >= p * (1.0 - 1e-11):
            return p
        if gap < 0.0:  # below the root: the step lands above it, but for rounding
            proposal = max(proposal, p) * (1.0 + widening)
            widening *= 2.0
        p = proposal
    return 1.0


@implements("C-5:picked", kind="numerics")
def picked_inverse_upper(k: int, n: int, log_delta: float) -> float:
    r"""Smallest double known to be at least the root p of ``n p P(Bin = k) = exp(log_delta) P(Bin > k)``.

    ``Bin`` has n trials of probability p. It is the limit of C-15, in the closed form of its defining sum.

    Direction.  Upper: the returned value passes a check that includes the rounding error. At most 1e-9
                (relative) above the exact value, for ``n`` up to 1e9 and levels from ``2**-1e7`` to 1/2.
    Method.     With ``P(Bin <= k) = P(Bin = k) S`` the equation becomes ``1/P(Bin = k) = n p/delta + S``: a
                comparison of two large numbers, without cancellation, whose sides meet once.

    Example:
        >>> round(picked_inverse_upper(850, 60_000, math.log(0.05)), 6)
        0.015837
    """
    if k >= n or log_delta == -math.inf:
        return 1.0
    near = kl_inverse_upper(k / n, (math.log(n) - log_delta) / n)
    for series in (_geometric_series, _tail_series):  # the cheap one comes near, the exact one arrives
        near = _picked_root(k, n, log_delta, near, series)
    p, widening = near, 1e-13
    while p < 1.0:
        gap, error = _picked_gap(k, n, p, log_delta, _tail_series)
        if gap >= error:
            return p
        p *= 1.0 + widening
        widening *= 2.0
    return 1.0


def _picked_root(k: int, n: int, log_delta: float, start: float, series: _Series) -> float:
    """The root, but for rounding: Newton's steps in a bracket, halved where a step would leave it."""
    low, high, p = k / n, 1.0, start
    while True:
        if not low < p < high:
            p = 0.5 * (low + high)
            if not low < p < high:
                return high
        gap, _ = _picked_gap(k, n, p, log_delta, series)
        low, high = (low, p) if gap > 0.0 else (p, high)
        slope = (n * p - k) / (p * (1.0 - p)) - 1.0 / p  # without that of S, which is hardly any
        step = gap / slope if slope > 0.0 else math.inf
        if abs(step) <= 1e-12 * p:
            return p - step
        p -= step


def _picked_gap(k: int, n: int, p: float, log_delta: float, series: _Series) -> tuple[float, float]:
    """``ln 1/P(Bin = k) - ln(n p/delta + S)``, positive above the root, and how far it can be off."""
    log_pmf, magnitude = _log_pmf_exponent(k, n, p, 1.0 - p)
    total, terms = series(k, n, p, 1.0 - p)
    log_price, log_total = math.log(n) + math.log(p) - log_delta, math.log(total)
    larger = max(log_price, log_total)
    needed = larger + math.log1p(math.exp(min(log_price, log_total) - larger))
    error = 4e-15 * (magnitude + abs(larger)) + 4e-16 * (terms + abs(log_total)) + 1e-13
    return -log_pmf - needed, error


def _geometric_series(k: int, n: int, p: float, q: float) -> tuple[float, int]:
    """A simple upper bound on the ``S`` of a tail: as if its first ratio stayed."""
    ratio = k * q / ((n - k + 1.0) * p)
    return min(k + 1.0, 1.0 / (1.0 - ratio) if ratio < 1.0 else math.inf), 1


def _wilson_limit(k: int, n: int, log_delta: float) -> float:
    """Wilson's score limit: a first guess, no bound."""
    z = -NormalDist().inv_cdf(math.exp(log_delta))
    centre, spread = k / n + z * z / (2 * n), z * math.sqrt(k / n * (1.0 - k / n) / n + (z / (2 * n)) ** 2)
    return (centre + spread) / (1.0 + z * z / n)


def _inverse_above_one_half(k: int, n: int, log_delta: float) -> float:
    """The same where ``exp(log_delta) > 1/2``: from the tail ``P(Bin(n, p) > k)``, free of cancellation."""
    log_complement = math.log(-math.expm1(log_delta))
    other = n - k - 1
    ceiling = (k + 1.5) / (n + 1.0)
    p = min(max(_wilson_limit(k, n, log_delta), (k + 1.0) / (2.0 * n)), ceiling)
    for _ in range(100):
        tail = _log_tail(other, n, 1.0 - p, p)
        step = (log_complement - tail.log_value) / tail.slope
        p = min(p * math.exp(step), ceiling)
        if abs(step) < 1e-12:
            break
    widening = 1e-13
    while True:
        p = min(1.0, p * (1.0 + widening))
        if p == 1.0:
            return p
        tail = _log_tail(other, n, 1.0 - p, p)
        if tail.log_value - tail.error >= log_complement:
            return p
        widening *= 2.0


def _log_tail(k: int, n: int, p: float, q: float) -> _Tail:
    """``ln P(Bin(n, p) <= k)`` for ``q = 1-p`` and ``0 <= k < n``, ``k < (n+1) p`` (+1).

    ``P = pmf(k) * S`` with ``S = 1 + r_0 + r_0 r_1 + ...``, ``r_i = (k-i) q / ((n-k+1+i) p)``.
    """
    exponent = _log_pmf_exponent(k, n, p, q)
    series, terms = _tail_series(k, n, p, q)
    log_series = math.log(series)
    return _Tail(
        log_value=exponent[0] + log_series,
        error=4e-15 * exponent[1] + 4e-16 * (terms + abs(log_series)) + 1e-13,
        slope=(n - k) / series,
    )


def _log_pmf_exponent(k: int, n: int, p: float, q: float) -> tuple[float, float]:
    """``ln P(Bin(n, p) = k)`` in saddle-point form, and the magnitude its rounding error scales with."""
    if k == 0:
        value = n * (math.log1p(-p) if p < 0.5 else math.log(q))
        return value, -value
    # k - n p is where cancellation would hurt: exact, from whichever of p and q is the accurate one
    exact = k - n * Fraction(p) if p <= q else n * Fraction(q) - (n - k)
    difference = float(exact)
    deviance = _deviance(k, n * p, difference) + _deviance(n - k, n * q, -difference)
    correction = _log_choose_correction(n, k)
    # away from the mean a deviance is a difference of terms as large as its argument
    terms = sum(x for x, mean in ((k, n * p), (n - k, n * q)) if abs(difference) > 0.1 * mean)
    return correction - deviance, deviance + terms + abs(correction)


def _log_choose_correction(n: int, k: int) -> float:
    """``ln C(n, k) - n H(k/n)``, H the entropy in nats: what Stirling's formula adds to the exponent."""
    errors = stirling_error(n) - stirling_error(k) - stirling_error(n - k)
    return errors - _LOG_SQRT_2PI + 0.5 * math.log(n / (k * (n - k)))


def stirling_error(n: int) -> float:
    """``ln n! - ln(sqrt(2 pi n) (n/e)^n)``."""
    if n < 16:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - _LOG_SQRT_2PI
    x = 1.0 / (n * n)
    return (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x / 1188)))) / n


def _tail_series(k: int, n: int, p: float, q: float) -> tuple[float, int]:
    """An upper bound on ``S`` (the truncated rest is bounded by a geometric series) and its length."""
    odds = q / p
    total, term, start, size = 1.0, 1.0, 0, 64
    while start < k:
        i = np.arange(start, min(k, start + size), dtype=np.float64)
        ratios = (k - i) / (n - k + 1.0 + i) * odds
        terms = np.cumprod(ratios) * term
        total += float(terms.sum())
        term, ratio = float(terms[-1]), float(ratios[-1])
        start += len(i)
        if ratio < 1.0 and term * ratio <= 1e-17 * (1.0 - ratio) * total:
            return total + term * ratio / (1.0 - ratio), start
        size = min(4 * size, _BLOCK_TERMS)
    return total, start


def log2_choose(n: int, k: int) -> float:
    """``log2`` of the binomial coefficient, rounded up; at most 1e-12 (relative) too large.

    Example:
        >>> round(log2_choose(614_656, 61_466), 5)
        288263.02004
    """
    k = min(k, n - k)
    if k == 0:
        return 0.0
    if n < 1000:
        return round_up(math.log2(math.comb(n, k)))
    entropy = k * math.log(n / k) - (n - k) * math.log1p(-k / n)
    return (entropy + _log_choose_correction(n, k)) / math.log(2.0) * (1.0 + 1e-13)
