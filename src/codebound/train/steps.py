"""One step of training: from the places of some examples to new weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from codebound.device import lower_precision
from codebound.train.replay import Replayed, Seen, Step, is_recordable

if TYPE_CHECKING:
    from torch import nn

    from codebound.data.dataset import DeviceData
    from codebound.train.config import TrainConfig
    from codebound.train.sampling import Picks


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


def make_step(
    model: nn.Module,
    data: DeviceData,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    *,
    dtype: torch.dtype,
) -> Step:
    """The step of a training; on a GPU it is recorded and replayed.

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
