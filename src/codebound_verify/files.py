"""A certificate with what is given beside it, all as files: what the command is told."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .container import load, read_container
from .refusal import Refused, TooLarge
from .rooms import room

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .holdout.ledger import LedgerVerdict
    from .verdict import Verdict

CERTIFICATE = "certificate.cbound"  # in a folder
LEDGER = ".jsonl"


@dataclass(frozen=True, kw_only=True)
class GivenFiles:
    """Options of the command beside the file, by their names."""

    data: str | None = None
    data_folder: Path | None = None
    clusters: Path | None = None
    groups: Path | None = None
    scores: Sequence[Path] = ()
    base: Path | None = None
    unlabelled: str | None = None
    answers: Path | None = None
    subject_weights: Path | None = None
    weights: Path | None = None
    test: str | None = None
    by_class: bool = False
    head: str | None = None


def certificate_in(path: Path) -> Path:
    """The certificate in a folder; a file is what it is."""
    return path / CERTIFICATE if path.is_dir() else path


def verify_file(
    file: Path, given: GivenFiles, *, content: bytes | None = None, **listeners: Any
) -> Verdict | LedgerVerdict:
    """Check a certificate or the one in a folder (``content``, if read before), with what lies beside it.

    ``listeners`` are functions that hear of the work, by their names in ``checklist.Given``.
    Where something that is needed was not given, or cannot be read, nothing is said about the file: Refused.
    """
    file = certificate_in(file)
    try:
        content = load(file) if content is None else content
        if file.suffix == LEDGER:
            return _ledger(content, given)
        if file.name != CERTIFICATE:
            return _certificate(content, given, listeners)
        beside = room("folder")
        verdict: Verdict = beside.compare_neighbours(
            file, _certificate(content, beside.add_neighbours(file, given), listeners)
        )
        return verdict
    except OSError as error:
        raise unreadable(error) from error
    except MemoryError:
        raise Refused("there is not enough memory to check this certificate") from None


def verdict_record(verdict: Verdict | LedgerVerdict, unmet: Sequence[str] = ()) -> dict[str, Any]:
    """A verdict as the command prints it in JSON, with the demands that are not met."""
    return {**dataclasses.asdict(verdict), "unmet": tuple(unmet)}


def unreadable(error: Exception) -> Refused:
    """Refusal of something that cannot be read, in words for the one who named it."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return Refused(f"cannot read {error.filename}: {error.strerror.lower()}")
    return Refused(str(error))


def _ledger(content: bytes, given: GivenFiles) -> LedgerVerdict:
    table = room("table").read_table(given.data) if given.data else None
    verdict: LedgerVerdict = room("ledger").verify_ledger(content, table=table, head=given.head)
    return verdict


def _certificate(content: bytes, given: GivenFiles, listeners: dict[str, Any]) -> Verdict:
    if given.data is None:
        read_container(content)  # what is no certificate needs no sample
        raise Refused("the sample is needed, and no sample.npz lies beside the file: give it with --data")
    from .verdict import Verdict, verify

    try:
        return verify(content, **room("arrays").read_given(content, given), **listeners)
    except TooLarge as refused:
        return Verdict("REFUSE", refused.reasons, None)
