"""The claim: its kind, its limits, its bound, and whether it says anything (docs/format.md, section 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
import numpy as np
from numpy.typing import NDArray

from .counting import Tally
from .formulas import DIGITS, binomial, is_honest, picked
from .header import Header, Limit
from .losses import ALL, LOSSES, PARTS, Question
from .refusal import Refused

OF_TABLES = ("first table", "another table")
REPLAYED, ON_DECLARED, RECOUNTED = "replayed", "replayed on declared inputs", "recounted"
DISAGREEMENT, RISK = "disagreement", "risk"


def check_kind(header: Header, form: str, question: Question, *, has_picks: bool = False) -> None:
    """Check law and assurance against the form, and the rows that count against both.

    ``has_picks`` says that the message names a table whose learner picked rows.
    """
    claim, original, reasons = header.claim, header.original, []
    for name, stated, found in (
        ("law", claim.law, law_of(header, form, has_picks=has_picks)),
        ("assurance", claim.assurance, assurance_of(header, form)),
    ):
        if stated != found:
            reasons.append(f"Claim: {name} is {stated!r}; it follows from the file that it is {found!r}.")
    if claim.law == "picked" and question.on not in (ALL, *PARTS):
        reasons.append(f"Claim: with picked rows errors are counted on all or in parts, not {question.on!r}.")
    if original is not None:
        if form != "network":
            reasons.append("Claim: it is about a network that was given, and the message holds none.")
        if original.domain is not None and question.on not in (ALL, *PARTS):
            reasons.append(f"Claim: with a domain errors count on all or in parts, not {question.on!r}.")
        if original.unlabelled is not None and question != Question():
            reasons.append("Claim: with unlabelled inputs it is about the errors on all rows.")
    if reasons:
        raise Refused(*reasons)


def law_of(header: Header, form: str, *, has_picks: bool) -> str:
    """The law of a message (6.4)."""
    if header.original is not None and header.original.unlabelled is not None:
        return "sum"
    return "picked" if form == "picks" or has_picks else "binomial"


def assurance_of(header: Header, form: str) -> str:
    """Work of a verifier on such a file (section 2)."""
    if form in OF_TABLES:
        return RECOUNTED
    has_answers = header.original is not None and header.original.chain is None
    has_base = form == "network" and header.known.base is not None
    return ON_DECLARED if has_answers or has_base or header.known.features is not None else REPLAYED


def statement_of(header: Header) -> str:
    """The theorem behind the claim, by its number."""
    if header.original is not None:
        return "C-12b" if header.original.domain is None else "C-12a"
    if header.claim.law == "picked":
        return "C-15"
    return "C-10" if header.known.rows else "C-2"


def check_counts(header: Header, tallies: Sequence[Tally]) -> None:
    """Check that the limits are those of the claim, and that none has fewer errors or more right rows."""
    limits = header.claim.limits
    if (stated := [limit.of for limit in limits]) != (found := [tally.of for tally in tallies]):
        raise Refused(f"Claim: its limits are on {', '.join(stated)}; they have to be on {', '.join(found)}.")
    reasons = []
    for limit, own in zip(limits, tallies, strict=True):
        right = limit.n - limit.errors - (limit.picks or 0)
        if limit.errors < own.errors:
            reasons.append(f"Claim: {limit.of}: {own.errors} errors are counted; it states {limit.errors}.")
        if limit.picks != own.picks:
            reasons.append(f"Claim: {limit.of}: picks are {own.picks}; it states {limit.picks}.")
        if not 0 <= right <= own.right:
            reasons.append(f"Claim: {limit.of}: {own.right} right rows are counted; it states {right}.")
        if limit.n == 0 and len(limits) == 1:
            reasons.append(f"Claim: {limit.of}: nothing is counted.")
    unlabelled = None if header.original is None else header.original.unlabelled
    if unlabelled is not None and unlabelled.disagreements != limits[1].errors:
        reasons.append("Claim: original.unlabelled.disagreements is not the number behind its limit.")
    if reasons:
        raise Refused(*reasons)


def check_limits(header: Header) -> None:
    """Check that every printed limit is that of its law (6.4), and the bound follows from them (6.5)."""
    claim, reasons = header.claim, []
    for limit in claim.limits:
        if not is_honest(limit.bound, value := limit_of(header, limit)):
            size = "smaller" if limit.bound < value else "larger"
            reasons.append(
                f"Claim: the limit on {limit.of} is printed as {limit.bound!r}, which is {size} than the "
                f"true {mpmath.nstr(value, 17)}."
            )
    if claim.bound != (bound := bound_of(header)):
        reasons.append(f"Claim: the bound is printed as {claim.bound!r}; its limits make it {bound!r}.")
    if reasons:
        raise Refused(*reasons)


def limit_of(header: Header, limit: Limit, share: mpmath.mpf | None = None) -> mpmath.mpf:
    """The limit that follows from counts, at its share of delta, or another one (6.4)."""
    with mpmath.workdps(DIGITS):
        delta = mpmath.mpf(header.claim.delta) / len(header.claim.limits) if share is None else share
    bits = header.message.bits
    if header.claim.law == "picked":
        return picked(counted=(limit.picks or 0) + limit.errors, n=limit.n, bits=bits, delta=delta)
    return binomial(errors=limit.errors, n=limit.n, bits=bits, delta=delta)


def bound_of(header: Header) -> float:
    """The bound of some printed limits (6.5)."""
    bounds = [limit.bound for limit in header.claim.limits]
    if header.claim.on in PARTS:
        return max(bounds)
    if header.claim.law != "sum":
        return bounds[0]
    total = sum(map(Fraction, bounds))
    bound = float(total)
    return min(1.0, bound if Fraction(bound) >= total else math.nextafter(bound, math.inf))


def check_vacuous(header: Header, question: Question, labels: NDArray[np.int64]) -> None:
    """Check the word ``vacuous`` (6.6). ``labels`` are those of all counted rows."""
    if header.claim.vacuous != (found := is_vacuous(header, question, labels)):
        raise Refused(f"Claim: vacuous is {header.claim.vacuous}; guessing makes it {found}.")


def is_vacuous(header: Header, question: Question, labels: NDArray[np.int64]) -> bool:
    """Return True if guessing does as well as the bound, in exact fractions (6.6)."""
    claim, classes = header.claim, header.sample.classes
    if question.on in PARTS:
        return any(limit.bound >= 1 for limit in claim.limits)
    level = Fraction(LOSSES[question.kind].guessed(question, classes), classes)
    if question.kind == "wrong" and question.on == ALL and len(labels):
        commonest = int(np.unique(labels, return_counts=True)[1].max())
        level = min(level, 1 - Fraction(commonest, len(labels)))
    return Fraction(claim.bound) >= level
