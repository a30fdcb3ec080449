"""The columns of a sealed table, and every count of a ledger made again (docs/ledger.md, 2 and 3)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..refusal import Refused, quote
from .cells import canonical_columns, column_hash, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .rules import Record

Mask: TypeAlias = NDArray[np.bool_]
Cells: TypeAlias = "dict[str, list[str]]"  # by hash of the column


def recount(seal: Record, looks: list[Record], table: Mapping[str, Sequence[str]]) -> int:
    """Number of lines that were counted again: those whose columns the table has."""
    columns = canonical_columns(table)
    hashes = {name: column_hash(each) for name, each in columns.items()}
    cells = {hashes[name]: each for name, each in columns.items()}
    _agree("the table", {"rows": seal["rows"]}, {"rows": len(next(iter(columns.values())))})
    for role in ("label", "groups", "clusters", "inputs"):
        told = seal[role]
        is_optional = role == "inputs" and told is not None and told["column"] not in hashes
        if told is None or told["sha256"] in cells or is_optional:
            continue
        raise Refused(
            f"Data: no column has SHA-256 {told['sha256']}, which was sealed as {role}; column "
            f"{quote(told['column'])} has {hashes.get(told['column'], 'none')}."
        )
    counter, done = _Counter(seal, cells), 0
    for number, line in enumerate(looks, start=2):
        if {line[key]["sha256"] for key in ("a", "b", "column", "scores") if key in line} <= cells.keys():
            counter.check(line, cells, f"line {number}")
            done += 1
    return done


def _agree(where: str, told: Record, found: dict[str, Any]) -> None:
    for key, count in found.items():
        if told[key] != count:
            raise Refused(
                f"Data: counted again, {where} has {key} = {quote(count)}; it says {quote(told[key])}."
            )


class _Counter:
    """Rows, units and groups of a sealed table."""

    def __init__(self, seal: Record, cells: Cells) -> None:
        self.seal, (self.kind, *self.named) = seal, seal["loss"]
        label = _full_column(seal, cells, "label")
        self.label, self.units = np.array(label, object), len(label)
        self.stands, self.codes = np.ones(self.units, bool), np.arange(self.units)
        self.best = seal["n"]  # of the levels told so far
        if self.kind == "residual" and np.isnan(_numbers(label)).any():
            raise Refused("Data: a label is no number, and the loss needs numbers.")
        if self.kind not in ("wrong", "residual") and self.named[0] not in label:
            raise Refused(f"Data: no label is {quote(self.named[0])}, which the loss names.")
        if (told := seal["clusters"]) is not None:
            self._form_clusters(told, _full_column(seal, cells, "clusters"))
        _agree("the seal", seal, {"n": self._count(self._about())})
        self.groups: list[Mask] = []
        if (told := seal["groups"]) is not None:
            column = np.array(_full_column(seal, cells, "groups"), object)
            self.groups = [np.asarray(column == name) for name in sorted({*column.tolist()})]
            _agree("the seal", told, {"names": sorted({*column.tolist()})})
            sizes = tuple(self._count(self._about() & each) for each in self.groups)
            _agree("the seal", told, {"sizes": sizes})
        if (told := seal["inputs"]) is not None and (inputs := cells.get(told["sha256"])) is not None:
            _agree("the seal", told, {"copies": len(inputs) - len({*inputs})})

    def check(self, line: Record, cells: Cells, where: str) -> None:
        """Check the counts of one line."""
        if line["kind"] == "abstain":
            about, wrong = self._about_and_lost(cells[line["column"]["sha256"]])
            scores = _numbers(cells[line["scores"]["sha256"]])
            answered = [scores >= each for each in line["thresholds"]]
            counts = {"answered": [self._count(about & each) for each in answered]}
            _agree(
                where, line["result"], counts | {"wrong": [self._count(wrong & each) for each in answered]}
            )
            return
        masks = [
            self._about_and_lost(cells[line[key]["sha256"]]) for key in ("column", "a", "b") if key in line
        ]
        results = [line["result"], *(line["groups"] or ())]
        for rows, result in zip([self.stands, *self.groups], results, strict=True):
            n, lost = self._count(masks[0][0] & rows), [self._units(each & rows) for _, each in masks]
            if line["kind"] == "better":
                only = [int((lost[at] & ~lost[1 - at]).sum()) for at in (0, 1)]
                _agree(where, result, {"n": n, "a_only": only[0], "b_only": only[1]})
            elif self.seal["levels"] is None or line["final"]:
                _agree(where, result, {"n": n, "errors": int(lost[0].sum())})
            else:
                level = min(
                    (each for each in self.seal["levels"] if each >= lost[0].sum()), default=self.best
                )
                told = {"errors": None} if result is None else result
                _agree(where, told, {"errors": level if level < self.best else None})
                self.best = min(level, self.best)

    def _form_clusters(self, told: Record, clusters: list[str]) -> None:
        names, codes = np.unique(np.array(clusters, object), return_inverse=True)
        _agree("the seal", told, {"units": len(names)})
        if told["claim"] == "any":
            self.codes, self.units = codes.ravel(), len(names)
            return
        standing: dict[str, tuple[bytes, int]] = {}
        for at, name in enumerate(clusters):
            drawn = hashlib.sha256(f"{told['sha256']}:{at}".encode()).digest(), at
            standing[name] = min(standing.get(name, drawn), drawn)
        self.stands[:] = False
        self.stands[[at for _, at in standing.values()]] = True

    def _units(self, rows: Mask) -> Mask:
        """Units that have one of the rows."""
        found = np.zeros(self.units, bool)
        found[self.codes[rows & self.stands]] = True
        return found

    def _count(self, rows: Mask) -> int:
        return int(self._units(rows).sum())

    def _about(self) -> Mask:
        """Rows that the loss is about, as far as labels tell."""
        if self.kind in ("class", "confused"):
            return np.asarray(self.label == self.named[0])
        return np.asarray(self.label != self.named[0] if self.kind == "false-alarm" else self.label != "")

    def _about_and_lost(self, cells: list[str]) -> tuple[Mask, Mask]:
        """Rows that the loss is about, and those of them that are lost."""
        about, answers = self._about(), np.array(cells, object)
        lost = answers != self.label
        if self.kind in ("confused", "false-alarm"):
            lost = answers == self.named[-1]
        elif self.kind == "precision":
            about = np.asarray(answers == self.named[0])
        elif self.kind == "residual":
            lost = ~(np.abs(_numbers(cells) - _numbers(self.label)) <= number_of(self.named[0]))
        return about, about & np.asarray(lost)


def _full_column(seal: Record, cells: Cells, role: str) -> list[str]:
    """The cells of a column, none of which may be empty."""
    found = cells[seal[role]["sha256"]]
    if "" in found:
        raise Refused(f"Data: row {found.index('') + 1} of the column of {role} is empty.")
    return found


def _numbers(cells: Sequence[str] | NDArray[Any]) -> NDArray[np.float64]:
    return np.array([number_of(each) for each in cells], np.float64)
