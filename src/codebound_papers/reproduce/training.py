"""Networks that items need, with their samples, trained once: later runs find them in the cache."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from codebound import __version__
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.files import content_key
from codebound.run.tensor_files import load_weights
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.formats.catalogue import cache_folder
from codebound.sample.load import load_sample
from codebound_networks.reading.loading import load_model
from codebound_networks.reading.walk import Network, wrap
from codebound_networks.train import runs
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit, run_record
from codebound_networks.train.rng import numpy_stream
from codebound_networks.views.rebuild import with_weights
from codebound_papers.journal import JOURNAL, compute_once
from codebound_papers.reproduce.items import Row, Settings

_VERSION = 1  # of the training loop: raised when the same settings give other weights


class Samples(NamedTuple):
    """Samples that a network is trained on and tested on."""

    train: Sample
    test: Sample | None = None


def load_samples(name: str) -> Samples:
    """Training and test set of a known dataset, from the cache."""
    return Samples(load_sample(name), load_sample(name, role="test"))


def make_samples(
    shape: tuple[int, ...] = (1, 8, 8), *, classes: int = 10, n: int = 200, seed: int = 0
) -> Samples:
    """Noisy copies of one random image a class: for runs of size ``tiny``, which need no files.

    >>> train, test = make_samples(n=50)
    >>> train.x.shape, train.classes, test.n
    ((50, 1, 8, 8), 10, 50)
    """
    rng = numpy_stream(seed, "made-up samples")
    centres = rng.integers(0, 256, size=(classes, *shape))

    def drawn(role: str) -> Sample:
        y: NDArray[np.int64] = np.arange(n, dtype=np.int64) % classes
        noisy = centres[y] + 60.0 * rng.standard_normal((n, *shape))
        x = noisy.clip(0, 255).astype(np.uint8)
        return Sample("made-up", role, x, y, classes=classes, scaling=Scaling(divisor=255.0))

    return Samples(drawn("train"), drawn("test"))


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A trained network."""

    network: Network  # on the device of the settings, in evaluation mode
    record: Mapping[str, Any]  # errors, epochs, time, device, versions and hashes of the training, as JSON
    folder: Path  # its run folder in the cache
    start: nn.Module  # the network before the first epoch

    @property
    def kept_epochs(self) -> tuple[int, ...]:
        """Epochs whose weights are there: the start, those kept on the way, and the last."""
        return (0, *runs.load_epochs(self.folder))

    def at(self, epoch: int) -> Network:
        """The network as it was after so many epochs, on the same device."""
        if epoch not in self.kept_epochs:
            kept = ", ".join(map(str, self.kept_epochs))
            raise UsageError(f"the weights after epoch {epoch} were not kept. Kept: {kept}.")
        if epoch == self.record["epochs"]:
            return self.network
        model, kept_weights = self.network.model, runs.load_epochs(self.folder)
        weights = self.start.state_dict() if epoch == 0 else load_weights(kept_weights[epoch])
        here = {name: weights[name].to(value.device) for name, value in model.state_dict().items()}
        return self.network.with_model(with_weights(model, here))

    def measure(self, what: str, compute: Callable[[], Row]) -> Row:
        """A measurement that is kept beside the weights, where all items with this network find it."""
        path = self.folder / f"{_slug(what)}{JOURNAL}"
        return compute_once(path, f"{what}, codebound {__version__}", compute)


def train(
    spec: str, data: Samples, config: TrainConfig, settings: Settings, *, keep_every: int = 0
) -> Trained:
    """Trains a network, or goes on with it, or finds it trained in ``trained/`` of the cache folder.

    A run is known by its content: architecture and start, both samples, settings of the training. The seed
    of the training is that of the start too, and the settings may cut a longer training short. ``BusyError``
    says that another process trains it, for which a `Journal` waits.
    """
    epochs = config.epochs if settings.epochs is None else min(config.epochs, settings.epochs)
    config = replace(config, epochs=epochs, keep_every=keep_every)
    start = load_model(spec, input_shape=data.train.input_shape, classes=data.train.classes, seed=config.seed)
    run = run_record(start, data.train, config, test_set=data.test)
    run |= {"spec": spec, "keep_every": keep_every, "version": _VERSION}
    name = f"{_slug(spec)}-{_slug(data.train.name)}-{content_key(run)[:16]}"
    folder = cache_folder().parent / "trained" / name

    def told(done: int, total: int | None, note: str = "") -> None:
        settings.progress(done, total, f"{spec} on {data.train.name}: {note}")

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CodeboundError(
            f"{folder.parent} cannot be written: {error.strerror}. Set CODEBOUND_CACHE to a folder of yours."
        ) from error
    result = fit(
        start, data.train, config, test_set=data.test, device=settings.device, out=folder, progress=told
    )
    record = {"model": spec, "data": data.train.name, **result.record()}
    return Trained(wrap(result.model), record, folder, start)


def _slug(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", text).strip("-")[:40]
