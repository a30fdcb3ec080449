"""Numbers and the claim of a certificate, in this program's own words."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from .claim import DISAGREEMENT, statement_of
from .losses import ANY_ROW, EACH_CLASS, EACH_GROUP, ONE_ROW, Question

if TYPE_CHECKING:
    from .header import Header, Limit

LOSSES = {
    "wrong": "error",
    "class": "error on class {0}",
    "confused": "share of class {0} that is taken for class {1}",
    "false-alarm": "share of the other classes that is taken for class {0}",
    "top": "share of labels outside the best {0}",
    "cost-above": "share of predictions that cost more than {0}",
}
NEW_DATA = {
    EACH_CLASS: "new data of each class",
    EACH_GROUP: "new data of each group",
    ONE_ROW: "one row of a new cluster, chosen as the page says,",
    ANY_ROW: "a new cluster, if one wrong row makes it wrong,",
}


def state_claim(header: Header, question: Question) -> str:
    """The guarantee as a sentence."""
    claim, original = header.claim, header.original
    drawn, data = "the sample", NEW_DATA.get(question.on, "new data")
    if question.threshold is not None:
        data += f" that it answers (its best score leads by more than {question.on.partition(':')[2]})"
    if question.predicted is not None:
        data += f" that it takes for class {question.predicted}"
    if original is not None and original.unlabelled is not None:
        drawn = f"the sample and of the {original.unlabelled.rows} unlabelled inputs"
    if original is not None and original.domain is not None:
        data += f" with stored values from {original.domain[0]} to {original.domain[1]}"
    text = (
        f"With probability at least 1 - {claim.delta} over the draw of {drawn}, the "
        f"{LOSSES[question.kind].format(*question.numbers)} of {claim.subject} on {data} is at most "
        f"{percent(claim.bound)} ({claim.bound!r}, {statement_of(header)}{', VACUOUS' * claim.vacuous})"
    )
    if question.threshold is not None:
        text += f", and the share on which it stays silent at most {limit_text(claim.limits[1].bound)}"
    return text + "."


def describe_limit(header: Header, limit: Limit) -> str:
    """Counts of a limit, and the limit where there are several, as a sentence."""
    unit = "clusters" if header.sample.order == "clusters" else "rows"
    where = f"{unit} after the first {header.known.rows}" if header.known.rows else f"{unit} of the sample"
    what = "are wrong"
    if limit.of == DISAGREEMENT:
        where, what = "unlabelled inputs", "are such that f and g differ, or are in doubt"
    elif limit.of == "silent":
        what = "are not answered"
    counted = f"{limit.errors} of {limit.n} {where} {what}"
    if limit.picks:
        counted += f", and {limit.picks} were picked to learn from; each of these counts as wrong"
    if len(header.claim.limits) == 1:
        return f"{counted}."
    return f"{limit.of}: at most {limit_text(limit.bound)}; {counted}."


def percent(bound: float) -> str:
    """A bound in hundredths of a per cent, not smaller than it is.

    Example:
        >>> percent(0.0737163), percent(0.07)
        ('7.38 %', '7.01 %')
    """
    hundredths = math.ceil(Fraction(bound) * 10_000)
    return f"{hundredths // 100}.{hundredths % 100:02d} %"


def limit_text(bound: float) -> str:
    """A bound as it is read, and as it was checked.

    Example:
        >>> limit_text(0.25)
        '25.00 % (0.25)'
    """
    return f"{percent(bound)} ({bound!r})"
