"""Views of an image, over which a network averages its logits (docs/format.md, operation 10 of 5.1)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

_DOWN, _UP, _RIGHT, _LEFT = (0, 0, 1, -1), (0, 0, -1, 1), (1, -1, 0, 0), (-1, 1, 0, 0)
_CHANGES: dict[int, tuple[Callable[[Tensor], Tensor], ...]] = {
    1: (partial(torch.flip, dims=(-1,)),),
    # zeros move in on one side, a row or column leaves on the other
    2: tuple(partial(functional.pad, pad=move) for move in (_DOWN, _UP, _RIGHT, _LEFT)),
}


def views_of(x: Tensor, kind: int) -> tuple[Tensor, ...]:
    """The views of a batch of images, first the images themselves.

    Kind 1 adds the mirror images, kind 2 the images moved by one pixel down, up, right and left.

    Example:
        >>> [view.tolist() for view in views_of(torch.tensor([[1, 2], [3, 4]]).view(1, 1, 2, 2), 1)]
        [[[[[1, 2], [3, 4]]]], [[[[2, 1], [4, 3]]]]]
    """
    return x, *(change(x) for change in _changes(kind))


def view_count(kind: int) -> int:
    """Number of views of an image."""
    return 1 + len(_changes(kind))


def _changes(kind: int) -> tuple[Callable[[Tensor], Tensor], ...]:
    if kind not in _CHANGES:
        raise ModelError(f"views have the kind {' or '.join(map(str, _CHANGES))}. Got {kind}.")
    return _CHANGES[kind]


class StackedViews(nn.Module):
    """All views of a batch as one batch: a network runs on them without knowing."""

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind = kind

    def extra_repr(self) -> str:  # noqa: D102
        return str(self.kind)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return torch.cat(views_of(x, self.kind))


class MeanOverViews(nn.Module):
    """The mean of the logits over the ``count`` views that ``StackedViews`` put into one batch."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def extra_repr(self) -> str:  # noqa: D102
        return str(self.count)

    def forward(self, logits: Tensor) -> Tensor:  # noqa: D102
        return logits.reshape(self.count, -1, logits.shape[1]).mean(0)
