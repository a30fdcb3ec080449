"""Sealing a table of labels and answers: everything that is fixed before the first look."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from codebound.bounds.held_out import ladder_bits, looked_risk
from codebound.bounds.risk import LookFacts, check_delta, count_of
from codebound.holdout.answers import (
    AnswerTable,
    as_number,
    as_table,
    column_sha256,
    is_table_file,
    label_of,
    split_spec,
)
from codebound.holdout.ledger import (
    SUFFIX,
    Ledger,
    checked,
    key_of,
    require_unsealed,
    seal_price,
    sole_writer,
    write_ledger,
)
from codebound.holdout.units import parse_answer_loss, require_claim, units_of
from codebound.run.errors import CertificateError, DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codebound.holdout.units import Units

MOST_LOOKS = 1 << 32
MOST_GROUPS = 4096
MOST_THRESHOLDS = 256
MOST_LETTERS = 400
RULES = ("sequence", "choice")
_MOST_COPIES = 100  # one row in so many may repeat the inputs of an earlier one
_LEAST_CHANGES = 32  # of labels from row to row, with which no two tables have the same by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstention:
    """A search for a threshold above which answers are right often enough.

    Attributes:
        column, scores: Answers; and numbers: a row is answered where its score is at least the threshold.
        risk: Share of wrong answers among those given that is allowed.
        thresholds: Falling numbers, the safest first. The first one decides if any is found, so enough rows
            should be answered there.
        rule: ``sequence`` tries them in order, ``choice`` pays for the choice among all.
    """

    column: str
    scores: str
    risk: float
    thresholds: tuple[float, ...]
    rule: Literal["sequence", "choice"] = "sequence"

    def __post_init__(self) -> None:
        if not 0.0 < self.risk < 1.0:
            raise UsageError(f"`risk` is a share of wrong answers in (0, 1). Got {self.risk}.")
        grid = [float(each) for each in self.thresholds]
        if not 1 <= len(grid) <= MOST_THRESHOLDS or not all(high > low for high, low in pairwise(grid)):
            raise UsageError(
                f"`thresholds` are 1 to {MOST_THRESHOLDS} numbers that fall, the safest first. Got {grid}."
            )
        if not all(map(math.isfinite, grid)) or self.rule not in RULES:
            raise UsageError(f"`thresholds` are finite, and `rule` is one of {', '.join(RULES)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is fixed before the first look.

    Attributes:
        look: Columns of answers whose error will be looked at.
        better: Pairs of columns (A, B) that will be compared: does B err less often?
        abstain: Thresholds that will be searched.
        inputs: Column of the questions, which then cannot be replaced.
        group: Column of groups; the limits hold for all of them at once. It may be the label column.
        cluster: Column of patients, documents or the like, whose rows belong together.
        claim: With clusters: ``row``, one random row of a new cluster, or ``any``, any row of one.
        loss: ``wrong``, ``class:C``, ``confused:A:B``, ``false-alarm:C``, ``precision:C``, ``residual:TAU``.
        delta: Failure probability of all statements together.
        looks: Statements in all; None for those that are planned, ``open`` for no end.
        tell: What a look tells: ``exact`` errors, or ``levels`` (how far the best was beaten).
        target: Error to be shown: a look then tells only whether it is.
        margin: B may err more often than A by so much.
        label_is: ``label``, or ``answers`` of a classifier that others are compared with.
        allow_copies: Whether rows with equal inputs are independent draws all the same.
    """

    look: Sequence[str] = ()
    better: Sequence[tuple[str, str]] = ()
    abstain: Sequence[Abstention] = ()
    inputs: str | None = None
    group: str | None = None
    cluster: str | None = None
    claim: str | None = None
    loss: str | Sequence[str] = "wrong"
    delta: float = 0.05
    looks: int | Literal["open"] | None = None
    tell: str | None = None
    target: float | None = None
    margin: float = 0.0
    label_is: Literal["label", "answers"] = "label"
    allow_copies: bool = False

    def __post_init__(self) -> None:
        if check_delta(self.delta) > 0.5:
            raise UsageError(f"`delta` is a failure probability of at most 1/2. Got {self.delta}.")
        require_claim(self.cluster, self.claim)
        if isinstance(self.looks, int) and not 1 <= self.looks <= MOST_LOOKS:
            raise UsageError(f"`looks` counts statements, from 1 on, or is open. Got {self.looks}.")
        if self.target is not None and not 0.0 < self.target < 1.0:
            raise UsageError(f"`target` is an error strictly between 0 and 1. Got {self.target}.")
        if not 0.0 <= self.margin < 1.0:
            raise UsageError(f"`margin` is a difference of errors from 0 to below 1. Got {self.margin}.")
        if self.tell not in (None, *(("exact", "levels") if self.target is None else ())):
            raise UsageError(f"`tell` is exact or levels, and none with a target. Got {self.tell!r}.")


def seal(
    data: object, plan: Plan | None = None, *, label: str | None = None, out: Path | None = None
) -> Ledger:
    """Freeze a table of labels and answers: write the first line of its ledger.

    Args:
        data: A file such as ``answers.csv:label``, a mapping of columns, a data frame, or a dataset by name.
        plan: What is fixed now. Without any statement a look at every other column is planned.
        label: The label column, if ``data`` does not say it.
        out: The ledger, a new file.
    """
    plan = plan or Plan()
    table, column = sealed_table(data, label)
    path = Path(out) if out is not None else Path(Path(table.name.partition(":")[0]).stem + SUFFIX)
    record, units = _seal_record(table, column, plan)
    record |= _planned(table, column, plan, record)
    record["levels"] = _levels(plan, record)
    with sole_writer(path):
        if path.exists():
            raise UsageError(f"{path} exists already; a seal is never replaced. Choose another file.")
        marks = _marks(table, units.labels, record["inputs"])
        require_unsealed(marks)
        ledger = checked(Ledger(path).with_line(record))
        write_ledger(ledger, marks)
    return ledger


def sealed_table(data: object, label: str | None = None) -> tuple[AnswerTable, str]:
    """Return a table and the name of its label column."""
    if isinstance(data, str | Path) and not is_table_file(str(data)):
        from codebound.holdout.network_answers import dataset_table

        table = dataset_table(str(data))
    else:
        table = as_table(data)
        if isinstance(data, str | Path):
            label = label or split_spec(str(data))[1]
    return table, label_of(table, label)


def with_files(table: AnswerTable, names: Iterable[str], spec: str, model: str | None = None) -> AnswerTable:
    """Return a table with columns that are files: answers (``.npy``), or networks that answer.

    A network, built as ``model`` says, is asked about the dataset ``spec``.
    """
    found = dict(table.columns)
    for name in names:
        kind = Path(name).suffix.lower()
        if name in found or kind not in (".npy", ".safetensors", ".cbound"):
            continue
        if kind == ".npy":
            try:
                answers: Any = np.load(name, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise DataError(f"{name} is no sound file of answers: {error}.") from error
            if answers.ndim != 1:
                raise DataError(f"{name} must hold one answer for each row. Got shape {answers.shape}.")
        else:
            from codebound.holdout.network_answers import answer_by_network

            answers = answer_by_network(spec, Path(name), model=model)
        if len(answers) != len(table):
            raise DataError(f"{name} has {len(answers)} answers, and {table.name} has {len(table)} rows.")
        found[name] = as_table({name: answers}).columns[name]
    return AnswerTable(table.name, found)


def units_of_seal(table: AnswerTable, seal: Mapping[str, Any]) -> Units:
    """Return the sealed rows, if a table still has every sealed column as it was."""
    columns = {}
    for what in ("label", "inputs", "groups", "clusters"):
        sealed = seal[what]
        if sealed is None:
            continue
        columns[what] = table.cells(sealed["column"])
        if column_sha256(columns[what]) != sealed["sha256"]:
            changed = "cells were changed, or rows moved"
            if len(table) != seal["rows"]:
                changed = f"it has {len(table)} rows, and {seal['rows']} were sealed"
            raise DataError(
                f"{table.name}: the {what} column {sealed['column']!r} is not what was sealed ({changed}). "
                "Statements are about sealed rows only."
            )
    clusters = seal["clusters"] or {}
    return units_of(
        columns["label"],
        seal["loss"],
        groups=columns.get("groups"),
        clusters=columns.get("clusters"),
        claim=clusters.get("claim", ""),
        salt=clusters.get("sha256", ""),
    )


def _seal_record(table: AnswerTable, label: str, plan: Plan) -> tuple[dict[str, Any], Units]:
    loss = parse_answer_loss(plan.loss)
    groups = None if plan.group is None else table.full_cells(plan.group)
    clusters = None if plan.cluster is None else table.full_cells(plan.cluster)
    salt = "" if clusters is None else column_sha256(clusters)
    labels = table.full_cells(label)
    units = units_of(labels, loss, groups=groups, clusters=clusters, claim=plan.claim or "", salt=salt)
    n, *sizes = units.sizes()
    if not n:
        raise DataError(f"{table.name}: the loss {':'.join(loss)} is about no row of it.")
    if len(units.names) > MOST_GROUPS or max(map(len, units.names), default=0) > MOST_LETTERS:
        raise DataError(
            f"column {plan.group!r} has {len(units.names)} groups; {MOST_GROUPS} with names of "
            f"{MOST_LETTERS} letters are the most. Is it the column of groups?"
        )
    record: dict[str, Any] = {
        "kind": "seal",
        "version": 1,
        "data": f"{table.name}:{label}"[:MOST_LETTERS],
        "rows": len(table),
        "label": _column(label, labels) | {"is": plan.label_is},
        "inputs": _inputs(table, plan),
        "groups": groups and _column(plan.group, groups) | {"names": list(units.names), "sizes": sizes},
        "clusters": clusters and _column(plan.cluster, clusters) | {"claim": plan.claim, "units": units.size},
        "loss": loss,
        "n": n,
        "delta": float(plan.delta),
    }
    return record, units


def _inputs(table: AnswerTable, plan: Plan) -> dict[str, Any] | None:
    name = plan.inputs
    if name is None:
        if "x" not in table.columns or table.name.endswith((".csv", ".tsv")):
            return None
        name = "x"
    cells = table.cells(name)
    copies = len(cells) - len(set(cells))
    if _MOST_COPIES * copies > len(cells) and not plan.allow_copies:
        raise CertificateError(
            f"{table.name}: {count_of(copies, 'row')} of {len(cells)} repeat the inputs of an earlier one, "
            f"more than one in {_MOST_COPIES}. Where rows were repeated no bound holds: leave them out, or "
            "name what belongs together (cluster). Where they are independent draws that happen to be equal, "
            "declare that (allow_copies)."
        )
    return _column(name, cells) | {"copies": copies}


def _column(name: str | None, cells: Sequence[str]) -> dict[str, Any]:
    return {"column": name, "sha256": column_sha256(cells)}


def count_strangers(ledger: Ledger, table: AnswerTable) -> dict[str, int]:
    """Return how many answers of each planned column are no label, and so count as errors."""
    seal = ledger.seal
    if seal["loss"][0] == "residual":
        return {}
    known = set(table.cells(seal["label"]["column"]))
    names = {each[key]["name"] for each in seal["planned"] for key in ("column", "a", "b") if key in each}
    counts = {name: sum(cell not in known for cell in table.cells(name)) for name in sorted(names)}
    return {name: count for name, count in counts.items() if count}


def column_of(table: AnswerTable, name: str, labels: str, loss: Sequence[str]) -> dict[str, str]:
    """Return a column of answers as lines name it."""
    cells = table.cells(name)
    known = set(table.cells(labels))
    is_numeric = loss[0] == "residual"
    if not any(as_number(each) == as_number(each) if is_numeric else each in known for each in cells):
        raise DataError(
            f"{table.name}: no cell of column {name!r} is {'a number' if is_numeric else 'a label'}, so it "
            "holds no answers. Name the columns of answers (look), or only their number (looks)."
        )
    return {"name": name, "sha256": column_sha256(cells)}


def _planned(table: AnswerTable, label: str, plan: Plan, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements that are planned, and the number of all."""
    loss = record["loss"]

    def column(name: str) -> dict[str, str]:
        return column_of(table, name, label, loss)

    names = list(plan.look)
    if not (names or plan.better or plan.abstain or plan.looks is not None):
        used = {label, plan.group, plan.cluster, (record["inputs"] or {}).get("column")}
        names = [each for each in table.columns if each and each not in used]
    planned: list[dict[str, Any]] = [{"kind": "look", "column": column(each)} for each in names]
    planned += [better_statement(column(a), column(b), plan.margin) for a, b in plan.better]
    for each in plan.abstain:
        scores = {"name": each.scores, "sha256": column_sha256(table.cells(each.scores))}
        planned.append(abstain_statement(column(each.column), scores, each))
    for statement in planned:
        require_fitting(statement, record)
    keys = [key_of(each) for each in planned]
    if len(set(keys)) < len(keys):
        raise UsageError("a statement is planned twice: two columns have the same cells, or the same name.")
    looks = None if plan.looks == "open" else plan.looks or max(1, len(planned))
    if looks is None and planned:
        raise UsageError("a plan without an end (open) lists no statement: later ones cost more.")
    if looks is not None and len(planned) > looks:
        raise UsageError(f"{len(planned)} statements are planned, and looks={looks} allows no more.")
    return {"planned": planned, "looks": looks}


def better_statement(a: Mapping[str, str], b: Mapping[str, str], margin: float) -> dict[str, Any]:
    """Return the statement that B errs less often than A, or not more by a margin."""
    if a["sha256"] == b["sha256"]:
        raise UsageError(f"{a['name']} and {b['name']} have the same answers in every row.")
    return {"kind": "better", "a": a, "b": b, "margin": float(margin)}


def abstain_statement(
    column: Mapping[str, str], scores: Mapping[str, str], how: Abstention
) -> dict[str, Any]:
    """Return the statement on a threshold."""
    return {
        "kind": "abstain",
        "column": column,
        "scores": scores,
        "risk": float(how.risk),
        "rule": how.rule,
        "thresholds": [float(each) + 0.0 for each in how.thresholds],
    }


def require_fitting(statement: Mapping[str, Any], seal: Mapping[str, Any]) -> None:
    """Refuse a statement that a seal of this kind does not allow."""
    kind = statement["kind"]
    if kind != "look" and seal["loss"][0] == "precision":
        raise UsageError(f"{kind} needs a loss other than precision, whose rows depend on the answers.")
    if kind == "abstain" and seal["groups"] is not None:
        raise UsageError("abstain has no limits for groups: seal without a group column.")


def _levels(plan: Plan, record: Mapping[str, Any]) -> list[int] | None:
    """Return the levels that a look tells; None for exact answers."""
    is_exact = record["groups"] is not None or record["loss"][0] == "precision"
    free = record["looks"] is not None and record["looks"] in (1, len(record["planned"]))
    tell = plan.tell or ("exact" if is_exact or free else "levels")
    if tell == "exact" and plan.target is None:
        return None
    if is_exact:
        raise UsageError("groups and precision need exact answers, and no target.")
    n = record["n"]
    if plan.target is not None:
        return [_most_errors(plan.target, plan.delta, record)]
    step = math.ceil(math.sqrt(n) / 4.0)
    return list(range((n - 1) // step * step, -1, -step))


def _most_errors(target: float, delta: float, record: Mapping[str, Any]) -> int:
    """Return the most errors with which the last look still meets the target, if all before failed."""
    looks, n = record["looks"], record["n"]
    if looks is None or any(each["kind"] != "look" for each in record["planned"]):
        raise UsageError("a target needs a number of looks, and plans nothing but looks.")
    bits = seal_price(record) + ladder_bits([None] * (looks - 1), [0])

    def limit(errors: int) -> float:
        facts = LookFacts(errors=errors, n=n, delta=delta, looks=looks, answer_bits=bits)
        return looked_risk(facts).value

    if limit(0) > target:
        raise UsageError(
            f"{n} rows cannot show an error of at most {target} after {count_of(looks, 'look')}, not "
            "even without an error. Take more rows, fewer looks, or a larger target."
        )
    return bisect_right(range(1, n), target, key=limit)


def _marks(table: AnswerTable, labels: tuple[str, ...], inputs: Mapping[str, Any] | None) -> list[str]:
    """Return hashes by which these rows are known again, also in another order."""
    columns = [cells for _, cells in sorted(table.columns.items())]
    rows = sorted(zip(labels, *columns, strict=True))
    kept = [column_sha256([cell for row in rows for cell in row])]
    own = column_sha256(labels)
    if inputs is not None:
        pairs = sorted(zip(table.cells(inputs["column"]), labels, strict=True))
        kept.append(column_sha256([cell for pair in pairs for cell in pair]))
    elif sum(a != b for a, b in pairwise(labels)) >= _LEAST_CHANGES:
        kept.append(own)
    others = {column_sha256(cells) for cells in table.columns.values()} - {own}
    return [*kept, *(hashlib.sha256(f"{own}{each}".encode()).hexdigest() for each in sorted(others))]
