"""A certificate with what is given beside it, all as files: what the command is told."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .container import load, read_container
from .refusal import Refused
from .rooms import room

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .header import Header
    from .holdout.ledger import LedgerVerdict
    from .sample import Progress
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
    file: Path, given: GivenFiles, *, progress: Progress | None = None, content: bytes | None = None
) -> Verdict | LedgerVerdict:
    """Check a certificate or the one in a folder (``content``, if read before), with what lies beside it.

    Raises:
        Refused: if something that is needed was not given, or cannot be read: nothing is said about the file.
    """
    file = certificate_in(file)
    try:
        content = load(file) if content is None else content
        if file.suffix == LEDGER:
            return _ledger(content, given)
        if file.name != CERTIFICATE:
            return _certificate(content, given, progress)
        beside = room("folder")
        verdict: Verdict = beside.compare_neighbours(
            file, _certificate(content, beside.add_neighbours(file, given), progress)
        )
        return verdict
    except OSError as error:
        raise unreadable(error) from error


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


def _certificate(content: bytes, given: GivenFiles, progress: Progress | None) -> Verdict:
    if given.data is None:
        raise Refused(
            "the sample is needed, and no sample.npz lies beside the certificate: give it with --data"
        )
    from .data import TooLarge, load_data, load_numbers
    from .verdict import Verdict, verify
    from .weights import read_tensors, read_weights

    header = _header(content)
    try:
        data = load_data(given.data, given.data_folder, expected=_numbers(header, sample=True))
        unlabelled = None
        if given.unlabelled:
            expected = _numbers(header, sample=False)
            unlabelled = load_data(given.unlabelled, given.data_folder, expected=expected).x
        test = load_data(given.test, given.data_folder) if given.test else None
        return verify(
            content,
            data.x,
            data.labels,
            cells=data.is_cells,
            clusters=load_numbers(given.clusters, "clusters") if given.clusters else data.clusters,
            groups=load_numbers(given.groups, "groups") if given.groups else data.groups,
            tables=tuple(given.scores),
            base=read_weights(given.base) if given.base else None,
            unlabelled=unlabelled,
            answers=given.answers,
            subject_weights=read_weights(given.subject_weights) if given.subject_weights else None,
            learned_weights=read_tensors(given.weights) if given.weights else None,
            test=None if test is None else (test.x, test.labels),
            by_class=given.by_class,
            progress=progress,
        )
    except TooLarge as refused:
        return Verdict("REFUSE", refused.reasons, None)
    except MemoryError:
        raise Refused("there is not enough memory to check this certificate") from None


def _header(content: bytes) -> Header | None:
    """The header of a certificate; None of a file that is none."""
    try:
        return read_container(content).header
    except Refused:
        return None


def _numbers(header: Header | None, *, sample: bool) -> int | None:
    """Number of values in the sample, or in unlabelled inputs; None of a file that is no certificate."""
    if header is None:
        return None
    each, original = math.prod(header.sample.input_shape), header.original
    if sample:
        return each * header.sample.rows
    return each * original.unlabelled.rows if original is not None and original.unlabelled is not None else 0
