"""What a training run hands over: one row an epoch, the trained network, and where it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeAlias

from codebound import __version__

if TYPE_CHECKING:
    from torch import nn

    from codebound.train.config import TrainConfig

Measures: TypeAlias = Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """What was seen in one epoch.

    Attributes:
        epoch: Number of the epoch, from 1.
        learning_rate: Learning rate of the last step.
        loss: Mean training loss, each batch before its own step.
        running_errors: Training examples whose largest output was another class, each batch likewise.
        train_errors: Errors of the network after the epoch on the whole training set; None: not counted.
        test_errors: The same on the test set.
        seconds: Wall time of the epoch, evaluation included.
        measures: What ``on_epoch`` returned.
    """

    epoch: int
    learning_rate: float
    loss: float
    running_errors: int
    train_errors: int | None
    test_errors: int | None
    seconds: float
    measures: Measures

    def record(self) -> dict[str, object]:
        """The row as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEvent:
    """What ``on_epoch`` is told after each epoch.

    Attributes:
        row: Loss, errors and learning rate of the epoch.
        epochs: Number of epochs of the whole run.
        model: The network in evaluation mode. It is trained further: copy what is to be kept.
        stop: Ends the training after this epoch.
    """

    row: EpochRow
    epochs: int
    model: nn.Module
    stop: Callable[[], None]


OnEpoch: TypeAlias = Callable[[EpochEvent], Measures | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """A trained network and how it came about.

    Attributes:
        model: The trained network, in evaluation mode on the training device.
        config: The settings.
        history: One row an epoch, those of interrupted earlier calls included.
        train_errors: Errors on the training set, with its shuffled labels where they were shuffled.
            A tie with the largest output and an output that is not a number are errors.
        n: Size of the training set.
        test_errors: Errors on the test set; None: there was none.
        test_n: Size of the test set.
        seconds: Training time, that of interrupted earlier calls included.
        stopped_early: Whether ``on_epoch`` ended the training.
        resumed_from: Epochs that a run folder already held when this call began.
        device: Where it was trained.
        torch_version: Version of PyTorch.
        data_sha256: Content hash of the training set as given, before any label shuffling.
        test_sha256: Content hash of the test set.
        weights_sha256: Hash of the trained parameters and buffers.
    """

    model: nn.Module
    config: TrainConfig
    history: tuple[EpochRow, ...]
    train_errors: int
    n: int
    test_errors: int | None
    test_n: int | None
    seconds: float
    stopped_early: bool
    resumed_from: int
    device: str
    torch_version: str
    data_sha256: str
    test_sha256: str | None
    weights_sha256: str

    @property
    def epochs(self) -> int:
        """Epochs that were trained."""
        return len(self.history)

    @property
    def train_error(self) -> float:
        """Fraction of wrong training examples."""
        return self.train_errors / self.n

    @property
    def test_error(self) -> float | None:
        """Fraction of wrong test examples."""
        return None if self.test_errors is None or self.test_n is None else self.test_errors / self.test_n

    def record(self) -> dict[str, object]:
        """Everything but the network and the history, as JSON values."""
        return {
            "train_errors": self.train_errors,
            "n": self.n,
            "train_error": self.train_error,
            "test_errors": self.test_errors,
            "test_n": self.test_n,
            "test_error": self.test_error,
            "epochs": self.epochs,
            "stopped_early": self.stopped_early,
            "seconds": self.seconds,
            "seed": self.config.seed,
            "config": self.config.record(),
            "device": self.device,
            "torch": self.torch_version,
            "codebound": __version__,
            "data_sha256": self.data_sha256,
            "test_sha256": self.test_sha256,
            "weights_sha256": self.weights_sha256,
        }
