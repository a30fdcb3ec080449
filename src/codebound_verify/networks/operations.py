"""The operations of chains (docs/format.md, section 8.6): all that there is to say of each, in one class.

The chain, the evaluation and the limits follow from it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from ..learn.dictionaries import tables
from .rounding import Layer, Rounded, filter_layer, gamma, lengths, local, local_layer, matrix_layer
from .tensors import Shape

Layers: TypeAlias = "Mapping[str, Layer]"  # by what stands before the names of its tensors: "", "a.", "b."

POOL_WORK = 16  # what a number that a pool reads counts as
CACHED = 1 << 19  # numbers in patches that the cache of a core holds: 4 MiB
VIEWS = {1: 2, 2: 5, 3: 1, 4: 5}  # how many views there are of an input, for each kind of views


@dataclass(frozen=True)
class Operation:
    """One operation with its sizes. Those that its kind does not have are 0."""

    kind: str
    out: int = 0
    kernel: int = 0
    stride: int = 0
    padding: int = 0
    bias: int = 0  # 0 or 1
    table: int = 0  # the number of a dictionary
    pool: int = 0  # the window of a dictionary
    views: int = 0  # the kind of views

    def pixels(self, seen: Shape) -> Shape:
        """Height and width of the result, if it is a window that moves over an image."""
        return tuple((side + 2 * self.padding - self.kernel) // self.stride + 1 for side in seen[1:])


class Misfit(Exception):  # noqa: N818 - the chain makes a refusal of it
    """Reason why an operation does not fit, to end a sentence that starts with the operation."""


class Kind(ABC):
    """Behaviour of all operations of one kind. ``seen`` is the shape of an operation's input."""

    sizes: tuple[str, ...] = ()  # in the order of the message
    has_relu = False  # after it, unless it is the last operation

    @abstractmethod
    def output(self, operation: Operation, seen: Shape) -> Shape:
        """The shape that it makes; a :class:`Misfit` where it does not fit."""

    def tensors(self, operation: Operation, seen: Shape) -> Mapping[str, Shape]:
        """Its weights; each has a bias if the operation has one."""
        return {}

    def padded(self, operation: Operation, seen: Shape) -> int:
        """Numbers of the padded input of a convolution, for one example."""
        return 0

    def patches(self, operation: Operation, seen: Shape) -> int:
        """Numbers in the patches of one example that it multiplies."""
        return 0

    def count_held(self, operation: Operation, seen: Shape) -> int:
        """The most numbers that one example takes up in it."""
        return max(
            math.prod(seen), operation.out, self.padded(operation, seen), self.patches(operation, seen)
        )

    def work(self, operation: Operation, seen: Shape) -> int:
        """Multiplications for one example; what a pool reads counts too."""
        return POOL_WORK * math.prod(seen)

    @abstractmethod
    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        """Outputs for a batch."""

    def layer(self, operation: Operation, seen: Shape, weight: Tensor, bias: Tensor | None) -> Layer:
        """One of its weights, ready to be applied."""
        raise NotImplementedError(f"{operation.kind} has no weights")


class Linear(Kind):
    """y = W x + b."""

    sizes = ("out", "bias")
    has_relu = True

    def output(self, operation: Operation, seen: Shape) -> Shape:
        return (operation.out,)

    def tensors(self, operation: Operation, seen: Shape) -> Mapping[str, Shape]:
        return {"weight": (operation.out, math.prod(seen))}

    def work(self, operation: Operation, seen: Shape) -> int:
        return operation.out * math.prod(seen)

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        layer, flat = own[""], x.move(lambda values: values.flatten(1))
        return layer.sums(flat, functional.linear, terms=layer.weight.shape[1])

    def layer(self, operation: Operation, seen: Shape, weight: Tensor, bias: Tensor | None) -> Layer:
        return matrix_layer(weight, bias)


class WindowKind(Kind):
    """A window that moves over an image."""

    @abstractmethod
    def window(self, operation: Operation, channels: int) -> Operation:
        """An operation with the window over an image of so many channels, and the channels that come out."""

    def output(self, operation: Operation, seen: Shape) -> Shape:
        _require_image(seen)
        window = self.window(operation, seen[0])
        if min(seen[1:]) + 2 * window.padding < window.kernel:
            raise Misfit(f"has a window of {window.kernel}, larger than its image {seen}")
        return (window.out, *window.pixels(seen))


class Conv(WindowKind):
    """A convolution."""

    sizes: tuple[str, ...] = ("out", "kernel", "stride", "padding", "bias")
    has_relu = True

    def window(self, operation: Operation, channels: int) -> Operation:
        return operation

    def padded(self, operation: Operation, seen: Shape) -> int:
        return _pad(seen, self.window(operation, seen[0]).padding)

    def tensors(self, operation: Operation, seen: Shape) -> Mapping[str, Shape]:
        return {"weight": (operation.out, seen[0], operation.kernel, operation.kernel)}

    def patches(self, operation: Operation, seen: Shape) -> int:
        return seen[0] * operation.kernel**2 * math.prod(self.window(operation, seen[0]).pixels(seen))

    def work(self, operation: Operation, seen: Shape) -> int:
        return operation.out * self.patches(operation, seen)

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        window = self.window(operation, x.values.shape[1])
        return _convolve(x, own[""], stride=window.stride, padding=window.padding)

    def layer(self, operation: Operation, seen: Shape, weight: Tensor, bias: Tensor | None) -> Layer:
        height, width = (side + 2 * self.window(operation, seen[0]).padding for side in seen[1:])
        return filter_layer(weight, bias, grid=(height, width))


class NormalisedConv(Conv):
    """A convolution of stride 1 whose result has mean 0 and variance 1 in each example."""

    sizes = ("out", "kernel")

    def window(self, operation: Operation, channels: int) -> Operation:
        if operation.kernel % 2 == 0:
            raise Misfit(f"has a kernel of {operation.kernel}; it must be odd")
        return replace(operation, stride=1, padding=operation.kernel // 2)

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        from .images import normalise

        return normalise(super().apply(operation, own, x))


class LocalConv(Conv):
    """A convolution with filters of its own for every pixel."""

    def tensors(self, operation: Operation, seen: Shape) -> Mapping[str, Shape]:
        pixels = math.prod(self.window(operation, seen[0]).pixels(seen))
        return {"weight": (pixels, operation.out, seen[0], operation.kernel, operation.kernel)}

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        """One row of pixels at a time."""
        kernel, stride, padding = operation.kernel, operation.stride, operation.padding
        patches = functional.pad(x.values, (padding,) * 4).unfold(2, kernel, stride).unfold(3, kernel, stride)
        rows, columns = patches.shape[2:4]  # of (batch, in, rows, columns, kernel, kernel)
        layer = own[""]
        values = patches.new_empty(len(x.values), operation.out, rows, columns)
        for row, filters in enumerate(layer.weight.reshape(rows, columns, *layer.weight.shape[1:])):
            values[:, :, row] = torch.einsum("bcsij,socij->bos", patches[:, :, row], filters.double())
        return layer.finish(x, values, terms=layer.weight[0, 0].numel(), pixels=rows * columns)

    def layer(self, operation: Operation, seen: Shape, weight: Tensor, bias: Tensor | None) -> Layer:
        return local_layer(weight, bias)


class Residual(WindowKind):
    """relu(b(relu(a(x))) + shortcut(x)); twice the stride where there are more channels."""

    sizes = ("out", "bias")

    def window(self, operation: Operation, channels: int) -> Operation:
        if operation.out < channels:
            raise Misfit(f"has {operation.out} outputs for {channels} channels; it cannot have fewer")
        return replace(operation, kernel=3, stride=1 if operation.out == channels else 2, padding=1)

    def tensors(self, operation: Operation, seen: Shape) -> Mapping[str, Shape]:
        out = operation.out
        return {"a.weight": (out, seen[0], 3, 3), "b.weight": (out, out, 3, 3)}

    def padded(self, operation: Operation, seen: Shape) -> int:
        return max(_pad(seen, 1), _pad(self.output(operation, seen), 1))

    def patches(self, operation: Operation, seen: Shape) -> int:
        pixels = math.prod(self.window(operation, seen[0]).pixels(seen))
        return max(seen[0], operation.out) * 9 * pixels

    def work(self, operation: Operation, seen: Shape) -> int:
        return 2 * operation.out * self.patches(operation, seen)

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        extra = operation.out - x.values.shape[1]
        stride = 2 if extra else 1
        sides = (0, 0, 0, 0, extra // 2, extra - extra // 2)
        shortcut = x.move(lambda image: functional.pad(image[:, :, ::stride, ::stride], sides))
        inner = relu(_convolve(x, own["a."], stride=stride, padding=1))
        outer = _convolve(inner, own["b."], stride=1, padding=1)
        both = outer.values + shortcut.values
        return relu(Rounded(both, outer.error + shortcut.error + local(gamma(2), lengths(both))))

    def layer(self, operation: Operation, seen: Shape, weight: Tensor, bias: Tensor | None) -> Layer:
        is_first = weight.shape[1] == seen[0]  # both have the sides of the input, where they are as many
        sides = seen[1:] if is_first else self.window(operation, seen[0]).pixels(seen)
        return filter_layer(weight, bias, grid=(sides[0] + 2, sides[1] + 2))


class MaxPool(WindowKind):
    """The largest number of each window."""

    sizes = ("kernel",)

    def window(self, operation: Operation, channels: int) -> Operation:
        return replace(operation, out=channels, stride=operation.kernel)

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        return Rounded(functional.max_pool2d(x.values, operation.kernel, stride=operation.kernel), x.error)


class AveragePool(MaxPool):
    """The mean of each window."""

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        kernel = operation.kernel
        return _mean(functional.avg_pool2d(x.values, kernel, stride=kernel), x, kernel**2)


class GlobalAveragePool(Kind):
    """The mean of each channel."""

    def output(self, operation: Operation, seen: Shape) -> Shape:
        _require_image(seen)
        return (seen[0], 1, 1)

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        return _mean(x.values.mean(dim=(2, 3), keepdim=True), x, x.values[0, 0].numel())


class Dictionary(WindowKind):
    """Fixed features of images (8.7)."""

    sizes = ("table", "pool")

    def window(self, operation: Operation, channels: int) -> Operation:
        if not (found := tables(operation.table)):
            raise Misfit(f"has number {operation.table}, and there is no such dictionary")
        filters = sum(len(table.filters) for table in found)
        return replace(operation, out=channels * (1 + filters), kernel=operation.pool, stride=operation.pool)

    def count_held(self, operation: Operation, seen: Shape) -> int:
        """The patches of one plane at a time."""
        patches = (table.size**2 * math.prod(seen[1:]) for table in tables(operation.table))
        return max(math.prod(seen), *patches)

    def work(self, operation: Operation, seen: Shape) -> int:
        taps = sum(table.filters[..., 0, 0].size * table.size**2 for table in tables(operation.table))
        return taps * math.prod(seen)

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        from .images import features

        return features(operation.table, operation.pool, x)


class Views(WindowKind):
    """Views of the input, each of its shape. The logits of the rest of the chain are averaged over them."""

    sizes = ("views",)

    def window(self, operation: Operation, channels: int) -> Operation:
        if operation.views not in VIEWS:
            raise Misfit(f"has kind {operation.views}; kinds are {', '.join(map(str, VIEWS))}")
        return replace(operation, out=channels, kernel=1, stride=1)

    def work(self, operation: Operation, seen: Shape) -> int:
        return 0

    def apply(self, operation: Operation, own: Layers, x: Rounded) -> Rounded:
        raise NotImplementedError("views are taken before a chain is applied (networks.evaluation)")


KINDS: dict[str, Kind] = {  # ids count from 1
    "linear": Linear(),
    "conv": Conv(),
    "max pool": MaxPool(),
    "average pool": AveragePool(),
    "global average pool": GlobalAveragePool(),
    "residual": Residual(),
    "local conv": LocalConv(),
    "normalised conv": NormalisedConv(),
    "dictionary": Dictionary(),
    "views": Views(),
}


def _pad(seen: Shape, padding: int) -> int:
    """Numbers of an image with its padding."""
    return seen[0] * math.prod(side + 2 * padding for side in seen[1:])


def _require_image(seen: Shape) -> None:
    if len(seen) != 3:
        raise Misfit(f"needs an image (channels, height, width); it sees {seen}")


def relu(x: Rounded) -> Rounded:
    """The ReLU brings no two numbers further apart, and rounds nothing."""
    return Rounded(x.values.relu_(), x.error)


def _mean(values: Tensor, x: Rounded, numbers: int) -> Rounded:
    """Means of so many numbers each: a mean is shorter by the root of their number."""
    return Rounded(values, (x.error + local(gamma(numbers + 1), lengths(x.values))) / math.sqrt(numbers))


def _convolve(x: Rounded, layer: Layer, *, stride: int, padding: int) -> Rounded:
    """A convolution with a weight and perhaps a bias, of few examples at a time."""
    terms = layer.weight[0].numel()
    window = Operation("conv", kernel=layer.weight.shape[2], stride=stride, padding=padding)
    pixels = math.prod(window.pixels(tuple(x.values.shape[1:])))

    def convolved(values: Tensor, weight: Tensor) -> Tensor:
        return in_parts(
            lambda part: functional.conv2d(part, weight, stride=stride, padding=padding),
            values,
            numbers=terms * pixels,
        )

    return layer.sums(x, convolved, terms=terms, pixels=pixels)


def in_parts(convolve: Callable[[Tensor], Tensor], x: Tensor, *, numbers: int) -> Tensor:
    """A convolution of few examples at a time: what stays in the cache is several times faster.

    It lays out so many ``numbers`` for one example.
    """
    at_once = max(1, torch.get_num_threads() * CACHED // numbers)
    if at_once >= len(x):
        return convolve(x)
    return torch.cat([convolve(part) for part in torch.split(x, at_once)])
