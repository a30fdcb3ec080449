"""The ledger of looks at a test set: JSON lines, each with the hash of the one before (docs/looks.md)."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codebound.bounds.held_out import exact_answer_bits, ladder_bits
from codebound.bounds.risk import count_of
from codebound.run.errors import FormatError, UsageError
from codebound.run.files import make_folder, read_json, replace_file, require_file, write_atomically
from codebound.sample.dataset import in_float32, row_digests
from codebound.sample.formats.catalogue import cache_folder
from codebound.sample.losses import WRONG, parse_loss
from codebound_verify.holdout.ledger import verify_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codebound.sample.dataset import Dataset

SUFFIX = ".looks.jsonl"
_FIRST = "0" * 64


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger that the independent program accepts.

    Attributes:
        path: The file.
        content: Its bytes.
        seal: The first line.
        looks: The others.
    """

    path: Path
    content: bytes
    seal: Mapping[str, Any]
    looks: tuple[Mapping[str, Any], ...]

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return hashlib.sha256(self.content[:-1].rpartition(b"\n")[2]).hexdigest()

    @property
    def answer_bits(self) -> float:
        """Bits of all answers so far; nobody pays for that of the final look."""
        seal, answers = self.seal, [look["answer"] for look in self.looks if not look["final"]]
        if seal["levels"] is not None:
            return ladder_bits(answers, seal["levels"])
        # an exact answer tells the errors on every class, and their number where these do not add up to it
        sizes = [size for size in seal.get("by_class") or [] if size]
        told = sizes if sizes and parse_loss(seal["fault"]) == WRONG else [seal["n"], *sizes]
        return sum(exact_answer_bits(len(answers), n=most) for most in told)

    @property
    def unlisted(self) -> int:
        """Looks at networks that the seal does not list."""
        return sum(not look["listed"] for look in self.looks)


def with_line(path: Path, record: Mapping[str, Any], before: Ledger | None = None) -> Ledger:
    """The ledger with a line more, which is not written yet."""
    previous, content = (_FIRST, b"") if before is None else (before.head, before.content)
    line = json.dumps(
        {**record, "previous": previous}, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return parse_ledger(path, content + line.encode("ascii") + b"\n")


def parse_ledger(path: Path, content: bytes) -> Ledger:
    """The ledger that bytes hold.

    Raises:
        FormatError: The independent program refuses it.
    """
    verdict = verify_ledger(content)
    if not verdict.is_accepted:
        raise FormatError(f"{path} is no sound ledger of looks:\n  " + "\n  ".join(verdict.reasons))
    seal, *looks = map(json.loads, content.splitlines())
    return Ledger(path, content, seal, tuple(looks))


def read_ledger(path: Path) -> Ledger:
    """Reads a ledger and checks all of it."""
    try:
        require_file(path)
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the ledger {path} cannot be read: {error.strerror}. `codebound holdout seal` makes one."
        ) from error
    return parse_ledger(path, content)


def write_ledger(ledger: Ledger, rows_sha256: str) -> None:
    """Writes a ledger in one step, and remembers its head on this machine: both, or neither."""
    with _remember_head(ledger, rows_sha256):
        write_atomically(ledger.path, ledger.content)


def examples_sha256(data: Dataset) -> str:
    """A hash of the examples in whatever order and type of number they are stored."""
    rows = sorted(digest + label.to_bytes(8, "big") for digest, label in row_digests(data, in_float32))
    return hashlib.sha256(b"".join(rows)).hexdigest()


def require_unsealed(data_sha256: str, rows_sha256: str) -> None:
    """Refuses examples that were sealed before: the second seal would not know of the first one's looks."""
    for memory in sorted(_memory(data_sha256).parent.glob("*.json")):
        known = read_json(memory, advice="Remove it if it is damaged.")
        if memory == _memory(data_sha256) or known.get("rows_sha256") == rows_sha256:
            raise UsageError(
                f"these examples were sealed before: {known['ledger']} has "
                f"{count_of(known['looks'], 'look')} at them. A second seal would not pay for those, in "
                "whatever order or type of number the examples are stored; go on with that ledger. (This "
                f"machine remembers it in {memory}.)"
            )


def require_latest(ledger: Ledger) -> None:
    """Refuses a ledger that lacks lines which this machine has seen: an older copy, or a shortened one.

    What it has beyond them is remembered.
    """
    memory = _memory(ledger.seal["data"]["sha256"])
    if not memory.exists():
        return  # sealed on another machine
    known = read_json(memory, advice="Remove it if it is damaged.")
    lines = ledger.content.splitlines()
    if known["head"] not in {hashlib.sha256(line).hexdigest() for line in lines}:
        raise UsageError(
            f"{ledger.path} lacks a look that was made on this machine: {known['ledger']} had "
            f"{known['looks']}, and its last line is not in this file. It is an older copy, or was "
            "shortened; a look through it would not pay for the others. (This machine remembers it in "
            f"{memory}.)"
        )
    if known["head"] != ledger.head:  # looked at elsewhere, or killed before it was remembered
        with _remember_head(ledger, known.get("rows_sha256", "")):
            pass


@contextmanager
def _remember_head(ledger: Ledger, rows_sha256: str) -> Iterator[None]:
    """The head of a ledger is remembered on this machine if nothing fails inside."""
    memory = _memory(ledger.seal["data"]["sha256"])
    make_folder(memory.parent)
    record = {
        "ledger": os.fspath(ledger.path.resolve()),
        "head": ledger.head,
        "looks": len(ledger.looks),
        "rows_sha256": rows_sha256,
    }
    with replace_file(memory) as remembered:
        remembered.write(json.dumps(record, indent=2).encode() + b"\n")
        remembered.flush()
        yield


def _memory(data_sha256: str) -> Path:
    return cache_folder().parent / "sealed" / f"{data_sha256}.json"
