"""Terms from which a page computes bounds at another failure probability.

The page has the same formulas.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codebound.certificate.statement import Term, bound_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codebound.certificate.file import Certificate

_CLOSE = 1e-8  # relative: what is not the same number gets no slider


def formulas(certificate: Certificate, result: Mapping[str, Any]) -> dict[str, list[Term]]:
    """The terms of every bound on a page, by its name there; of those that this module gets right."""
    certified = certificate.kind.terms(certificate)
    found = {"certified": (certificate.claim.bound, certified)}
    for name, errors in (("holdout", "test_errors"), ("holdout_f", "test_errors_f")):
        if name in result:
            found[name] = (result[name], [Term("binomial", result[errors], result["test_n"])])
    rows, is_picked = result.get("by_class", ()), certified[0].law == "picked"
    for row in rows:
        if row["bound"] is not None:
            counted = row["errors"] + row["picks"]
            term = Term(
                "picked" if is_picked else "binomial",
                counted,
                row["n"],
                certificate.facts.code_bits,
                1.0 / len(rows),
            )
            found[f"class-{row['label']}"] = (row["bound"], [term])
    return {
        name: terms
        for name, (stated, terms) in found.items()
        if math.isclose(bound_at(terms, certificate.claim.delta), stated, rel_tol=_CLOSE)
    }


def costs(certificate: Certificate) -> list[tuple[str, float]]:
    """Parts of a certified error. Empty where they do not add up to it."""
    claim, facts = certificate.claim, certificate.facts
    first, *others = certificate.kind.terms(certificate)
    if first.outside is not None:
        return []
    plain = replace(first, law="binomial", count=facts.errors, bits=0.0)
    steps = [("what is still wrong", facts.errors / first.n), ("chance", plain.limit(claim.delta))]
    if picks := first.count - facts.errors:
        steps.append((f"{picks:,} picked examples", replace(first, bits=0.0).limit(claim.delta)))
    steps.append((f"{facts.code_bits:,} bits of message", first.limit(claim.delta)))
    if others:
        steps.append(("where f and g differ", claim.bound))
    if not math.isclose(steps[-1][1], claim.bound, rel_tol=_CLOSE):
        return []
    before = [0.0, *(value for _, value in steps)]
    return [(name, max(0.0, value - least)) for (name, value), least in zip(steps, before, strict=False)]
