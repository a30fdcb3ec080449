"""The bound of a network on test examples that were looked at before: every look is paid for."""

import math
from collections.abc import Sequence

from codebound.bounds.facts import LookFacts
from codebound.bounds.lengths import log2_up
from codebound.bounds.numerics import binomial_inverse_upper
from codebound.bounds.risk import DUPLICATES, IID, LOOKS_TOLD, RiskBound
from codebound.run.errors import UsageError
from codebound.run.references import implements


@implements("C-16", kind="certificate")
def looked_risk(facts: LookFacts) -> RiskBound:
    r"""Clopper-Pearson limit on a test set that answered before. For each network that was tried.

    Statement.  Networks are tried one after the other on n examples, each chosen by whatever rule from what
                was known before the examples and from the answers to earlier looks. The answers have a
                prefix-free code; those that came before a look take L bits together, and the look has a
                share w of delta, fixed beforehand, the shares of all looks summing to 1. With probability
                at least ``1 - delta`` over the examples, for all looks at once,

    .. math:: R \le \max\{p : P(\mathrm{Bin}(n, p) \le \mathrm{errors}) \ge \delta \, w \, 2^{-L}\} .

    Reference.  C-16: the union bound of C-2, over everything that could have been answered; docs/looks.md
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
