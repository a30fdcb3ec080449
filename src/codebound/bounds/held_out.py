"""Bounds from examples that took no part in making the network, or in choosing its helper."""

from dataclasses import replace

from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import CODE_FIRST, DISJOINT_BASE, DUPLICATES, FRESH, IID, PRIOR_SPLIT, RiskBound
from codebound.facts import HoldoutFacts, OccamFacts, SplitFacts
from codebound.refs import implements


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
    return replace(tail, ref="C-10", facts=facts, assumptions=(*kept, PRIOR_SPLIT))
