"""A certificate or a ledger with what is given beside it, all as files: what the command is told."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .refusal import Refused
from .rooms import room

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .header import Header
    from .holdout.ledger import LedgerVerdict
    from .sample import Inputs, Progress
    from .verdict import Verdict

CERTIFICATE = "certificate.cbound"  # in a folder


@dataclass(frozen=True, kw_only=True)
class GivenFiles:
    """Options of the command beside the file, by their names."""

    data: str | None = None
    data_folder: Path | None = None
    base: Path | None = None
    unlabelled: str | None = None
    subject_weights: Path | None = None
    weights: Path | None = None
    test: str | None = None
    by_class: bool = False
    allow_copies: bool = False
    head: str | None = None


def certificate_in(path: Path) -> Path:
    """The certificate in a folder; a file is what it is."""
    return path / CERTIFICATE if path.is_dir() else path


def verify_file(
    file: Path, given: GivenFiles, *, progress: Progress | None = None
) -> Verdict | LedgerVerdict:
    """Check a certificate or the one in a folder, with what lies beside it; or a ledger of looks (.jsonl).

    Raises:
        Refused: if something that is needed was not given, or cannot be read: nothing is said about the file.
    """
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise Refused(f"cannot read {file}: a queue or a device has no end")
    try:
        if file.suffix == ".jsonl":
            return _ledger(file, given)
        file = certificate_in(file)
        if file.name != CERTIFICATE:
            return _certificate(file, given, progress)
        beside = room("folder")
        verdict: Verdict = beside.compare_neighbours(
            file, _certificate(file, beside.add_neighbours(file, given), progress)
        )
        return verdict
    except OSError as error:
        raise unreadable(error) from error


def verdict_record(verdict: Verdict | LedgerVerdict, unmet: Sequence[str] = ()) -> dict[str, Any]:
    """A verdict as the command prints it in JSON, with the demands that are not met."""
    return {**dataclasses.asdict(verdict), "unmet": tuple(unmet)}


def unreadable(error: OSError) -> Refused:
    """Refusal of something that cannot be read, in words for the one who named it."""
    if error.filename is not None and error.strerror:
        return Refused(f"cannot read {error.filename}: {error.strerror.lower()}")
    return Refused(str(error))


def _ledger(file: Path, given: GivenFiles) -> LedgerVerdict:
    data = _load_labelled(given.data, given.data_folder) if given.data else None
    verdict: LedgerVerdict = room("ledger").verify_ledger(file.read_bytes(), data=data, head=given.head)
    return verdict


def _certificate(file: Path, given: GivenFiles, progress: Progress | None) -> Verdict:
    if given.data is None:
        raise Refused(
            "the sample is needed, and no sample.npz lies beside the certificate: give it with --data"
        )
    if (header := _header(file)) is not None and (lacking := _list_missing(header, given)):
        raise Refused(f"this certificate cannot be checked without {' and '.join(lacking)}")
    from .data import TooLarge, load_data
    from .verdict import Verdict, verify
    from .weights import read_tensors, read_weights

    numbers, unlabelled = (None, None) if header is None else _numbers(header)
    try:
        return verify(
            file,
            *_load_labelled(given.data, given.data_folder, numbers),
            base=read_weights(given.base) if given.base else None,
            unlabelled=(
                load_data(given.unlabelled, given.data_folder, expected=unlabelled)[0]
                if given.unlabelled
                else None
            ),
            subject_weights=read_weights(given.subject_weights) if given.subject_weights else None,
            learned_weights=read_tensors(given.weights) if given.weights else None,
            test=_load_labelled(given.test, given.data_folder) if given.test else None,
            allow_copies=given.allow_copies,
            by_class=given.by_class,
            progress=progress,
        )
    except TooLarge as refused:
        return Verdict("REFUSE", refused.reasons, None)
    except MemoryError:
        raise Refused("there is not enough memory to check this certificate") from None


def _header(file: Path) -> Header | None:
    """The header of a certificate; None of a file that is none."""
    from .container import load, read

    try:
        return read(load(file)).header
    except (Refused, OSError):
        return None


def _numbers(header: Header) -> tuple[int | None, int | None]:
    """Number of values in the sample, and in unlabelled inputs; None if the header does not tell."""
    from .checks import set_apart

    each, extra = math.prod(header.input_shape), header.extra
    examples: int | None = header.n + set_apart(header)
    if header.loss.is_partial:  # then n counts a part
        examples = getattr(header.tally, "examples", None)
    unlabelled = getattr(extra, "n_unlabelled", None)
    return examples and each * examples, unlabelled and each * unlabelled


def _list_missing(header: Header, given: GivenFiles) -> list[str]:
    """Inputs that the header asks for and that were not given."""
    needed = {
        "its base (--base)": header.base is not None and not given.base,
        "the weights of f (--subject-weights)": header.subject == "f" and not given.subject_weights,
        "the unlabelled inputs (--unlabelled)": header.statement == "C-12b" and not given.unlabelled,
    }
    return [what for what, is_lacking in needed.items() if is_lacking]


def _load_labelled(spec: str, folder: Path | None, expected: int | None = None) -> tuple[Inputs, Inputs]:
    """Inputs and labels of a sample."""
    from .data import load_data

    x, y = load_data(spec, folder, expected=expected)
    if y is None:
        raise Refused(f"Data: {spec} has no labels y.")
    return x, y
