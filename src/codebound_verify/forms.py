"""Check of a claim's printed numbers against its facts (section 7): every form, claim and fault."""

from __future__ import annotations

import mpmath

from .faults import WRONG
from .formulas import (
    DIGITS,
    SLACK,
    Forms,
    clopper_pearson,
    is_honest,
    least_share,
    occam,
)
from .header import Disagreement, Header, PartOfSample, Picked
from .refusal import Refused
from .rooms import room


def check_claim(header: Header) -> None:
    """Check that the three printed forms and the word vacuous follow from the facts (section 7)."""
    exact, reasons = _exact_forms(header)
    for name, printed, value in (
        ("bound", header.bound, exact.bound),
        ("kl", header.kl, exact.kl),
        ("hoeffding", header.hoeffding, exact.hoeffding),
    ):
        reasons += dishonest(name, printed, value)
    if isinstance(header.extra, Picked) and not header.bound == header.kl == header.hoeffding:
        reasons.append("Claim: bound, kl and hoeffding are one number for C-15; the printed ones differ.")
    limit = guessing(header, header.commonest)
    if header.vacuous != (header.bound >= limit):
        reasons.append(
            f"Claim: vacuous is {header.vacuous}, but the bound {header.bound!r} is "
            f"{'below' if header.vacuous else 'not below'} {limit!r}, the error of guessing."
        )
    if reasons:
        raise Refused(*reasons)


def _exact_forms(header: Header) -> tuple[Forms, list[str]]:
    """Exact values of the three forms, and reasons to refuse the numbers they follow from."""
    reasons: list[str] = []
    delta, added, tally = mpmath.mpf(header.delta), mpmath.mpf(0), header.tally  # whose half is above 0
    if isinstance(extra := header.extra, Disagreement):
        delta = mpmath.mpf(extra.delta_risk)
        added = clopper_pearson(
            errors=extra.disagreements, n=extra.n_unlabelled, delta=extra.delta_disagreement
        )
        parts, name = (4, "a quarter") if isinstance(tally, PartOfSample) else (2, "half")
        if not (delta == header.delta / 2 and extra.delta_disagreement == header.delta / parts):
            reasons.append(
                f"Claim: delta_risk is {extra.delta_risk}, delta_disagreement {extra.delta_disagreement}; "
                f"they must be half of delta and {name} of it: a split chosen after looking is not paid for."
            )
    if isinstance(tally, PartOfSample):
        added, found = _on_part(header, tally, added)
        reasons += found
    if isinstance(extra, Picked):
        return room("limit of a rule").picked_forms(header, extra), reasons
    forms = occam(errors=header.errors, n=header.n, code_bits=header.code_bits, delta=delta)
    return forms.plus(added), reasons


def _on_part(header: Header, tally: PartOfSample, disagreement: mpmath.mpf) -> tuple[mpmath.mpf, list[str]]:
    """Bound on disagreements within the counted part, and reasons to refuse its printed share."""
    share = least_share(inside=header.n, n=tally.examples, delta=mpmath.mpf(header.delta) / 4)
    with mpmath.workdps(DIGITS):
        if share <= 0:
            return mpmath.mpf(1), ["Claim: the part that the fault is counted on may be arbitrarily small."]
        is_fitting = share * (1 - SLACK) <= mpmath.mpf(tally.share) <= share
        reason = f"Claim: share is printed as {tally.share!r}; it is {mpmath.nstr(share, 17)}."
        return disagreement / share, [] if is_fitting else [reason]


def dishonest(name: str, printed: float, exact: mpmath.mpf) -> list[str]:
    """Reasons to refuse a printed number: smaller than the true one, or much larger."""
    if is_honest(printed, exact):
        return []
    size = "smaller" if printed < exact else "larger"
    return [
        f"Claim: {name} is printed as {printed!r}, which is {size} than the true {mpmath.nstr(exact, 17)}."
    ]


def guessing(header: Header, commonest: int | None) -> float:
    """Error of guessing: a class at random or, for plain errors, the commonest label if better."""
    blind = header.fault.guessing(header.classes)
    return blind if commonest is None or header.fault != WRONG else min(blind, 1 - commonest / header.n)
