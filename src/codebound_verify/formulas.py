"""The bounds, recomputed in multiple precision (docs/format.md, sections 7 and 10.7; docs/picked.md).

Each is the largest p that satisfies an inequality. All inverses run Newton's method on u = ln(1 - p), where
the function is concave or convex, from a side on which every step stays: the iterates never cross the
solution, so what is returned errs, if at all, upwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
from mpmath import mpf

DIGITS = 60
PRECISION = 240  # bits after the point in sums of fixed-point numbers
STEPS = 500  # far above what Newton's method needs
ROUNDING = mpf("1e-30")  # far above what rounding can do to a tail
SLACK = mpf("1e-6")  # a printed value may be larger by this much, relatively


@dataclass(frozen=True)
class Forms:
    """Upper bounds on a risk: exact binomial, Chernoff-kl and Hoeffding."""

    bound: mpf
    kl: mpf
    hoeffding: mpf

    def plus(self, risk: mpf) -> Forms:
        """All three with another risk added, capped at 1."""
        with mpmath.workdps(DIGITS):
            return Forms(*(min(mpf(1), form + risk) for form in (self.bound, self.kl, self.hoeffding)))


def occam(*, errors: int, n: int, code_bits: int, delta: float | mpf) -> Forms:
    """C-2, C-3 and C-4 for a network of ``code_bits`` bits that makes ``errors`` errors on n examples.

    Example:
        >>> forms = occam(errors=300, n=60_000, code_bits=5000, delta=0.05)
        >>> [mpmath.nstr(value, 3) for value in (forms.bound, forms.kl, forms.hoeffding)]
        ['0.0737', '0.0738', '0.175']
    """
    with mpmath.workdps(DIGITS):
        nats = code_bits * mpmath.ln2 - mpmath.log(mpf(delta))
        hoeffding = mpf(errors) / n + mpmath.sqrt(nats / (2 * n))
        if errors == n:
            return Forms(mpf(1), mpf(1), mpf(1))
        u = _kl_inverse(errors, n, nats)
        return Forms(
            bound=-mpmath.expm1(_binomial_inverse(errors, n, nats, start=u)),
            kl=-mpmath.expm1(u),
            hoeffding=min(mpf(1), hoeffding),
        )


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


def least_share(*, inside: int, n: int, delta: float | mpf) -> mpf:
    """C-11 from below: the share of new data in a part that ``inside`` of n examples belong to."""
    with mpmath.workdps(DIGITS):
        return 1 - clopper_pearson(errors=n - inside, n=n, delta=delta)


def clopper_pearson(*, errors: int, n: int, delta: float | mpf) -> mpf:
    """C-11: the largest p with P(Bin(n, p) <= errors) >= delta."""
    return occam(errors=errors, n=n, code_bits=0, delta=delta).bound


def probability_of_more(errors: int, n: int, risk: float) -> mpf:
    """P(Bin(n, risk) >= errors), rounded up: how likely so many test errors are, or more, at that risk.

    Example:
        >>> mpmath.nstr(probability_of_more(17, 50, 0.3), 8)
        '0.31612138'
    """
    with mpmath.workdps(DIGITS):
        p = mpf(risk)
        if errors <= 0 or p >= 1:
            return mpf(1)
        if p <= 0:
            return mpf(0)
        if errors > n * p:  # by symmetry: right answers of a network that is right with probability 1 - p
            return min(mpf(1), _lower_tail(n - errors, n, right=p) * (1 + ROUNDING))
        return 1 - _lower_tail(errors - 1, n, right=1 - p) * (1 - ROUNDING)


def _lower_tail(k: int, n: int, *, right: mpf) -> mpf:
    """P(Bin(n, 1 - right) <= k), from its largest term downwards."""
    choose = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
    largest = mpmath.exp(choose + k * mpmath.log(1 - right) + (n - k) * mpmath.log(right))
    return largest * tail_ratio(k, n, odds=right / (1 - right))


def is_honest(printed: float, exact: mpf) -> bool:
    """Return True if a printed value is not below the exact one and not needlessly above."""
    with mpmath.workdps(DIGITS):
        return bool(exact <= mpf(printed) <= exact * (1 + SLACK))


def _kl_inverse(errors: int, n: int, nats: mpf) -> mpf:
    """The u = ln(1 - p) at which n kl(errors/n, p) = nats and p >= errors/n.

    n kl = fixed - errors ln(1 - e^u) - (n - errors) u is convex in u and falls on the side of interest.
    """
    right = n - errors
    fixed = (errors * mpmath.log(mpf(errors) / n) if errors else mpf(0)) + right * mpmath.log(mpf(right) / n)
    if not errors:
        return -nats / n
    # Here n kl >= nats: fixed >= -n ln 2, and the second term is not negative.
    u = -(nats + n * mpmath.ln2) / right
    for _ in range(STEPS):
        p = -mpmath.expm1(u)
        excess = fixed - errors * mpmath.log(p) - right * u - nats
        slope = errors * (1 - p) / p - right  # below zero while p > errors/n
        if slope >= 0 or excess <= 0:
            return u
        step = -excess / slope
        u += step
        if step < abs(u) * mpf(10) ** (10 - DIGITS):
            return u
    raise ArithmeticError(f"no kl inverse for {errors} errors of {n} and {mpmath.nstr(nats, 10)} nats")


def _binomial_inverse(errors: int, n: int, nats: mpf, *, start: mpf) -> mpf:
    """The u = ln(1 - p) at which P(Bin(n, p) <= errors) = exp(-nats).

    The logarithm of that probability, a regularised incomplete beta function, is concave in u, rises, and has
    the derivative (n - errors) / tail_ratio. At ``start`` it must not be above -nats: by C-1 the kl inverse
    will do.
    """
    choose = mpmath.loggamma(n + 1) - mpmath.loggamma(errors + 1) - mpmath.loggamma(n - errors + 1)
    u = start
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
