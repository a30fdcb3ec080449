"""The published bounds along a training run: one point for each epoch whose weights were kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from codebound.errors import DataError, UsageError
from codebound.files import finite, read_json
from codebound.progress import Progress, silent
from codebound.tensors import ADVICE
from codebound.train import runs
from codebound.train.updates import shuffle_labels
from codebound_papers.compare.table import compare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import nn

    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine
    from codebound_papers.measure.record import MeasureSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPoint:
    """A network after an epoch.

    Attributes:
        epoch: Its number, from 1.
        train_error: Share of the sample on which it errs.
        test_error: Share of the test sample; None without one.
        gamma: The margin at which bounds are evaluated.
        least_margin: The smallest margin of the sample.
        log10: Decimal logarithms of the published bounds, by name; None where one is infinite.
    """

    epoch: int
    train_error: float
    test_error: float | None
    gamma: float
    least_margin: float
    log10: Mapping[str, float | None]

    def record(self) -> dict[str, object]:
        """The point, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRun:
    """What a run folder of ``codebound train`` holds.

    Attributes:
        sample: The sample with the labels that were trained on: shuffled ones where the run shuffled them.
        weights: Weights by epoch.
        settings: What determines the run.
    """

    sample: Dataset
    weights: Mapping[int, Path]
    settings: Mapping[str, object]


def open_training_run(folder: Path, sample: Dataset) -> TrainingRun:
    """Reads a run folder.

    Args:
        folder: The folder.
        sample: The sample that the run was trained on, as it is stored.

    Raises:
        DataError: The run was trained on other data.
        UsageError: It has kept no weights.
    """
    weights = runs.kept_epochs(folder)
    settings = read_json(folder / runs.CONFIG, advice=ADVICE)
    if settings.get("data_sha256") != sample.sha256:
        raise DataError(
            f"{folder} was trained on another sample than {sample.name}: the SHA-256 in {runs.CONFIG} is "
            f"{settings.get('data_sha256')}, that of the sample {sample.sha256}. Give the data, and the "
            "holdout if any, of that training."
        )
    if not weights:
        raise UsageError(
            f"{folder} has kept no weights: the training is not finished, or runs without keep_epochs."
        )
    shuffled = shuffle_labels(sample, float(str(settings["label_shuffle"])), seed=int(str(settings["seed"])))
    return TrainingRun(shuffled, weights, settings)


def epoch_point(
    model: nn.Module,
    sample: Dataset,
    test_set: Dataset | None = None,
    *,
    epoch: int,
    settings: MeasureSettings | None = None,
    like_for_like: bool = False,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> EpochPoint:
    """Evaluates the published bounds on the network after an epoch.

    Args:
        model: The network after that epoch.
        sample: The sample with the labels it was trained on.
        test_set: For the test error.
        epoch: Its number.
        settings: What is measured.
        like_for_like: Whether bars of figures are divided by n and square-rooted.
        engine: Where examples are evaluated, one part of the sample on each worker; None: here.
        progress: Told what is done.
    """
    found = compare(
        model,
        sample,
        test_set,
        effort=None,
        settings=settings,
        like_for_like=like_for_like,
        engine=engine,
        progress=progress,
    )
    measured = found.measured
    tested = [row.value for row in found.rows if row.kind == "test"]
    return EpochPoint(
        epoch=epoch,
        train_error=measured.margins.loss(),
        test_error=tested[0] if tested else None,
        gamma=measured.facts.margin,
        least_margin=measured.margins.minimum,
        log10={
            row.name: finite(row.log10)
            for row in found.rows
            if row.kind == "published" and row.log10 is not None
        },
    )
