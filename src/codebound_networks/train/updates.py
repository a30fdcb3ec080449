"""Batches of examples and the updates of weights that they give; on a GPU recorded and replayed.

Small networks train as fast as a program can launch kernels, several times slower than a GPU computes. A
replay launches all kernels of a step at once. It runs the very kernels that were recorded, on the same places
in memory: results are those of the plain step, as far as two plain runs on a GPU agree with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from codebound.run.device import isolated_random_state, lower_precision, rounded_products
from codebound.run.errors import ModelError, UsageError
from codebound_networks.train.rng import numpy_stream, torch_stream

if TYPE_CHECKING:
    from torch import nn

    from codebound.sample.dataset import DeviceData, Sample
    from codebound_networks.train.config import TrainConfig

_WARM_UPS = 3  # steps on the side before a recording, in which libraries choose their kernels
_SEEN_THROUGH = ("torch.nn.", "codebound.", "codebound_networks.")

_PAD = 4  # zeros on each side of an image that is shifted

T = TypeVar("T")


def shuffle_labels(dataset: Sample, fraction: float, *, seed: int) -> Sample:
    """The dataset with ``round(fraction * n)`` of its labels redrawn uniformly from all classes.

    With ``fraction=1`` the labels carry no information about the inputs: the "shuffled" or "corrupted"
    labels of A 2.8. A redrawn label equals the true one with probability ``1 / classes``, so the labels
    differ in about ``fraction * (1 - 1 / classes)`` of the examples.
    """
    if not 0.0 <= fraction <= 1.0:
        raise UsageError(f"`fraction` must lie in [0, 1]. Got {fraction}.")
    stream = numpy_stream(seed, "labels")
    chosen = stream.permutation(dataset.n)[: round(fraction * dataset.n)]
    labels = dataset.y.copy()
    labels[chosen] = stream.integers(dataset.classes, size=len(chosen))
    return replace(dataset, y=labels)


class Picks(NamedTuple):
    """The examples of a batch."""

    indices: Tensor  # where they are in the sample
    shifts: Tensor | None  # per example: rows and columns to shift by, and whether to mirror; None: as stored

    def batch(self, data: DeviceData, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Scaled inputs and labels."""
        if self.shifts is None:
            return data.batch(self.indices, dtype)
        moved = shift_images(data.x[self.indices], self.shifts)
        return data.scaling.apply(moved, dtype), data.y[self.indices]

    def clone(self) -> Picks:
        """The same in new memory."""
        return Picks(self.indices.clone(), None if self.shifts is None else self.shifts.clone())

    def fill(self, other: Picks) -> None:
        """Takes over another batch of the same size, in place."""
        self.indices.copy_(other.indices)
        if self.shifts is not None and other.shifts is not None:
            self.shifts.copy_(other.shifts)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over a sample in random order, a function of seed and epoch number alone.

    All random numbers are drawn on the CPU before the first batch, so that every device sees the same
    batches, no step waits for a generator, and a resumed run needs no generator state.
    """

    order: Tensor  # indices of the examples in the order in which they are visited, on the sample's device
    # examples in each batch. A single left-over example joins the batch before it, because batch
    # normalisation has no variance to divide by in a batch of one
    sizes: list[int]
    shifts: Tensor | None  # per visited example, as in `Picks`

    @staticmethod
    def draw(data: DeviceData, config: TrainConfig, *, epoch: int) -> Epoch:
        """The pass number ``epoch`` (counted from 0) of a training run."""
        order = torch.randperm(data.n, generator=torch_stream(config.seed, f"batches/{epoch}"))
        shifts = None
        if config.augment != "none":
            stream = torch_stream(config.seed, f"augment/{epoch}")
            moves = torch.randint(2 * _PAD + 1, (data.n, 2), generator=stream)
            mirrored = torch.randint(2 if config.augment == "flip-crop" else 1, (data.n, 1), generator=stream)
            shifts = torch.cat((moves, mirrored), dim=1).to(data.x.device)
        whole, left = divmod(data.n, config.batch_size)
        sizes = [config.batch_size] * whole
        if left > 1 or not sizes:
            sizes.append(left)
        else:
            sizes[-1] += left
        return Epoch(order=order.to(data.x.device), sizes=sizes, shifts=shifts)

    def picks(self) -> Iterator[Picks]:
        """Batch by batch."""
        parts = torch.split(self.order, self.sizes)
        shifts = [None] * len(parts) if self.shifts is None else torch.split(self.shifts, self.sizes)
        yield from map(Picks, parts, shifts)


def shift_images(x: Tensor, shifts: Tensor) -> Tensor:
    """Pads stored images with 4 zeros on each side and cuts the original size out again.

    Args:
        x: Images as stored, ``(batch, channels, height, width)``.
        shifts: ``(batch, 3)``: first row and first column of the cut in the padded image, in [0, 8]
            (4 is the original place), and 1 where the result is mirrored left to right.
    """
    batch, channels, height, width = x.shape
    padded = functional.pad(x, (_PAD,) * 4)
    rows = shifts[:, 0, None] + torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device).expand(batch, width)
    columns = shifts[:, 1, None] + torch.where(shifts[:, 2, None] == 1, width - 1 - columns, columns)
    image = torch.arange(batch, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


class StepOutputs(NamedTuple):
    """Loss and outputs of a step on its batch, before it changed the weights."""

    loss: Tensor  # mean loss
    outputs: Tensor  # of the network


Update: TypeAlias = Callable[[Picks], StepOutputs]
"""Trains on the examples at given places, waits for nothing, and keeps all it changes where it is."""


def make_optimizer(model: nn.Module, config: TrainConfig, device: torch.device) -> torch.optim.Optimizer:
    """The optimiser of the settings, for the parameters that are trained."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    on_gpu = device.type == "cuda"
    rate: float | Tensor = config.learning_rate
    if on_gpu:  # in memory, where a replayed step reads it
        rate = torch.tensor(rate, dtype=torch.float32, device=device)
    if config.optimizer == "adam":
        return torch.optim.Adam(
            trainable,
            lr=rate,
            betas=(config.momentum, 0.999),
            weight_decay=config.weight_decay,
            capturable=on_gpu,
            fused=True,
        )
    return torch.optim.SGD(
        trainable,
        lr=rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        fused=True,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Changes the learning rate, where it is."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def make_update(
    model: nn.Module,
    data: DeviceData,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    *,
    dtype: torch.dtype,
) -> Update:
    """Return the function that updates the weights. On a GPU the update is recorded and replayed."""
    is_low = config.precision == "bfloat16"

    def step(picks: Picks) -> StepOutputs:
        optimizer.zero_grad()
        x, y = picks.batch(data, dtype)
        with rounded_products(config.precision, x.device):
            with lower_precision(config.precision, x.device):
                outputs = model(_channels_last(x) if is_low else x)
            if not isinstance(outputs, Tensor):
                raise ModelError(
                    f"in training mode the model returns a {type(outputs).__name__}, in evaluation mode one "
                    "tensor. Switch its other outputs off (in torchvision aux_logits=False), or wrap it in "
                    "a module that returns the scores alone."
                )
            loss = functional.cross_entropy(outputs.to(dtype), y)
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return StepOutputs(loss.detach(), outputs.detach())

    if data.x.device.type == "cuda" and is_recordable(model):
        return Replayed(step, model, optimizer)
    return step


def _channels_last(x: Tensor) -> Tensor:
    """Images in the layout for which GPUs have their fastest convolutions; other inputs as they are."""
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def is_recordable(model: nn.Module) -> bool:
    """Return True if a forward pass is the same every time, as far as visible.

    A module of somebody else may count its calls or toss a coin in Python, and so may a hook: a recording
    would do for ever what they did once.

    >>> is_recordable(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout()))
    True
    """
    return all(
        type(module).__module__.startswith(_SEEN_THROUGH)
        and not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)
        for module in model.modules()
    )


class Replayed:
    """A step that is recorded at its first batch, and replayed for all others of that size.

    Batches of another size run as they are, and so does everything if recording fails, for example because
    a layer waits for the device. Recording leaves weights, statistics and optimiser as they were.
    """

    def __init__(self, step: Update, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._step, self._model, self._optimizer = step, model, optimizer
        self._size = 0  # of the recorded batches; 0: nothing was tried yet
        self._replay: Callable[[], None] | None = None

    def __call__(self, picks: Picks) -> StepOutputs:
        """Trains on a batch."""
        if not self._size:
            self._size = len(picks.indices)
            self._record(picks)
        if self._replay is None or len(picks.indices) != self._size:
            return self._step(picks)
        self._picks.fill(picks)
        self._replay()
        return StepOutputs(*(each.clone() for each in self._seen))  # the next replay overwrites them

    def _record(self, picks: Picks) -> None:
        self._picks = picks.clone()
        try:
            with _restore(self._model, self._optimizer, picks.indices.device):
                self._seen, self._replay = record(lambda: self._step(self._picks), picks.indices.device)
        except RuntimeError:  # if the step itself is at fault, the plain one says so
            self._optimizer.zero_grad()


def record(
    work: Callable[[], T], device: torch.device, *, generators: Sequence[torch.Generator] = ()
) -> tuple[T, Callable[[], None]]:
    """Records work on a CUDA device: what it returns, in place, and the function that does it again.

    The work is done a few times before, for real; recording itself computes nothing. ``generators`` are the
    sources of its random numbers, besides the device's own.
    """
    here, side = torch.cuda.current_stream(device), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    graph = torch.cuda.CUDAGraph()
    side.wait_stream(here)
    try:
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                work()
    finally:
        here.wait_stream(side)
    try:
        for generator in generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=side):
            result = work()
    finally:
        torch.cuda.set_stream(here)  # a recording that fails stays on its own stream
    return result, graph.replay


@contextmanager
def _restore(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> Iterator[None]:
    """Puts weights, statistics, optimiser and random state back in place; new optimiser state becomes zero.

    A momentum of zero is no momentum: the first step after it is that of a new optimiser.
    """
    tensors = [*model.parameters(), *model.buffers()]
    before = [tensor.detach().clone() for tensor in tensors]
    states = {place: tensor.clone() for place, tensor in _state(optimizer)}
    try:
        with isolated_random_state(device):
            yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
            for place, tensor in _state(optimizer):
                if place in states:
                    tensor.copy_(states[place])
                else:
                    tensor.zero_()


def _state(optimizer: torch.optim.Optimizer) -> Iterator[tuple[tuple[Tensor, str], Tensor]]:
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                yield (parameter, name), value
