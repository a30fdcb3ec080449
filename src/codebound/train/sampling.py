"""What an epoch sees: the order of the examples, their labels, and shifted or mirrored images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from codebound.errors import UsageError
from codebound.rng import numpy_stream, torch_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codebound.data.dataset import Dataset, DeviceData
    from codebound.train.config import TrainConfig

_PAD = 4


def shuffle_labels(dataset: Dataset, fraction: float, *, seed: int) -> Dataset:
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
    """The examples of a batch.

    Attributes:
        indices: Where they are in the sample.
        shifts: Per example: rows and columns to shift by, and whether to mirror; None: as stored.
    """

    indices: Tensor
    shifts: Tensor | None

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

    Attributes:
        order: Indices of the examples in the order in which they are visited, on the sample's device.
        sizes: Examples in each batch. A single left-over example joins the batch before it, because
            batch normalisation has no variance to divide by in a batch of one.
        shifts: Per visited example, as in `Picks`.
    """

    order: Tensor
    sizes: list[int]
    shifts: Tensor | None

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
