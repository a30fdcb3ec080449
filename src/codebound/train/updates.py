"""Updates of the weights: from the places of some examples to new weights; on a GPU recorded and replayed.

Small networks train as fast as a program can launch kernels, several times slower than a GPU computes. A
replay launches all kernels of a step at once. It runs the very kernels that were recorded, on the same places
in memory: results are those of the plain step, as far as two plain runs on a GPU agree with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from codebound.device import isolated_random_state, lower_precision
from codebound.train.sampling import Picks

if TYPE_CHECKING:
    from torch import nn

    from codebound.data.dataset import DeviceData
    from codebound.train.config import TrainConfig

_WARM_UPS = 3  # steps on the side before a recording, in which libraries choose their kernels
_SEEN_THROUGH = ("torch.nn.", "codebound.")

T = TypeVar("T")


class Seen(NamedTuple):
    """What a step has seen of its batch, before it changed the weights.

    Attributes:
        loss: Mean loss.
        outputs: Of the network.
    """

    loss: Tensor
    outputs: Tensor


Update: TypeAlias = Callable[[Picks], Seen]
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
        nesterov=config.nesterov,
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
    """How a training updates the weights; on a GPU the update is recorded and replayed.

    Args:
        model: What is trained.
        data: The sample, on the device of the model.
        optimizer: Of the model.
        config: Settings.
        dtype: Type of the network's inputs.
    """
    is_low = config.precision == "bfloat16"

    def step(picks: Picks) -> Seen:
        optimizer.zero_grad()
        x, y = picks.batch(data, dtype)
        with lower_precision(config.precision, x.device):
            outputs = model(_channels_last(x) if is_low else x)
        loss = functional.cross_entropy(outputs.to(dtype), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return Seen(loss.detach(), outputs.detach())

    if data.x.device.type == "cuda" and is_recordable(model):
        return Replayed(step, model, optimizer)
    return step


def _channels_last(x: Tensor) -> Tensor:
    """Images in the layout for which GPUs have their fastest convolutions; other inputs as they are."""
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def is_recordable(model: nn.Module) -> bool:
    """Whether a forward pass does the same every time, as far as one can see.

    A module of somebody else may count its calls or toss a coin in Python, and so may a hook: a recording
    would do for ever what they did once.

    Example:
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
    a layer waits for the device.

    Args:
        step: The step.
        model: What it trains; recording leaves its weights and statistics as they were.
        optimizer: Likewise.
    """

    def __init__(self, step: Update, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._step, self._model, self._optimizer = step, model, optimizer
        self._size = 0  # of the recorded batches; 0: nothing was tried yet
        self._replay: Callable[[], None] | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether there is a recording."""
        return self._replay is not None

    def __call__(self, picks: Picks) -> Seen:
        """Trains on a batch."""
        if not self._size:
            self._size = len(picks.indices)
            self._record(picks)
        if self._replay is None or len(picks.indices) != self._size:
            return self._step(picks)
        self._picks.fill(picks)
        self._replay()
        return Seen(*(each.clone() for each in self._seen))  # the next replay writes to the same places

    def _record(self, picks: Picks) -> None:
        self._picks = picks.clone()
        try:
            with _unchanged(self._model, self._optimizer, picks.indices.device):
                self._seen, self._replay = record(lambda: self._step(self._picks), picks.indices.device)
        except RuntimeError:  # if the step itself is at fault, the plain one says so
            self._optimizer.zero_grad()


def record(
    work: Callable[[], T], device: torch.device, *, generators: Sequence[torch.Generator] = ()
) -> tuple[T, Callable[[], None]]:
    """Records work on a CUDA device: what it returns, in place, and the function that does it again.

    The work is done a few times before, for real; recording itself computes nothing.

    Args:
        work: What to record.
        device: Where its tensors are.
        generators: Sources of its random numbers, besides the device's own.
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
def _unchanged(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> Iterator[None]:
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
