"""The margin route: closeness of g to f on the sample, and the margin of f, bound the errors of g."""

import math
from dataclasses import replace
from typing import Literal

from codebound.bounds.facts import MarginFacts
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import RiskBound
from codebound.run.errors import UsageError
from codebound.run.references import implements

Norm = Literal["sup", "l2"]


@implements("C-Lem-margin", kind="certificate")
def margin_for_deviation(deviation: float, *, norm: Norm) -> float:
    r"""Largest change of a margin when the scores move by ``deviation``.

    Statement.  ``max_j |f[j]-g[j]| <= e`` implies ``|mar(f)-mar(g)| <= 2 e``;
                ``||f-g||_2 <= e`` implies ``|mar(f)-mar(g)| <= sqrt(2) e``. Both constants are attained.
    Differs.    The papers use 1 in place of 2 and sqrt(2), which is false (G-E2, A-E1).
    Direction.  Rounded up.
    Checked by. property (random scores), teeth (the papers' counterexample).

    Example:
        >>> margin_for_deviation(0.5, norm="sup")
        1.0
    """
    if not 0.0 <= deviation < math.inf:
        raise UsageError(f"`deviation` is a finite distance >= 0. Got {deviation}.")
    if norm == "sup":
        return 2.0 * deviation
    return math.sqrt(2.0) * deviation * (1.0 + 4e-16)


@implements("C-7", "C-8", kind="certificate")
def occam_margin(facts: MarginFacts) -> RiskBound:
    r"""Occam bound through the margin of the original network. For g.

    Statement.  If g is within ``theta/2`` (sup norm) or ``theta/sqrt(2)`` (l2) of f on S except on the
                outliers, then g errs at most on the examples that are outliers or where f has a margin of at
                most theta; C-2 applies with their number as errors.
    Reference.  C-7 with the outliers of C-8. theta and the outliers may be chosen after seeing S at no
                cost: they only bound a count from above. Never tighter than counting the errors of g.
    Checked by. property, validity (teeth: slack theta instead of theta/2).

    Example:
        >>> from codebound.bounds.facts import OccamFacts
        >>> counted = OccamFacts(errors=300, n=60_000, code_bits=5000, delta=0.05)
        >>> round(occam_margin(MarginFacts(counted=counted, outliers=50, theta=1.0)).value, 4)
        0.0737
    """
    return replace(occam_binomial(facts.counted), ref="C-7", facts=facts)
