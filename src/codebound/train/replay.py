"""A training step recorded once as a CUDA graph and replayed.

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

from codebound.device import isolated_random_state
from codebound.train.sampling import Picks

if TYPE_CHECKING:
    from torch import nn

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


Step: TypeAlias = Callable[[Picks], Seen]
"""Trains on the examples at given places, waits for nothing, and keeps all it changes where it is."""


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

    def __init__(self, step: Step, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
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
