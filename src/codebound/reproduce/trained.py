"""Networks that items need, trained once: other items and later runs find them in the cache."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from codebound.data.catalogue import cache_folder
from codebound.errors import CodeboundError, UsageError
from codebound.nets.loading import load_model, load_weights
from codebound.nets.rebuild import with_weights
from codebound.nets.walk import Network, wrap
from codebound.train import runs
from codebound.train.harness import fit, run_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import nn

    from codebound.progress import Progress
    from codebound.reproduce.item import Settings
    from codebound.reproduce.samples import Samples
    from codebound.train.config import TrainConfig

_VERSION = 1  # of the training loop: raised when the same settings give other weights


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A trained network.

    Attributes:
        network: On the device of the settings, in evaluation mode.
        record: Errors, epochs, time, device, versions and hashes of the training, as JSON values.
        folder: Its run folder in the cache.
        start: The network before the first epoch.
    """

    network: Network
    record: Mapping[str, Any]
    folder: Path
    start: nn.Module

    @property
    def kept_epochs(self) -> tuple[int, ...]:
        """Epochs whose weights are there: the start, those kept on the way, and the last."""
        return (0, *runs.kept_epochs(self.folder))

    def at(self, epoch: int) -> Network:
        """The network as it was after so many epochs, on the same device."""
        if epoch not in self.kept_epochs:
            kept = ", ".join(map(str, self.kept_epochs))
            raise UsageError(f"the weights after epoch {epoch} were not kept. Kept: {kept}.")
        if epoch == self.record["epochs"]:
            return self.network
        model = self.network.model
        weights = (
            self.start.state_dict() if epoch == 0 else load_weights(runs.kept_epochs(self.folder)[epoch])
        )
        here = {name: weights[name].to(value.device) for name, value in model.state_dict().items()}
        return wrap(with_weights(model, here))


def trained(
    spec: str, data: Samples, config: TrainConfig, settings: Settings, *, keep_every: int = 0
) -> Trained:
    """Trains a network, or goes on with it, or finds it trained.

    A run is known by its content: architecture and start, both samples, settings of the training. It lives in
    ``trained/`` of the cache folder. Where two processes ask for one network, one trains and the other waits.

    Args:
        spec: A network of the zoo with its options, such as ``mlp:depth=5,width=784``.
        data: What to train on, and what to count errors on.
        config: Settings of the training; its seed is that of the start too.
        settings: Device, progress, and most epochs: a longer training is cut short.
        keep_every: Keep the weights every so many epochs; part of what the run is known by.
    """
    epochs = config.epochs if settings.epochs is None else min(config.epochs, settings.epochs)
    config = replace(config, epochs=epochs, keep_every=keep_every)
    start = load_model(spec, input_shape=data.train.input_shape, classes=data.train.classes, seed=config.seed)
    run = {
        **run_record(start, data.train, config, test_set=data.test),
        "spec": spec,
        "keep_every": keep_every,
        "version": _VERSION,
    }
    key = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_folder().parent / "trained" / f"{_slug(spec)}-{_slug(data.train.name)}-{key}"

    def told(done: int, total: int | None, note: str = "") -> None:
        settings.progress(done, total, f"{spec} on {data.train.name}: {note}")

    with _alone(folder, told):
        result = fit(
            start,
            data.train,
            config,
            test_set=data.test,
            device=settings.device,
            out=folder,
            progress=told,
        )
    record = {"model": spec, "data": data.train.name, **result.record()}
    return Trained(wrap(result.model), record, folder, start)


def _slug(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", text).strip("-")[:40]


@contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    """One process at a time; the lock ends with the process that holds it, however that ends."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f".{folder.name}.lock").open("w")
    except OSError as error:
        raise CodeboundError(
            f"the cache {folder.parent} cannot be written: {error.strerror}. "
            "Set CODEBOUND_CACHE to a folder of yours."
        ) from error
    with lock:
        try:
            import fcntl
        except ImportError:  # no such locks on this system: two processes train the same weights twice
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(0, None, "waiting for the process that trains it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
