"""What a page needs to compute its bounds at another failure probability; the page has the same formulas."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from codebound.numerics import binomial_inverse_upper, picked_inverse_upper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codebound.certificate.file import Certificate

_CLOSE = 1e-8  # relative: what is not the same number gets no slider


@dataclass(frozen=True, slots=True)
class Term:
    """A limit that a bound is a sum of.

    Attributes:
        law: ``binomial`` as in C-2, or ``picked`` as in C-15.
        count: What was counted.
        n: Out of how many.
        bits: Length of the message.
        share: Of the failure probability.
    """

    law: Literal["binomial", "picked"]
    count: int
    n: int
    bits: float = 0.0
    share: float = 1.0

    def limit(self, delta: float) -> float:
        """The limit at a failure probability of the whole bound."""
        inverse = binomial_inverse_upper if self.law == "binomial" else picked_inverse_upper
        return inverse(self.count, self.n, math.log(delta * self.share) - self.bits * math.log(2.0))


def bound_at(terms: Sequence[Term], delta: float) -> float:
    """The bound that is the sum of some terms.

    Example:
        >>> round(bound_at([Term("picked", 800, 60_000, bits=30)], 0.05), 5)
        0.01703
    """
    return min(1.0, sum(term.limit(delta) for term in terms))


def formulas(certificate: Certificate, result: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The terms of every bound on a page, by its name there; of those that this module gets right."""
    claim, facts = certificate.claim, certificate.facts
    found: dict[str, tuple[float, list[Term]]] = {"certified": (claim.bound, _claimed(certificate))}
    if "holdout" in result:
        found["holdout"] = (result["holdout"], [Term("binomial", result["test_errors"], result["test_n"])])
    rows = result.get("by_class", ())
    for row in rows:
        if row["bound"] is not None:
            law: Literal["binomial", "picked"] = "picked" if claim.statement == "C-15" else "binomial"
            count = row["errors"] + row.get("picks", 0)
            term = Term(law, count, row["n"], facts.code_bits, 1.0 / len(rows))
            found[f"class-{row['label']}"] = (row["bound"], [term])
    return {
        name: [asdict(term) for term in terms]
        for name, (stated, terms) in found.items()
        if math.isclose(bound_at(terms, claim.delta), stated, rel_tol=_CLOSE)
    }


def _claimed(certificate: Certificate) -> list[Term]:
    facts = certificate.facts
    tally = facts.tally or {}
    extra, share = facts.extra, 0.5 if "disagreements" in facts.extra or "kept" in tally else 1.0
    picks = tally.get("picks", extra.get("picks"))
    law: Literal["binomial", "picked"] = "binomial" if picks is None else "picked"
    n = facts.n if picks is not None else tally.get("kept", facts.n)
    terms = [Term(law, facts.errors + (picks or 0), n, facts.code_bits, share)]
    if "disagreements" in extra:
        terms.append(Term("binomial", extra["disagreements"], extra["n_unlabelled"], share=share))
    return terms


def costs(certificate: Certificate) -> list[tuple[str, float]]:
    """What a certified error is made of, part by part; the parts add up to it."""
    claim, facts = certificate.claim, certificate.facts
    terms = _claimed(certificate)
    first, picks = terms[0], (facts.tally or {}).get("picks", facts.extra.get("picks", 0))
    plain = replace(first, law="binomial", count=facts.errors, bits=0.0)
    steps = [("what is still wrong", facts.errors / first.n), ("chance", plain.limit(claim.delta))]
    if picks:
        steps.append((f"{picks:,} picked examples", replace(first, bits=0.0).limit(claim.delta)))
    steps.append((f"{facts.code_bits:,} bits of message", first.limit(claim.delta)))
    if terms[1:]:
        steps.append(("where f and g differ", claim.bound))
    before = [0.0, *(value for _, value in steps)]
    return [(name, max(0.0, value - least)) for (name, value), least in zip(steps, before, strict=False)]
