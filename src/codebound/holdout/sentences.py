"""Lines of a ledger in words: one sentence for each statement."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from codebound.bounds.held_out import looked_risk
from codebound.bounds.risk import LookFacts, percent
from codebound.holdout.units import CLAIMS, describe_loss

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codebound.holdout.alarms import Watch
    from codebound.holdout.ledger import Ledger, Line


def percent_down(share: float, digits: int = 2) -> str:
    """A lower limit in per cent, rounded down.

    Example:
        >>> percent_down(0.02359), percent_down(-0.0101)
        ('2.35 %', '-1.01 %')
    """
    scale = 10**digits
    return f"{math.floor(Fraction(share) * 100 * scale) / scale:.{digits}f} %"


def all_digits(share: float) -> str:
    """A share in per cent as it was chosen: it is not rounded.

    Example:
        >>> all_digits(0.05), all_digits(0.0663648)
        ('5 %', '6.63648 %')
    """
    return f"{(100 * Decimal(repr(share))).normalize():f} %"


def describe_data(seal: Line) -> str:
    """Return what a limit is about, such as ``new rows``."""
    such = "" if seal["loss"][0] in ("wrong", "residual") else "such "
    clusters = seal.get("clusters")
    return f"{such}new rows" if clusters is None else f"{such}new clusters ({CLAIMS[clusters['claim']]})"


def describe_result(seal: Line, line: Line, result: Mapping[str, Any] | None) -> str:
    """Return what one result says."""
    data = describe_data(seal)
    does = describe_loss(seal["loss"], differs=seal["label"]["is"] == "answers")
    if line["kind"] == "look":
        name = line["column"]["name"]
        if result is None:
            return f"{name} is not better than the best so far; no more is told"
        return f"{name} {does} at most {percent(result['bound'])} of {data}"
    if line["kind"] == "better":
        assert result is not None
        a, b = line["a"]["name"], line["b"]["name"]
        if line["margin"]:
            said = "is shown" if result["shown"] else "is NOT shown"
            return (
                f"it {said} that {b} errs at most {all_digits(line['margin'])} of {data} more often than {a}"
            )
        if result["shown"]:
            return f"{b} errs less often than {a}, by at least {percent_down(result['limit'])} of {data}"
        return (
            f"it is NOT shown that {b} errs less often than {a}; it errs at most "
            f"{percent(-result['limit'])} of {data} more often"
        )
    assert result is not None
    risk = all_digits(line["risk"])
    if result["chosen"] is None:
        return f"no threshold is shown at which {line['column']['name']} is wrong on at most {risk}"
    threshold = line["thresholds"][result["chosen"]]
    return (
        f"where {line['scores']['name']} is at least {threshold!r}, {line['column']['name']} {does} at most "
        f"{risk} of what it answers, and it answers at least {percent_down(result['share'])} of {data}"
    )


def describe_line(ledger: Ledger, line: Line) -> str:
    """Return the statement of a line, with its groups."""
    seal = ledger.seal
    said = describe_result(seal, line, line["result"])
    if line.get("groups"):
        names = seal["groups"]["names"]
        if line["kind"] == "look":
            worst = max(range(len(names)), key=lambda index: float(line["groups"][index]["bound"]))
            limit = percent(line["groups"][worst]["bound"])
            said += (
                f"; of each group at most {limit} (the worst: {seal['groups']['column']} = {names[worst]})"
            )
        else:
            shown = [name for name, each in zip(names, line["groups"], strict=True) if each["shown"]]
            said += f"; shown in {len(shown)} of {len(names)} groups" + (
                f" ({', '.join(shown[:8])})" if shown else ""
            )
    return said


def describe_ledger(ledger: Ledger, line: Line | None = None) -> str:
    """Return the claim of a line, or of the last one, as a sentence."""
    seal = ledger.seal
    if seal["kind"] != "seal":
        return f"A watch of {seal['stream']} for an error above {all_digits(seal['bound'])}."
    line = line or (ledger.statements[-1] if ledger.statements else None)
    if line is None:
        return f"{seal['rows']} rows are sealed, and nothing was asked yet."
    return (
        f"With probability at least 1 - {seal['delta']!r} over the draw of the sealed rows, for all "
        f"statements at once: {describe_line(ledger, line)}."
    )


def describe_alarm(watch: Watch) -> str:
    """Return what a watch says."""
    bound = all_digits(watch.ledger.seal["bound"])
    said = f"No alarm in {watch.labels} labels."
    if watch.alarm_at is not None or watch.alarms:
        where = [] if watch.alarm_at is None else [f"label {watch.alarm_at}"]
        where += [f"label {at} of {name}" for name, at in watch.alarms.items()]
        said = f"ALARM at {', '.join(where)}: the error exceeded {bound} at some time up to then."
    return f"{said} {describe_level(watch.ledger.seal)}"


def describe_level(first: Line) -> str:
    """Return how often a watch alarms for nothing."""
    bound, chance = all_digits(first["bound"]), first["alpha"]
    if first["certificate"] is None:
        return f"If it never exceeded {bound}, the chance that it ever alarms is at most {chance!r}."
    delta = first["certificate"]["delta"]
    each = "" if first["groups"] is None else f" for each {first['groups']['column']}"
    return (
        f"If nothing has changed since {bound} was certified{each}, the chance that it ever alarms is at "
        f"most {Decimal(repr(chance)) + Decimal(repr(delta)):f}: {chance!r} and {delta!r} that the "
        "certificate was false."
    )


def naive_bound(ledger: Ledger, line: Line) -> float | None:
    """Return the limit as if one column had been looked at, alone: no promise."""
    result = line["result"]
    if line["kind"] != "look" or result is None or not result["n"]:
        return None
    facts = LookFacts(errors=result["errors"], n=result["n"], delta=ledger.seal["delta"])
    return looked_risk(facts).value


def best_line(ledger: Ledger) -> Line | None:
    """Return the look with the smallest limit."""
    told = [line for line in ledger.statements if line["kind"] == "look" and line["result"] is not None]
    return min(told, key=lambda line: float(line["result"]["bound"]), default=None)
