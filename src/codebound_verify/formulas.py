"""The two laws, recomputed in multiple precision (docs/format.md, section 6.4; docs/why.md).

Each limit is the largest p that satisfies an inequality. All inverses run Newton's method on u = ln(1 - p),
where the function is concave or convex, from a side on which every step stays: the iterates never cross the
solution, so what is returned errs, if at all, upwards.
"""

from __future__ import annotations

from functools import lru_cache

import mpmath
from mpmath import mpf

DIGITS = 60
PRECISION = 240  # bits after the point in sums of fixed-point numbers
STEPS = 500  # far above what Newton's method needs
SLACK = mpf("1e-6")  # a printed value may be larger by this much, relatively


@lru_cache(1024)
def binomial(*, errors: int, n: int, bits: int, delta: float | mpf) -> mpf:
    """C-2, C-10 and C-11: the largest p with P(Bin(n, p) <= errors) >= delta 2^-bits.

    Example:
        >>> mpmath.nstr(binomial(errors=300, n=60_000, bits=5000, delta=0.05), 3)
        '0.0737'
    """
    if errors >= n:
        return mpf(1)
    with mpmath.workdps(DIGITS):
        nats = bits * mpmath.ln2 - mpmath.log(mpf(delta))
        return -mpmath.expm1(_binomial_inverse(errors, n, nats))


def picked(*, counted: int, n: int, bits: int, delta: float | mpf) -> mpf:
    """C-15: the p with n p P(Bin(n, p) = counted) = delta 2^-bits P(Bin(n, p) > counted), or 1.

    Example:
        >>> mpmath.nstr(picked(counted=850, n=60_000, bits=0, delta=0.05), 4)
        '0.01584'
    """
    if counted >= n:
        return mpf(1)
    with mpmath.workdps(DIGITS):
        target = mpmath.log(n) - mpmath.log(mpf(delta)) + bits * mpmath.ln2
        return -mpmath.expm1(-_picked_inverse(counted, n, target))


def is_honest(printed: float, exact: mpf) -> bool:
    """Return True if a printed value is not below the exact one and not needlessly above."""
    with mpmath.workdps(DIGITS):
        return bool(exact <= mpf(printed) <= exact * (1 + SLACK))


def _binomial_inverse(errors: int, n: int, nats: mpf) -> mpf:
    """The u = ln(1 - p) at which P(Bin(n, p) <= errors) = exp(-nats).

    The logarithm of that probability, a regularised incomplete beta function, is concave in u, rises, and has
    the derivative (n - errors) / tail_ratio. At the start it is not above -nats: with so few errors some
    n - errors rows are right, for each choice of them with probability e^((n - errors) u).
    """
    choose = log_choose(n, errors)
    u = -(nats + choose) / (n - errors)
    for _ in range(STEPS):
        p = -mpmath.expm1(u)
        ratio = tail_ratio(errors, n, odds=mpmath.exp(u) / p)
        log_tail = choose + errors * mpmath.log(p) + (n - errors) * u + mpmath.log(ratio)
        step = (-nats - log_tail) * ratio / (n - errors)
        if step <= abs(u) * mpf(10) ** (20 - DIGITS):
            return u
        u += step
    raise ArithmeticError(f"no binomial inverse for {errors} errors of {n} and {mpmath.nstr(nats, 10)} nats")


def _picked_inverse(counted: int, n: int, target: mpf) -> mpf:
    """The u = -ln(1 - p) at which ln of P(Bin(n, p) > counted) / (p P(Bin(n, p) = counted)) is ``target``.

    That quotient is the sum, over m from ``counted`` to n - 1, of C(m, counted) / C(n, counted) e^((n - m) u)
    (docs/why.md): its logarithm is convex in u and rises. The start is where the first term is enough.
    """
    left = n - counted
    choose = log_choose(n, counted)
    u = (target + choose) / left
    for _ in range(STEPS):
        p = -mpmath.expm1(-u)
        odds = mpmath.exp(-u) / p
        log_mass = choose + counted * mpmath.log(p) - left * u
        mass = mpmath.exp(log_mass)
        above = 1 - mass * tail_ratio(counted, n, odds=odds)
        excess = mpmath.log(above) - mpmath.log(p) - log_mass - target
        step = excess / (left * (1 + mass / above) - (counted + 1) * odds)
        if step <= abs(u) * mpf(10) ** (20 - DIGITS):
            return u
        u -= step
    raise ArithmeticError(f"no inverse for {counted} counted of {n} and {mpmath.nstr(target, 10)}")


def log_choose(n: int, k: int) -> mpf:
    """The logarithm of a binomial coefficient."""
    return mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)


def at_least(k: int, n: int, p: mpf) -> mpf:
    """P(Bin(n, p) >= k)."""
    if k <= 0:
        return mpf(1)
    if p <= 0 or k > n:
        return mpf(0)
    return mpf(1) if p >= 1 else probability(k, n, p) * tail_ratio(n - k, n, odds=p / (1 - p))


def probability(k: int, n: int, p: mpf) -> mpf:
    """P(Bin(n, p) = k) for p strictly between 0 and 1."""
    return mpmath.exp(log_choose(n, k) + k * mpmath.log(p) + (n - k) * mpmath.log1p(-p))


def tail_ratio(errors: int, n: int, *, odds: mpf) -> mpf:
    """P(Bin(n, p) <= errors) / P(Bin(n, p) = errors), with odds = (1 - p) / p.

    Its terms, from ``errors`` downwards, are all positive; they are added until the rest is below 2^-200.
    """
    one = 1 << PRECISION
    scaled_odds = int(mpmath.ldexp(odds, PRECISION))
    term = total = one
    for i in range(errors, 0, -1):
        # P(Bin = i - 1) / P(Bin = i) = odds i / (n - i + 1) falls with i: a geometric series bounds the rest.
        factor = scaled_odds * i // (n - i + 1)
        term = term * factor >> PRECISION
        total += term
        if factor < one and term * one < (one - factor) << (PRECISION - 200):
            break
    return mpmath.ldexp(mpf(total), -PRECISION)
