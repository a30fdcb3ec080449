"""Every count of a ledger made again from its table (docs/ledger.md, sections 2 and 3)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..losses import Mask
from ..refusal import Refused, quote
from .rules import Record, canonical, number_of

Cells: TypeAlias = "dict[str, list[str]]"  # by hash of the column


def column_hash(cells: Sequence[str]) -> str:
    """The hash of canonical cells.

    Example:
        >>> column_hash(["ham", "spam"]) == hashlib.sha256(b"3:ham4:spam").hexdigest()
        True
    """
    digest = hashlib.sha256()
    for each in map(str.encode, cells):
        digest.update(b"%d:%b" % (len(each), each))
    return digest.hexdigest()


def recount(
    seal: Record, looks: list[Record], table: Mapping[str, Sequence[str]]
) -> tuple[int, list[Record]]:
    """Number of lines counted again, whose columns the table has, and lines with the table's names."""
    if len({len(column) for column in table.values()}) != 1:
        raise Refused("Data: the columns of the table are not equally long, or there are none.")
    if any(re.search("[\ud800-\udfff]", each) for column in table.values() for each in column):
        raise Refused("Data: a cell has a character that is half of one.")
    columns = {name: [canonical(each) for each in column] for name, column in table.items()}
    hashes = {name: column_hash(column) for name, column in columns.items()}
    cells = {hashes[name]: column for name, column in columns.items()}
    _agree("the table", seal, rows=len(next(iter(columns.values()))))
    for role in ("label", "groups", "clusters", "inputs"):
        told = seal[role]
        if told and told["sha256"] not in cells and (role != "inputs" or told["column"] in hashes):
            raise Refused(
                f"Data: no column has SHA-256 {told['sha256']}, which was sealed as {role}; column "
                f"{quote(told['column'])} has {hashes.get(told['column'], 'none')}."
            )
    sealed, done, named = _Sealed(seal, cells), 0, list[Record]()
    for number, line in enumerate(looks, start=2):
        told = {key: line[key] for key in ("a", "b", "column", "scores") if key in line}
        if {each["sha256"] for each in told.values()} <= cells.keys():
            sealed.check(line, cells, f"line {number}")
            done += 1
        for key, each in told.items():
            called = [name for name in hashes if hashes[name] == each["sha256"]]
            if called and each["name"] not in called:
                told[key] = {**each, "name": called[0]}
        named.append({**line, **told})
    return done, named


def _agree(where: str, told: Record, **found: Any) -> None:
    for key, count in found.items():
        if told[key] != count:
            raise Refused(
                f"Data: counted again, {where} has {key} = {quote(count)}; it says {quote(told[key])}."
            )


class _Sealed:
    """A sealed table: the unit of every row, and the rows that stand for units."""

    def __init__(self, seal: Record, cells: Cells) -> None:
        self.seal, (self.kind, *self.named) = seal, seal["loss"]
        self.label = _full_column(seal, cells, "label")
        self.codes, self.stands = np.arange(seal["rows"]), np.ones(seal["rows"], bool)
        self.best, self.groups = seal["n"], list[Mask]()  # of the levels told so far; rows of each group
        if self.kind == "residual" and np.isnan(_numbers(self.label)).any():
            raise Refused("Data: a label is no number, and the loss needs numbers.")
        if self.kind not in ("wrong", "residual") and self.named[0] not in self.label:
            raise Refused(f"Data: no label is {quote(self.named[0])}, which the loss names.")
        if (told := seal["clusters"]) is not None:
            clusters, codes = np.unique(_full_column(seal, cells, "clusters"), return_inverse=True)
            _agree("the seal", told, units=len(clusters))
            if told["claim"] == "any":
                self.codes = codes.ravel()
            else:
                keys = [hashlib.sha256(f"{told['sha256']}:{row}".encode()).digest() for row in self.codes]
                order = np.array(sorted(self.codes.tolist(), key=keys.__getitem__))
                self.stands[:] = False
                self.stands[order[np.unique(codes.ravel()[order], return_index=True)[1]]] = True
        _agree("the seal", seal, n=self.count(self.about()))
        if (told := seal["groups"]) is not None:
            column = _full_column(seal, cells, "groups")
            names = sorted({*column.tolist()})
            self.groups = [np.asarray(column == name) for name in names]
            sizes = tuple(self.count(self.about() & each) for each in self.groups)
            _agree("the seal", told, names=names, sizes=sizes)
        if (told := seal["inputs"]) is not None and (inputs := cells.get(told["sha256"])) is not None:
            _agree("the seal", told, copies=len(inputs) - len({*inputs}))

    def check(self, line: Record, cells: Cells, where: str) -> None:
        """Check the counts of one line."""
        pairs = [self.judge(cells[line[key]["sha256"]]) for key in ("column", "a", "b") if key in line]
        about, wrong = pairs[0]
        if line["kind"] == "abstain":
            scores = _numbers(cells[line["scores"]["sha256"]])
            answered = [scores >= each for each in line["thresholds"]]
            found = {"answered": about, "wrong": wrong}
            counts = {key: [self.count(rows & each) for each in answered] for key, rows in found.items()}
            _agree(where, line["result"], **counts)
            return
        every = np.ones_like(about)
        for rows, result in zip(
            [every, *self.groups], [line["result"], *(line["groups"] or ())], strict=True
        ):
            n, (a, *b) = self.count(about & rows), (self.units(lost & rows) for _, lost in pairs)
            if b:
                _agree(where, result, n=n, a_only=int((a & ~b[0]).sum()), b_only=int((b[0] & ~a).sum()))
            elif self.seal["levels"] is None or line["final"]:
                _agree(where, result, n=n, errors=int(a.sum()))
            else:
                level = min((each for each in self.seal["levels"] if each >= a.sum()), default=self.best)
                _agree(where, result or {"errors": None}, errors=level if level < self.best else None)
                self.best = min(level, self.best)

    def units(self, rows: Mask) -> Mask:
        """Units that have one of the rows, among those that stand for units."""
        found = np.zeros(int(self.codes.max()) + 1, bool)
        found[self.codes[rows & self.stands]] = True
        return found

    def count(self, rows: Mask) -> int:
        """Number of these units."""
        return int(self.units(rows).sum())

    def about(self) -> Mask:
        """Rows that the loss is about, as far as labels tell."""
        if self.kind in ("class", "confused"):
            return np.asarray(self.label == self.named[0])
        return np.asarray(self.label != self.named[0] if self.kind == "false-alarm" else self.label != "")

    def judge(self, cells: list[str]) -> tuple[Mask, Mask]:
        """Rows that the loss is about, and those of them that are lost."""
        about, answers = self.about(), np.array(cells, object)
        lost = answers != self.label
        if self.kind in ("confused", "false-alarm"):
            lost = answers == self.named[-1]
        elif self.kind == "precision":
            about = np.asarray(answers == self.named[0])
        elif self.kind == "residual":
            lost = ~(np.abs(_numbers(cells) - _numbers(self.label)) <= number_of(self.named[0]))
        return about, about & np.asarray(lost)


def _full_column(seal: Record, cells: Cells, role: str) -> NDArray[Any]:
    """The cells of a column, none of which may be empty."""
    found = cells[seal[role]["sha256"]]
    if "" in found:
        raise Refused(f"Data: row {found.index('') + 1} of the column of {role} is empty.")
    return np.array(found, object)


def _numbers(cells: Sequence[str] | NDArray[Any]) -> NDArray[np.float64]:
    return np.array([number_of(each) for each in cells], np.float64)
