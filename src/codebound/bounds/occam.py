"""Occam bounds: a network that a short message describes cannot do much worse on new data.

The three forms C-2 <= C-3 <= C-4 hold on one and the same event of probability ``1 - delta``, for all
networks at once; printing all of them, or the smallest, costs nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from codebound.bounds.facts import OccamFacts, check_bits, check_counts, check_delta, error_rate_up
from codebound.bounds.numerics import bernoulli_kl, binomial_inverse_upper, kl_inverse_upper, round_up
from codebound.bounds.risk import RiskBound, occam_assumptions
from codebound.run.errors import UsageError
from codebound.run.references import implements


@implements("C-1", kind="certificate")
def chernoff_tail(errors: int, n: int, *, risk: float) -> float:
    r"""Chernoff bound on seeing few errors.

    Statement.  For a fixed network of risk p and ``errors/n <= p``:
                ``P(Bin(n, p) <= errors) <= exp(-n kl(errors/n || p))``.
    Direction.  Upper bound on the probability; 1 where ``errors/n > p``.
    Checked by. oracle (exact tail), property.

    Args:
        errors: Errors seen, 0 <= errors <= n.
        n: Number of examples.
        risk: True risk p in [0, 1].

    Example:
        >>> round(chernoff_tail(0, 10, risk=0.5) * 2**10, 9)
        1.0
    """
    check_counts(errors, n)
    if not 0.0 <= risk <= 1.0:
        raise UsageError(f"`risk` is a probability. Got risk={risk}.")
    rate = error_rate_up(errors, n)
    if rate >= risk:
        return 1.0
    exponent = n * bernoulli_kl(rate, risk) * (1.0 - 1e-13)
    return min(1.0, round_up(math.exp(-exponent)) * (1.0 + 1e-15))


@implements("C-2", "C-6", "I-04", kind="certificate")
def occam_binomial(facts: OccamFacts) -> RiskBound:
    r"""Occam bound with the exact binomial tail: the certificate.

    Statement.  Let S be n i.i.d. examples and let a prefix-free code, fixed before S is seen, give g
                ``code_bits`` bits. With probability at least ``1 - delta`` over S, for all g at once,
                ``R(g) <= max{p : P(Bin(n, p) <= errors(g)) >= delta 2^-code_bits}``.
    Reference.  C-2; C-6 is its use on the compressed network itself, with no margin and no norm.
    Needs.      g is the decoded network; errors were counted on all of S.
    Direction.  Upper bound; rounding is outward (see numerics.binomial_inverse_upper).
    Checked by. oracle (mpmath, 60 digits), property, validity (teeth: no bits charged, one error dropped).

    Example:
        >>> bound = occam_binomial(OccamFacts(errors=300, n=60_000, code_bits=5000, delta=0.05))
        >>> round(bound.value, 4)
        0.0737
    """
    value = min(binomial_inverse_upper(facts.errors, facts.n, -facts.nats), occam_kl(facts).value)
    return _bound("C-2", value, facts)


@implements("C-3", kind="certificate")
def occam_kl(facts: OccamFacts) -> RiskBound:
    r"""Occam bound, Chernoff-kl form.

    Statement.  As C-2, with ``kl(errors/n || R(g)) <= (code_bits ln 2 + ln(1/delta)) / n``.
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


@implements("C-4:fast-rate", kind="certificate")
def occam_fast_rate(facts: OccamFacts) -> RiskBound:
    r"""Relaxation that shows the fast rate: ``R <= q + sqrt(2 q nats/n) + 2 nats/n`` with ``q = errors/n``.

    Statement.  From ``kl(q || p) >= (p - q)^2 / (2 p)``. Looser than C-3; for reading, not for certifying.
    Checked by. property (never below C-3).

    Example:
        >>> round(occam_fast_rate(OccamFacts(errors=0, n=60_000, code_bits=1000, delta=0.05)).value, 4)
        0.0232
    """
    rate = facts.nats / facts.n
    value = facts.error_rate + math.sqrt(2.0 * facts.error_rate * rate) + 2.0 * rate
    return _bound("C-4:fast-rate", min(1.0, value * (1.0 + 1e-15)), facts)


@implements("C-4:zero-errors", kind="certificate")
def occam_zero_errors(facts: OccamFacts) -> RiskBound:
    r"""Closed form for a network without training errors: ``R <= 1 - exp(-nats/n)``.

    Statement.  C-2 and C-3 at ``errors = 0``, where they coincide.
    Checked by. property (equals C-2 at zero errors).

    Example:
        >>> round(occam_zero_errors(OccamFacts(errors=0, n=60_000, code_bits=60_000, delta=0.05)).value, 4)
        0.5
    """
    if facts.errors:
        raise UsageError(f"the closed form is for errors=0. Got errors={facts.errors}; use `occam_binomial`.")
    value = -math.expm1(-facts.nats / facts.n)
    return _bound("C-4:zero-errors", min(1.0, value * (1.0 + 1e-15)), facts)


@implements("C-17", kind="certificate")
def occam_loss(facts: OccamFacts) -> RiskBound:
    r"""Occam bound for any loss, on the examples that it is about. For g.

    Statement.  A loss is 0 or 1 for a network and an example; whether it is about an example is decided by
                the example alone, or by the network and the input. All of it is fixed before S is seen.
                Let n count the examples of S that it is about, ``errors`` those on which it is 1. With
                probability at least ``1 - delta``, for all g of a prefix-free code at once, the
                probability of the loss on a new example that it is about is at most the limit of C-2
                for these numbers.
    Reference.  C-17: given which examples it is about, they are independent draws from the conditional
                distribution, and C-2 holds for every number of them; so it holds without the condition.
    Direction.  Upper; a missing example on which it is 0, and a loss too many, are safe.
    Checked by. property, validity (teeth: the size of the whole sample).

    Example:
        >>> round(occam_loss(OccamFacts(errors=12, n=980, code_bits=100, delta=0.05)).value, 4)
        0.1056
    """
    return replace(occam_binomial(facts), ref="C-17")


@implements("C-17:table", kind="certificate")
def occam_table(
    counts: Sequence[tuple[int, int]], *, code_bits: float, delta: float
) -> tuple[float | None, ...]:
    r"""Limits for several losses that hold at once, such as the errors on each class.

    Statement.  For each pair of a number of losses and a number of examples the limit of C-17 at ``delta``
                divided by the number of pairs. All of them hold together with probability ``1 - delta``.
    Needs.      The table was fixed before the sample was seen: all classes, or those named beforehand.

    Args:
        counts: Losses, and the examples that each is about; without examples there is no limit.
        code_bits: Length of the message; 0 for a network that was fixed before the examples were seen.
        delta: Failure probability of the whole table.

    Example:
        >>> limits = occam_table([(3, 100), (0, 0)], code_bits=0, delta=0.05)
        >>> round(limits[0], 4), limits[1]
        (0.0852, None)
    """
    check_delta(delta)
    check_bits(code_bits)
    if not counts:
        raise UsageError("a table has at least one row.")
    share = delta / len(counts) * (1.0 - 1e-15)
    return tuple(
        occam_loss(OccamFacts(errors=errors, n=n, code_bits=code_bits, delta=share)).value if n else None
        for errors, n in counts
    )


def _bound(ref: str, value: float, facts: OccamFacts) -> RiskBound:
    assumptions = occam_assumptions()
    return RiskBound(
        ref=ref, value=value, delta=facts.delta, subject="g", facts=facts, assumptions=assumptions
    )
