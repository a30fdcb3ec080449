"""Bounds on faults other than plain errors: on one class, on what was not abstained from, and costs."""

import math
from collections.abc import Sequence
from dataclasses import replace

from codebound.bounds.facts import (
    HoldoutFacts,
    OccamFacts,
    PickedFacts,
    check_bits,
    check_counts,
    check_delta,
)
from codebound.bounds.held_out import holdout
from codebound.bounds.numerics import kl_inverse_upper, round_up
from codebound.bounds.occam import occam_binomial
from codebound.bounds.picked import picked_risk
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


@implements("C-17:abstain", kind="certificate")
def occam_abstaining(
    *, errors: int, kept: int, n: int, code_bits: float, delta: float
) -> tuple[float | None, float]:
    r"""Error where the network does not abstain, and how often it abstains; both limits hold at once.

    Statement.  With probability at least ``1 - delta`` the network errs on at most the first share of the new
                data that it does not abstain from, and abstains from at most the second share of new data.

    Args:
        errors: Errors among the examples kept.
        kept: Examples that the network did not abstain from.
        n: Sample size.
        code_bits: Length of the message, with the threshold in it if that was chosen after seeing S.
        delta: Failure probability, shared equally.

    Example:
        >>> error, abstained = occam_abstaining(errors=5, kept=900, n=1000, code_bits=0, delta=0.05)
        >>> round(error, 4), round(abstained, 4)
        (0.0129, 0.1203)
    """
    check_counts(errors, n)
    if not errors <= kept <= n:
        raise UsageError(f"`kept` lies between errors={errors} and n={n}. Got {kept}.")
    error, abstained = occam_table([(errors, kept), (n - kept, n)], code_bits=code_bits, delta=delta)
    assert abstained is not None  # n is at least 1
    return error, abstained


@implements("C-17:cost", kind="certificate")
def occam_cost(*, mean_cost: float, n: int, code_bits: float, delta: float) -> float:
    r"""Limit on an expected cost between 0 and 1: the kl form, which needs no yes or no.

    Statement.  As C-3, with the mean cost of g on S in place of the error rate: for costs in [0, 1],
                ``P(mean <= q) <= exp(-n kl(q || expectation))`` by convexity (Hoeffding 1963).
    Direction.  Upper; a mean that is rounded up is safe. Divide other costs by the largest that can occur.
    Checked by. property, validity (teeth: no bits).

    Args:
        mean_cost: Mean cost on the sample, in [0, 1].
        n: Sample size.
        code_bits: Length of the message.
        delta: Failure probability.

    Example:
        >>> round(occam_cost(mean_cost=0.031, n=10_000, code_bits=100, delta=0.05), 4)
        0.0565
    """
    facts = OccamFacts(errors=0, n=n, code_bits=code_bits, delta=delta)
    if not 0.0 <= mean_cost <= 1.0:
        raise UsageError(
            f"`mean_cost` lies in [0, 1]. Got {mean_cost}; divide costs by the largest possible."
        )
    return kl_inverse_upper(min(1.0, round_up(mean_cost)) if mean_cost else 0.0, round_up(facts.nats / n))


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


@implements("C-17:kept", kind="certificate")
def kept_disagreement(
    error: float, abstained: float, *, disagreement: HoldoutFacts
) -> tuple[float | None, float]:
    r"""Error of f where it does not abstain, and how often it does, through its disagreement with g. For f.

    Statement.  Let p be the error of g where g does not abstain, a the share that g abstains from, and d the
                probability that f and g disagree: not both of them abstain, nor do both answer the same. Then
                f errs on at most ``p + d / (1 - a)`` of the data that f does not abstain from, and abstains
                from at most ``a + d``.
    Reference.  C-17. Where they agree, f errs on x <= p (1 - a) of the data and answers on y >= 1 - a - d;
                where they disagree it answers on z <= d. So it errs on at most (x + z) / (y + z), which rises
                with x and z and falls with y as long as it is below 1.
    Direction.  Upper. The failure probabilities of all three limits add up.
    Checked by. validity (teeth: the share of g left out, and the plain disagreement of predictions).

    Args:
        error: Limit on p.
        abstained: Limit on a.
        disagreement: Inputs on which they disagree.

    Returns:
        Both limits; the first is None where g may abstain from everything.

    Example:
        >>> apart = HoldoutFacts(errors=2, n=20_000, delta=0.025)
        >>> bound, share = kept_disagreement(0.0129, 0.1203, disagreement=apart)
        >>> round(bound, 4), round(share, 4)
        (0.0133, 0.1207)
    """
    apart = holdout(disagreement).value
    share = min(1.0, (abstained + apart) * _OUTWARD)
    if abstained >= 1.0:
        return None, share
    return min(1.0, (error + apart / (1.0 - abstained)) * _OUTWARD), share


@implements("C-17:picked", kind="certificate")
def picked_abstaining(facts: PickedFacts, *, abstained: int) -> tuple[float, float]:
    r"""Error where a network that was learned from picks does not abstain, and how often it abstains. For g.

    Statement.  C-15 twice, at half of delta: the probability that g errs and does not abstain is at most the
                limit for ``picks + errors``, the probability that it abstains at most that for
                ``picks + abstained``; so the error given that it does not abstain is at most the first
                divided by one less the second.
    Needs.      What C-15 needs; which examples are kept depends on g, so their number is no n here.
    Direction.  Upper; counting too many is safe.
    Checked by. validity (teeth: the errors among those kept as if they had been drawn).

    Args:
        facts: Picks, and errors among the examples that were neither picked nor abstained from.
        abstained: Examples that were not picked and that g abstains from.

    Example:
        >>> facts = PickedFacts(picks=30, errors=5, n=1700, delta=0.05)
        >>> bound, share = picked_abstaining(facts, abstained=60)
        >>> round(bound, 4), round(share, 4)
        (0.0361, 0.0726)
    """
    half = replace(facts, delta=facts.delta / 2.0)
    error = picked_risk(half).value
    share = picked_risk(replace(half, errors=abstained)).value
    return (1.0 if share >= 1.0 else min(1.0, error / (1.0 - share) * _OUTWARD)), share


@implements("C-17:picked-cost", kind="certificate")
def picked_cost(facts: PickedFacts, *, above: Sequence[int], costs: Sequence[int]) -> float:
    r"""Limit on the expected cost of a network that was learned from picks, as a share of the largest. For g.

    Statement.  Let costs take the values 0 and v_1 < .. < v_r, so that a cost is the sum of v_i - v_(i-1)
                over the i with cost >= v_i. By C-15 at ``delta / r`` each, P(cost >= v_i) is at most the
                limit e_i for ``picks + above_i``; so the mean is at most the sum of (v_i - v_(i-1)) e_i.
    Needs.      What C-15 needs.
    Direction.  Upper; counting too many is safe.
    Checked by. oracle (mpmath), validity (teeth: picks that are not counted).

    Args:
        facts: Picks, n, bits and delta; its errors are not used.
        above: For each value of the costs, how many examples that were not picked cost as much.
        costs: The values that a cost above 0 can have, from small to large.

    Example:
        >>> facts = PickedFacts(picks=30, errors=0, n=1700, delta=0.05)
        >>> round(picked_cost(facts, above=[20, 5], costs=[1, 5]), 4)
        0.0357
    """
    share = facts.delta / len(costs) * (1.0 - 1e-15)
    limits = [picked_risk(replace(facts, errors=count, delta=share)).value for count in above]
    steps = [cost - before for before, cost in zip((0, *costs), costs, strict=False)]
    total = math.fsum(step * limit for step, limit in zip(steps, limits, strict=True))
    return min(1.0, total / costs[-1] * _OUTWARD)
