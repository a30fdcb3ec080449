"""Run folders: files to resume a run that was killed, and results.

A run folder holds ``config.json`` (what determines the run), ``rows.bin`` (eight bytes of the digest of every
input that its network has seen), ``checkpoint.safetensors`` (while it is unfinished), and in the end
``history.jsonl``, ``model.safetensors`` and ``result.json``, in this order: a folder with a ``result.json``
is finished. ``epochs/`` holds the weights of the epochs that were to be kept.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound import __version__
from codebound.run.errors import FormatError, UsageError
from codebound.run.files import (
    differences,
    hold_lock,
    is_unfinished_write,
    read_json,
    write_atomically,
    write_json,
)
from codebound.run.tensor_files import (
    ADVICE,
    load_tensors,
    peek_record,
    read_weights,
    save_tensors,
    save_weights,
    state_sha256,
    state_tensors,
)
from codebound_networks.reading.loading import install

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound_networks.train.config import TrainConfig

CONFIG = "config.json"
CHECKPOINT = "checkpoint.safetensors"
HISTORY = "history.jsonl"
WEIGHTS = "model.safetensors"
RESULT = "result.json"
EPOCHS = "epochs"
ROWS = "rows.bin"
_NAMES = (CONFIG, ROWS, CHECKPOINT, HISTORY, WEIGHTS, RESULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """Losses, errors and times of one epoch."""

    epoch: int  # number of the epoch, from 1
    learning_rate: float  # learning rate of the last step
    loss: float  # mean training loss, each batch before its own step
    running_errors: int  # training examples whose largest output was another class, each batch likewise
    seconds: float  # wall time of the epoch

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> EpochRow:
        """The row of a record; what else drafts have written into it is left out."""
        return cls(**{each.name: record[each.name] for each in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """A trained network and how it came about."""

    model: nn.Module  # the trained network, in evaluation mode on the training device
    config: TrainConfig  # the settings
    history: tuple[EpochRow, ...]  # one row an epoch, those of interrupted earlier calls included
    # errors on the training set, with its shuffled labels where they were shuffled. A tie with the largest
    # output and an output that is not a number are errors
    train_errors: int
    n: int  # size of the training set
    test_errors: int | None  # errors on the test set; None: there was none
    test_n: int | None  # size of the test set
    seconds: float  # training time, that of interrupted earlier calls included
    resumed_from: int  # epochs that a run folder already held when this call began
    device: str  # where it was trained
    torch_version: str  # version of PyTorch
    data_sha256: str  # content hash of the training set as given, before any label shuffling
    test_sha256: str | None  # content hash of the test set
    weights_sha256: str  # hash of the trained parameters and buffers
    notes: tuple[str, ...] = ()  # what was found out about the network's inputs and outputs, in sentences

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
        names = (
            *("train_errors", "n", "train_error", "test_errors", "test_n", "test_error", "epochs"),
            *("seconds", "device", "data_sha256", "test_sha256", "weights_sha256"),
        )
        settings = {"seed": self.config.seed, "config": self.config.record(), "notes": list(self.notes)}
        versions = {"torch": self.torch_version, "codebound": __version__}
        return {name: getattr(self, name) for name in names} | settings | versions


def write_rows(folder: Path, rows: NDArray[np.uint64]) -> None:
    """Notes which inputs a run has seen, so that nobody takes them for unseen ones later."""
    if not (folder / ROWS).exists():
        write_atomically(folder / ROWS, rows.astype("<u8").tobytes())


def read_rows(folder: Path) -> NDArray[np.uint64]:
    """Digests of the inputs that a run has seen. None where the folder does not know."""
    with suppress(OSError):
        content = (folder / ROWS).read_bytes()
        return np.unique(np.frombuffer(content[: len(content) // 8 * 8], "<u8").astype(np.uint64))
    return np.zeros(0, dtype=np.uint64)


@contextmanager
def open_run(folder: Path, run: Mapping[str, object]) -> Iterator[None]:
    """Creates a run folder, or checks that an existing one holds the same run: all that determines weights.

    Raises:
        UsageError: The folder holds another run, or files that are no run, or another process works there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: the run folder cannot be used ({error.strerror}).") from error
    with hold_lock(folder, f"the training in {folder}"):
        _begin(folder, run)
        yield


def _begin(folder: Path, run: Mapping[str, object]) -> None:
    config = folder / CONFIG
    try:
        inside = list(folder.iterdir())
        leftovers = [path for path in inside if is_unfinished_write(path, _NAMES)]
        if not config.exists() and len(leftovers) < len(inside):
            raise UsageError(
                f"{folder} exists, is not empty and holds no run ({CONFIG} is missing). Choose a new folder."
            )
        for path in leftovers:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: the run folder cannot be used ({error.strerror}).") from error
    if not config.exists():
        write_json(config, run)
        return
    require_same(folder, run)


def require_same(folder: Path, run: Mapping[str, object]) -> None:
    """Refuses a run folder that holds another run. One that holds none is as good.

    Raises:
        UsageError: It holds another run.
    """
    config = folder / CONFIG
    if config.exists() and (found := differences(read_json(config, advice=ADVICE), run)):
        lines = (f"{folder} holds another run.", *found, "Choose another folder, or remove this one.")
        raise UsageError("\n  ".join(lines))


def is_finished(folder: Path) -> bool:
    """Return True if the folder holds the result of a finished run."""
    return (folder / RESULT).exists()


def epochs_on_disk(folder: Path) -> int:
    """Epochs that a run folder holds: those of its checkpoint, or all of a finished run."""
    if is_finished(folder):
        return len(_read_history(folder))
    if not (folder / CHECKPOINT).exists():
        return 0
    return len(peek_record(folder / CHECKPOINT))


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, history: Sequence[EpochRow]
) -> None:
    """Replaces the checkpoint: weights, optimiser state and history. All else follows from the settings."""
    tensors = {f"model.{name}": value for name, value in state_tensors(model).items()}
    for index, values in optimizer.state_dict()["state"].items():
        # SGD without momentum keeps None
        kept = {key: value for key, value in values.items() if value is not None}
        tensors |= {f"optimizer.{index}.{key}": value.detach().cpu() for key, value in kept.items()}
    save_tensors(folder / CHECKPOINT, tensors, [asdict(row) for row in history])
    _write_history(folder, history)


def keep_epoch(folder: Path, model: nn.Module, epoch: int) -> None:
    """Keeps the weights after an epoch."""
    (folder / EPOCHS).mkdir(exist_ok=True)
    save_weights(folder / EPOCHS / f"{epoch:06d}.safetensors", state_tensors(model))


def load_epochs(folder: Path) -> dict[int, Path]:
    """The weights that a run folder holds, by the epoch after which they were kept. The last ones included.

    Raises:
        FormatError: The folder holds no run.
    """
    read_json(folder / CONFIG, advice=ADVICE)
    found = {int(path.stem): path for path in (folder / EPOCHS).glob("*.safetensors") if path.stem.isdigit()}
    if is_finished(folder):
        found[len(_read_history(folder))] = folder / WEIGHTS
    return dict(sorted(found.items()))


def load_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[EpochRow]:
    """Puts the last checkpoint into model and optimiser and returns its history. Empty: there is none."""
    path = folder / CHECKPOINT
    if not path.exists():
        return []
    tensors, rows = load_tensors(path)
    state: dict[int, dict[str, Tensor]] = {}
    weights: dict[str, Tensor] = {}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        if part == "model":
            weights[rest] = value
        else:
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = value
    try:
        model.load_state_dict(weights)
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return [EpochRow.read(row) for row in rows]
    except (RuntimeError, ValueError, TypeError, LookupError) as error:
        raise FormatError(f"{path} is no checkpoint of this run: {error}") from error


def save_result(folder: Path, result: TrainResult) -> None:
    """Writes history, weights and result, and drops the checkpoint."""
    _write_history(folder, result.history)
    save_weights(folder / WEIGHTS, state_tensors(result.model))
    write_json(folder / RESULT, result.record())
    (folder / CHECKPOINT).unlink(missing_ok=True)


def load_result(folder: Path, model: nn.Module, config: TrainConfig) -> TrainResult:
    """Reads a finished run. ``model`` gets the trained weights and is part of the result."""
    install(model, read_weights(folder / WEIGHTS), path=folder / WEIGHTS)
    model.eval()
    record: dict[str, Any] = read_json(folder / RESULT, advice=ADVICE)
    history = _read_history(folder)
    known: dict[str, Any] = {"model": model, "config": config, "history": history}
    try:
        known |= {"resumed_from": len(history), "torch_version": record["torch"]}
        known |= {"notes": tuple(record["notes"])}
        names = [each.name for each in fields(TrainResult) if each.name not in known]
        result = TrainResult(**known, **{name: record[name] for name in names})
    except KeyError as error:
        raise FormatError(
            f"{folder / RESULT} has no field {error}. Remove the run folder to train anew."
        ) from error
    if state_sha256(state_tensors(model)) != result.weights_sha256:
        raise FormatError(
            f"{folder / WEIGHTS} holds other weights than the run ended with ({RESULT}, weights_sha256). "
            "Remove the run folder to train anew."
        )
    return result


def _write_history(folder: Path, history: Sequence[EpochRow]) -> None:
    lines = "".join(json.dumps(asdict(row), allow_nan=False) + "\n" for row in history)
    write_atomically(folder / HISTORY, lines.encode())


def _read_history(folder: Path) -> tuple[EpochRow, ...]:
    path = folder / HISTORY
    try:
        return tuple(EpochRow.read(json.loads(line)) for line in path.read_text().splitlines())
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise FormatError(f"{path} cannot be read: {error}. Remove the run folder to train anew.") from error
