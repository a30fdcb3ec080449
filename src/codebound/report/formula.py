"""What a page needs to compute its bounds at another failure probability; the page has the same formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from codebound.bounds.numerics import binomial_inverse_upper, kl_inverse_upper, picked_inverse_upper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codebound.certificate.file import Certificate

    Law = Literal["binomial", "picked", "kl"]

_CLOSE = 1e-8  # relative: what is not the same number gets no slider


@dataclass(frozen=True, slots=True)
class Term:
    """A limit that a bound is a sum of.

    Attributes:
        law: ``binomial`` as in C-2, ``picked`` as in C-15, or ``kl`` as in C-17 for costs.
        count: What was counted; of costs, their sum divided by the largest.
        n: Out of how many.
        bits: Length of the message.
        share: Of the failure probability.
        outside: A limit on how often it does not apply; it is divided by the rest.
        weight: What the limit is multiplied by.
    """

    law: Law
    count: float
    n: int
    bits: float = 0.0
    share: float = 1.0
    outside: Term | None = None
    weight: float = 1.0

    def limit(self, delta: float) -> float:
        """The limit at a failure probability of the whole bound."""
        log_delta = math.log(delta * self.share) - self.bits * math.log(2.0)
        if self.law == "kl":
            found = kl_inverse_upper(self.count / self.n, -log_delta / self.n)
        else:
            inverse = binomial_inverse_upper if self.law == "binomial" else picked_inverse_upper
            found = inverse(int(self.count), self.n, log_delta)
        found *= self.weight
        if self.outside is None:
            return found
        rest = 1.0 - self.outside.limit(delta)
        return found / rest if rest > 0.0 else 1.0


def bound_at(terms: Sequence[Term], delta: float) -> float:
    """The bound that is the sum of some terms.

    Example:
        >>> round(bound_at([Term("picked", 800, 60_000, bits=30)], 0.05), 5)
        0.01703
    """
    return min(1.0, sum(term.limit(delta) for term in terms))


def formulas(certificate: Certificate, result: Mapping[str, Any]) -> dict[str, list[Term]]:
    """The terms of every bound on a page, by its name there; of those that this module gets right."""
    found: dict[str, tuple[float, list[Term]]] = {
        "certified": (certificate.claim.bound, _claimed(certificate))
    }
    for name, errors in (("holdout", "test_errors"), ("holdout_f", "test_errors_f")):
        if name in result:
            found[name] = (result[name], [Term("binomial", result[errors], result["test_n"])])
    rows = result.get("by_class", ())
    law: Law = "binomial" if _picks(certificate) is None else "picked"
    for row in rows:
        if row["bound"] is not None:
            counted = row["errors"] + row["picks"]
            term = Term(law, counted, row["n"], certificate.facts.code_bits, 1.0 / len(rows))
            found[f"class-{row['label']}"] = (row["bound"], [term])
    return {
        name: terms
        for name, (stated, terms) in found.items()
        if math.isclose(bound_at(terms, certificate.claim.delta), stated, rel_tol=_CLOSE)
    }


def _picks(certificate: Certificate) -> int | None:
    """The picks that count; None where nothing is picked."""
    facts = certificate.facts
    if certificate.is_held_out:
        return None
    picks: int | None = (facts.tally or {}).get("picks", facts.extra.get("picks"))
    return picks


def _claimed(certificate: Certificate) -> list[Term]:
    facts, fault = certificate.facts, certificate.fault
    extra, tally, picks = facts.extra, facts.tally or {}, _picks(certificate)
    has_second_draw, half = "disagreements" in extra, 0.5 if "abstained" in tally else 1.0
    share = half * (0.5 if has_second_draw else 1.0)
    first = Term("binomial", facts.errors, tally.get("kept", facts.n), facts.code_bits, share)
    if picks is not None or certificate.is_held_out:
        law: Law = "binomial" if picks is None else "picked"
        picks = picks or 0
        first = replace(first, law=law, count=facts.errors + picks, n=facts.n)
        if "abstained" in tally:
            first = replace(first, outside=replace(first, count=tally["abstained"] + picks))
        if "above" in tally:
            return _above(first, picks, tally["above"], fault.costs(facts.classes))
    elif "cost" in tally:
        first = replace(first, law="kl", count=tally["cost"] / fault.largest_cost(facts.classes))
    if not has_second_draw:
        return [first]
    apart = Term("binomial", extra["disagreements"], extra["n_unlabelled"], share=0.5)
    if "abstained" in tally:
        apart = replace(apart, outside=replace(first, count=tally["abstained"], n=facts.n))
    if "examples" in tally:
        others = Term("binomial", tally["examples"] - facts.n, tally["examples"], share=0.25)
        apart = replace(apart, share=0.25, outside=others)
    return [first, apart]


def _above(term: Term, picks: int, above: Sequence[int], costs: Sequence[int]) -> list[Term]:
    """The terms of a mean cost after picks: one for each cost that there is."""
    steps = [(cost - before) / costs[-1] for before, cost in zip((0, *costs), costs, strict=False)]
    return [
        replace(term, count=picks + count, share=term.share / len(costs), weight=step)
        for count, step in zip(above, steps, strict=True)
    ]


def costs(certificate: Certificate) -> list[tuple[str, float]]:
    """What a certified error is made of, part by part; nothing where the parts do not add up to it."""
    claim, facts = certificate.claim, certificate.facts
    (first, *others), picks = _claimed(certificate), _picks(certificate)
    if first.law == "kl" or first.outside is not None or first.weight != 1.0:
        return []
    plain = replace(first, law="binomial", count=facts.errors, bits=0.0)
    steps = [("what is still wrong", facts.errors / first.n), ("chance", plain.limit(claim.delta))]
    if picks:
        steps.append((f"{picks:,} picked examples", replace(first, bits=0.0).limit(claim.delta)))
    steps.append((f"{facts.code_bits:,} bits of message", first.limit(claim.delta)))
    if others:
        steps.append(("where f and g differ", claim.bound))
    if not math.isclose(steps[-1][1], claim.bound, rel_tol=_CLOSE):
        return []
    before = [0.0, *(value for _, value in steps)]
    return [(name, max(0.0, value - least)) for (name, value), least in zip(steps, before, strict=False)]
