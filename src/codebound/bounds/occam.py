"""Occam bounds: a network that a short message describes cannot do much worse on new data.

The three forms C-2 <= C-3 <= C-4 hold on one and the same event of probability ``1 - delta``, for all
networks at once; printing all of them, or the smallest, costs nothing.
"""

import math

from codebound.bounds.numerics import binomial_inverse_upper, kl_inverse_upper, round_up
from codebound.bounds.risk import OccamFacts, RiskBound
from codebound.run.errors import UsageError
from codebound.run.references import implements


@implements("C-2", "C-6", "C-10", "C-17", "C-17:precision", "I-04", kind="certificate")
def occam_binomial(facts: OccamFacts) -> RiskBound:
    r"""Occam bound with the exact binomial tail: the certificate.

    Statement.  Let S be n i.i.d. examples and let a prefix-free code, fixed before S is seen, give g
                ``code_bits`` bits. With probability at least ``1 - delta`` over S, for all g at once,
                ``R(g) <= max{p : P(Bin(n, p) <= errors(g)) >= delta 2^-code_bits}``.
    Reference.  C-2; C-6 is its use on the compressed network itself, with no margin and no norm. C-10: S may
                be split by a rule that ignores the data. Given the first part, whatever was made of it is
                fixed and the rest is still i.i.d.: n and the errors are then those of the rest. C-17: n may
                count the examples that a loss of 0 or 1 is about, decided by the example alone or by g and
                the input, and ``errors`` those on which it is 1: given which these are, they are independent
                draws from the conditional distribution. C-17:precision is about those predicted as a class.
    Needs.      g is the decoded network; errors were counted on all of S.
    Direction.  Upper bound; rounding is outward (see numerics.binomial_inverse_upper).
    Checked by. oracle (mpmath, 60 digits), property, validity (teeth: no bits charged, one error dropped; for
                C-10 errors and size of the whole sample; for C-17 the size of the whole sample).

    Example:
        >>> bound = occam_binomial(OccamFacts(errors=300, n=60_000, code_bits=5000, delta=0.05))
        >>> round(bound.value, 4)
        0.0737
    """
    value = min(binomial_inverse_upper(facts.errors, facts.n, -facts.nats), occam_kl(facts).value)
    return _bound("C-2", value, facts)


@implements("C-1", "C-3", kind="certificate")
def occam_kl(facts: OccamFacts) -> RiskBound:
    r"""Occam bound, Chernoff-kl form.

    Statement.  As C-2, with ``kl(errors/n || R(g)) <= (code_bits ln 2 + ln(1/delta)) / n``.
    Reference.  C-1, Chernoff's ``P(Bin(n, p) <= errors) <= exp(-n kl(errors/n || p))``, in place of the tail.
    Differs.    No ``ln(2 sqrt n)`` term: the one-sided bound over a countable class does not need it.
    Direction.  Upper bound; never below C-2, never above C-4.
    Checked by. oracle (mpmath, 60 digits), property, validity (teeth: no bits charged).

    Example:
        >>> round(occam_kl(OccamFacts(errors=1200, n=60_000, code_bits=20_000, delta=0.05)).value, 4)
        0.2657
    """
    value = kl_inverse_upper(facts.error_rate, round_up(facts.nats / facts.n))
    return _bound("C-3", min(value, occam_hoeffding(facts).value), facts)


@implements("C-4", kind="certificate")
def occam_hoeffding(facts: OccamFacts) -> RiskBound:
    r"""Occam bound, Hoeffding form: ``R(g) <= errors/n + sqrt(nats / (2 n))``.

    Statement.  As C-3, relaxed by Pinsker's inequality ``kl(q || p) >= 2 (p - q)^2``.
    Checked by. oracle, property (never below C-3), validity (teeth: ``sqrt(nats / (8 n))``).

    Example:
        >>> round(occam_hoeffding(OccamFacts(errors=0, n=60_000, code_bits=1000, delta=0.05)).value, 4)
        0.0762
    """
    slack = math.sqrt(facts.nats / (2.0 * facts.n))
    return _bound("C-4", min(1.0, (facts.error_rate + slack) * (1.0 + 1e-15)), facts)


def _bound(ref: str, value: float, facts: OccamFacts) -> RiskBound:
    return RiskBound(ref=ref, value=value, delta=facts.delta, subject="g", facts=facts)


def log2_up(value: int) -> float:
    """``log2`` of a positive integer, rounded up; exact for powers of two."""
    if value & (value - 1) == 0:
        return float(value.bit_length() - 1)
    return min(math.log2(value) * (1.0 + 1e-15), float(value.bit_length()))


@implements("C-4:class-size", "C-9", kind="certificate")
def choice_bits(alternatives: int) -> float:
    """Bits that name one of so many alternatives, such as the networks of a class: ``log2``, rounded up.

    They are to be added when the code, seed, level or step was picked among these after seeing S.

    Needs.  The alternatives were listed before S was seen. What the message encodes explicitly is paid
            already and may be tuned freely.

    Example:
        >>> choice_bits(64)
        6.0
    """
    if alternatives < 1:
        raise UsageError(f"`alternatives` counts what was listed, at least 1. Got {alternatives}.")
    return log2_up(alternatives)


@implements("C-4:parameters", kind="certificate")
def parameter_bits(parameters: int, *, levels: int) -> float:
    """Bits of ``q`` parameters with ``r`` levels each, ``q log2 r``: the explicit form of A-Thm2.1.

    Example:
        >>> parameter_bits(1000, levels=16)
        4000.0
    """
    if parameters < 0 or levels < 1:
        raise UsageError(f"need parameters >= 0 and levels >= 1. Got {parameters=}, {levels=}.")
    return parameters * log2_up(levels)


@implements("C-12c", kind="certificate")
def raw_weight_bits(parameters: int) -> float:
    """Bits of the original network f as a code word of its own: 32 per parameter; a sanity line.

    Example:
        >>> raw_weight_bits(10)
        320.0
    """
    return parameter_bits(parameters, levels=2**32)


@implements("C-9:unbounded", kind="certificate")
def elias_gamma_bits(index: int) -> int:
    """Bits of an integer ``>= 1`` in the Elias gamma code, for grids without an end.

    Example:
        >>> [elias_gamma_bits(k) for k in (1, 2, 3, 4, 1000)]
        [1, 3, 3, 5, 19]
    """
    if index < 1:
        raise UsageError(f"the Elias gamma code starts at 1. Got index={index}.")
    return 2 * index.bit_length() - 1
