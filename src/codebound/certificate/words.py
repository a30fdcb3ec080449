"""Counts, choices and data of a certificate in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bits.forms import FIRST_TABLE, NETWORK, PICKS, SPLIT, TABLE, USUAL_SPLIT
from codebound.bounds.risk import count_of

if TYPE_CHECKING:
    from codebound.certificate.file import Certificate, Limit

_CHOICES = {
    USUAL_SPLIT: "the usual learner on the usual share",
    FIRST_TABLE: "the first declared table of scores, as it is",
    TABLE: "a table of scores among those declared, or biases on one",
    SPLIT: "a share and a learner of its own",
    PICKS: "a rule that picks examples",
    NETWORK: "the numbers of a network",
}
_COPIES = {
    "any": "every copy of a wrong row counts, and right rows with equal inputs count once",
    "independent": "every row counts",
    "repeated": "rows that are equal count once",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """A count that a claim rests on.

    Attributes:
        key: Its name in JSON.
        name: Its name in tables.
        count: How many.
        of: Out of how many.
        meaning: A sentence about what was counted, and on what.
    """

    key: str
    name: str
    count: int
    of: int
    meaning: str

    def __str__(self) -> str:
        return f"{self.name}: {self.count} of {self.of}"


def describe_choice(certificate: Certificate) -> str:
    """Content and price of the message.

    The usual thing costs one bit: "1 bit for the usual learner on the usual share".
    """
    return f"{count_of(certificate.message.bits, 'bit', form='g')} for {_CHOICES[certificate.form]}"


def describe_data(certificate: Certificate) -> str:
    """The data on which the classifier errs that little."""
    original = certificate.original
    if original is None or original.domain is None:
        return "new data"
    low, high = original.domain
    return f"new data with stored values from {low:g} to {high:g}"


def describe_counts(certificate: Certificate) -> tuple[Counted, ...]:
    """The counts behind the bound: those of each limit, or of the widest of many parts."""
    claim = certificate.claim
    limits = (certificate.widest,) if claim.on.startswith("each ") else claim.limits
    found = [each for limit in limits for each in _describe_limit(certificate, limit)]
    if certificate.known.rows:
        known, unit, all_units = certificate.known.rows, _unit(certificate), certificate.sample.rows
        if unit == "clusters":  # a file does not say how many there are
            all_units = known + certificate.limit.n
        meaning = f"{unit} that were learned from and are never counted"
        found.append(Counted("known", f"{unit} set apart", known, all_units, meaning))
    return tuple(found)


def _describe_limit(certificate: Certificate, limit: Limit) -> list[Counted]:
    claim, unit = certificate.claim, _unit(certificate)
    if limit.of == "disagreement":
        meaning = (
            "unlabelled inputs, a second draw, on which f and g predict differently or one of them is "
            "ambiguous: their share is bounded too, and added to the bound for g"
        )
        return [Counted("disagreements", "disagreements of f and g", limit.errors, limit.n, meaning)]
    copies = _COPIES[certificate.sample.copies]
    seen = " after the known share" if certificate.known.rows else ""
    if limit.of == "silent":
        meaning = f"{unit}{seen} that g does not answer; their share is bounded too"
        return [Counted("silent", f"{unit} without an answer", limit.errors, limit.n, meaning)]
    name = "errors counted"
    if claim.loss != "wrong":
        name = f"losses counted ({claim.loss})"
    if claim.on.startswith("each "):
        name += f", {limit.of}"
    margin = ""
    if certificate.original is not None and certificate.original.domain is not None:
        margin = ", or right by no more than the margin by which f and g can differ"
    meaning = f"{unit}{seen} that g gets wrong{margin}; {copies}"
    counts = [Counted("errors", name, limit.errors, limit.n, meaning)]
    if limit.picks is not None:
        picked = f"{unit} that the rule learned from after looking at them: each counts like an error"
        counts.insert(0, Counted("picks", "picks", limit.picks, limit.n, picked))
    return counts


def _unit(certificate: Certificate) -> str:
    return "clusters" if certificate.sample.order == "clusters" else "examples"
