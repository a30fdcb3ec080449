"""One line of the comparison, from whatever kind of number it shows."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from codebound.bounds.risk import HoldoutFacts, RiskBound, Subject, percent, rate
from codebound.run.errors import UsageError
from codebound.run.files import finite
from codebound_papers.facts import POSITIVE_MARGIN
from codebound_papers.value import PublishedValue, Refused

Kind = Literal["certified", "holdout", "test", "published"]
ORDER: tuple[Kind, ...] = ("certified", "holdout", "test", "published")
"""Kinds in the order of the table: what is true comes first."""
BAR = "As plotted: a capacity, neither divided by n nor square-rooted."
NO_MARGIN = "Infinite: divided by a margin of f that is not positive."
ZERO = "Infinite: divided by a measure that is zero."
_SMALL = 100.0  # times an error rate of 100 %: larger ones are powers of ten


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line."""

    name: str  # of the bound
    reference: str = ""  # ID of docs/references.md; empty for a test error
    # the bound or error rate; infinite where the expression is, None where it does not apply
    value: float | None = None
    log10: float | None = None  # its decimal logarithm, which is finite even where the value is not
    # certified and holdout hold with probability 1 - delta; test was counted; published is a paper's
    kind: Kind = "published"
    subject: Subject  # whose error it is about: f, the network, or g, what it was compressed to
    guarantee: bool = False  # whether it is true as printed
    vacuous: bool | None = None  # whether it says no more than guessing; None where there is no value
    conditions: str = ""  # how many conditions of a published theorem are met here; empty for others
    note: str  # what it is, or why it has no value

    def record(self) -> dict[str, object]:
        """The row for JSON; an infinite value is null, and the note says so."""
        return dict(finite(asdict(self)))


def risk_row(bound: RiskBound, *, name: str, kind: Kind, note: str = "") -> Row:
    """The row of a bound that is true as printed."""
    row = Row(name=name, reference=bound.ref, kind=kind, subject=bound.subject, note=note or bound.sentence)
    log10 = decimal_log(bound.value)
    return replace(row, value=bound.value, log10=log10, guarantee=True, vacuous=bound.vacuous)


def error_row(facts: HoldoutFacts, *, name: str, note: str) -> Row:
    """The row of an error rate that was counted."""
    rate = facts.errors / facts.n
    row = Row(name=name, kind="test", subject=facts.subject, note=note)
    is_vacuous = rate >= 1.0 - 1.0 / (facts.classes or 2)
    return replace(row, value=rate, log10=decimal_log(rate), vacuous=is_vacuous)


def refused_row(refused: Refused, kind: Kind = "published") -> Row:
    """The row of a statement that does not apply."""
    note = f"Does not apply: {refused.reason}"
    return Row(name=refused.name, reference=refused.ref, kind=kind, subject=refused.subject, note=note)


def published_row(value: PublishedValue, *, examples: int, classes: int, like_for_like: bool) -> Row:
    """The row of a published expression; a bar of a figure is vacuous if it is so as an excess risk."""
    if value.unit not in ("risk", "capacity"):
        raise UsageError(f"{value.name} is a {value.unit}: no row of its own beside error rates.")
    comparable = value.like_for_like(examples)
    shown = comparable if like_for_like else value
    notes = [shown.sentence]
    if shown.unit == "capacity":
        notes.append(BAR)
    if shown.log_value == math.inf:
        without = any(each.statement == POSITIVE_MARGIN for each in shown.unmet)
        notes.append(NO_MARGIN if without else ZERO)
    elif shown.value == math.inf:
        notes.append("Infinite as a double; its logarithm is not.")
    if shown.unmet:
        failing = "; ".join(each.statement for each in shown.unmet)
        notes.append(f"Not met here, {len(shown.unmet)} of {len(shown.hypotheses)} conditions: {failing}.")
    row = Row(name=shown.name, reference=shown.ref, subject=shown.subject, note=" ".join(notes))
    row = replace(row, conditions=shown.conditions)
    is_vacuous = comparable.value >= 1.0 - 1.0 / classes
    return replace(row, value=shown.value, log10=shown.log10, vacuous=is_vacuous)


def value_text(row: Mapping[str, Any]) -> str:
    """The value of a row for JSON as it is printed: error rates in per cent, capacities as they are.

    >>> row = {"value": 0.39427, "log10": -0.4042, "guarantee": True, "note": ""}
    >>> value_text(row), value_text(row | {"guarantee": False}), value_text(row | {"note": BAR})
    ('39.43 %', '39.43 %', '0.3943')
    >>> value_text({"value": None, "log10": 400.25, "guarantee": False, "note": ""})
    '10^402.2 %'
    """
    value, log10 = row["value"], row["log10"]
    if value is None and log10 is None:
        return "infinite"
    if BAR in row["note"]:
        return f"10^{log10:.1f}" if value is None else f"{value:.4g}"
    return percent(value) if row["guarantee"] and value is not None else rate_text(value, log10)


def rate_text(value: float | None, log10: float) -> str:
    """An error rate that is no guarantee: in per cent, from a size on as a power of ten.

    >>> rate_text(0.5, -0.301), rate_text(None, 400.25)
    ('50.00 %', '10^402.2 %')
    """
    value = 10.0**log10 if value is None and log10 < 300.0 else value
    return f"10^{log10 + 2.0:.1f} %" if value is None or value > _SMALL else rate(value)


def decimal_log(value: float) -> float:
    """Decimal logarithm of a number >= 0, -inf at zero."""
    return math.log10(value) if value > 0.0 else -math.inf
