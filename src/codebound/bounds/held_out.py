"""Bounds from examples that took no part in making the network, or in choosing its helper."""

from dataclasses import dataclass, replace

from codebound.bounds.facts import HoldoutFacts, OccamFacts, SplitFacts
from codebound.bounds.numerics import binomial_tail_upper
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import (
    CODE_ALONE,
    CODE_FIRST,
    DISJOINT_BASE,
    DUPLICATES,
    FRESH,
    IID,
    PRIOR_SPLIT,
    RiskBound,
)
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
def occam_split(facts: SplitFacts) -> RiskBound:
    r"""Occam bound with a helper that depends on part of the sample. For g.

    Statement.  Split S by a rule that ignores the data. The helper, code tables, start and ranges may be any
                function of the first part, and g may be trained on all of S. Then C-2 holds with the size
                of the second part as n, errors counted there only, and the length given the helper.
    Reference.  C-10: condition on the first part; the code is then fixed and the rest is still i.i.d.
    Checked by. validity (teeth: errors and size of the whole sample).

    Example:
        >>> certify = OccamFacts(errors=10, n=30_000, code_bits=100, delta=0.05)
        >>> 0.003 < occam_split(SplitFacts(certify=certify, n_prior=30_000)).value < 0.004
        True
    """
    tail = occam_binomial(facts.certify)
    # the helper has seen a part of the sample: what is assumed elsewhere would be false here
    kept = [line for line in tail.assumptions if line not in (CODE_FIRST, DISJOINT_BASE)]
    return replace(tail, ref="C-10", facts=facts, assumptions=(CODE_ALONE, PRIOR_SPLIT, *kept))
