"""The limit of C-15, recomputed in multiple precision (docs/format.md, section 10.7; docs/picked.md)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import mpmath
from mpmath import mpf

from ..forms import dishonest
from ..formulas import DIGITS, STEPS, Forms, occam, quotient, tail_ratio
from ..header import Abstaining, Costly, Header, PartOfPicks, Picked

if TYPE_CHECKING:
    from collections.abc import Callable


def picked_forms(header: Header, extra: Picked) -> tuple[Forms, list[str]]:
    """The one form of C-15."""
    tally, n, code_bits = header.tally, header.n, header.code_bits
    limit = limit_of(header, extra)
    if isinstance(tally, Abstaining):
        error, share = (
            limit(counted=extra.picks + count, n=n, code_bits=code_bits, delta=mpf(header.delta) / 2)
            for count in (header.errors, tally.abstained)
        )
        return Forms(*[quotient(error, share)] * 3), dishonest("share", tally.share, share)
    if isinstance(tally, Costly):
        return _picked_cost(header, extra, tally)
    picks = tally.picks if isinstance(tally, PartOfPicks) else extra.picks
    value = limit(counted=picks + header.errors, n=n, code_bits=code_bits, delta=header.delta)
    return Forms(value, value, value), []


def _picked_cost(header: Header, extra: Picked, tally: Costly) -> tuple[Forms, list[str]]:
    """A mean cost after picks, from how many examples cost more than each cost (docs/format-3.md, 10.7)."""
    ladder, largest, reasons = header.fault.ladder, header.fault.largest, []
    limit = limit_of(header, extra)
    if sum(step * count for (_, step), count in zip(ladder, tally.above, strict=True)) != tally.cost:
        reasons.append(f"Facts: tally.cost is {tally.cost}, which {list(tally.above)} do not add up to.")
    if any(more > fewer for fewer, more in itertools.pairwise(tally.above)):
        reasons.append(f"Facts: more examples cost more: tally.above is {list(tally.above)}.")
    if header.errors != -(-tally.cost // largest):
        reasons.append(f"Facts: errors is {header.errors}, which a cost of {tally.cost} does not give.")
    with mpmath.workdps(DIGITS):
        level, total = mpf(header.delta) / len(ladder), mpf(0)
        for (_, step), count in zip(ladder, tally.above, strict=True):
            found = limit(counted=extra.picks + count, n=header.n, code_bits=header.code_bits, delta=level)
            total += step * found
        value = total / largest
    return Forms(value, value, value), reasons


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
