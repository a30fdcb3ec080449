"""The printed numbers of a claim follow from its facts (section 7): every form, for every claim and fault."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import mpmath

from .faults import WRONG
from .formulas import (
    DIGITS,
    SLACK,
    Forms,
    clopper_pearson,
    held_out,
    is_honest,
    least_share,
    mean_cost,
    occam,
    picked,
    quotient,
)
from .header import Abstaining, Costly, Disagreement, Header, PartOfPicks, PartOfSample, Picked
from .refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable


def check_claim(header: Header) -> None:
    """The three printed forms and the word vacuous follow from the facts (section 7)."""
    exact, reasons = _exact_forms(header)
    for name, printed, value in (
        ("bound", header.bound, exact.bound),
        ("kl", header.kl, exact.kl),
        ("hoeffding", header.hoeffding, exact.hoeffding),
    ):
        reasons += _dishonest(name, printed, value)
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
    """What the three forms have to be; and what is wrong with the numbers that they follow from."""
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
    if isinstance(tally, Abstaining) and header.errors > tally.kept:
        reasons.append(f"Facts: errors is {header.errors}; only {tally.kept} examples are kept.")
        return Forms(*[mpmath.mpf(1)] * 3), reasons
    if isinstance(extra, Picked):
        forms, found = _picked_forms(header, extra)
        return forms, reasons + found
    bits = header.code_bits
    if isinstance(tally, Costly):
        if header.errors != -(-tally.cost // header.fault.largest):
            reasons.append(f"Facts: errors is {header.errors}, which a cost of {tally.cost} does not give.")
        largest = header.fault.largest
        costs = mean_cost(cost=tally.cost, largest=largest, n=header.n, code_bits=bits, delta=delta)
        return costs.plus(added), reasons
    if isinstance(tally, Abstaining):
        silent = occam(errors=tally.abstained, n=header.n, code_bits=bits, delta=delta / 2).bound
        kept = occam(errors=header.errors, n=tally.kept, code_bits=bits, delta=delta / 2)
        if isinstance(extra, Disagreement):
            return _kept_by_f(tally, kept, silent, added, reasons)
        return kept, reasons + _dishonest("share", tally.share, silent)
    return occam(errors=header.errors, n=header.n, code_bits=bits, delta=delta).plus(added), reasons


def _kept_by_f(
    tally: Abstaining, kept: Forms, silent: mpmath.mpf, disagreement: mpmath.mpf, reasons: list[str]
) -> tuple[Forms, list[str]]:
    """C-12b with abstaining: what the limits for g and for disagreements say about f."""
    with mpmath.workdps(DIGITS):
        if silent >= 1:
            return Forms(*[mpmath.mpf(1)] * 3), [*reasons, "Claim: g may abstain from all new data."]
        forms, share = kept.plus(disagreement / (1 - silent)), min(mpmath.mpf(1), silent + disagreement)
    return forms, reasons + _dishonest("share", tally.share, share)


def _on_part(header: Header, tally: PartOfSample, disagreement: mpmath.mpf) -> tuple[mpmath.mpf, list[str]]:
    """What disagreements add on a part of the data, which is at least so large a share of it."""
    share = least_share(inside=header.n, n=tally.examples, delta=mpmath.mpf(header.delta) / 4)
    with mpmath.workdps(DIGITS):
        if share <= 0:
            return mpmath.mpf(1), ["Claim: the part that the fault is counted on may be arbitrarily small."]
        is_fitting = share * (1 - SLACK) <= mpmath.mpf(tally.share) <= share
        reason = f"Claim: share is printed as {tally.share!r}; it is {mpmath.nstr(share, 17)}."
        return disagreement / share, [] if is_fitting else [reason]


def _picked_forms(header: Header, extra: Picked) -> tuple[Forms, list[str]]:
    """The one form of C-15."""
    tally, n, code_bits = header.tally, header.n, header.code_bits
    limit = limit_of(header, extra)
    if isinstance(tally, Abstaining):
        error, share = (
            limit(counted=extra.picks + count, n=n, code_bits=code_bits, delta=mpmath.mpf(header.delta) / 2)
            for count in (header.errors, tally.abstained)
        )
        return Forms(*[quotient(error, share)] * 3), _dishonest("share", tally.share, share)
    if isinstance(tally, Costly):
        return _picked_cost(header, extra, tally)
    picks = tally.picks if isinstance(tally, PartOfPicks) else extra.picks
    value = limit(counted=picks + header.errors, n=n, code_bits=code_bits, delta=header.delta)
    return Forms(value, value, value), []


def _picked_cost(header: Header, extra: Picked, tally: Costly) -> tuple[Forms, list[str]]:
    """A mean cost after picks, from how many examples cost more than each cost (docs/format-3.md, 10.7)."""
    ladder, largest, reasons = header.fault.ladder, header.fault.largest, []
    limit = limit_of(header, extra)
    if sum(step * count for (_, step), count in zip(ladder, tally.above, strict=True)) != tally.cost:
        reasons.append(f"Facts: tally.cost is {tally.cost}, which {list(tally.above)} do not add up to.")
    if any(more > fewer for fewer, more in itertools.pairwise(tally.above)):
        reasons.append(f"Facts: more examples cost more: tally.above is {list(tally.above)}.")
    if header.errors != -(-tally.cost // largest):
        reasons.append(f"Facts: errors is {header.errors}, which a cost of {tally.cost} does not give.")
    with mpmath.workdps(DIGITS):
        level, total = mpmath.mpf(header.delta) / len(ladder), mpmath.mpf(0)
        for (_, step), count in zip(ladder, tally.above, strict=True):
            found = limit(counted=extra.picks + count, n=header.n, code_bits=header.code_bits, delta=level)
            total += step * found
        value = total / largest
    return Forms(value, value, value), reasons


def limit_of(header: Header, extra: Picked) -> Callable[..., mpmath.mpf]:
    """The limit of C-15, or of a hold-out set where the rule picks nothing (docs/format-3.md, 10.7)."""
    return held_out if header.version.has_short and extra.picks == 0 else picked


def _dishonest(name: str, printed: float, exact: mpmath.mpf) -> list[str]:
    if is_honest(printed, exact):
        return []
    size = "smaller" if printed < exact else "larger"
    return [
        f"Claim: {name} is printed as {printed!r}, which is {size} than the true {mpmath.nstr(exact, 17)}."
    ]


def guessing(header: Header, commonest: int | None) -> float:
    """What a guess achieves: one of the classes by lot, or for plain errors always the commonest label."""
    blind = header.fault.guessing(header.classes)
    return blind if commonest is None or header.fault != WRONG else min(blind, 1 - commonest / header.n)
