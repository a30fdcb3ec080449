"""Statements about a sealed table: look, better and abstain, each a line of the ledger."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.held_out import looked_risk
from codebound.bounds.occam import log2_up
from codebound.bounds.paired import LEAST_DELTA, PairedFacts, not_worse
from codebound.bounds.paired import better as compare_pairs
from codebound.bounds.selective import SelectiveFacts, choose_with_share
from codebound.holdout.answers import IN_MEMORY, AnswerTable, as_table, column_sha256, numbers_of, split_spec
from codebound.holdout.ledger import SUFFIX, checked, key_of, read_sealed, sole_writer, write_ledger
from codebound.holdout.seals import (
    Abstention,
    Plan,
    abstain_statement,
    better_statement,
    require_fitting,
    seal,
    sealed_table,
    units_of_seal,
)
from codebound.run.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codebound.bounds.risk import LookFacts
    from codebound.holdout.ledger import Ledger, Line
    from codebound.holdout.units import Mask, Units

    Count = Callable[[Mask, LookFacts], dict[str, Any]]


def look(
    path: Path | str,
    column: str,
    *,
    data: object = None,
    answers: Sequence[object] | None = None,
    is_final: bool = False,
) -> Ledger:
    """Bound the error of a column of answers; the line is written before anybody hears it.

    Args:
        path: The ledger.
        column: The column, or what ``answers`` are called.
        data: The sealed table (default: the file that was sealed).
        answers: Answers that are no column of the table, one for each row.
        is_final: Whether this is the last line, which tells the exact number of errors.
    """

    def make(ledger: Ledger, table: AnswerTable, units: Units) -> tuple[Line, Count]:
        cells = table.cells(column)
        statement = {"kind": "look", "column": _reference(ledger, table, column), "final": is_final}
        masks = units.masks(cells)
        return statement, lambda part, level: _bounded(units, masks.about & part, masks.lost & part, level)

    extra = None if answers is None else {column: answers}
    return _state(path, data, make, extra=extra)


def look_at_planned(path: Path | str, *, data: object = None) -> Ledger:
    """Look at every planned column that was not looked at: the best of them is among the limits."""
    ledger = read_sealed(Path(path))
    left = [each for each in ledger.seal["planned"] if each["kind"] == "look" and ledger.is_planned(each)]
    for each in left:
        ledger = look(path, each["column"]["name"], data=data)
    return ledger


def better(path: Path | str, a: str, b: str, *, margin: float = 0.0, data: object = None) -> Ledger:
    """Compare two columns: does B err less often than A, or not more by a margin?

    Args:
        path: The ledger.
        a, b: Columns.
        margin: Fixed before any outcome was seen; 0 asks if B is better.
        data: The sealed table (default: the file that was sealed).
    """

    def make(ledger: Ledger, table: AnswerTable, units: Units) -> tuple[Line, Count]:
        first, second = _reference(ledger, table, a), _reference(ledger, table, b)
        statement = better_statement(first, second, margin)
        masks_a, masks_b = units.masks(table.cells(a)), units.masks(table.cells(b))

        def count(part: Mask, level: LookFacts) -> dict[str, Any]:
            lost_a, lost_b = units.with_any(masks_a.lost & part), units.with_any(masks_b.lost & part)
            n = int(units.with_any(masks_a.about & part).sum())
            return _compared(int((lost_a & ~lost_b).sum()), int((lost_b & ~lost_a).sum()), n, level, margin)

        return statement, count

    return _state(path, data, make)


def abstain(path: Path | str, how: Abstention, *, data: object = None) -> Ledger:
    """Find a threshold at which answers are wrong at most as often as is allowed."""

    def make(ledger: Ledger, table: AnswerTable, units: Units) -> tuple[Line, Count]:
        scores = _reference(ledger, table, how.scores)
        statement = abstain_statement(_reference(ledger, table, how.column), scores, how)
        masks, values = units.masks(table.cells(how.column)), numbers_of(table.cells(how.scores))

        def count(part: Mask, level: LookFacts) -> dict[str, Any]:
            answered, wrong = [], []
            for threshold in statement["thresholds"]:
                with np.errstate(invalid="ignore"):
                    is_answered = values >= threshold
                answered.append(int(units.with_any(masks.about & part & is_answered).sum()))
                wrong.append(int(units.with_any(masks.lost & part & is_answered).sum()))
            n = int(units.with_any(masks.about & part).sum())
            return threshold_result(answered, wrong, n, level, how)

        return statement, count

    return _state(path, data, make)


def upper_limit(errors: int, n: int, level: LookFacts) -> float:
    """Return the limit of an error at a level; 1 without any unit."""
    return looked_risk(replace(level, errors=errors, n=n)).value if n else 1.0


def _shared(level: LookFacts, parts: int) -> LookFacts:
    """Return the level of one of so many limits that share it."""
    return replace(level, answer_bits=level.answer_bits + log2_up(parts))


def _state(
    path: Path | str,
    data: object,
    make: Callable[[Ledger, AnswerTable, Units], tuple[Line, Count]],
    *,
    extra: dict[str, Sequence[object]] | None = None,
) -> Ledger:
    """Add the line of a statement to a ledger."""
    path = Path(path)
    with sole_writer(path):  # between reading a ledger and adding to it no line may come in
        ledger = read_sealed(path)
        table = table_of(ledger, data)
        if extra is not None:
            added = {key: as_table({key: each}).columns[key] for key, each in extra.items()}
            table = AnswerTable(table.name, {**table.columns, **added})
        units = units_of_seal(table, ledger.seal)
        statement, count = make(ledger, table, units)
        require_fitting(statement, ledger.seal)
        _require_allowed(ledger, statement)
        level, groups = ledger.level(statement), ledger.seal["groups"]
        everywhere = np.ones(len(table), dtype=bool)
        record = dict(statement)
        record["result"] = count(everywhere, level if groups is None else _shared(level, 2))
        if groups is not None:
            share = _shared(level, 2 * len(groups["names"]))
            record["groups"] = [count(part, share) for part in units.parts()]
        if statement["kind"] != "abstain":
            record.setdefault("groups", None)
        if ledger.seal["levels"] is not None and statement["kind"] == "look" and not statement["final"]:
            record["result"] = _leveled(ledger, record["result"], level)
        grown = checked(ledger.with_line(record))
        write_ledger(grown)
        return grown


def table_of(ledger: Ledger, data: object = None) -> AnswerTable:
    """Return the sealed table: what is given, or the file that was sealed, here or beside the ledger."""
    label = ledger.seal["label"]["column"]
    if data is None:
        data = ledger.seal["data"]
        file = split_spec(str(data))[0]
        if data == f"{IN_MEMORY}:{label}":
            raise UsageError(f"{ledger.path} seals a table that was no file: give it again (data).")
        beside = ledger.path.parent / file.name
        if not file.exists() and beside.exists():
            data = f"{beside}:{label}"
    return sealed_table(data, label)[0]


def _reference(ledger: Ledger, table: AnswerTable, name: str) -> dict[str, str]:
    """Return a column as lines name it; a planned one must be what it was."""
    sha256 = column_sha256(table.cells(name))
    for statement in ledger.seal["planned"]:
        for key in ("column", "a", "b", "scores"):
            planned = statement.get(key)
            if planned and planned["name"] == name and planned["sha256"] != sha256:
                raise DataError(
                    f"{table.name}: column {name!r} is not what was planned: cells were changed since the "
                    "seal. Restore it; under another name it pays for the answers so far, like any new one."
                )
    return {"name": name[:400], "sha256": sha256}


def _require_allowed(ledger: Ledger, statement: Line) -> None:
    lines, is_final = ledger.statements, statement.get("final", False)
    if lines and lines[-1].get("final"):
        raise UsageError(f"{ledger.path} is closed: its final look was made. Seal fresh rows.")
    keys = [key_of(each) for each in lines]
    if key_of(statement) in keys and not is_final:
        number = keys.index(key_of(statement)) + 1
        raise UsageError(
            f"this very statement is line {number + 1} of {ledger.path}: `codebound holdout show` prints it."
        )
    if not ledger.is_planned(statement) and ledger.open_left < 1:
        left = [each["kind"] for each in ledger.seal["planned"] if ledger.is_planned(each)]
        raise UsageError(
            f"the plan of {ledger.path} has no look left for this statement"
            f" ({len(left)} planned ones are kept: {', '.join(sorted(set(left)))})."
            if left
            else f"the plan of {ledger.path} is spent: nothing more can be said with these rows. Seal fresh "
            "ones, with this statement in the plan, more looks, or looks=open."
        )


def _bounded(units: Units, about: Mask, lost: Mask, level: LookFacts) -> dict[str, Any]:
    errors, n = int(units.with_any(lost).sum()), int(units.with_any(about).sum())
    return {"errors": errors, "n": n, "bound": upper_limit(errors, n, level)}


def _leveled(ledger: Ledger, exact: dict[str, Any], level: LookFacts) -> dict[str, Any] | None:
    """Return the answer of a look that tells how far the best was beaten."""
    told = [each["result"] for each in ledger.statements if each["kind"] == "look" and not each["final"]]
    best = min((each["errors"] for each in told if each is not None), default=math.inf)
    reached = min((each for each in ledger.seal["levels"] if exact["errors"] <= each < best), default=None)
    if reached is None:
        return None
    return {**exact, "errors": reached, "bound": upper_limit(reached, exact["n"], level)}


def _delta(level: LookFacts) -> float:
    delta = math.exp(-level.nats) * (1.0 - 1e-13)
    if delta < LEAST_DELTA:
        raise UsageError(
            f"the answers so far have cost {level.answer_bits:.0f} bits, and too little of delta is left for "
            "this statement. Plan it in the seal of fresh rows."
        )
    return delta


def _compared(a_only: int, b_only: int, n: int, level: LookFacts, margin: float) -> dict[str, Any]:
    delta = _delta(level)
    found: dict[str, Any] = {"a_only": a_only, "b_only": b_only, "n": n}
    if not n:
        return {**found, "shown": False, "limit": None if margin else -1.0}
    facts = PairedFacts(a_only=a_only, b_only=b_only, n=n, delta=delta)
    if margin:
        return {**found, "shown": not_worse(facts, margin), "limit": None}
    limit = compare_pairs(facts)
    return {**found, "shown": limit.is_better, "limit": limit.limit + 0.0}


def threshold_result(
    answered: list[int], wrong: list[int], n: int, level: LookFacts, how: Abstention
) -> dict[str, Any]:
    """Return the threshold that a rule chooses, and the share of units that is answered there."""
    delta, shared = _delta(level), _shared(level, 2 * len(answered))
    if how.rule == "sequence":
        facts = SelectiveFacts(
            answered=tuple(answered), wrong=tuple(wrong), n=n, risk=float(how.risk), delta=delta
        )
        chosen = choose_with_share(facts).index
    else:
        bounds = [upper_limit(k, m, shared) for k, m in zip(wrong, answered, strict=True)]
        chosen = max((index for index, bound in enumerate(bounds) if bound <= how.risk), default=None)
    share = None
    if chosen is not None:
        share = max(0.0, math.nextafter(1.0 - upper_limit(n - answered[chosen], n, shared), 0.0))
    return {"answered": answered, "wrong": wrong, "n": n, "chosen": chosen, "share": share}


def faithful(
    inputs: object,
    original: str,
    compressed: str,
    *,
    delta: float = 0.05,
    out: Path | None = None,
) -> Ledger:
    """Bound how often a compressed classifier answers unlike the original one: one sealed look.

    Args:
        inputs: Answers of both, on inputs that took no part in making or choosing the compressed one. No
            labels are needed.
        original, compressed: Columns of answers.
        delta: Failure probability.
        out: The ledger, a new file.
    """
    table = as_table(inputs, name="answers")
    path = out or Path(Path(table.name).stem + SUFFIX)
    plan = Plan(look=(compressed,), delta=delta, label_is="answers")
    ledger = seal(table, plan, label=original, out=path)
    return look(ledger.path, compressed, data=table)
