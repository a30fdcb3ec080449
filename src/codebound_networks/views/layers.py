"""A linear or convolutional layer as a matrix of parameters and as the linear map it applies.

To add a layer type: write one final subclass of ``AbstractLayerView`` below and decorate it with
``@layer_view(nn.ThatType)``. Nothing else has to change; the contract tests cover what is registered.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import ParametrizationList

from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound.run.references import implements

Shape = tuple[int, ...]

DENSE_LIMIT = 2**26
"""Most entries that ``LinearOperator.dense`` will build (512 MiB in float64)."""

_MAKE_PERMANENT = (
    "make it permanent first, with torch.nn.utils.prune.remove, torch.nn.utils.remove_weight_norm, "
    "torch.nn.utils.remove_spectral_norm or torch.nn.utils.parametrize.remove_parametrizations"
)


@dataclass(frozen=True, eq=False)
class LinearOperator:
    """A linear map between inputs and outputs of fixed shapes, applied to batches."""

    in_shape: Shape  # shape of one input, without the batch axis
    out_shape: Shape  # shape of one output
    # the map itself, from ``(batch, *in_shape)`` to ``(batch, *out_shape)``
    function: Callable[[Tensor], Tensor] = field(repr=False)
    like: Tensor = field(repr=False)  # A tensor whose dtype and device the map works in

    def apply(self, x: Tensor) -> Tensor:
        """``A x`` for each ``x`` of the batch."""
        self._check(x, self.in_shape, "an input")
        return self.function(x)

    def adjoint(self, y: Tensor) -> Tensor:
        """``A* y`` for each ``y`` of the batch, so that ``<A x, y> = <x, A* y>``.

        Reverse-mode differentiation of a linear map is its adjoint: one rule for every layer type.
        """
        self._check(y, self.out_shape, "an output")
        with torch.enable_grad():
            x = self.like.new_zeros((len(y), *self.in_shape)).requires_grad_()
            (adjoint,) = torch.autograd.grad(self.function(x), x, y)
        return adjoint

    def dense(self) -> Tensor:
        """The ``(outputs, inputs)`` matrix, column by column; refused above ``DENSE_LIMIT`` entries."""
        rows, columns = math.prod(self.out_shape), math.prod(self.in_shape)
        if rows * columns > DENSE_LIMIT:
            raise UsageError(
                f"a dense {rows} x {columns} matrix would have {rows * columns:,} entries "
                f"(limit {DENSE_LIMIT:,}). Use apply and adjoint instead."
            )
        chunk = max(1, DENSE_LIMIT // (8 * max(rows, columns)))
        images = []
        for start in range(0, columns, chunk):
            picked = torch.arange(start, min(start + chunk, columns), device=self.like.device)
            basis = functional.one_hot(picked, columns).to(self.like.dtype)
            images.append(self.function(basis.view(-1, *self.in_shape)).flatten(1))
        return torch.cat(images).T

    def _check(self, batch: Tensor, shape: Shape, what: str) -> None:
        if tuple(batch.shape[1:]) != shape or batch.dim() == 0:
            raise UsageError(
                f"{what} batch of this operator has shape (batch, {', '.join(map(str, shape))}). "
                f"Got {tuple(batch.shape)}."
            )


@dataclass(frozen=True, eq=False)
class AbstractLayerView(ABC):
    """A layer of somebody's network, read and never written."""

    name: str  # qualified name, as in ``model.named_modules()``
    # the parameter tensor as stored: detached, sharing memory with the network
    weight: Tensor = field(repr=False)
    bias: Tensor | None = field(repr=False)  # the bias as stored, or None

    @classmethod
    @abstractmethod
    def of(cls, name: str, module: Any) -> "AbstractLayerView":
        """The view of a module of the registered type."""

    @property
    def matrix(self) -> Tensor:
        """The parameters as an ``(out, in)`` matrix, one row per output unit or channel.

        For a convolution a row is one filter and acts on one input patch. In a grouped convolution
        a row sees the input channels of its own group only, so ``in`` is channels / groups * patch size.
        """
        return self.weight.flatten(1)

    def from_matrix(self, matrix: Tensor) -> Tensor:
        """The exact inverse of ``matrix``: entries back in the stored shape."""
        if matrix.shape != self.matrix.shape:
            raise UsageError(
                f"layer {self.name}: its matrix has shape {tuple(self.matrix.shape)}. "
                f"Got {tuple(matrix.shape)}."
            )
        return matrix.reshape(self.weight.shape)

    @abstractmethod
    def operator(self, input_shape: Shape) -> LinearOperator:
        """The linear map this layer applies to one input of that shape (no batch axis, no bias)."""

    def _refuse_input(self, input_shape: Shape, expected: str) -> UsageError:
        return UsageError(f"layer {self.name} takes inputs of shape {expected}. Got {tuple(input_shape)}.")


View = TypeVar("View", bound=AbstractLayerView)
LAYER_VIEWS: dict[type[nn.Module], type[AbstractLayerView]] = {}


def layer_view(module_type: type[nn.Module]) -> Callable[[type[View]], type[View]]:
    """Registers a view for a module type. Subclasses that keep its ``forward`` are covered too."""

    def register(view: type[View]) -> type[View]:
        LAYER_VIEWS[module_type] = view
        return view

    return register


@layer_view(nn.Linear)
class LinearView(AbstractLayerView):
    """``nn.Linear``: acts on the last axis of inputs of shape ``(..., in)``."""

    @classmethod
    def of(cls, name: str, module: Any) -> "LinearView":
        """The view of an ``nn.Linear``."""
        return cls(name, *_parameters_of(module))

    def operator(self, input_shape: Shape) -> LinearOperator:
        """``x -> x W^T``."""
        units, features = self.weight.shape
        if not input_shape or input_shape[-1] != features:
            raise self._refuse_input(input_shape, f"(..., {features})")
        return LinearOperator(
            in_shape=tuple(input_shape),
            out_shape=(*input_shape[:-1], units),
            function=lambda x: functional.linear(x, self.weight),
            like=self.weight,
        )


@dataclass(frozen=True, eq=False)
class AbstractConvView(AbstractLayerView):
    """View of a convolution over any number of axes. Tuples have one entry per axis."""

    stride: Shape  # step between patches
    padding: tuple[tuple[int, int], ...]  # entries added before and after, whatever way the module spells it
    dilation: Shape  # distance between the entries of a patch
    groups: int  # number of groups of channels
    padding_mode: str  # ``zeros``, ``circular``, ``reflect`` or ``replicate``; all are linear in the input

    convolve: ClassVar[Callable[..., Tensor]]

    @classmethod
    def of(cls, name: str, module: Any) -> "AbstractConvView":
        """The view of an ``nn.Conv1d`` or ``nn.Conv2d``."""
        return cls(
            name,
            *_parameters_of(module),
            stride=module.stride,
            padding=_padding(module),
            dilation=module.dilation,
            groups=module.groups,
            padding_mode=module.padding_mode,
        )

    @property
    def kernel(self) -> Shape:
        """Size of a patch along each axis."""
        return tuple(self.weight.shape[2:])

    def operator(self, input_shape: Shape) -> LinearOperator:
        """The convolution without its bias."""
        channels = self.weight.shape[1] * self.groups
        axes = len(self.kernel)
        if len(input_shape) != axes + 1 or input_shape[0] != channels:
            raise self._refuse_input(input_shape, f"({channels}, {', '.join(['size'] * axes)})")
        out_sizes = tuple(
            conv_output_size(size, kernel=k, stride=s, padding=p, dilation=d)
            for size, k, s, p, d in zip(
                input_shape[1:], self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )
        # torch reflects at most size - 1 entries and wraps around at most once
        reach = {"reflect": -1, "circular": 0}.get(self.padding_mode, math.inf)
        fits = all(
            max(pads) <= size + reach for size, pads in zip(input_shape[1:], self.padding, strict=True)
        )
        if min(out_sizes) < 1 or not fits:
            raise self._refuse_input(input_shape, "at least one patch (and its padding) in size")
        return LinearOperator(
            in_shape=tuple(input_shape),
            out_shape=(self.weight.shape[0], *out_sizes),
            function=self._convolve,
            like=self.weight,
        )

    def _convolve(self, x: Tensor) -> Tensor:
        padding: Shape = tuple(before for before, _ in self.padding)
        if self.padding_mode != "zeros" or any(before != after for before, after in self.padding):
            ends = [end for pair in reversed(self.padding) for end in pair]
            x = functional.pad(
                x, ends, mode="constant" if self.padding_mode == "zeros" else self.padding_mode
            )
            padding = (0,) * len(self.padding)
        return self.convolve(x, self.weight, None, self.stride, padding, self.dilation, self.groups)


@layer_view(nn.Conv1d)
class Conv1dView(AbstractConvView):
    """``nn.Conv1d`` in every configuration."""

    convolve = staticmethod(functional.conv1d)


@layer_view(nn.Conv2d)
class Conv2dView(AbstractConvView):
    """``nn.Conv2d`` in every configuration."""

    convolve = staticmethod(functional.conv2d)


@implements("A-E21", kind="algorithm")
def conv_output_size(
    size: int, *, kernel: int, stride: int = 1, padding: tuple[int, int] = (0, 0), dilation: int = 1
) -> int:
    """Patches along one axis: ``floor((n - kappa) / s) + 1`` for the padded, dilated axis.

    Reference.  A, section 5 and appendix C, print the size without the ``+ 1``; below 1 means none fit.

    >>> conv_output_size(32, kernel=3, stride=2, padding=(1, 1))
    16
    """
    return (size + sum(padding) - dilation * (kernel - 1) - 1) // stride + 1


def view_of(name: str, module: nn.Module) -> AbstractLayerView:
    """The view of a module, or a refusal that names it and says what to do.

    >>> view_of("fc", nn.Linear(3, 2)).matrix.shape
    torch.Size([2, 3])
    """
    base, reason = registered_type(module, LAYER_VIEWS), refusal_of(module)
    if base is None or reason is not None:
        where = f"layer {name}" if name else "the model itself"
        raise UnsupportedLayerError(f"{where} ({type(module).__name__}): {reason}.")
    return LAYER_VIEWS[base].of(name, module)


def refusal_of(module: nn.Module) -> str | None:
    """Return the reason why a module has no view, and what to do. None when it has one."""
    if isinstance(module, ParametrizationList):
        return f"it belongs to a reparametrised layer; {_MAKE_PERMANENT}"
    if registered_type(module, LAYER_VIEWS) is None:
        derived = [known.__name__ for known in LAYER_VIEWS if isinstance(module, known)]
        if derived:
            return f"it overrides the forward pass of {derived[0]}, so its weight is not its linear map"
        known = ", ".join(sorted(known.__name__ for known in LAYER_VIEWS))
        return f"{type(module).__name__} has no registered view (registered: {known})"
    for part in ("weight", "bias"):
        if part not in module._parameters:
            # weight_norm, spectral_norm, torch.nn.utils.prune and parametrizations all leave it out
            return f"its {part} is computed from other tensors (masked or reparametrised); {_MAKE_PERMANENT}"
    weight = module._parameters["weight"]
    if weight is not None and is_lazy(weight):
        return "it is lazy and has no weight yet; run the network once on an input"
    if weight is None or not weight.is_floating_point():
        found = None if weight is None else weight.dtype
        return f"its weight is {found}; only real floating point is supported"
    return None


def registered_type(module: nn.Module, registry: dict[type[nn.Module], Any]) -> type[nn.Module] | None:
    """The registered type whose forward pass ``module`` runs, if any."""
    for base in type(module).__mro__:
        if base in registry:
            return base if type(module).forward is base.forward else None
    return None


def _parameters_of(module: Any) -> tuple[Tensor, Tensor | None]:
    return module.weight.detach(), None if module.bias is None else module.bias.detach()


def _padding(module: Any) -> tuple[tuple[int, int], ...]:
    if module.padding == "valid":
        return ((0, 0),) * len(module.kernel_size)
    if module.padding == "same":
        totals = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    return tuple((size, size) for size in module.padding)
