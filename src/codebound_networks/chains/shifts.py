"""Shifts of an image, over which a network averages its logits: the views of docs/format.md, 8.6."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound.run.errors import ModelError
from codebound_networks.views.kinds import MODULE_KINDS, fixed_kind

if TYPE_CHECKING:
    from collections.abc import Callable

_DOWN, _UP, _RIGHT, _LEFT = (0, 0, 1, -1), (0, 0, -1, 1), (1, -1, 0, 0), (-1, 1, 0, 0)
# zeros move in on one side, a row or column leaves on the other
_MOVES = tuple(partial(functional.pad, pad=move) for move in (_DOWN, _UP, _RIGHT, _LEFT))


def straighten(x: Tensor) -> Tensor:
    """Images sheared along their rows until rows and columns are uncorrelated: strokes stand upright.

    >>> measure_slant = torch.eye(5).flip(0).view(1, 1, 5, 5)
    >>> straighten(measure_slant)[0, 0].sum(0).round()
    tensor([0., 0., 5., 0., 0.])
    """
    width = x.shape[-1]
    columns = torch.arange(width, dtype=x.dtype, device=x.device)
    up, _, slant = measure_slant(x.abs().sum(1))
    places = (columns + slant * up).clamp(-1.0, width).unsqueeze(1)
    left = places.nan_to_num().floor()  # of an image that is not finite: what is read does not matter
    share = places - left
    # a column of zeros in front and two behind stand for everything outside
    read = functional.pad(x, (1, 2)).gather
    at = (left.long() + 1).expand_as(x)
    return (1.0 - share) * read(-1, at) + share * read(-1, at + 1)


def measure_slant(mass: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distances of rows and of columns from the centre of each image, and the slant that relates them.

    Args:
        mass: Of every pixel, (batch, rows, columns).
    """
    height, width = mass.shape[-2:]
    rows = torch.arange(height, dtype=mass.dtype, device=mass.device).view(-1, 1)
    columns = torch.arange(width, dtype=mass.dtype, device=mass.device)
    total = mass.sum((1, 2), keepdim=True) + 1e-6
    up = rows - (mass * rows).sum((1, 2), keepdim=True) / total
    right = columns - (mass * columns).sum((1, 2), keepdim=True) / total
    weighted = mass * up
    slant = (weighted * right).sum((1, 2), keepdim=True) / ((weighted * up).sum((1, 2), keepdim=True) + 1e-3)
    return up, right, slant


class _Kind(NamedTuple):
    """Change that comes first to an image, and the changes added to it."""

    first: Callable[[Tensor], Tensor] | None
    added: tuple[Callable[[Tensor], Tensor], ...]


_KINDS = {
    1: _Kind(None, (partial(torch.flip, dims=(-1,)),)),
    2: _Kind(None, _MOVES),
    3: _Kind(straighten, ()),
    4: _Kind(straighten, _MOVES),
}


def shifts_of(x: Tensor, kind: int) -> tuple[Tensor, ...]:
    """The shifts of a batch of images: the images, or what they become first, and their changed copies.

    Kind 1 is the images and their mirror images, kind 2 the images and the images moved by one pixel down,
    up, right and left, kind 3 the straightened images, kind 4 those and their moves.

    >>> [shift.tolist() for shift in shifts_of(torch.tensor([[1, 2], [3, 4]]).view(1, 1, 2, 2), 1)]
    [[[[[1, 2], [3, 4]]]], [[[[2, 1], [4, 3]]]]]
    """
    first, added = _kind_of(kind)
    start = x if first is None else first(x)
    return start, *(change(start) for change in added)


def shift_count(kind: int) -> int:
    """Number of shifts of an image, itself included."""
    return 1 + len(_kind_of(kind).added)


def _kind_of(kind: int) -> _Kind:
    if kind not in _KINDS:
        raise ModelError(f"shifts have a kind from 1 to {len(_KINDS)}. Got {kind}.")
    return _KINDS[kind]


class StackedShifts(nn.Module):
    """All shifts of a batch as one batch: a network runs on them without knowing."""

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind = kind

    @property
    def count(self) -> int:
        """Number of shifts."""
        return shift_count(self.kind)

    def extra_repr(self) -> str:  # noqa: D102
        return str(self.kind)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return torch.cat(shifts_of(x, self.kind))


class MeanOverShifts(nn.Module):
    """The mean of the logits over the ``count`` shifts that ``StackedShifts`` put into one batch."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def extra_repr(self) -> str:  # noqa: D102
        return str(self.count)

    def forward(self, logits: Tensor) -> Tensor:  # noqa: D102
        return logits.reshape(self.count, -1, logits.shape[1]).mean(0)


for _step in (StackedShifts, MeanOverShifts):
    MODULE_KINDS[_step] = fixed_kind(_step)  # known, so that each is one step of a network
