"""Ledgers: chained lines in a file, the level of each, and what this machine remembers (docs/ledger.md)."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.bounds.held_out import ladder_bits, sorted_answer_bits
from codebound.bounds.occam import log2_up
from codebound.bounds.risk import LookFacts, count_of
from codebound.run.errors import FormatError, UsageError
from codebound.run.files import hold_lock, lock_beside, make_folder, read_json, replace_file, require_file
from codebound.sample.formats.catalogue import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Line = Mapping[str, Any]

PAGE_SHA256 = "ea7b435b4fd0510b7fdedb942b69908f31493f7a5a1c3ea51a6833e07a4a90a4"
FROZEN = "2026-11-19"
"""Hash of docs/ledger.md, and the day on which it was frozen; ``make freeze`` writes both."""
SUFFIX = ".ledger.jsonl"
_FIRST = "0" * 64
_STATEMENT = {
    "look": ("column",),
    "better": ("a", "b", "margin"),
    "abstain": ("column", "scores", "thresholds", "risk", "rule"),
}


@dataclass(frozen=True, slots=True)
class Ledger:
    """Lines of a ledger or a watch, each with the hash of the one before.

    Attributes:
        path: The file.
        content: Its bytes.
        lines: Its objects; the first is the seal, or the start of a watch.
    """

    path: Path
    content: bytes = b""
    lines: tuple[Line, ...] = ()

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return hashlib.sha256(self.content[:-1].rpartition(b"\n")[2]).hexdigest()

    @property
    def origin(self) -> str:
        """Hash of the first line, by which this machine remembers the file."""
        return hashlib.sha256(self.content.partition(b"\n")[0]).hexdigest()

    @property
    def seal(self) -> Line:
        """The first line."""
        return self.lines[0]

    @property
    def statements(self) -> tuple[Line, ...]:
        """The other lines."""
        return self.lines[1:]

    def __str__(self) -> str:
        from codebound.holdout.sentences import describe_ledger

        return describe_ledger(self)

    def with_line(self, record: Line) -> Ledger:
        """Return the ledger with a line more, which is not written yet."""
        before = self.lines[-1]["date"] if self.lines else ""
        previous = self.head if self.lines else _FIRST
        line = {**record, "date": max(_now(), before), "previous": previous}
        written = json.dumps(line, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
        return Ledger(self.path, self.content + written + b"\n", (*self.lines, json.loads(written)))

    def is_planned(self, statement: Line) -> bool:
        """Return True if the seal plans a statement and no line has made it."""
        key = key_of(statement)
        return key in map(key_of, self.seal["planned"]) and key not in map(key_of, self.statements)

    @property
    def open_lines(self) -> int:
        """Number of lines that the seal does not plan."""
        planned, count = {key_of(each) for each in self.seal["planned"]}, 0
        for line in self.statements:
            count += key_of(line) not in planned
            planned.discard(key_of(line))
        return count

    @property
    def open_left(self) -> float:
        """Number of lines left beside those that are planned."""
        looks = self.seal["looks"]
        return math.inf if looks is None else looks - len(self.seal["planned"]) - self.open_lines

    @property
    def answer_bits(self) -> float:
        """Bits of what the seal tells, and of all answers so far."""
        seal, levels = self.seal, self.seal["levels"]
        told: list[int | None] = []
        bits = seal_price(seal)
        for line in self.statements:
            if line["kind"] == "look" and levels is not None and not line["final"]:
                told.append(None if line["result"] is None else line["result"]["errors"])
            else:
                bits += answer_price(seal, line)
        return (bits + (ladder_bits(told, levels) if told else 0.0)) * (1.0 + 1e-14)

    def level(self, statement: Line) -> LookFacts:
        """Return the level of the next line: its share of delta and its price. Counts are left open."""
        is_planned, looks = self.is_planned(statement), self.seal["looks"]
        number = 1 if is_planned or looks is not None else self.open_lines + 1
        bits = 0.0 if is_planned else self.answer_bits
        return LookFacts(
            errors=0, n=1, delta=self.seal["delta"], looks=looks, number=number, answer_bits=bits
        )


def key_of(statement: Line) -> str:
    """Return what makes a statement the same as another: all but the names of columns."""
    kept = {key: statement[key] for key in ("kind", *_STATEMENT[statement["kind"]])}
    for key, value in kept.items():
        if isinstance(value, dict):
            kept[key] = value["sha256"]
    return json.dumps(kept, sort_keys=True)


def seal_price(seal: Line) -> float:
    """Return the bits of what a seal tells of the rows: copies, the size of clusters, sizes of groups."""
    counts = [] if seal["inputs"] is None else [seal["inputs"]["copies"]]
    counts += [] if seal["clusters"] is None else [seal["rows"]]
    sizes = [] if seal["groups"] is None else seal["groups"]["sizes"]
    return math.fsum([log2_up((c + 1) * (c + 2)) for c in counts] + [log2_up(seal["n"] + 1)] * len(sizes))


def answer_price(seal: Line, line: Line) -> float:
    """Return the bits of the exact answer of a line."""
    clusters, lists = seal["clusters"], 1
    if line["kind"] == "look":
        bins = 3 if seal["loss"][0] == "precision" else 2
    elif line["kind"] == "better":
        bins = 3
    else:
        bins = 2 * len(line["thresholds"]) + 1
        if clusters is not None and clusters["claim"] == "any":  # answered and lost at different thresholds
            bins, lists = len(line["thresholds"]) + 1, 2
    sizes = [seal["n"]] if seal["groups"] is None else list(seal["groups"]["sizes"])
    if seal["groups"] is not None and clusters is not None:
        sizes.append(seal["n"])
    return lists * sum(sorted_answer_bits(size, bins=bins) for size in sizes)


def read_lines(path: Path) -> Ledger:
    """Read a file of lines, and check that each follows the one before."""
    try:
        require_file(path)
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}. `codebound holdout seal` makes one."
        ) from error
    if not content.endswith(b"\n"):
        raise FormatError(
            f"{path} is empty or was cut in the middle of line {len(content.splitlines())}: it does not end "
            "with a line feed. Every line before is whole; get the file again from where it was copied."
        )
    lines, previous = [], _FIRST
    for number, line in enumerate(content[:-1].split(b"\n"), start=1):
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: line {number} is no JSON ({error}).") from error
        if not isinstance(parsed, dict) or parsed.get("previous") != previous:
            raise FormatError(
                f"{path}: line {number} does not follow the one before: one was changed, removed or moved."
            )
        previous = hashlib.sha256(line).hexdigest()
        lines.append(parsed)
    return Ledger(path, content, tuple(lines))


def read_ledger(path: Path) -> Ledger:
    """Read a ledger or a watch, as far as the second program accepts it."""
    return checked(read_lines(path))


def read_sealed(path: Path) -> Ledger:
    """Read a ledger to which a line will be added; see :func:`require_latest`."""
    ledger = read_ledger(path)
    if ledger.seal["kind"] != "seal":
        raise UsageError(f"{path} is a watch: statements are made about a sealed table.")
    require_latest(ledger)
    return ledger


def checked(ledger: Ledger) -> Ledger:
    """Return a ledger that the second program accepts."""
    from codebound_verify.holdout.ledger import verify_ledger

    verdict = verify_ledger(ledger.content)
    if not verdict.is_accepted:
        raise FormatError(f"{ledger.path} is no sound ledger:\n  " + "\n  ".join(verdict.reasons))
    return ledger


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Keep others from writing to a file; a second writer is refused."""
    with hold_lock(lock_beside(path), f"a line of {path}", is_kept=False):
        yield


def write_ledger(ledger: Ledger, marks: Sequence[str] = ()) -> None:
    """Write a file in one step, and remember its head on this machine: both, or neither."""
    memory = _memory(ledger.origin)
    make_folder(memory.parent)
    known = _known(memory) if memory.exists() else {}
    record = {
        "ledger": os.fspath(ledger.path.resolve()),
        "head": ledger.head,
        "lines": len(ledger.lines),
        "marks": list(marks) or known.get("marks", []),
    }
    with replace_file(memory) as remembered:
        remembered.write(json.dumps(record, indent=2).encode() + b"\n")
        remembered.flush()
        with replace_file(ledger.path) as file:
            file.write(ledger.content)


def require_unsealed(marks: Sequence[str]) -> None:
    """Refuse rows that were sealed before: the second seal would not know of the first one's looks."""
    for memory in sorted(_memory("").parent.glob("*.json")):
        known = _known(memory)
        if set(marks) & set(known.get("marks", ())):
            raise UsageError(
                f"these rows were sealed before: {known['ledger']} has "
                f"{count_of(known['lines'] - 1, 'look')} at them. A second seal would not pay for those, in "
                "whatever order the rows are stored; go on with that ledger. (This machine remembers it in "
                f"{memory}.)"
            )


def require_latest(ledger: Ledger) -> None:
    """Refuse a file that lacks lines which this machine has seen: an older copy, or a shortened one."""
    memory = _memory(ledger.origin)
    if not memory.exists():
        return  # made on another machine
    known, hashes = _known(memory), {hashlib.sha256(line).hexdigest() for line in ledger.content.splitlines()}
    if known["head"] not in hashes:
        raise UsageError(
            f"{ledger.path} lacks a line that was written on this machine: {known['ledger']} had "
            f"{known['lines']}, and the last of them is not in this file. It is an older copy, or was "
            f"shortened; go on with the whole one. (This machine remembers it in {memory}.)"
        )


def is_own(ledger: Ledger) -> bool:
    """Return True if the last line was written on this machine."""
    memory = _memory(ledger.origin)
    return memory.exists() and bool(_known(memory)["head"] == ledger.head)


def _known(memory: Path) -> dict[str, Any]:
    return read_json(memory, advice="Remove it if it is damaged.")


def _memory(origin: str) -> Path:
    return cache_folder().parent / "sealed" / f"{origin}.json"


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
