"""The training loop: reproducible, resumable, and silent."""

from __future__ import annotations

import hashlib
import math
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from codebound.bounds.risk import rate
from codebound.known.provenance import origin_of, remember
from codebound.run.device import device_name, isolated_random_state, resolve_device, seed_layers
from codebound.run.errors import CodeboundError, DataError, ModelError, brief
from codebound.run.progress import Progress, show_progress, silent
from codebound.run.references import implements
from codebound.run.tensor_files import state_sha256, state_tensors
from codebound.sample.dataset import seen_rows
from codebound.sample.load import as_dataset
from codebound.sample.outputs import error_count
from codebound_networks.reading.callables import Adapter
from codebound_networks.train import runs
from codebound_networks.train.rng import stream_seed
from codebound_networks.train.runs import EpochRow, TrainResult
from codebound_networks.train.updates import Epoch, make_optimizer, make_update, set_rate, shuffle_labels
from codebound_networks.views.rebuild import forbidden_entries, tensors_of, with_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codebound.sample.dataset import DeviceData, Sample
    from codebound_networks.train.config import TrainConfig
    from codebound_networks.train.updates import Update

_SECONDS_BETWEEN_REPORTS = 0.1
_ADVICE = "Try a smaller learning rate, a warm-up, or inputs scaled to about one."


@implements("I-36", kind="algorithm")
@show_progress
def fit(
    model: nn.Module,
    train_set: Any,
    config: TrainConfig,
    *,
    test_set: Any = None,
    device: torch.device | str = "cpu",
    out: Path | str | None = None,
    on_epoch: Callable[[int, nn.Module], None] | None = None,
    progress: Progress = silent,
) -> TrainResult:
    """Trains a copy of a classifier with cross-entropy.

    The same arguments give the same weights, bit for bit on the CPU: batch order, dropout and augmentation
    of an epoch are functions of the seed and the epoch's number. The global random state is left as it was.
    On a GPU the order of sums, so the last digits of weights, may differ from run to run.

    Args:
        model: Network that maps inputs to one output per class; it is not changed. Where it returns several
            things, or takes integers, its logits are found as ``certify`` finds them.
        train_set: The sample to train on, given in any way that ``certify`` takes.
        config: Settings.
        test_set: Sample on which errors are counted as well; it has no influence on the weights.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or ``"auto"``.
        out: Run folder. A killed run goes on from its last checkpoint when it is called again in the same
            way, and ends with the same weights; a finished one is read and not trained again.
        on_epoch: Called after each epoch that this call trains, with its number and the network, which is
            trained further: copy what is to be kept.
        progress: Told the number of finished steps; by default a bar, in a terminal or a notebook.

    Raises:
        UsageError: The run folder holds another run, or the device is not there.
        ModelError: The model does not fit the data, or its weights or the loss are not finite.

    >>> import numpy as np
    >>> from codebound.sample.dataset import Sample
    >>> from codebound_networks.train.config import TrainConfig
    >>> x = np.array([[-1.0], [1.0]] * 50, dtype=np.float32)
    >>> sample = Sample("signs", "train", x, (x[:, 0] > 0).astype(np.int64), classes=2)
    >>> settings = TrainConfig(optimizer="sgd", learning_rate=0.5, batch_size=10, epochs=2)
    >>> fit(nn.Linear(1, 2), sample, settings).train_errors
    0
    """
    place = resolve_device(device)
    train_set = as_dataset(train_set)
    if test_set is not None:
        test_set = as_dataset(test_set, role="test", like=train_set)
    subject = with_weights(model, model.state_dict()).to(place)
    samples = _Samples.place(subject, train_set, test_set, config=config, device=place)
    network, notes = samples.adapt(subject, train_set)

    run = run_record(model, train_set, config, test_set=test_set)
    folder = None if out is None else Path(out)
    with nullcontext() if folder is None else runs.open_run(folder, run):
        origin = origin_of(model).add_training(str(run["data_sha256"]), seen_rows(train_set))
        if folder is not None and runs.is_finished(folder):
            found = runs.load_result(folder, subject, config)
            remember(found.model, origin)
            return found

        if folder is not None:
            runs.write_rows(folder, origin.rows)
        optimizer = make_optimizer(subject, config)
        history = [] if folder is None else runs.load_checkpoint(folder, subject, optimizer)
        resumed_from = len(history)
        step = make_update(network, samples.train, optimizer, config, dtype=samples.dtype)
        with isolated_random_state(place):
            for epoch in range(resumed_from, config.epochs):
                seed_layers(stream_seed(config.seed, f"layers/{epoch}"), place)
                row = _train_epoch(
                    network, samples, optimizer, step, config, history=history, progress=progress
                )
                if on_epoch is not None:
                    on_epoch(row.epoch, subject)
                history.append(row)
                if folder is not None and config.keep_every and row.epoch % config.keep_every == 0:
                    runs.keep_epoch(folder, subject, row.epoch)
                if (
                    folder is not None
                    and (epoch + 1) % config.checkpoint_every == 0
                    and epoch + 1 < config.epochs
                ):
                    runs.save_checkpoint(folder, subject, optimizer, history)

            network.eval()
            _require_finite(subject)
            train_errors, test_errors = samples.errors(network)

        result = TrainResult(
            model=subject,
            config=config,
            history=tuple(history),
            train_errors=train_errors,
            n=train_set.n,
            test_errors=test_errors,
            test_n=None if test_set is None else test_set.n,
            seconds=sum(row.seconds for row in history),
            resumed_from=resumed_from,
            device=device_name(place),
            torch_version=torch.__version__,
            data_sha256=str(run["data_sha256"]),
            test_sha256=None if test_set is None else str(run["test_sha256"]),
            weights_sha256=state_sha256(state_tensors(subject)),
            notes=notes,
        )
        remember(subject, origin)
        if folder is not None:
            runs.save_result(folder, result)
        return result


def run_record(
    model: nn.Module, train_set: Sample, config: TrainConfig, *, test_set: Sample | None = None
) -> dict[str, object]:
    """Return settings, data, architecture and start of a run. Two equal records are one run."""
    state = state_tensors(model)
    layout = "\n".join((repr(model), *(f"{name} {tuple(value.shape)}" for name, value in state.items())))
    size = sum(parameter.numel() for parameter in model.parameters())
    structure = hashlib.sha256(layout.encode()).hexdigest()
    return {
        **config.record(),
        "architecture": f"{type(model).__name__} with {size} parameters, sha256 {structure[:16]}",
        "start_sha256": state_sha256(state),
        "data_sha256": train_set.sha256,
        "scaling": str(train_set.scaling),
        "test_sha256": None if test_set is None else test_set.sha256,
    }


_TRAINS = (
    "A network that is trained here takes one tensor, of floating-point numbers or of integers. Wrap it in a "
    "module that does, or train it as you do and give its weights."
)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Both samples on the device, and the type of the network's inputs."""

    train: DeviceData
    test: DeviceData | None
    dtype: torch.dtype

    @staticmethod
    def place(
        model: nn.Module,
        train_set: Sample,
        test_set: Sample | None,
        *,
        config: TrainConfig,
        device: torch.device,
    ) -> _Samples:
        """Checks that samples and model fit together and moves the samples to the device."""
        if train_set.role in ("test", "unlabelled"):
            raise DataError(
                f"{train_set.name}: a sample with the role {train_set.role!r} is not for training."
            )
        for what in ("input_shape", "classes", "scaling"):
            if test_set is not None and getattr(train_set, what) != getattr(test_set, what):
                raise DataError(
                    f"training and test set differ in {what}: {getattr(train_set, what)} in "
                    f"{train_set.name}, {getattr(test_set, what)} in {test_set.name}."
                )
        if config.augment != "none" and len(train_set.input_shape) != 3:
            raise DataError(
                f"augmentation needs images of shape (channels, height, width). {train_set.name} has inputs "
                f"of shape {train_set.input_shape}; train without augmentation."
            )
        dtypes = [parameter.dtype for parameter in model.parameters() if _is_trained(parameter)]
        if not dtypes:
            raise ModelError("the model has no parameter that can be trained (requires_grad).")
        shuffled = shuffle_labels(train_set, config.label_shuffle, seed=config.seed)
        return _Samples(shuffled.on(device), None if test_set is None else test_set.on(device), dtypes[0])

    @torch.no_grad()
    def adapt(self, model: nn.Module, train_set: Sample) -> tuple[nn.Module, tuple[str, ...]]:
        """The network as one that returns its scores alone, and what was found out about it."""
        model.eval()
        x, _ = self.train.batch(torch.zeros(2, dtype=torch.int64, device=self.train.x.device), self.dtype)
        adapter = Adapter(model, train_set.classes)
        try:
            adapter.settle(x, type(model).__name__)
            if adapter.network is not model:
                raise ModelError(
                    "it computes in double precision: bring its weights to float32, with model.float()"
                )
        except ModelError as error:
            raise ModelError(
                f"the model cannot take the inputs of {train_set.name}, of shape {train_set.input_shape}: "
                f"{brief(error)}\n  {_TRAINS}"
            ) from error
        network = adapter if adapter.notes else model
        found = network(x)
        shape = tuple(found.shape)
        if shape != (2, train_set.classes):
            raise ModelError(
                f"the model must give one output for each of the {train_set.classes} classes of "
                f"{train_set.name}. Got outputs of shape {shape} for 2 examples."
            )
        return network, tuple(adapter.notes)

    def errors(self, model: nn.Module) -> tuple[int, int | None]:
        """Errors on the training and on the test set."""
        train = error_count(model, self.train, dtype=self.dtype)
        return train, None if self.test is None else error_count(model, self.test, dtype=self.dtype)


def _train_epoch(
    model: nn.Module,
    samples: _Samples,
    optimizer: torch.optim.Optimizer,
    step: Update,
    config: TrainConfig,
    *,
    history: Sequence[EpochRow],
    progress: Progress,
) -> EpochRow:
    """Trains the epoch after ``history``. Nothing waits for the device before its end."""
    epoch = len(history)
    started = reported = time.perf_counter()
    plan = Epoch.draw(samples.train, config, epoch=epoch)
    steps = len(plan.sizes)
    total = steps * config.epochs
    rate = config.learning_rate
    losses: list[Tensor] = []
    guesses: list[Tensor] = []
    note = f"epoch {epoch + 1}/{config.epochs}"
    if history:
        note += f", {_words(history[-1], samples.train.n)}"
    progress(epoch * steps, total, note)
    model.train()
    try:
        for done, picks in enumerate(plan.picks()):
            # the schedule is read in the middle of the step: it ends in a step that still moves
            rate = config.learning_rate * config.schedule.factor(epoch + (done + 0.5) / steps, config.epochs)
            set_rate(optimizer, rate)
            seen = step(picks)
            losses.append(seen.loss)
            guesses.append(seen.outputs.argmax(dim=1))
            if (now := time.perf_counter()) - reported > _SECONDS_BETWEEN_REPORTS:
                reported = now
                progress(epoch * steps + done + 1, total, note)
    except CodeboundError:
        raise
    except torch.cuda.OutOfMemoryError as error:
        raise ModelError(
            f"the device's memory is too small for batch size {config.batch_size}. Choose a smaller one."
        ) from error
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"training failed in step {len(losses) + 1} of epoch {epoch + 1}: {error}"
        ) from error

    mean_loss = _mean_loss(losses, plan.sizes, epoch=epoch)
    running_errors = int((torch.cat(guesses) != samples.train.y[plan.order]).sum())
    model.eval()
    row = EpochRow(
        epoch=epoch + 1,
        learning_rate=rate,
        loss=mean_loss,
        running_errors=running_errors,
        seconds=time.perf_counter() - started,
    )
    progress((epoch + 1) * steps, total, f"epoch {row.epoch}/{config.epochs}, {_words(row, samples.train.n)}")
    return row


def _words(row: EpochRow, n: int) -> str:
    return f"loss {row.loss:.4f}, accuracy {rate(1.0 - row.running_errors / n)}"


def _mean_loss(losses: list[Tensor], sizes: list[int], *, epoch: int) -> float:
    values: list[float] = torch.stack(losses).tolist()
    for step, value in enumerate(values):
        if not math.isfinite(value):
            raise ModelError(f"the loss became {value} in step {step + 1} of epoch {epoch + 1}. {_ADVICE}")
    return sum(value * size for value, size in zip(values, sizes, strict=True)) / sum(sizes)


def _require_finite(model: nn.Module) -> None:
    """The loss of the next step shows a damaged weight, except after the last one."""
    damaged = [held.name for held in tensors_of(model) if forbidden_entries(held, held.tensor.detach())]
    if damaged:
        raise ModelError(f"the last step left NaN or infinite values in {', '.join(damaged[:5])}. {_ADVICE}")


def _is_trained(parameter: nn.Parameter) -> bool:
    return parameter.requires_grad and parameter.is_floating_point()
