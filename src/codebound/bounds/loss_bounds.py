"""Bounds on faults other than plain errors, such as those on one class."""

from collections.abc import Sequence
from dataclasses import replace

from codebound.bounds.facts import (
    HoldoutFacts,
    OccamFacts,
    check_bits,
    check_counts,
    check_delta,
)
from codebound.bounds.held_out import holdout
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import RiskBound
from codebound.run.errors import UsageError
from codebound.run.references import implements

_LEAST_SHARE = 1e-8  # of a part of the data about which anything is said
_OUTWARD = 1.0 + 1e-15  # covers a few roundings


@implements("C-17", kind="certificate")
def occam_fault(facts: OccamFacts) -> RiskBound:
    r"""Occam bound for any fault, on the examples that it can happen on. For g.

    Statement.  A fault is a question with a yes or no about a network and an example; whether it can happen
                on an example is decided by the example alone, or by the network and the input. All of it is
                fixed before S is seen. Let n count the examples of S that it can happen on, ``errors`` those
                on which it does. With probability at least ``1 - delta``, for all g of a prefix-free code
                at once, the probability of the fault on a new example that it can happen on is at most the
                limit of C-2 for these numbers.
    Reference.  C-17: given which examples it can happen on, they are independent draws from the conditional
                distribution, and C-2 holds for every number of them; so it holds without the condition.
    Direction.  Upper; a missing example that it can happen on and does not, and a fault too many, are safe.
    Checked by. property, validity (teeth: the size of the whole sample).

    Example:
        >>> round(occam_fault(OccamFacts(errors=12, n=980, code_bits=100, delta=0.05)).value, 4)
        0.1056
    """
    return replace(occam_binomial(facts), ref="C-17")


@implements("C-17:table", kind="certificate")
def occam_table(
    counts: Sequence[tuple[int, int]], *, code_bits: float, delta: float
) -> tuple[float | None, ...]:
    r"""Limits for several faults that hold at once, such as the errors on each class.

    Statement.  For each pair of a number of faults and a number of examples the limit of C-17 at ``delta``
                divided by the number of pairs. All of them hold together with probability ``1 - delta``.
    Needs.      The table was fixed before the sample was seen: all classes, or those named beforehand.

    Args:
        counts: Faults, and the examples that each can happen on; without examples there is no limit.
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
        occam_fault(OccamFacts(errors=errors, n=n, code_bits=code_bits, delta=share)).value if n else None
        for errors, n in counts
    )


@implements("C-17:part", kind="certificate")
def part_disagreement(
    *, risk: OccamFacts, disagreement: HoldoutFacts, examples: int
) -> tuple[float | None, float]:
    r"""A fault of f on a part of the examples, such as a class, through its disagreement with g. For f.

    Statement.  For a part A of the data, ``P(fault of f | A) <= P(fault of g | A) + P(apart) / P(A)``, where
                apart says that f and g disagree: the first by C-17, the second by C-11 on unlabelled inputs,
                and P(A) from below by C-11 on the labels, of which ``risk.n`` of ``examples`` belong to A.
    Needs.      A is fixed without a look at the sample: no bits pay for the limit of its share.
    Direction.  Upper. The failure probabilities add up to that of the risk and twice that of the
                disagreement, which the share of the part has again.
    Checked by. validity (teeth: the share of the part left out; the part that occurs too often taken).

    Returns:
        The bound, and the least share of new data that belongs to the part; no bound where that may be 0.

    Example:
        >>> risk = OccamFacts(errors=3, n=1000, code_bits=100, delta=0.025)
        >>> apart = HoldoutFacts(errors=2, n=20_000, delta=0.0125)
        >>> bound, share = part_disagreement(risk=risk, disagreement=apart, examples=10_000)
        >>> round(bound, 4), round(share, 4)
        (0.0855, 0.0934)
    """
    check_counts(risk.n, examples)
    others = HoldoutFacts(errors=examples - risk.n, n=examples, delta=disagreement.delta)
    share = (1.0 - holdout(others).value) * (1.0 - 1e-15)
    if share < _LEAST_SHARE:
        return None, 0.0
    total = occam_fault(risk).value + holdout(disagreement).value / share
    return min(1.0, total * _OUTWARD), share
