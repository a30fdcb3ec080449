"""Gradient descent on what the weights of a network are computed from: scores of a mask, masked weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.func import functional_call
from torch.nn import functional

from codebound.errors import ModelError, UsageError
from codebound.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor, nn

    from codebound.data.dataset import DeviceData


def descend(
    module: nn.Module,
    parameters: Sequence[Tensor],
    weights: Callable[[], Mapping[str, Tensor]],
    sample: DeviceData,
    *,
    epochs: int,
    learning_rate: float,
    batch_size: int,
    order: torch.Generator,
    progress: Progress = silent,
) -> None:
    """Trains ``parameters`` in place, with Adam on the cross-entropy and a cosine schedule.

    The same arguments give the same result on a CPU; convolutions on a GPU may add in another order.

    Args:
        module: The network, in evaluation mode; it is not changed.
        parameters: What is trained, on the device of the sample.
        weights: Tensors of the network, by name, computed from the parameters; called at every step.
        sample: The examples.
        epochs: Passes over the sample.
        learning_rate: At the start.
        batch_size: Examples per step.
        order: Shuffles the examples.
        progress: Told the steps done.
    """
    if min(epochs, batch_size) < 1 or not 0.0 < learning_rate < math.inf:
        raise UsageError(
            "epochs and batch_size are at least 1 and the learning rate is positive. "
            f"Got {epochs}, {batch_size} and {learning_rate}."
        )
    if not parameters:
        return
    device = sample.x.device
    state = {name: tensor.detach().to(device) for name, tensor in module.state_dict().items()}
    optimizer = torch.optim.Adam(list(parameters), lr=learning_rate, foreach=True)
    total = epochs * math.ceil(sample.n / batch_size)
    step = 0
    for _ in range(epochs):
        shuffled = torch.randperm(sample.n, generator=order).to(device)
        for indices in torch.split(shuffled, batch_size):
            rate = 0.5 * learning_rate * (1.0 + math.cos(math.pi * step / total))
            optimizer.param_groups[0]["lr"] = rate
            x, y = sample.batch(indices)
            loss = functional.cross_entropy(functional_call(module, {**state, **weights()}, (x,)), y)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss, inputs=list(parameters))
            optimizer.step()
            step += 1
        last = float(loss.detach())
        if not math.isfinite(last):
            raise ModelError(f"the loss became {last} in training. Try a smaller learning rate.")
        progress(step, total, f"loss {last:.3f}")
