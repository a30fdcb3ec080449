"""The limit of C-15, recomputed in multiple precision (docs/format.md, section 10.7; docs/picked.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mpmath
from mpmath import mpf

from ..formulas import DIGITS, STEPS, Forms, occam, tail_ratio
from ..header import Header, PartOfPicks, Picked

if TYPE_CHECKING:
    from collections.abc import Callable


def picked_forms(header: Header, extra: Picked) -> Forms:
    """The one form of C-15."""
    picks = header.tally.picks if isinstance(header.tally, PartOfPicks) else extra.picks
    limit, counted = limit_of(header, extra), picks + header.errors
    value = limit(counted=counted, n=header.n, code_bits=header.code_bits, delta=header.delta)
    return Forms(value, value, value)


def limit_of(header: Header, extra: Picked) -> Callable[..., mpf]:
    """The limit of C-15, or of a hold-out set where the rule picks nothing (docs/format-3.md, 10.7)."""
    return held_out if header.version.has_short and extra.picks == 0 else picked


def picked(*, counted: int, n: int, code_bits: int, delta: float | mpf) -> mpf:
    """C-15: the p with n p P(Bin(n, p) = counted) = delta 2^-code_bits P(Bin(n, p) > counted), or 1.

    Example:
        >>> mpmath.nstr(picked(counted=850, n=60_000, code_bits=0, delta=0.05), 4)
        '0.01584'
    """
    if counted >= n:
        return mpf(1)
    with mpmath.workdps(DIGITS):
        target = mpmath.log(n) - mpmath.log(mpf(delta)) + code_bits * mpmath.ln2
        return -mpmath.expm1(-_picked_inverse(counted, n, target))


def held_out(*, counted: int, n: int, code_bits: int, delta: float | mpf) -> mpf:
    """The p with P(Bin(n, p) <= counted) = delta 2^-code_bits: C-15 where nothing is picked.

    Example:
        >>> mpmath.nstr(held_out(counted=5, n=100, code_bits=0, delta=0.05), 4)
        '0.1023'
    """
    return occam(errors=counted, n=n, code_bits=code_bits, delta=delta).bound


def _picked_inverse(counted: int, n: int, target: mpf) -> mpf:
    """The u = -ln(1 - p) at which ln of P(Bin(n, p) > counted) / (p P(Bin(n, p) = counted)) is ``target``.

    That quotient is the sum, over m from ``counted`` to n - 1, of C(m, counted) / C(n, counted) e^((n - m) u)
    (docs/picked.md): its logarithm is convex in u and rises. The start is where the first term is enough.
    """
    left = n - counted
    choose = mpmath.loggamma(n + 1) - mpmath.loggamma(counted + 1) - mpmath.loggamma(left + 1)
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
