"""Limits of a ledger in multiple precision (docs/ledger.md, sections 5 to 7)."""

from __future__ import annotations

from functools import lru_cache

import mpmath
from mpmath import mpf

from ..formulas import DIGITS, binomial, tail_ratio

SLACK = mpf("1e-6")  # rounding of a printed number to the safe side; of a comparison that was not met
SIDE = 20  # one part in so many of a level is for what else is unknown of a difference
NEGLIGIBLE = mpf(10) ** -45  # beside a sum of falling terms


def upper(errors: int, n: int, level: mpf) -> mpf:
    """U(k, n, p): the largest q with P(Bin(n, q) <= k) >= p.

    Example:
        >>> mpmath.nstr(upper(500, 10_000, mpf("0.05")), 4)
        '0.05374'
    """
    return mpf(1) if errors >= n else binomial(errors=errors, n=n, bits=0, delta=level)


def is_below(printed: float, exact: mpf) -> bool:
    """Return True if a printed lower limit is not above the exact one, nor needlessly below."""
    with mpmath.workdps(DIGITS):
        return bool(exact - SLACK <= mpf(printed) <= exact)


def may_say(said: bool, smaller: mpf, larger: mpf) -> bool:
    """Return True if "smaller <= larger" may be printed as it was: a yes is exact, a no is near or right."""
    with mpmath.workdps(DIGITS):
        return bool(smaller <= larger if said else smaller * (1 + SLACK) > larger)


def sign_tail(a_only: int, b_only: int) -> mpf:
    """P(Bin(a_only + b_only, 1/2) >= a_only).

    Example:
        >>> mpmath.nstr(sign_tail(3, 1), 6)
        '0.3125'
    """
    return _at_least(a_only, a_only + b_only, mpf(1) / 2)


def is_difference(printed: float, *, a_only: int, b_only: int, n: int, level: mpf, is_better: bool) -> bool:
    """Return True if a printed lower limit on risk(A) - risk(B) follows from the counts."""
    with mpmath.workdps(DIGITS):
        if is_better:
            gain = mpf(printed)
            is_safe = gain == 0 or (gain > 0 and chance_of_gain(gain, a_only, b_only, n, level) <= level)
            return bool(
                is_safe and chance_of_gain(gain + SLACK, a_only, b_only, n, level) > level * (1 - SLACK)
            )
        pairs = a_only + b_only
        wrong = upper(b_only, pairs, level * (SIDE - 1) / SIDE) if pairs else mpf(1)
        return is_below(printed, -upper(pairs, n, level / SIDE) * max(mpf(1) / SIDE, 2 * wrong - 1))


def chance_of_gain(gain: mpf, a_only: int, b_only: int, n: int, level: mpf) -> mpf:
    """P(t) of section 7: the chance of such counts if A errs at most t more often than B, at its worst.

    Either A alone and B alone err like two independent binomial numbers: then the largest credible rate of B
    alone is the worst. Or just one of the two errs more often than not: then the share of A in that is least
    surprising where such errors are rarest, or most frequent if the gain is negative.
    """
    with mpmath.workdps(DIGITS):
        gain = mpf(gain)
        seen, side, pairs = a_only - b_only, level / SIDE, a_only + b_only
        if gain >= 1 or gain * (n - 1) > seen - 1:
            return mpf(1)
        rate, gap, few = upper(b_only, n, side), 1 - gain, side
        if rate >= -gain:
            root = mpmath.sqrt(max(mpf(0), gap * gap - 4 * rate))
            b = min(gap / 2, 2 * rate / (gap + root))
            few += _difference_tail(seen, n, max(NEGLIGIBLE, b + gain), b)
        if (share := upper(pairs, n, side)) <= mpf(1) / 2:
            return few
        if gain > 0:
            share = max(mpf(1) / 2, 1 - upper(n - pairs, n, side))
        is_possible = share + gain >= 0  # a difference is not larger than the share of those that differ
        return max(few, 2 * side + (_at_least(a_only, pairs, (1 + gain / share) / 2) if is_possible else 0))


@lru_cache(256)
def _difference_tail(seen: int, n: int, a: mpf, b: mpf) -> mpf:
    """P(X - Y >= seen) for independent X of Bin(n, a) and Y of Bin(n, b).

    The sum over Y = j of P(Y = j) P(X >= seen + j). Its terms rise, then fall, and fall ever faster.
    """
    if seen <= -n:
        return mpf(1)
    first, last = max(0, -seen), min(n, n - seen)
    odds_a, odds_b = a / (1 - a), b / (1 - b)
    low, high = first, last  # where P(Y = j) P(X = seen + j) is largest
    while low < high:
        j = (low + high) // 2
        rises = odds_a * odds_b * (n - j) * (n - seen - j) > (j + 1) * (seen + j + 1)
        low, high = (j + 1, high) if rises else (low, j)
    mass_a, mass_b, j = _mass(seen + low, n, a), _mass(low, n, b), low
    least = mass_a * mass_b * NEGLIGIBLE
    while j < last and mass_a * mass_b > least:
        mass_a *= odds_a * (n - seen - j) / (seen + j + 1)
        mass_b *= odds_b * (n - j) / (j + 1)
        j += 1
    tail = mass_a * tail_ratio(n - seen - j, n, odds=odds_a)
    total = mass_b * tail
    while j > first:
        mass_a *= (seen + j) / (odds_a * (n - seen - j + 1))
        mass_b *= j / (odds_b * (n - j + 1))
        tail += mass_a
        total += mass_b * tail
        j -= 1
        if j < low and j < b * n and mass_b * tail < total * NEGLIGIBLE:
            return total
    if first:  # X cannot be less than nothing
        total += 1 - _at_least(first, n, b)
    return total


def _mass(k: int, n: int, p: mpf) -> mpf:
    """P(Bin(n, p) = k) for p strictly between 0 and 1."""
    choose = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
    return mpmath.exp(choose + k * mpmath.log(p) + (n - k) * mpmath.log1p(-p))


def _at_least(k: int, n: int, p: mpf) -> mpf:
    """P(Bin(n, p) >= k)."""
    if p >= 1 or k <= 0:
        return mpf(1)
    if p <= 0 or k > n:
        return mpf(0)
    with mpmath.workdps(DIGITS):
        return _mass(k, n, p) * tail_ratio(n - k, n, odds=p / (1 - p))
