"""The operations of a chain: docs/format.md, section 8.6.

Each is a final class that knows all that is ever asked about it. To add one, write in this file

* a frozen dataclass under ``@register``: its ``number`` in a message, the ``name`` that files call it by, and
  its sizes as fields, in the order of the message; ``code`` codes them in both directions;
* ``_shape_after`` (the shape that it makes), ``work`` (what one example takes), ``modules`` or
  ``module_type`` (what computes it), ``tensor_shapes`` if it has tensors, and the facts that differ from
  ``AbstractOperation``;
* ``of_module`` or ``join``, if a network of torch may contain it.

Nothing else changes in this package. The page of a new version, the second program
(``codebound_verify.networks.operations``) and the third reader of the tests say the same in their own words,
and ``tests/contract/test_operations.py`` tries all this on an example of every operation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from codebound.learn.images import EPSILON, DictionaryFeatures, dictionary_channels, filter_tables
from codebound.run.errors import ModelError, UnsupportedLayerError
from codebound_networks.chains.modules import FoldedBlock, LocalConv2d, square_side
from codebound_networks.chains.shifts import StackedShifts, shift_count
from codebound_networks.codes.numbers import bit, gamma, uniform
from codebound_networks.views.zoo import ResidualBlock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self  # since Python 3.11

    from codebound_networks.codes.arithmetic import AbstractCoder

Shape = tuple[int, ...]

MAX_SIZE = 1 << 16
TABLES, SHIFT_KINDS = 7, 15
"""Dictionaries and kinds of shifts that have a code word: those that were tried and dropped included."""
_POOL_WORK = 16  # what a number that a pool reads counts as, in multiplications


@dataclass(frozen=True, slots=True)
class Work:
    """Work for one example: numbers in the largest result and in patches, and products."""

    largest: int = 0
    patches: int = 0
    products: int = 0


@dataclass(frozen=True, slots=True)
class AbstractOperation(ABC):
    """One operation of a chain, without its tensors."""

    number: ClassVar[int]  # its number in a message
    name: ClassVar[str]  # its name in a file
    module_type: ClassVar[type[nn.Module]]  # what computes it, where its fields are the arguments
    # fields that are one of so many that were tried: none is cheaper for having turned out well
    choices: ClassVar[Mapping[str, int]] = {}
    needs_image: ClassVar[bool] = True  # whether its input has channels and two sides
    ends_chain: ClassVar[bool] = False  # whether a chain may end with it
    # place among the fixed operations at the front of a chain, which stand in this order; 0 for an operation
    # that comes after them
    front: ClassVar[int] = 0
    relu_follows: ClassVar[bool] = False  # whether a ReLU follows it, except at the end of a chain
    relu_inside: ClassVar[bool] = False  # whether its own last step is a ReLU
    describes_f: ClassVar[bool] = True  # whether a network f that a claim is about may have it
    # whether it stretches distances by its ``norm`` at most, or not at all without weights (9.2)
    is_bounded: ClassVar[bool] = False
    # whether a factor on its weights, without biases, is only a factor on its output
    is_scale_free: ClassVar[bool] = True
    # whether its outputs are units, rows of its weight, that can be left out one by one
    drops_units: ClassVar[bool] = False
    # whether its weight has a column for every number that an earlier unit gives it
    reads_units: ClassVar[bool] = False

    @abstractmethod
    def _shape_after(self, shape: Shape) -> Shape:
        """The shape that it makes out of one it can see. A size below 1 says that it does not fit."""

    @abstractmethod
    def work(self, shape: Shape) -> Work:
        """Return the work for one example of this shape."""

    @classmethod
    def code(cls, coder: AbstractCoder, given: AbstractOperation | None, *, classes: int = 0) -> Self:
        """Codes the fields in their order and returns what was coded.

        Args:
            coder: The writer or the reader.
            given: The operation that a writer codes; None for a reader.
            classes: The width of the last operation of a chain, which is not coded; 0 for the others.
        """
        return cls(
            *(
                classes
                if classes and each.name == "out"
                else cls._code_field(coder, each.name, getattr(given, each.name, 1))
                for each in fields(cls)
            )
        )

    @classmethod
    def _code_field(cls, coder: AbstractCoder, name: str, value: int) -> int:
        if name == "bias":
            return bool(bit(coder, value))
        if name in cls.choices:
            return uniform(coder, value - 1, cls.choices[name]) + 1
        least = 0 if name == "padding" else 1
        size = gamma(coder, value + 1 - least) - 1 + least
        coder.require(size <= MAX_SIZE, f"sizes of a chain are at most {MAX_SIZE}. Got {name} = {size}.")
        return size

    @classmethod
    def of_module(cls, module: nn.Module) -> Self | None:
        """The operation that a module computes, or None if it is another one."""
        return None

    @classmethod
    def join(cls, layer: AbstractOperation, module: nn.Module) -> Self | None:
        """The operation that a layer and the module right behind it are together, or None."""
        return None

    @property
    def copies(self) -> int:
        """Number of copies of an input that the operations behind it see."""
        return 1

    def output_shape(self, shape: Shape) -> Shape:
        """Shape of the output for inputs of this shape, without the batch."""
        if self.needs_image and len(shape) != 3:
            raise ModelError(f"it needs an image. Got an input of shape {shape}.")
        made = self._shape_after(shape)
        if min(made) < 1:
            raise ModelError(f"it does not fit an input of shape {shape}.")
        return made

    def tensor_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Names and shapes of its tensors, in message order."""
        return {}

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """Return the modules for a shape, by suffix. The one with its tensors is under ""."""
        return {"": self.module_type(*astuple(self))}

    def tensors_of(self, module: nn.Module) -> Mapping[str, Tensor]:
        """The tensors of a module that computes it, under the names of ``tensor_shapes``."""
        found: Mapping[str, Tensor] = module.state_dict()
        return found

    def norm(self, weight: Tensor, shape: Shape) -> float:
        """Spectral norm with this weight on inputs of this shape, or more, up to rounding."""
        raise ModelError(f"the norm of a {self.name} is not bounded.")

    def with_field(self, name: str, value: int) -> Self:
        """The same with another value of one field, if it has that field."""
        return replace(self, **{name: value}) if hasattr(self, name) else self


OPERATIONS: dict[int, type[AbstractOperation]] = {}
"""All operations by number."""
_Class = TypeVar("_Class", bound=type[AbstractOperation])


def register(operation: _Class) -> _Class:
    """Makes an operation known to messages, to readers of networks and to the tests of all operations."""
    if operation.number in OPERATIONS:
        raise ValueError(f"operation {operation.number} is {OPERATIONS[operation.number].name} already.")
    OPERATIONS[operation.number] = operation
    return operation


def _padded(shape: Shape, padding: int) -> int:
    """Numbers of an image with zeros around it."""
    return shape[0] * math.prod(side + 2 * padding for side in shape[1:])


def _layer(weight: Shape, *, bias: bool, out: int) -> dict[str, Shape]:
    return {"weight": weight, "bias": (out,)} if bias else {"weight": weight}


@register
@dataclass(frozen=True, slots=True)
class Linear(AbstractOperation):
    """Linear layer on the flattened input. A ReLU follows unless it is the last operation."""

    number, name = 1, "linear"
    needs_image, ends_chain, relu_follows = False, True, True
    is_bounded, drops_units, reads_units = True, True, True
    out: int
    bias: bool

    @classmethod
    def of_module(cls, module: nn.Module) -> Self | None:  # noqa: D102
        if isinstance(module, nn.Linear):
            return cls(module.out_features, module.bias is not None)
        return None

    def _shape_after(self, shape: Shape) -> Shape:
        return (self.out,)

    def tensor_shapes(self, shape: Shape) -> dict[str, Shape]:  # noqa: D102
        return _layer((self.out, math.prod(shape)), bias=self.bias, out=self.out)

    def modules(self, shape: Shape) -> dict[str, nn.Module]:  # noqa: D102
        layer = {"": nn.Linear(math.prod(shape), self.out, bias=self.bias)}
        return {"_flatten": nn.Flatten(), **layer} if len(shape) > 1 else {**layer}

    def work(self, shape: Shape) -> Work:  # noqa: D102
        return Work(products=self.out * math.prod(shape))

    def norm(self, weight: Tensor, shape: Shape) -> float:  # noqa: D102
        return float(torch.linalg.matrix_norm(weight, ord=2))


@dataclass(frozen=True, slots=True)
class AbstractConvolution(AbstractOperation):
    """Square windows on an image with zeros around it, followed by a ReLU."""

    relu_follows = True
    out: int
    kernel: int
    stride: int
    padding: int
    bias: bool

    def _shape_after(self, shape: Shape) -> Shape:
        reach = 2 * self.padding - self.kernel
        return (self.out, *((side + reach) // self.stride + 1 for side in shape[1:]))

    def work(self, shape: Shape) -> Work:  # noqa: D102
        made = self.output_shape(shape)
        patches = shape[0] * self.kernel**2 * math.prod(made[1:])
        return Work(max(_padded(shape, self.padding), math.prod(made)), patches, self.out * patches)


@register
@dataclass(frozen=True, slots=True)
class Conv(AbstractConvolution):
    """Square convolution with zero padding, followed by a ReLU."""

    number, name = 2, "conv"
    is_bounded, drops_units, reads_units = True, True, True

    @classmethod
    def of_module(cls, module: nn.Module) -> Self | None:  # noqa: D102
        if not isinstance(module, nn.Conv2d) or isinstance(module.padding, str):
            return None
        kernel, stride, padding = map(square_side, (module.kernel_size, module.stride, module.padding))
        plain = module.groups == 1 and module.dilation == (1, 1) and module.padding_mode == "zeros"
        if kernel and stride and padding is not None and plain:
            return cls(module.out_channels, kernel, stride, padding, module.bias is not None)
        return None

    def tensor_shapes(self, shape: Shape) -> dict[str, Shape]:  # noqa: D102
        return _layer((self.out, shape[0], self.kernel, self.kernel), bias=self.bias, out=self.out)

    def modules(self, shape: Shape) -> dict[str, nn.Module]:  # noqa: D102
        sizes = (self.out, self.kernel, self.stride, self.padding)
        return {"": nn.Conv2d(shape[0], *sizes, bias=self.bias)}

    def norm(self, weight: Tensor, shape: Shape) -> float:
        """The norm of the circular convolution on the padded image, of which this one is a part."""
        height, width = (side + 2 * self.padding for side in shape[1:])
        rows = torch.fft.fft(weight, n=height, dim=2).permute(2, 0, 1, 3)
        largest = 0.0
        for row in rows[: height // 2 + 1]:  # a real filter has equal norms at (u, v) and (-u, -v)
            symbols = torch.fft.fft(row, n=width, dim=2).permute(2, 0, 1)
            largest = max(largest, float(torch.linalg.matrix_norm(symbols, ord=2).max()))
        return largest


@dataclass(frozen=True, slots=True)
class AbstractPool(AbstractOperation):
    """Something of every window; windows do not overlap."""

    module_type: ClassVar[type[nn.MaxPool2d | nn.AvgPool2d]]
    is_bounded = True
    kernel: int

    @classmethod
    def of_module(cls, module: nn.Module) -> Self | None:  # noqa: D102
        if not isinstance(module, cls.module_type):
            return None
        kernel, stride, padding = map(square_side, (module.kernel_size, module.stride, module.padding))
        plain = padding == 0 and not module.ceil_mode and getattr(module, "dilation", 1) == 1
        return cls(kernel) if kernel and kernel == stride and plain else None

    def _shape_after(self, shape: Shape) -> Shape:
        return (shape[0], *(side // self.kernel for side in shape[1:]))

    def work(self, shape: Shape) -> Work:  # noqa: D102
        return Work(math.prod(self.output_shape(shape)), products=_POOL_WORK * math.prod(shape))


@register
@dataclass(frozen=True, slots=True)
class MaxPool(AbstractPool):
    """Maximum over windows that do not overlap."""

    number, name, module_type = 3, "max pool", nn.MaxPool2d


@register
@dataclass(frozen=True, slots=True)
class AveragePool(AbstractPool):
    """Mean over windows that do not overlap."""

    number, name, module_type = 4, "average pool", nn.AvgPool2d


@register
@dataclass(frozen=True, slots=True)
class GlobalAveragePool(AbstractOperation):
    """Mean over all pixels of a channel."""

    number, name = 5, "global average pool"
    is_bounded = True

    @classmethod
    def of_module(cls, module: nn.Module) -> Self | None:  # noqa: D102
        is_global = isinstance(module, nn.AdaptiveAvgPool2d) and module.output_size in (1, (1, 1))
        return cls() if is_global else None

    def _shape_after(self, shape: Shape) -> Shape:
        return (shape[0], 1, 1)

    def modules(self, shape: Shape) -> dict[str, nn.Module]:  # noqa: D102
        return {"": nn.AdaptiveAvgPool2d(1)}

    def work(self, shape: Shape) -> Work:  # noqa: D102
        return Work(shape[0], products=_POOL_WORK * math.prod(shape))


@register
@dataclass(frozen=True, slots=True)
class Residual(AbstractOperation):
    """Two 3x3 convolutions and an identity or option-A shortcut, followed by a ReLU."""

    number, name = 6, "residual"
    relu_inside, is_scale_free = True, False
    out: int
    bias: bool

    @classmethod
    def of_module(cls, module: nn.Module) -> Self | None:  # noqa: D102
        if isinstance(module, ResidualBlock | FoldedBlock):
            first = module.conv1 if isinstance(module, ResidualBlock) else module.a
            return cls(first.out_channels, first.bias is not None)
        return None

    def _shape_after(self, shape: Shape) -> Shape:
        channels, *sides = shape
        if self.out < channels:
            raise ModelError(f"it cannot follow {channels} channels.")
        return (self.out, *((side + 1) // 2 if self.out != channels else side for side in sides))

    def tensor_shapes(self, shape: Shape) -> dict[str, Shape]:  # noqa: D102
        layers = {"a": (self.out, shape[0], 3, 3), "b": (self.out, self.out, 3, 3)}
        return {
            f"{layer}.{name}": size
            for layer, weight in layers.items()
            for name, size in _layer(weight, bias=self.bias, out=self.out).items()
        }

    def tensors_of(self, module: nn.Module) -> Mapping[str, Tensor]:  # noqa: D102
        state = module.state_dict().items()
        return {name.replace("conv1.", "a.").replace("conv2.", "b."): value for name, value in state}

    def modules(self, shape: Shape) -> dict[str, nn.Module]:  # noqa: D102
        return {"": FoldedBlock(shape[0], self.out, bias=self.bias)}

    def work(self, shape: Shape) -> Work:  # noqa: D102
        made = self.output_shape(shape)
        patches = 9 * max(shape[0], self.out) * math.prod(made[1:])
        return Work(max(_padded(shape, 1), _padded(made, 1)), patches, 2 * self.out * patches)


@register
@dataclass(frozen=True, slots=True)
class LocalConv(AbstractConvolution):
    """Convolution whose every output pixel has filters of its own, followed by a ReLU."""

    number, name = 7, "local conv"

    def tensor_shapes(self, shape: Shape) -> dict[str, Shape]:  # noqa: D102
        filters = (self.out, shape[0], self.kernel, self.kernel)
        pixels = math.prod(self.output_shape(shape)[1:])
        return _layer((pixels, *filters), bias=self.bias, out=self.out)

    def modules(self, shape: Shape) -> dict[str, nn.Module]:  # noqa: D102
        return {"": LocalConv2d(self, shape)}


@register
@dataclass(frozen=True, slots=True)
class NormalisedConv(AbstractOperation):
    """Convolution with an odd window that keeps the size, normalised over the example, then a ReLU."""

    number, name = 8, "normalised conv"
    relu_follows, describes_f, reads_units = True, False, True
    out: int
    kernel: int

    @property
    def conv(self) -> Conv:
        """The convolution that is normalised."""
        return Conv(self.out, self.kernel, 1, self.kernel // 2, bias=False)

    @classmethod
    def join(cls, layer: AbstractOperation, module: nn.Module) -> Self | None:  # noqa: D102
        if not isinstance(module, nn.GroupNorm):
            return None
        if isinstance(layer, Conv) and (module.num_groups, module.affine, module.eps) == (1, False, EPSILON):
            found = cls(layer.out, layer.kernel)
            if layer == found.conv and layer.kernel % 2:
                return found
        raise UnsupportedLayerError(
            f"{module}: a chain normalises over the whole example, without weights, after a convolution "
            "with an odd window, stride 1, no bias and a padding that keeps the size."
        )

    def _shape_after(self, shape: Shape) -> Shape:
        if self.kernel % 2 == 0:
            raise ModelError("it needs an odd window.")
        return self.conv.output_shape(shape)

    def tensor_shapes(self, shape: Shape) -> dict[str, Shape]:  # noqa: D102
        return self.conv.tensor_shapes(shape)

    def modules(self, shape: Shape) -> dict[str, nn.Module]:  # noqa: D102
        norm = nn.GroupNorm(1, self.out, eps=EPSILON, affine=False)
        return {**self.conv.modules(shape), "_normalise": norm}

    def work(self, shape: Shape) -> Work:  # noqa: D102
        return self.conv.work(shape)


@register
@dataclass(frozen=True, slots=True)
class Dictionary(AbstractOperation):
    """Fixed features of the input. They stand at the front, or right after shifts."""

    number, name, module_type = 9, "dictionary", DictionaryFeatures
    choices: ClassVar = {"table": TABLES}
    front, describes_f = 2, False
    table: int
    pool: int

    @classmethod
    def of_module(cls, module: nn.Module) -> Self | None:  # noqa: D102
        return cls(module.table, module.pool) if isinstance(module, DictionaryFeatures) else None

    def _shape_after(self, shape: Shape) -> Shape:
        channels, *sides = shape
        return (dictionary_channels(self.table, channels), *(side // self.pool for side in sides))

    def work(self, shape: Shape) -> Work:  # noqa: D102
        taps = sum(found.size for found in filter_tables(self.table))
        return Work(math.prod(self.output_shape(shape)), products=taps * math.prod(shape))


@register
@dataclass(frozen=True, slots=True)
class Shifts(AbstractOperation):
    """The mean of the logits over shifted copies of the input, which files call views: at the front."""

    number, name, module_type = 10, "views", StackedShifts
    choices: ClassVar = {"kind": SHIFT_KINDS}
    front, describes_f = 1, False
    kind: int

    @property
    def copies(self) -> int:  # noqa: D102
        return shift_count(self.kind)

    @classmethod
    def of_module(cls, module: nn.Module) -> Self | None:  # noqa: D102
        return cls(module.kind) if isinstance(module, StackedShifts) else None

    def _shape_after(self, shape: Shape) -> Shape:
        shift_count(self.kind)  # refuses a kind that there is not
        return shape

    def work(self, shape: Shape) -> Work:  # noqa: D102
        return Work(math.prod(shape))
