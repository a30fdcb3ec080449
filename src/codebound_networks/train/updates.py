"""Batches of examples, and the updates of weights that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from codebound.run.device import lower_precision, rounded_products
from codebound.run.errors import ModelError, UsageError
from codebound_networks.train.rng import numpy_stream, torch_stream

if TYPE_CHECKING:
    from torch import nn

    from codebound.sample.dataset import DeviceData, Sample
    from codebound_networks.train.config import TrainConfig

_PAD = 4  # zeros on each side of an image that is shifted


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
"""Trains on the examples at given places, and waits for nothing."""


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimiser of the settings, for the parameters that are trained."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if config.optimizer == "adam":
        return torch.optim.Adam(
            trainable,
            lr=config.learning_rate,
            betas=(config.momentum, 0.999),
            weight_decay=config.weight_decay,
            fused=True,
        )
    return torch.optim.SGD(
        trainable,
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        fused=True,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Changes the learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def make_update(
    model: nn.Module,
    data: DeviceData,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    *,
    dtype: torch.dtype,
) -> Update:
    """Return the function that updates the weights."""
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

    return step


def _channels_last(x: Tensor) -> Tensor:
    """Images in the layout for which GPUs have their fastest convolutions. Other inputs as they are."""
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
