"""Bounds from examples that took no part in making the network, or that were looked at and paid for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from codebound.bounds.facts import HoldoutFacts, LookFacts, OccamFacts
from codebound.bounds.lengths import log2_up
from codebound.bounds.numerics import binomial_inverse_upper, binomial_tail_upper, log2_choose
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import (
    CODE_ALONE,
    CODE_FIRST,
    DISJOINT_BASE,
    DUPLICATES,
    FRESH,
    IID,
    LOOKS_TOLD,
    PRIOR_SPLIT,
    RiskBound,
)
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


@implements("C-11", "C-12d", kind="certificate")
def holdout(facts: HoldoutFacts) -> RiskBound:
    r"""Clopper-Pearson limit on fresh examples, for whichever network was tested.

    Statement.  With probability at least ``1 - delta`` over n fresh examples, for each of the ``networks``
                tested, ``R <= max{p : P(Bin(n, p) <= errors) >= delta / networks}``.
    Needs.      The examples were used for no choice whatsoever.
    Checked by. oracle (beta quantile), validity (teeth: one error dropped).

    Example:
        >>> round(holdout(HoldoutFacts(errors=215, n=10_000, delta=0.05)).value, 6)
        0.024042
    """
    level = facts.delta / facts.networks * (1.0 - 1e-15)
    tail = occam_binomial(
        OccamFacts(errors=facts.errors, n=facts.n, code_bits=0.0, delta=level, classes=facts.classes)
    )
    return RiskBound(
        ref="C-11",
        value=tail.value,
        delta=facts.delta,
        subject=facts.subject,
        facts=facts,
        assumptions=(IID, FRESH, DUPLICATES),
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


@implements("C-10", kind="certificate")
def occam_split(facts: OccamFacts) -> RiskBound:
    r"""Occam bound with a helper that depends on part of the sample. For g.

    Statement.  Split S by a rule that ignores the data. The helper, code tables, start and ranges may be any
                function of the first part, and g may be trained on all of S. Then C-2 holds with the size
                of the second part as n, errors counted there only, and the length given the helper.
    Reference.  C-10: condition on the first part; the code is then fixed and the rest is still i.i.d.
    Checked by. validity (teeth: errors and size of the whole sample).

    Example:
        >>> after_split = OccamFacts(errors=10, n=30_000, code_bits=100, delta=0.05)
        >>> 0.003 < occam_split(after_split).value < 0.004
        True
    """
    tail = occam_binomial(facts)
    # the helper has seen a part of the sample: what is assumed elsewhere would be false here
    kept = [line for line in tail.assumptions if line not in (CODE_FIRST, DISJOINT_BASE)]
    return replace(tail, ref="C-10", assumptions=(CODE_ALONE, PRIOR_SPLIT, *kept))


@implements("C-16", kind="certificate")
def looked_risk(facts: LookFacts) -> RiskBound:
    r"""Clopper-Pearson limit on a test set that answered before. For each network that was tried.

    Statement.  Networks are tried one after the other on n examples, each chosen by whatever rule from what
                was known before the examples and from the answers to earlier looks. The answers have a
                prefix-free code; those that came before a look take L bits together, and the look has a
                share w of delta, fixed beforehand, the shares of all looks summing to 1. With probability
                at least ``1 - delta`` over the examples, for all looks at once,

    .. math:: R \le \max\{p : P(\mathrm{Bin}(n, p) \le \mathrm{errors}) \ge \delta \, w \, 2^{-L}\} .

    Reference.  C-16: the union bound of C-2, over everything that could have been answered; docs/holdout.md
                has the proof. Without answers, L = 0 and w = 1/K, it is C-11.
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
        assumptions=(IID, LOOKS_TOLD, DUPLICATES),
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


@implements("C-16:exact", kind="certificate")
def exact_answer_bits(answers: int, *, n: int) -> float:
    """Bits of answers that tell the number of errors among n: ``log2(n + 1)`` each, rounded up.

    Example:
        >>> exact_answer_bits(2, n=1023)
        20.0
    """
    if answers < 0 or n < 1:
        raise UsageError(f"need answers >= 0 and n >= 1. Got {answers=}, {n=}.")
    return answers * log2_up(n + 1)
