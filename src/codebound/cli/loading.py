"""What several verbs make of their options: samples, a base, a folder for the results."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from codebound.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from torch import nn

    from codebound.certificate.base import Pretrained
    from codebound.data.dataset import Dataset


def load_samples(
    data: str, folder: Path | None, *, test: str | None, holdout: float | None
) -> tuple[Dataset, Dataset | None]:
    """The sample, and the test sample if one was asked for."""
    from codebound.data.load import load_dataset
    from codebound.data.splits import split

    if test is not None and holdout is not None:
        raise UsageError(
            "--test gives a test sample and --holdout cuts one from --data: choose one of them, not both."
        )
    if holdout is not None and not 0.0 < holdout < 1.0:
        raise UsageError(f"--holdout must be a fraction in (0, 1). Got {holdout}.")
    sample = load_dataset(data, folder=folder)
    if holdout is not None:
        parts = split(sample, {"train": 1.0 - holdout, "test": holdout})
        return parts["train"], parts["test"]
    if test is not None:
        return sample, load_dataset(test, role="test", folder=folder, classes=sample.classes)
    return sample, None


def given_base(base: Path | None, says: str | None, network: nn.Module, sample: Dataset) -> Pretrained | None:
    """The base that was asked for."""
    from codebound.certificate.base import load_base

    if base is None:
        if says is not None:
            raise UsageError("--base-says describes a --base, and none was given.")
        return None
    return load_base(base, network, sample=sample, says=says or "")


def optional_folder(out: Path | None) -> AbstractContextManager[Path | None]:
    """A new folder, if one was asked for."""
    return nullcontext() if out is None else new_folder(out)


@contextmanager
def new_folder(out: Path | None, verb: str = "certify") -> Iterator[Path]:
    """A folder that did not exist before, and does not if what follows fails."""
    folder = _make_folder(out, verb)
    try:
        yield folder
    except BaseException:
        folder.rmdir()
        raise


def _make_folder(out: Path | None, verb: str) -> Path:
    numbered = (Path("runs") / f"{verb}-{number}" for number in range(1, 10_000))
    for folder in [out] if out is not None else numbered:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"the folder {folder} cannot be made: {error.strerror}.") from error
        return folder
    raise UsageError(f"{out} exists already; results are never overwritten. Choose another --out.")
