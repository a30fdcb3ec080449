"""Chains: the networks that a message can describe by itself (docs/format.md, section 5.1)."""

from __future__ import annotations

import copy
import math
import re
from collections import OrderedDict
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound.chains.dictionary import EPSILON, DictionaryFeatures, dictionary_channels
from codebound.chains.shifts import MeanOverShifts, StackedShifts, shift_count
from codebound.errors import ModelError, UnsupportedLayerError
from codebound.nets.fold import fold_batch_norms
from codebound.nets.steps import steps_of
from codebound.nets.walk import wrap
from codebound.nets.zoo import ResidualBlock, Shortcut

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear layer on the flattened input; a ReLU follows unless it is the last operation."""

    out: int
    bias: bool


@dataclass(frozen=True, slots=True)
class Conv:
    """Square convolution with zero padding, followed by a ReLU."""

    out: int
    kernel: int
    stride: int
    padding: int
    bias: bool


@dataclass(frozen=True, slots=True)
class LocalConv:
    """Convolution whose every output pixel has filters of its own, followed by a ReLU."""

    out: int
    kernel: int
    stride: int
    padding: int
    bias: bool


@dataclass(frozen=True, slots=True)
class MaxPool:
    """Maximum over windows that do not overlap."""

    kernel: int


@dataclass(frozen=True, slots=True)
class AveragePool:
    """Mean over windows that do not overlap."""

    kernel: int


@dataclass(frozen=True, slots=True)
class GlobalAveragePool:
    """Mean over all pixels of a channel."""


@dataclass(frozen=True, slots=True)
class Residual:
    """Two 3x3 convolutions and an identity or option-A shortcut, followed by a ReLU."""

    out: int
    bias: bool


@dataclass(frozen=True, slots=True)
class NormalisedConv:
    """Convolution with an odd window that keeps the size, normalised over the example, then a ReLU."""

    bias: ClassVar[bool] = False
    out: int
    kernel: int

    @property
    def padding(self) -> int:
        """Zeros on every side."""
        return self.kernel // 2


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Fixed features of the input; only at the front, or right after shifts."""

    table: int
    pool: int


@dataclass(frozen=True, slots=True)
class Shifts:
    """The mean of the logits over shifted copies of the input; only at the front."""

    kind: int


Operation = (
    Linear
    | Conv
    | MaxPool
    | AveragePool
    | GlobalAveragePool
    | Residual
    | LocalConv
    | NormalisedConv
    | Dictionary
    | Shifts
)
_Rectified = Linear | Conv | LocalConv | NormalisedConv  # a ReLU follows, except at the end
_NAMES: dict[type[Operation], str] = {
    Linear: "linear",
    Conv: "conv",
    MaxPool: "max pool",
    AveragePool: "average pool",
    GlobalAveragePool: "global average pool",
    Residual: "residual",
    LocalConv: "local conv",
    NormalisedConv: "normalised conv",
    Dictionary: "dictionary",
    Shifts: "views",
}
_PATCHES = 1 << 24  # numbers in the patches that a local convolution multiplies at a time


@dataclass(frozen=True, slots=True)
class Chain:
    """An architecture without tensors: operations one after the other, the last one linear."""

    input_shape: tuple[int, ...]
    operations: tuple[Operation, ...]

    def __post_init__(self) -> None:
        if not self.operations or not isinstance(self.operations[-1], Linear):
            raise ModelError("a chain ends with a linear operation.")
        places = {Shifts: 0, Dictionary: int(isinstance(self.operations[0], Shifts))}
        for position, operation in enumerate(self.operations):
            if position > places.get(type(operation), position):
                raise ModelError(
                    f"operation {position} ({operation}): shifts come first in a chain, and a dictionary "
                    "comes first or right after shifts."
                )
        self.input_shapes()

    @property
    def classes(self) -> int:
        """Number of outputs."""
        return cast("Linear", self.operations[-1]).out

    @property
    def shift_count(self) -> int:
        """Number of copies of an input that the operations see."""
        first = self.operations[0]
        return shift_count(first.kind) if isinstance(first, Shifts) else 1

    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of the input of each operation, without the batch."""
        shapes, shape = [], self.input_shape
        for position, operation in enumerate(self.operations):
            shapes.append(shape)
            shape = _output_shape(operation, shape, position)
        return tuple(shapes)

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all tensors, in message order."""
        found: dict[str, tuple[int, ...]] = {}
        layers: dict[str, tuple[int, ...]]
        seen = self.input_shapes()
        made = (*seen[1:], (self.classes,))
        for position, (operation, shape) in enumerate(zip(self.operations, seen, strict=True)):
            if isinstance(operation, Linear):
                layers = {"": (operation.out, math.prod(shape))}
            elif isinstance(operation, Conv | NormalisedConv):
                layers = {"": (operation.out, shape[0], operation.kernel, operation.kernel)}
            elif isinstance(operation, LocalConv):
                pixels = math.prod(made[position][1:])
                layers = {"": (pixels, operation.out, shape[0], operation.kernel, operation.kernel)}
            elif isinstance(operation, Residual):
                layers = {".a": (operation.out, shape[0], 3, 3), ".b": (operation.out, operation.out, 3, 3)}
            else:
                continue
            for part, size in layers.items():
                found[f"{position}{part}.weight"] = size
                if operation.bias:
                    found[f"{position}{part}.bias"] = (operation.out,)
        return found

    def described(self) -> list[list[object]]:
        """The operations as plain lists, for a file."""
        return [[_NAMES[type(operation)], *astuple(operation)] for operation in self.operations]

    def build(self, tensors: Mapping[str, Tensor]) -> nn.Sequential:
        """The network with these tensors, in evaluation mode; its state has the names of the message."""
        modules: OrderedDict[str, nn.Module] = OrderedDict()
        last = len(self.operations) - 1
        with torch.device("meta"):
            for position, (operation, shape) in enumerate(
                zip(self.operations, self.input_shapes(), strict=True)
            ):
                if isinstance(operation, Linear) and len(shape) > 1:
                    modules[f"{position}_flatten"] = nn.Flatten()
                modules[str(position)] = _module(operation, shape)
                if isinstance(operation, NormalisedConv):
                    modules[f"{position}_normalise"] = nn.GroupNorm(
                        1, operation.out, eps=EPSILON, affine=False
                    )
                if isinstance(operation, _Rectified) and position < last:
                    modules[f"{position}_relu"] = nn.ReLU()
            if self.shift_count > 1:
                modules[f"{last}_mean"] = MeanOverShifts(self.shift_count)
            network = nn.Sequential(modules)
        network.load_state_dict(dict(tensors), strict=True, assign=True)
        return network.eval()


def _output_shape(operation: Operation, shape: tuple[int, ...], position: int) -> tuple[int, ...]:
    if isinstance(operation, Linear):
        return (operation.out,)
    if len(shape) != 3:
        raise ModelError(f"operation {position} ({operation}) needs an image. Got an input of shape {shape}.")
    channels, *sides = shape
    if isinstance(operation, GlobalAveragePool):
        return (channels, 1, 1)
    if isinstance(operation, Shifts):
        shift_count(operation.kind)
        return shape
    if isinstance(operation, NormalisedConv):
        if operation.kernel % 2 == 0:
            raise ModelError(f"operation {position} ({operation}) needs an odd window.")
        return (operation.out, *sides)
    if isinstance(operation, Residual):
        if operation.out < channels:
            raise ModelError(f"operation {position} ({operation}) cannot follow {channels} channels.")
        shrinks = operation.out != channels
        return (operation.out, *((side + 1) // 2 if shrinks else side for side in sides))
    if isinstance(operation, Conv | LocalConv):
        sides = [(side + 2 * operation.padding - operation.kernel) // operation.stride + 1 for side in sides]
        channels = operation.out
    elif isinstance(operation, Dictionary):
        sides = [side // operation.pool for side in sides]
        channels = dictionary_channels(operation.table, channels)
    else:
        sides = [side // operation.kernel for side in sides]
    if min(sides) < 1:
        raise ModelError(f"operation {position} ({operation}) does not fit an input of shape {shape}.")
    return (channels, *sides)


def _module(operation: Operation, shape: tuple[int, ...]) -> nn.Module:
    if isinstance(operation, Linear):
        return nn.Linear(math.prod(shape), operation.out, bias=operation.bias)
    if isinstance(operation, Conv):
        return nn.Conv2d(
            shape[0],
            operation.out,
            operation.kernel,
            stride=operation.stride,
            padding=operation.padding,
            bias=operation.bias,
        )
    if isinstance(operation, LocalConv):
        return _LocalConv2d(operation, shape)
    if isinstance(operation, NormalisedConv):
        return nn.Conv2d(shape[0], operation.out, operation.kernel, padding=operation.padding, bias=False)
    if isinstance(operation, Dictionary):
        return DictionaryFeatures(operation.table, operation.pool)
    if isinstance(operation, Shifts):
        return StackedShifts(operation.kind)
    if isinstance(operation, MaxPool):
        return nn.MaxPool2d(operation.kernel)
    if isinstance(operation, AveragePool):
        return nn.AvgPool2d(operation.kernel)
    if isinstance(operation, GlobalAveragePool):
        return nn.AdaptiveAvgPool2d(1)
    return _FoldedBlock(shape[0], operation.out, bias=operation.bias)


class _LocalConv2d(nn.Module):
    """A convolution with filters of its own for every output pixel."""

    def __init__(self, operation: LocalConv, shape: tuple[int, ...]) -> None:
        super().__init__()
        out, kernel = operation.out, operation.kernel
        _, *self.sides = _output_shape(operation, shape, 0)
        self.window = {"kernel_size": kernel, "stride": operation.stride, "padding": operation.padding}
        self.weight = nn.Parameter(torch.empty(math.prod(self.sides), out, shape[0], kernel, kernel))
        self.bias = nn.Parameter(torch.empty(out)) if operation.bias else None

    def forward(self, x: Tensor) -> Tensor:
        pixels, out, *taps = self.weight.shape
        filters = self.weight.flatten(2).transpose(1, 2)
        results = []
        for part in torch.split(x, max(_PATCHES // (pixels * math.prod(taps)), 1)):
            patches = functional.unfold(part, **self.window).permute(2, 0, 1)
            results.append((patches @ filters).permute(1, 2, 0).reshape(len(part), out, *self.sides))
        result = torch.cat(results)
        return result if self.bias is None else result + self.bias[:, None, None]


class _FoldedBlock(nn.Module):
    """A residual block whose batch norms are part of its convolutions."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool) -> None:
        super().__init__()
        shrinks = inputs != outputs
        self.a = nn.Conv2d(inputs, outputs, 3, stride=2 if shrinks else 1, padding=1, bias=bias)
        self.b = nn.Conv2d(outputs, outputs, 3, padding=1, bias=bias)
        self.shortcut = Shortcut(outputs - inputs) if shrinks else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.b(functional.relu(self.a(x))) + self.shortcut(x))


def chain_of(model: nn.Module, input_shape: tuple[int, ...]) -> tuple[Chain, dict[str, Tensor]]:
    """The chain that computes the same function, and its tensors; batch norms are folded first.

    Raises:
        UnsupportedLayerError: The network is no chain; the message names the first step that does not fit.

    Example:
        >>> from codebound.nets.zoo import build
        >>> chain, tensors = chain_of(build("mlp:widths=5", input_shape=(1, 8, 8), classes=3), (1, 8, 8))
        >>> chain.operations
        (Linear(out=5, bias=True), Linear(out=3, bias=True))
        >>> list(tensors)
        ['0.weight', '0.bias', '1.weight', '1.bias']
    """
    folded = fold_batch_norms(model).model
    operations: list[Operation] = []
    tensors: dict[str, Tensor] = {}
    open_layer, is_rectified = "", False  # a layer whose ReLU has not come yet; whether values are >= 0
    for name, module in _steps(folded):
        if isinstance(module, nn.Dropout | nn.Identity | MeanOverShifts) or _is_plain_flatten(module):
            continue
        if isinstance(module, nn.GroupNorm) and open_layer:
            operations[-1] = _normalised(name, module, operations[-1])
            continue
        if isinstance(module, nn.ReLU):
            if not open_layer and not is_rectified:
                raise UnsupportedLayerError(
                    f"{name}: a ReLU in front of the first layer is no part of a chain."
                )
            open_layer, is_rectified = "", True
            continue
        if open_layer:
            raise UnsupportedLayerError(
                f"{open_layer}: a layer of a chain is followed by a ReLU, not by {name}."
            )
        operation = _operation(name, module)
        for part, value in module.state_dict().items():
            renamed = part.replace("conv1.", "a.").replace("conv2.", "b.")
            tensors[f"{len(operations)}.{renamed}"] = value.detach().clone()
        operations.append(operation)
        if isinstance(operation, Linear | Conv):
            open_layer, is_rectified = name, False
        elif isinstance(operation, Residual):
            is_rectified = True
    if not open_layer:
        raise UnsupportedLayerError("a chain ends with a linear layer and no ReLU behind it.")
    chain = Chain(tuple(input_shape), tuple(operations))
    for name, shape in chain.tensor_shapes().items():
        if tuple(tensors[name].shape) != shape:
            raise ModelError(
                f"tensor {name} of the chain has shape {tuple(tensors[name].shape)}; on inputs of shape "
                f"{tuple(input_shape)} it needs {shape}. A linear layer of a chain reads the flattened input."
            )
    ordered = {name: tensors[name] for name in chain.tensor_shapes()}
    _check_same_function(folded, chain, ordered)
    return chain, ordered


def localised(chain: Chain, position: int) -> Chain:
    """The chain with the convolution at ``position`` turned into a local one, of the same window.

    Example:
        >>> chain = Chain((1, 4, 4), (Conv(2, 3, 1, 0, bias=False), Linear(3, bias=False)))
        >>> localised(chain, 0).tensor_shapes()["0.weight"]
        (4, 2, 1, 3, 3)
    """
    operation = chain.operations[position]
    if not isinstance(operation, Conv):
        raise ModelError(f"operation {position} of the chain is a {_NAMES[type(operation)]}, not a conv.")
    operations = list(chain.operations)
    operations[position] = LocalConv(*astuple(operation))
    return Chain(chain.input_shape, tuple(operations))


@torch.no_grad()
def _check_same_function(model: nn.Module, chain: Chain, tensors: Mapping[str, Tensor]) -> None:
    """Subclasses, hooks and unread options can make a layer compute something else: two inputs tell."""
    inputs = torch.randn(2, *chain.input_shape, generator=torch.Generator().manual_seed(0))
    ours = chain.build({name: tensor.cpu().double() for name, tensor in tensors.items()})(inputs.double())
    theirs = copy.deepcopy(model).cpu().double()(inputs.double())
    if theirs.shape != ours.shape or not torch.allclose(ours, theirs, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise UnsupportedLayerError(
            f"{type(model).__name__} computes something else than the chain of its layers "
            f"({', '.join(str(row[0]) for row in chain.described())}), so a message cannot describe it."
        )


def _is_plain_flatten(module: nn.Module) -> bool:
    return isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1)


def _steps(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules of a network in forward order, residual blocks of the zoo kept whole."""
    if isinstance(model, nn.Sequential):
        return [
            (f"{name}.{inner}".rstrip("."), step)
            for name, child in model._modules.items()  # named_children would skip what occurs twice
            if child is not None
            for inner, step in (_steps(child) if isinstance(child, nn.Sequential) else [("", child)])
        ]
    steps = steps_of(wrap(model))
    if not steps.is_chain:
        raise UnsupportedLayerError(
            f"{type(model).__name__} is no chain of layers, so a message cannot describe its architecture."
        )
    found: list[tuple[str, nn.Module]] = []
    for step, node in zip(steps.sequence, steps.nodes, strict=True):
        if step.kind.name in ("input", "shape", "flatten"):
            continue
        if node.op == "call_module":
            found.append((step.name, model.get_submodule(step.name)))
        elif re.fullmatch(r"relu(_\d+)?", step.name):
            found.append((step.name, nn.ReLU()))
        else:
            raise UnsupportedLayerError(f"{step.name}: a chain has no such operation.")
    return found


def _operation(name: str, module: nn.Module) -> Operation:
    if isinstance(module, nn.Linear):
        return Linear(module.out_features, module.bias is not None)
    if isinstance(module, ResidualBlock):
        return Residual(module.conv1.out_channels, module.conv1.bias is not None)
    if isinstance(module, _FoldedBlock):
        return Residual(module.a.out_channels, module.a.bias is not None)
    if isinstance(module, DictionaryFeatures):
        return Dictionary(module.table, module.pool)
    if isinstance(module, StackedShifts):
        return Shifts(module.kind)
    if isinstance(module, nn.AdaptiveAvgPool2d) and module.output_size in (1, (1, 1)):
        return GlobalAveragePool()
    if isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
        kernel, stride = _square(module.kernel_size), _square(module.stride)
        plain = _square(module.padding) == 0 and not module.ceil_mode
        if kernel and kernel == stride and plain and getattr(module, "dilation", 1) == 1:
            return MaxPool(kernel) if isinstance(module, nn.MaxPool2d) else AveragePool(kernel)
    if isinstance(module, nn.Conv2d):
        kernel, stride = _square(module.kernel_size), _square(module.stride)
        padding = None if isinstance(module.padding, str) else _square(module.padding)
        plain = module.groups == 1 and module.dilation == (1, 1) and module.padding_mode == "zeros"
        if kernel and stride and padding is not None and plain:
            return Conv(module.out_channels, kernel, stride, padding, module.bias is not None)
    raise UnsupportedLayerError(
        f"{name} ({module}): a chain has linear layers, square convolutions without groups or dilation, "
        "pools without overlap, and residual blocks. Give the network as package.module:factory instead."
    )


def _normalised(name: str, norm: nn.GroupNorm, layer: Operation) -> NormalisedConv:
    """A convolution together with the norm behind it."""
    if isinstance(layer, Conv) and (norm.num_groups, norm.affine, norm.eps) == (1, False, EPSILON):
        found = NormalisedConv(layer.out, layer.kernel)
        if layer == Conv(found.out, found.kernel, 1, found.padding, bias=False) and found.kernel % 2:
            return found
    raise UnsupportedLayerError(
        f"{name} ({norm}): a chain normalises over the whole example, without weights, after a convolution "
        "with an odd window, stride 1, no bias and a padding that keeps the size."
    )


def _square(size: int | tuple[int, ...]) -> int | None:
    """The side of a square window, or None if it is not square."""
    if isinstance(size, int):
        return size
    return size[0] if len(set(size)) == 1 else None
