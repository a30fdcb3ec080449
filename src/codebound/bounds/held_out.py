"""Bounds from examples that took no part in making the network, or whose looks or picks are paid for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from codebound.bounds.numerics import (
    binomial_inverse_upper,
    binomial_tail_upper,
    log2_choose,
    picked_inverse_upper,
)
from codebound.bounds.occam import log2_up
from codebound.bounds.risk import HoldoutFacts, LookFacts, PickedFacts, RiskBound
from codebound.run.errors import UsageError
from codebound.run.references import implements

REFUTING_LEVEL = 1e-3
"""Probability below which test errors refute a certified error; a true bound meets it at most that often."""
CAUSES = (
    "copies inside the sample, or of the test examples in it",
    "a base that saw the sample",
    "test data from another distribution than the sample",
    "a network whose answer depends on more than the one example it is asked about",
)
"""Possible causes if test data refute a certificate that both programs accept."""


@implements("C-11", "C-12d", "C-12d:faithful", "C-17:clusters", kind="certificate")
def holdout(facts: HoldoutFacts) -> RiskBound:
    r"""Clopper-Pearson limit on fresh examples, for whichever network was tested.

    Statement.  With probability at least ``1 - delta`` over n fresh examples,
                ``R <= max{p : P(Bin(n, p) <= errors) >= delta}``.
    Reference.  C-12d:faithful counts disagreements with the original on inputs without labels;
                ``err(g) <= err(f) + P(g(x) is not f(x))``. C-17:clusters counts clusters, such as patients:
                one is lost if any of its rows is, or one chosen without regard to predictions and labels.
    Needs.      The examples were used for no choice whatsoever. Rows of a cluster need not be independent;
                no claim on clusters is about the error per row.
    Checked by. oracle (beta quantile), validity (teeth: one error dropped; inputs on which g was chosen; rows
                counted as if they were independent).

    Example:
        >>> round(holdout(HoldoutFacts(errors=215, n=10_000, delta=0.05)).value, 6)
        0.024042
    """
    return RiskBound(
        ref="C-11",
        value=binomial_inverse_upper(facts.errors, facts.n, math.log(facts.delta) * (1.0 + 1e-15)),
        delta=facts.delta,
        subject=facts.subject,
        facts=facts,
        drawn="test sample",
    )


@dataclass(frozen=True, slots=True)
class Confrontation:
    """A certified error beside a test of the same network.

    Attributes:
        test: Errors of the network that the bound is about, on examples that took no part in making it.
        tail: At least the probability of so many test errors or more, were the risk as large as the bound.
        does: What the network does where it counts.
    """

    test: HoldoutFacts
    tail: float
    does: str = "errs"

    @property
    def is_refuted(self) -> bool:
        """Return True if the test errors refute the bound."""
        return self.tail < REFUTING_LEVEL

    @property
    def alarm(self) -> str:
        """Warning with possible causes. It is empty where nothing speaks against the bound."""
        if not self.is_refuted:
            return ""
        return (
            f"REFUTED BY TEST DATA: {self.test.subject} {self.does} on {self.test.errors} of {self.test.n} "
            f"test examples. If its risk were as certified, so many would have a probability below "
            f"{REFUTING_LEVEL:g}. Do not rely on this certificate. What may be wrong: {'; '.join(CAUSES)}."
        )


@implements("C-11:refuted", kind="certificate")
def confront(bound: float, test: HoldoutFacts, *, does: str = "errs") -> Confrontation:
    r"""Test a certified error on fresh examples: a one-sided exact binomial test.

    Statement.  If the risk is at most ``bound`` and the test examples are fresh, then
                ``P(Bin(n, bound) >= errors) < a`` with probability at most a, for every level a.
    Needs.      Test examples from the distribution of the claim, used for no choice.
    Direction.  Upper bound on the tail: rounding never raises an alarm.
    Checked by. oracle (mpmath), validity (teeth: a base that knows the sample by heart is found out).

    Example:
        >>> confront(0.05, HoldoutFacts(errors=30, n=360, delta=0.05)).is_refuted
        False
        >>> confront(0.05, HoldoutFacts(errors=36, n=360, delta=0.05)).is_refuted
        True
    """
    return Confrontation(test, binomial_tail_upper(test.errors, test.n, bound), does)


@implements("C-16", "C-16:best", kind="certificate")
def looked_risk(facts: LookFacts) -> RiskBound:
    r"""Clopper-Pearson limit on a test set that answered before. For each network that was tried.

    Statement.  Networks are tried one after the other on n examples, each chosen by whatever rule from what
                was known before the examples and from the answers to earlier looks. The answers have a
                prefix-free code; those that came before a look take L bits together, and the look has a
                share w of delta, fixed beforehand, the shares of all looks summing to 1. With probability
                at least ``1 - delta`` over the examples, for all looks at once,

    .. math:: R \le \max\{p : P(\mathrm{Bin}(n, p) \le \mathrm{errors}) \ge \delta \, w \, 2^{-L}\} .

    Reference.  C-16: the union bound of C-2, over everything that could have been answered; docs/holdout.md
                has the proof. Without answers, L = 0 and w = 1/K, it is C-11; then all K limits hold at once,
                and so does that of the best (C-16:best).
    Differs.    The ladder mechanism (Blum and Hardt 2015) bounds how far the best answer can drift; here each
                network gets a limit of its own, with the exact tail and the code of the answers given.
    Needs.      Nothing was learned about the examples beside the answers.
    Direction.  Upper; it rises with the errors, so a number that the errors do not exceed will do.
    Checked by. oracle (mpmath), property, validity against an adversary who builds networks from the answers
                (teeth: answers that are not paid).

    Example:
        >>> plain = LookFacts(errors=500, n=10_000, delta=0.05)
        >>> used = LookFacts(errors=500, n=10_000, delta=0.05, looks=1000)
        >>> [round(looked_risk(facts).value, 4) for facts in (plain, used)]
        [0.0537, 0.059]
    """
    return RiskBound(
        ref="C-16",
        value=binomial_inverse_upper(facts.errors, facts.n, -facts.nats),
        delta=facts.delta,
        subject="f",
        facts=facts,
        drawn="test sample",
    )


@implements("C-16:ladder", kind="certificate")
def ladder_bits(answers: Sequence[int | None], levels: Sequence[int]) -> float:
    """Bits of answers that say only by how much the best was beaten, if at all.

    The levels are falling numbers of errors, fixed beforehand. An answer is None, "not better", or a level
    below the best one so far: the smallest that the errors do not exceed. After t answers with b improvements
    the next is an improvement with probability ``(2b + 1)/(2t + 2)`` (Krichevsky and Trofimov), and then each
    of the better levels with the same.

    Direction.  Rounded up, by 1e-14 (relative).

    Example:
        >>> round(ladder_bits([None], [400]), 9)
        1.0
        >>> round(ladder_bits([600, None, None, 400], [800, 600, 400, 200]), 3)
        8.415
    """
    terms: list[float] = []
    better, best = 0, 0
    for told, answer in enumerate(answers):
        share = (2 * better + 1) / (2 * told + 2)
        if answer is None:
            terms.append(-math.log1p(-share) / math.log(2.0))
            continue
        left = levels[best:]
        if answer not in left:
            raise UsageError(f"an answer is a level below the best one, or None. Got {answer}.")
        terms.append(math.log2(len(left)) - math.log2(share))
        better, best = better + 1, best + left.index(answer) + 1
    return math.fsum(terms) * (1.0 + 1e-14)


@implements("C-16:sorted", kind="certificate")
def sorted_answer_bits(n: int, *, bins: int) -> float:
    """Bits of an answer that tells how many of n units are in each bin: the ``log2`` of all such answers.

    These are ``choose(n + bins - 1, bins - 1)``. The errors among n are two bins; units on which only A errs,
    only B errs, or neither does, are three. Rounded up.

    Example:
        >>> sorted_answer_bits(1023, bins=2), sorted_answer_bits(2, bins=3) >= math.log2(6)
        (10.0, True)
    """
    if n < 0 or bins < 1:
        raise UsageError(f"need n >= 0 and bins >= 1. Got {n=}, {bins=}.")
    return log2_up(n + 1) if bins == 2 else log2_choose(n + bins - 1, bins - 1)


@implements("C-15", kind="certificate")
def picked_risk(facts: PickedFacts) -> RiskBound:
    r"""The sample as its own test set: picked examples count like errors. For g.

    Statement.  A rule maps every finite multiset U of examples to a part c(U) of it, such that throwing away
                examples outside c(U) changes nothing (*preference*), and such that g errs on a new example z
                only if c(c(U) + z) is not c(U). Let ``k = picks + errors`` be the size of c(S), for a sample
                S of n examples. With probability at least ``1 - delta``, for all rules of a prefix-free code
                at once, ``R(g)`` is at most the root p of

    .. math:: n p \; P(\mathrm{Bin}(n, p) = k) = \delta 2^{-\ell} \; P(\mathrm{Bin}(n, p) > k) .

    Reference.  C-15: Campi and Garatti 2023, theorem 4 and its corollary for preferent compressions; the sum
                that defines their limit in closed form. docs/why.md has the proof.
    Differs.    The union over the rules of a code is ours, as in C-2. Examples that were set apart first are
                not counted: given them the others are still independent draws.
                A rule that picks nothing leaves a hold-out set, for which C-10 is enough.
    Needs.      The rule looks at what was picked and at constants, never at the rest of S: docs/why.md
                lists what breaks it.
    Direction.  Upper; it rises with ``picks + errors``, so counting too many is safe.
    Checked by. oracle (the sum, in mpmath), property, validity (teeth: each broken rule is caught).

    Example:
        >>> facts = PickedFacts(picks=700, errors=100, n=60_000, code_bits=30, delta=0.05)
        >>> round(picked_risk(facts).value, 5)
        0.01703
    """
    value = picked_inverse_upper(facts.counted, facts.n, -facts.nats)
    return RiskBound(ref="C-15", value=value, delta=facts.delta, subject="g", facts=facts)
