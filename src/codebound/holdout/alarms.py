"""Watches: a stream of labels, and an alarm that is valid at every look (docs/ledger.md, section 8)."""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.monitoring import Mixture
from codebound.bounds.risk import check_delta
from codebound.holdout.answers import label_of, parse_csv, read_table, split_spec
from codebound.holdout.ledger import (
    Ledger,
    checked,
    is_own,
    read_ledger,
    read_lines,
    require_latest,
    sole_writer,
    write_ledger,
)
from codebound.holdout.units import parse_answer_loss, require_claim, units_of
from codebound.run.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from codebound.holdout.answers import AnswerTable

MOST_LABELS = 1 << 20
"""Labels of one line."""
MOST_IN_ALL, MOST_ERRORS = 1 << 27, 1 << 22
"""Labels of a watch, and errors, those of groups included."""
NOT_IN = -1
"""Outcome, in a group, of a unit that is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTerms:
    """Everything that is fixed before a stream begins.

    Attributes:
        bound: Error B that must not be exceeded; None until :func:`with_proof` has found it.
        alpha: Chance of a false alarm, ever.
        loss: As in a seal, without ``precision``.
        groups: Names of all groups; each has an alarm of its own.
        group: Column of groups.
        cluster: Column of what belongs together, in runs of rows.
        claim: With clusters, ``row`` or ``any``.
        certificate: Hash and delta of the file that certified B.
    """

    bound: float | None = None
    alpha: float = 0.01
    loss: str | Sequence[str] = "wrong"
    groups: Sequence[str] = ()
    group: str | None = None
    cluster: str | None = None
    claim: str | None = None
    certificate: Mapping[str, Any] | None = None

    def record(self, stream: str) -> dict[str, Any]:
        """Return the first line."""
        if self.bound is None:
            raise UsageError(
                "a new watch needs `bound`, the error not to be exceeded, or a certificate that proves one."
            )
        Mixture(bound=self.bound, alpha=check_delta(self.alpha))  # which checks both
        loss = parse_answer_loss(self.loss)
        if loss[0] == "precision":
            raise UsageError("a watch needs a loss other than precision.")
        require_claim(self.cluster, self.claim)
        if (self.group is None) != (not self.groups) or len(set(self.groups)) < len(self.groups):
            raise UsageError("groups need a column and all names, none twice, before the stream begins.")
        return {
            "kind": "watch",
            "version": 1,
            "stream": stream[:400],
            "bound": float(self.bound),
            "alpha": float(self.alpha),
            "certificate": self.certificate,
            "loss": loss,
            "groups": {"column": self.group, "names": sorted(self.groups)} if self.groups else None,
            "clusters": None
            if self.cluster is None
            else {"claim": self.claim, "column": self.cluster, "salt": secrets.token_hex(32)},
        }


def with_proof(terms: WatchTerms, path: Path, answers: str | None = None) -> WatchTerms:
    """Return terms with the error that a file proves, and what names the file.

    Args:
        terms: Their bound, if they have one, is not below what is proved.
        path: A ledger, or a certificate (``.cbound``).
        answers: The column that is watched. Of a ledger without a look at it, the limit is the largest, which
            holds for every column that was looked at.
    """
    proof = _ledger_proof if path.suffix == ".jsonl" else _certificate_proof
    proved, delta, content = proof(path, terms, answers)
    bound = terms.bound
    if bound is None:  # in four digits, so that it is printed as it is
        bound = float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(proved))
    if bound < proved:
        raise UsageError(f"{path} proves an error of at most {proved}, and not the bound {bound}.")
    kept = {"delta": delta, "sha256": hashlib.sha256(content).hexdigest()}
    return replace(terms, bound=bound, certificate=kept)


def _ledger_proof(path: Path, terms: WatchTerms, answers: str | None) -> tuple[float, float, bytes]:
    found, limits, is_grouped = read_ledger(path), dict[str, float](), terms.group is not None
    seal = found.seal
    for line in found.statements if seal["kind"] == "seal" else ():
        if line["kind"] == "look" and line["result"] and (line["groups"] or not is_grouped):
            results = [line["result"], *(line["groups"] if is_grouped else ())]
            column, limit = line["column"]["name"], max(each["bound"] for each in results)
            limits[column] = min(limit, limits.get(column, 1.0))
    if not limits:
        of = " of each group" if is_grouped else ""
        raise UsageError(f"{path} proves no error{of} that could be watched.")
    about = ("label", parse_answer_loss(terms.loss), terms.claim)
    if (seal["label"]["is"], seal["loss"], (seal["clusters"] or {}).get("claim")) != about:
        raise UsageError(
            f"{path} is about another loss or claim than the watch, which shows nothing of this one."
        )
    return limits.get(answers or "", max(limits.values())), seal["delta"], found.content


def _certificate_proof(path: Path, terms: WatchTerms, answers: str | None) -> tuple[float, float, bytes]:
    from codebound.certificate.file import Certificate

    made = Certificate.load(path)
    if (terms.group, terms.claim, terms.loss) != (None, None, str(made.question)):
        raise UsageError(f"{path} is about {made.question}, not about what is watched: give a bound instead.")
    return made.claim.bound, made.claim.delta, path.read_bytes()


@dataclass(slots=True)
class Watch:
    """A stream of outcomes with an alarm for all units and one for each group, kept in a file."""

    path: Path
    ledger: Ledger
    overall: Mixture = field(init=False)
    groups: dict[str, Mixture] = field(init=False)

    def __post_init__(self) -> None:
        first = self.ledger.seal
        if first["kind"] != "watch":
            raise UsageError(f"{self.path} is the ledger of a sealed table, not a watch.")
        names = [] if first["groups"] is None else first["groups"]["names"]
        alpha = first["alpha"] / 2 if names else first["alpha"]
        self.overall = Mixture(bound=first["bound"], alpha=alpha)
        self.groups = {
            name: Mixture(bound=first["bound"], alpha=first["alpha"] / (2 * len(names))) for name in names
        }
        for line in self.ledger.statements:
            self.overall.update(outcomes_of(line))
            for name, part in zip(names, line["groups"] or (), strict=True):
                self.groups[name].update(outcomes_of(part))

    def __str__(self) -> str:
        from codebound.holdout.sentences import describe_alarm

        return describe_alarm(self)

    @classmethod
    def start(cls, path: Path | str, terms: WatchTerms, *, stream: str = "stream") -> Watch:
        """Begin a watch in a new file."""
        path = Path(path)
        with sole_writer(path):
            if path.exists():
                raise UsageError(f"{path} exists already: go on with it, or choose another file.")
            ledger = Ledger(path).with_line(terms.record(stream))
            write_ledger(ledger)
        return cls(path, ledger)

    @classmethod
    def load(cls, path: Path | str) -> Watch:
        """Go on with a watch."""
        ledger = read_lines(Path(path))
        require_latest(ledger)
        return cls(Path(path), ledger if is_own(ledger) else checked(ledger))

    def require(self, terms: WatchTerms) -> None:
        """Refuse terms other than those of the first line; what is left at its default asks for nothing."""
        first = self.ledger.seal
        asked = replace(terms, bound=terms.bound or first["bound"]).record("")
        if asked["clusters"] and first["clusters"]:
            asked["clusters"]["salt"] = first["clusters"]["salt"]
        for name, usual in WatchTerms(bound=first["bound"]).record("").items():
            if asked[name] not in (first[name], usual):
                raise UsageError(
                    f"{self.path} has {name} {first[name]!r} from its first line on, and not "
                    f"{asked[name]!r}. Other terms need a new file."
                )

    @property
    def labels(self) -> int:
        """Number of units so far."""
        return self.overall.labels

    @property
    def alarm_at(self) -> int | None:
        """Number of the label at which the alarm for all units was raised; None if it never was."""
        return self.overall.alarm_at

    @property
    def alarms(self) -> dict[str, int]:
        """Groups whose alarm was raised, each with the number of its own label."""
        return {name: each.alarm_at for name, each in self.groups.items() if each.alarm_at is not None}

    def upper_limit(self) -> float:
        """Return the time-uniform upper limit, which is for an error that does not change."""
        return self.overall.upper_limit()

    def update(self, outcomes: Iterable[int], groups: Sequence[str] | None = None) -> int | None:
        """Take new outcomes, 1 where it was wrong, and return the label of the alarm, if any.

        They are on the disk (some 20 ms) before the alarm is heard. Each call writes the whole file: where
        there are many outcomes, give some hundreds at once.
        """
        new = np.asarray(list(outcomes))
        if new.ndim != 1 or not np.isin(new, (0, 1)).all():
            raise DataError("outcomes are a list of 0 (right) and 1 (wrong), without gaps.")
        if bool(self.groups) != (groups is not None) or (groups is not None and len(groups) != len(new)):
            raise DataError("a watch with groups needs the group of each outcome, and one without has none.")
        new = new.astype(np.int8)
        self._append([new, *(np.where(mask, new, NOT_IN) for mask in self._masks(groups or ()))])
        return self.alarm_at

    def follow(self, table: AnswerTable, label: str, answers: str | None = None) -> int:
        """Take the rows of a stream that are new, and return the number of new units.

        Args:
            table: The whole stream so far, in order.
            label: Column of labels; or of outcomes, if there are no answers.
            answers: Column of answers.
        """
        found, known = self._sequences(table, label, answers), self._known()
        count = len(known[0])
        if count > len(found[0]):
            raise DataError(
                f"{table.name} is shorter than it was: {len(found[0])} labels, and {count} were read before. "
                "It was cut, or is another stream. Nothing was written."
            )
        if (changed := np.flatnonzero(found[0][:count] != known[0])).size:
            was = "wrong" if known[0][changed[0]] else "right"
            raise DataError(
                f"{table.name}: label {changed[0] + 1} was {was} when it was read, and is not now: out "
                "of order, or changed. New rows belong at the end. Nothing was written."
            )
        for name, new, old in zip(self.groups, found[1:], known[1:], strict=True):
            if not np.array_equal(new[:count][new[:count] != NOT_IN], old):
                raise DataError(
                    f"{table.name}: rows of group {name!r} are not what they were when they were read: out "
                    "of order, or changed. New rows belong at the end. Nothing was written."
                )
        self._append([each[count:] for each in found])
        return len(found[0]) - count

    def extend(self, table: AnswerTable, label: str, answers: str | None = None) -> int | None:
        """Take rows that are all new; return the label at which the alarm was raised, or None."""
        if self.ledger.seal["clusters"] is not None:
            raise UsageError("rows of clusters are read from a file, which shows which cluster goes on.")
        self._append(self._sequences(table, label, answers))
        return self.alarm_at

    def _sequences(self, table: AnswerTable, label: str, answers: str | None) -> list[NDArray[np.int8]]:
        """Return the outcomes of all units of a stream, and those of each group, -1 for other units."""
        first = self.ledger.seal
        told = {"labels": table.full_cells(label), "answers": table.cells(answers or label)}
        for what in ("groups", "clusters"):
            if first[what] is not None:
                told[what] = table.full_cells(first[what]["column"])
        if answers is None:
            if strange := set(told["labels"]) - {"0", "1"}:
                raise DataError(
                    f"{table.name}: column {label!r} must have outcomes, 1 where wrong and 0 where right. "
                    f"Got {min(strange)!r}. If it has labels, name the column of answers too."
                )
            told["labels"] = ("0",) * len(table)
        runs = [cluster for cluster, _ in groupby(told.get("clusters", ()))]
        if len(set(runs)) < len(runs):
            twice = next(each for each in runs if runs.count(each) > 1)
            raise DataError(
                f"{table.name}: cluster {twice!r} comes back after another one began: out of order."
            )
        if runs:  # the last one may go on
            whole = told["clusters"].index(runs[-1])
            told = {what: cells[:whole] for what, cells in told.items()}
        clusters = first["clusters"] or {"claim": "", "salt": ""}
        units = units_of(
            told["labels"],
            first["loss"],
            clusters=told.get("clusters"),
            claim=clusters["claim"],
            salt=clusters["salt"],
            is_stream=True,
        )
        masks = units.masks(told["answers"])
        about = units.with_any(masks.about)
        parts = [np.ones(len(told["labels"]), dtype=bool), *self._masks(told.get("groups", ()))]
        return [
            np.where(units.with_any(masks.about & part), units.with_any(masks.lost & part), NOT_IN)[
                about
            ].astype(np.int8)
            for part in parts
        ]

    def _masks(self, groups: Sequence[str]) -> list[NDArray[np.bool_]]:
        """Return the rows of each group."""
        if strange := sorted(set(groups) - set(self.groups)):
            raise DataError(
                f"group {strange[0]!r} was not named at the start: {', '.join(self.groups) or 'none'}."
            )
        cells = np.array(groups, dtype=object)
        return [(cells == name).astype(bool) for name in self.groups]

    def _known(self) -> list[NDArray[np.int8]]:
        """Return all outcomes so far: of all units, and of each group."""
        lines = [[line, *(line["groups"] or ())] for line in self.ledger.statements]
        empty = np.zeros(0, dtype=np.int8)
        return [
            np.concatenate([empty, *(outcomes_of(line[part]) for line in lines)])
            for part in range(1 + len(self.groups))
        ]

    def _append(self, outcomes: Sequence[NDArray[np.int8]]) -> None:
        """Write new outcomes as lines."""
        alarms = [self.overall, *self.groups.values()]
        errors = sum(each.errors for each in alarms) + sum(int((each > 0).sum()) for each in outcomes)
        if self.labels + len(outcomes[0]) > MOST_IN_ALL or errors > MOST_ERRORS:
            raise UsageError(
                f"{self.path} is full: a watch has at most {MOST_IN_ALL} labels and {MOST_ERRORS} errors, "
                "those of groups included. Nothing was written; start another one, which has its own alpha."
            )
        with sole_writer(self.path):
            if self.path.stat().st_size != len(self.ledger.content):
                raise UsageError(
                    f"another program has written to {self.path} since it was read. Load it again: no "
                    "label is counted twice."
                )
            ledger = self.ledger
            for start in range(0, len(outcomes[0]), MOST_LABELS):
                records = []
                for alarm, each in zip(alarms, outcomes, strict=True):
                    part = each[start : start + MOST_LABELS]
                    part = part[part != NOT_IN]
                    alarm.update(part)
                    places = (np.flatnonzero(part) + 1).tolist()
                    records.append({"alarm": alarm.alarm_at, "errors": places, "labels": len(part)})
                ledger = ledger.with_line({"kind": "batch", **records[0], "groups": records[1:] or None})
            if ledger is not self.ledger:
                write_ledger(ledger)
                self.ledger = ledger


def outcomes_of(line: Mapping[str, Any]) -> NDArray[np.int8]:
    """Return the outcomes of a batch as zeros and ones."""
    outcomes = np.zeros(line["labels"], dtype=np.int8)
    outcomes[np.array(line["errors"], dtype=np.int64) - 1] = 1
    return outcomes


def read_stream(spec: str) -> tuple[AnswerTable, str]:
    """Return a stream such as ``stream.csv:label``, and its column of labels or outcomes.

    A last row that is not whole is left for later.
    """
    path, label = split_spec(spec)
    table = read_table(path, is_growing=path.suffix.lower() != ".npz")
    return table, label_of(table, label)


def read_chunks(descriptor: int, name: str) -> Iterator[AnswerTable]:
    """Yield the new rows of a CSV that comes through a pipe, as soon as they are there."""
    header, rest = b"", b""
    while chunk := os.read(descriptor, 1 << 20):
        rest += chunk
        end = rest.rfind(b"\n") + 1
        while rest.count(b'"', 0, end) % 2:  # within quotes a line feed ends no row
            end = rest.rfind(b"\n", 0, end - 1) + 1
        whole, rest = rest[:end], rest[end:]
        if whole and not header:
            header, feed, whole = whole.partition(b"\n")
            header += feed
        if whole:
            yield parse_csv(header + whole, name)
    if rest:
        raise DataError(f"{name} ends in the middle of a row: {rest[:80]!r}. The rows before it were taken.")
