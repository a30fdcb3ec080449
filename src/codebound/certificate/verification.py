"""Calls of the independent verifier, on a certificate or on that of a folder.

``result.json`` has its options as ``verify_with``; the commands beside that are for people.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.run.errors import CertificateError, FormatError, UsageError
from codebound.run.progress import Progress, silent
from codebound.sample.load import as_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from codebound.certificate.file import Certificate
    from codebound.sample.dataset import Sample
    from codebound_verify import Verdict

CERTIFICATE = "certificate.cbound"
_PATHS = ("data_folder", "base", "subject_weights", "weights")
_FILES = ("data", "unlabelled", *_PATHS)  # the first two may be names that the second program knows
_KINDS = dict.fromkeys(_FILES, str)


def verify(
    source: Certificate | Path | str,
    sample: Any,
    *,
    clusters: NDArray[np.int64] | None = None,
    groups: NDArray[np.int64] | None = None,
    tables: Sequence[Mapping[str, NDArray[Any]]] = (),
    base: Mapping[str, NDArray[np.float32]] | None = None,
    unlabelled: Sample | None = None,
    original: Mapping[str, NDArray[np.float32]] | None = None,
    weights: Path | str | None = None,
    test_set: Sample | None = None,
    progress: Progress = silent,
) -> Verdict:
    """Verdict of the verifier, which shares no code with this package.

    Args:
        source: A certificate or its file.
        sample: The sample it was made with, given in any way that ``certify`` takes.
        clusters: Number of the cluster of each row, where clusters are the draws.
        groups: Number of the group of each row, where there are some.
        tables: Arrays of the declared tables of scores, in their order.
        base: The tensors of the base, where the message codes differences.
        unlabelled: The unlabelled inputs of a C-12b certificate.
        original: The tensors of f, for C-12a and C-12b.
        weights: The file of g that was saved beside the certificate: is it the network that was certified?
        test_set: Examples used for no choice: the verdict says whether they refute the claim.
        progress: Told the examples done.

    Raises:
        CertificateError: Something that the check needs was not given.

    Example:
        >>> import codebound as cb
        >>> few = cb.load_sample("digits").select(range(300), role="train")
        >>> found = cb.certify(few, method="split", run=cb.Run(effort="quick"))
        >>> cb.verify(found.certificate, few).verdict
        'ACCEPT'
    """
    from codebound_verify import verify as independent_verify
    from codebound_verify.refusal import Refused

    sample = as_dataset(sample)
    try:
        return independent_verify(
            source if isinstance(source, Path | str | bytes) else source.to_bytes(),
            sample.x,
            sample.y,
            cells=sample.is_cells,
            clusters=clusters,
            groups=groups,
            tables=list(tables),
            base=base,
            unlabelled=None if unlabelled is None else unlabelled.x,
            subject_weights=original,
            learned_weights=None if weights is None else _arrays(Path(weights)),
            test=None if test_set is None else (test_set.x, test_set.y),
            progress=lambda done, total: progress(done, total, "the verifier counts"),
        )
    except Refused as lacking:
        raise CertificateError(str(lacking)) from lacking


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a file as the verifier reads them."""
    from codebound_verify.refusal import Refused
    from codebound_verify.weights import read_tensors

    try:
        return read_tensors(path)
    except Refused as refused:
        raise FormatError(str(refused)) from refused


def list_commands(folder: Path, asked: Mapping[str, str | Path | bool]) -> dict[str, Any]:
    """Return the verify commands: ``verify`` runs in this directory, ``verify_here`` in the folder.

    Files are paths in the folder, so that no path of this machine is in what is handed over. Options of the
    second program are given by name, with underscores; True is a switch.
    """
    inside = {name: each.name if isinstance(each, Path) else each for name, each in asked.items()}
    return {
        "verify": command_of(asked, folder / CERTIFICATE),
        "verify_here": command_of(inside),
        "verify_with": inside,
    }


def strip_folders(value: Any) -> Any:
    """Return settings in which absolute paths are names of files.

    Example:
        >>> strip_folders({"data": "/home/me/churn.csv:label", "weights": "runs/f", "holdout": 0.2})
        {'data': 'churn.csv:label', 'weights': 'runs/f', 'holdout': 0.2}
    """
    if isinstance(value, dict):
        return {name: strip_folders(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [strip_folders(each) for each in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def command_of(asked: Mapping[str, str | Path | bool], file: Path = Path(CERTIFICATE)) -> str:
    """Return the verify command as one line.

    Example:
        >>> command_of({"data": "digits", "by_class": True})
        'codebound-verify certificate.cbound --data digits --by-class'
    """
    words = ["codebound-verify", str(file)]
    for name, value in asked.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)


def options_of(folder: Path, result: Mapping[str, Any]) -> dict[str, str | bool]:
    """The options that a folder names in its ``result.json``.

    A stranger may have written them: they decide which files are read, and not which certificate.
    """
    asked = result.get("verify_with")
    if not isinstance(asked, dict) or not all(
        value and type(value) is _KINDS.get(name) and "\0" not in str(value) for name, value in asked.items()
    ):
        raise FormatError(
            f"{folder / 'result.json'} does not say how to verify its certificate as certify writes it: "
            f"{asked}"
        )
    return asked


def verify_folder(folder: Path, asked: Mapping[str, str | bool]) -> dict[str, Any]:
    """Return the verdict on the certificate in a folder by what it names (``options_of``), as JSON."""
    from codebound_verify.sources.arrays import NAMES

    given: dict[str, Any] = dict(asked)
    for name in given.keys() & {*_FILES}:
        place = folder / given[name]
        try:
            is_here = place.is_file() or place.is_dir()
        except (OSError, ValueError) as error:  # no name of a file
            raise FormatError(f"{folder / 'result.json'} names no file: {given[name]!r:.80}.") from error
        if is_here and given[name].partition(":")[0] in NAMES:
            raise FormatError(f"{place} is called like a dataset: it is unclear which of them is meant.")
        given[name] = str(place) if is_here else given[name]
    return verify_file(folder / CERTIFICATE, **given)


def verify_file(file: Path, **given: Any) -> dict[str, Any]:
    """Return the verdict on a file, such as a ledger of looks, as JSON."""
    from codebound_verify.files import GivenFiles, verdict_record, verify_file
    from codebound_verify.refusal import Refused

    given |= {name: Path(given[name]) for name in _PATHS if name in given}
    try:
        return verdict_record(verify_file(file, GivenFiles(**given)))
    except Refused as error:
        said = str(error).rstrip(".")
        raise UsageError(f"codebound-verify: {said}. See codebound-verify --help.") from error
