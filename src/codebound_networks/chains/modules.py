"""Modules for operations of a chain that torch has none for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound_networks.views.zoo import Shortcut

if TYPE_CHECKING:
    from codebound_networks.chains.operations import LocalConv, Shape

_PATCHES = 1 << 24  # numbers in the patches that a local convolution multiplies at a time


class LocalConv2d(nn.Module):
    """A convolution with filters of its own for every output pixel."""

    def __init__(self, operation: LocalConv, shape: Shape) -> None:
        super().__init__()
        self.operation = operation
        _, *self.sides = operation.output_shape(shape)
        self.weight = nn.Parameter(torch.empty(operation.tensor_shapes(shape)["weight"]))
        self.bias = nn.Parameter(torch.empty(operation.out)) if operation.bias else None

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        pixels, out, *taps = self.weight.shape
        kernel, stride, padding = self.operation.kernel, self.operation.stride, self.operation.padding
        filters = self.weight.flatten(2).transpose(1, 2)
        results = []
        for part in torch.split(x, max(_PATCHES // (pixels * math.prod(taps)), 1)):
            patches = functional.unfold(part, kernel, padding=padding, stride=stride).permute(2, 0, 1)
            results.append((patches @ filters).permute(1, 2, 0).reshape(len(part), out, *self.sides))
        result = torch.cat(results)
        return result if self.bias is None else result + self.bias[:, None, None]


class FoldedBlock(nn.Module):
    """A residual block whose batch norms are part of its convolutions."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool) -> None:
        super().__init__()
        shrinks = inputs != outputs
        self.a = nn.Conv2d(inputs, outputs, 3, stride=2 if shrinks else 1, padding=1, bias=bias)
        self.b = nn.Conv2d(outputs, outputs, 3, padding=1, bias=bias)
        self.shortcut = Shortcut(outputs - inputs) if shrinks else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return functional.relu(self.b(functional.relu(self.a(x))) + self.shortcut(x))


def square_side(size: int | tuple[int, ...]) -> int | None:
    """The side of a square window, or None if it is not square."""
    if isinstance(size, int):
        return size
    return size[0] if len(set(size)) == 1 else None
