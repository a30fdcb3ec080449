"""Properties of steps that are not layers, in evaluation mode.

To add a module: one line in ``MODULE_KINDS``. To add a function: one line in ``FUNCTION_KINDS`` that
names the module type it equals. Whatever is not listed is ``OTHER``: evaluated, but nothing is claimed.
"""

import inspect
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from codebound.learn.images import DictionaryFeatures
from codebound_networks.views.layers import LAYER_VIEWS, registered_type


@dataclass(frozen=True, slots=True)
class Kind:
    """Properties of one step that bounds may use."""

    # ``layer``, ``batch norm``, ``norm``, ``activation``, ``pooling``, ``flatten``, ``dropout``,
    # ``identity``, ``index``, ``pad``, ``add``, ``input``, ``shape``, ``fixed_kind`` or ``other``
    name: str
    # an upper bound on the Lipschitz constant from l2 to l2, or None when none is known
    lipschitz: float | None = None
    homogeneous: bool = False  # whether ``f(t x) = t f(x)`` for all ``t >= 0``


def _homogeneous(name: str, lipschitz: float | None = 1.0) -> Kind:
    return Kind(name, lipschitz, homogeneous=True)


def _activation(lipschitz: float, *, homogeneous: bool = False) -> Kind:
    return Kind("activation", lipschitz, homogeneous=homogeneous)


INPUT = _homogeneous("input")
ADD = _homogeneous("add", math.sqrt(2.0))
"""Sum of two branches, as a map of the pair."""
SHAPE = Kind("shape")
"""Sizes of a tensor rather than a tensor."""
FIXED = Kind("fixed")
"""A step of ours without tensors: all is known of what it computes, and nothing is claimed."""
OTHER = Kind("other")


def fixed_kind(module_type: type[nn.Module]) -> Callable[[Any], Kind]:
    """The kind of a step of ours. A module that may compute something else is read like any other."""

    def kind(module: Any) -> Kind:
        changed = any(map(callable, vars(module).values()))
        hooked = module._forward_hooks or module._forward_pre_hooks
        return OTHER if type(module) is not module_type or changed or hooked else FIXED

    return kind


def _leaky(module: Any) -> Kind:
    return _activation(max(1.0, abs(module.negative_slope)), homogeneous=True)


def _prelu(module: nn.PReLU) -> Kind:
    return _activation(max(1.0, float(module.weight.detach().abs().max())), homogeneous=True)


def _batch_norm(module: Any) -> Kind:
    if module.running_var is None:
        return Kind("batch norm")
    scale = (module.running_var.detach().double() + module.eps).rsqrt()
    if module.weight is not None:
        scale = scale * module.weight.detach().double().abs()
    return Kind("batch norm", lipschitz=float(scale.max()))


def _overlap(module: Any, axes: int) -> int:
    """Most windows that one input entry can fall into."""
    kernel = _per_axis(module.kernel_size, axes)
    stride = _per_axis(module.stride or module.kernel_size, axes)
    dilation = _per_axis(getattr(module, "dilation", 1), axes)
    return math.prod(
        min(k, -(-(d * (k - 1) + 1) // s)) for k, s, d in zip(kernel, stride, dilation, strict=True)
    )


def _max_pool(axes: int) -> Callable[[Any], Kind]:
    def kind(module: Any) -> Kind:
        if module.return_indices:
            return OTHER
        return Kind("pooling", math.sqrt(_overlap(module, axes)), homogeneous=True)

    return kind


def _avg_pool(axes: int) -> Callable[[Any], Kind]:
    def kind(module: Any) -> Kind:
        window = math.prod(_per_axis(module.kernel_size, axes))
        divisor = getattr(module, "divisor_override", None)
        padded = any(_per_axis(module.padding, axes)) and not module.count_include_pad
        smallest = abs(divisor) if divisor else 1 if padded or module.ceil_mode else window
        # Schur test: largest row sum times largest column sum; a row averages, so it sums to at most 1
        row_sum = window / abs(divisor) if divisor else 1.0
        return _homogeneous("pooling", math.sqrt(row_sum * _overlap(module, axes) / smallest))

    return kind


def _adaptive_avg_pool(module: Any) -> Kind:
    # with several outputs the windows depend on the size of the input and may overlap
    sizes = (module.output_size,) if isinstance(module.output_size, int) else module.output_size
    return _homogeneous("pooling", 1.0 if all(size == 1 for size in sizes) else None)


def _per_axis(value: int | tuple[int, ...] | list[int], axes: int) -> tuple[int, ...]:
    return (value,) * axes if isinstance(value, int) else tuple(value) * (axes // len(value))


MODULE_KINDS: dict[type[nn.Module], Kind | Callable[[Any], Kind]] = {
    DictionaryFeatures: fixed_kind(DictionaryFeatures),  # one step of a network
    nn.ReLU: _activation(1.0, homogeneous=True),
    nn.LeakyReLU: _leaky,
    nn.PReLU: _prelu,
    nn.ReLU6: _activation(1.0),
    nn.Hardtanh: _activation(1.0),
    nn.Tanh: _activation(1.0),
    nn.Sigmoid: _activation(0.25),
    nn.Softplus: _activation(1.0),
    nn.ELU: lambda module: _activation(max(1.0, abs(module.alpha))),
    nn.GELU: _activation(1.13),
    nn.SiLU: _activation(1.1),
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.SyncBatchNorm: _batch_norm,
    nn.GroupNorm: Kind("norm"),
    nn.LayerNorm: Kind("norm"),
    nn.RMSNorm: Kind("norm"),
    nn.MaxPool1d: _max_pool(1),
    nn.MaxPool2d: _max_pool(2),
    nn.AvgPool1d: _avg_pool(1),
    nn.AvgPool2d: _avg_pool(2),
    nn.AdaptiveAvgPool1d: _adaptive_avg_pool,
    nn.AdaptiveAvgPool2d: _adaptive_avg_pool,
    nn.Flatten: _homogeneous("flatten"),
    nn.Dropout: _homogeneous("dropout"),
    nn.Dropout1d: _homogeneous("dropout"),
    nn.Dropout2d: _homogeneous("dropout"),
    nn.Identity: _homogeneous("identity"),
}

FUNCTION_KINDS: dict[object, type[nn.Module]] = {
    functional.relu: nn.ReLU,
    functional.relu_: nn.ReLU,
    torch.relu: nn.ReLU,
    torch.relu_: nn.ReLU,
    "relu": nn.ReLU,
    "relu_": nn.ReLU,
    functional.leaky_relu: nn.LeakyReLU,
    functional.relu6: nn.ReLU6,
    torch.tanh: nn.Tanh,
    "tanh": nn.Tanh,
    torch.sigmoid: nn.Sigmoid,
    "sigmoid": nn.Sigmoid,
    functional.elu: nn.ELU,
    functional.gelu: nn.GELU,
    functional.silu: nn.SiLU,
    functional.max_pool1d: nn.MaxPool1d,
    functional.max_pool2d: nn.MaxPool2d,
    functional.avg_pool1d: nn.AvgPool1d,
    functional.avg_pool2d: nn.AvgPool2d,
    functional.adaptive_avg_pool1d: nn.AdaptiveAvgPool1d,
    functional.adaptive_avg_pool2d: nn.AdaptiveAvgPool2d,
    torch.flatten: nn.Flatten,
    "flatten": nn.Flatten,
    "view": nn.Flatten,
    "reshape": nn.Flatten,
    functional.dropout: nn.Dropout,
}
"""Functions, and methods by name, with the module type that does the same."""

aten = torch.ops.aten

OPERATION_KINDS: dict[object, type[nn.Module] | Kind] = {
    aten.relu.default: nn.ReLU,
    aten.leaky_relu.default: nn.LeakyReLU,
    aten.hardtanh.default: nn.Hardtanh,
    aten.tanh.default: nn.Tanh,
    aten.sigmoid.default: nn.Sigmoid,
    aten.softplus.default: Kind("activation"),
    aten.elu.default: nn.ELU,
    aten.gelu.default: nn.GELU,
    aten.silu.default: nn.SiLU,
    aten.max_pool1d.default: nn.MaxPool1d,
    aten.max_pool2d.default: nn.MaxPool2d,
    aten.avg_pool1d.default: nn.AvgPool1d,
    aten.avg_pool2d.default: nn.AvgPool2d,
    aten.adaptive_avg_pool1d.default: nn.AdaptiveAvgPool1d,
    aten.adaptive_avg_pool2d.default: nn.AdaptiveAvgPool2d,
    aten.layer_norm.default: Kind("norm"),
    aten.group_norm.default: Kind("norm"),
    aten.rms_norm.default: Kind("norm"),
    aten.instance_norm.default: Kind("norm"),
    **dict.fromkeys(
        (
            aten.reshape.default,
            aten.flatten.using_ints,
            aten.unflatten.int,
            aten.squeeze.default,
            aten.squeeze.dim,
            aten.squeeze.dims,
            aten.unsqueeze.default,
            aten.transpose.int,
            aten.permute.default,
        ),
        _homogeneous("flatten"),
    ),
    aten.select.int: _homogeneous("index"),
    aten.slice.Tensor: _homogeneous("index"),
}
"""The same for operations as torch.export names them."""


def is_recognised(module: nn.Module) -> bool:
    """Return True for a layer or listed kind with its type's own forward pass."""
    return (
        registered_type(module, LAYER_VIEWS) is not None or registered_type(module, MODULE_KINDS) is not None
    )


def kind_of(module: nn.Module) -> Kind:
    """The kind of a module with its settings.

    >>> kind_of(nn.MaxPool2d(3, stride=2))
    Kind(name='pooling', lipschitz=2.0, homogeneous=True)
    """
    if registered_type(module, LAYER_VIEWS) is not None:
        return Kind("layer", homogeneous=getattr(module, "bias", None) is None)
    base = registered_type(module, MODULE_KINDS)
    if base is None:
        return OTHER
    known = MODULE_KINDS[base]
    return known if isinstance(known, Kind) else known(module)


def kind_of_node(node: fx.Node, root: nn.Module) -> Kind:
    """The kind of one step of a traced graph."""
    if node.op == "placeholder":
        return INPUT
    if node.op == "call_module":
        return kind_of(root.get_submodule(str(node.target)))
    if _is_shape(node):
        return SHAPE
    if node.target in (operator.add, operator.iadd, torch.add, "add", "add_"):
        branches = len(node.args) == 2 and all(isinstance(arg, fx.Node) for arg in node.args)
        return ADD if branches and not node.kwargs else OTHER
    if node.target is operator.getitem:
        # an index that is itself computed may pick an entry twice
        return OTHER if len(node.all_input_nodes) > 1 else _homogeneous("index")
    if node.target is functional.pad:
        arguments = arguments_of(node)
        zeros = arguments.get("mode") == "constant" and not arguments.get("value")
        return _homogeneous("pad") if zeros else OTHER
    if node.target in FUNCTION_KINDS:
        return _kind_of_call(node, FUNCTION_KINDS[node.target])
    return _kind_of_operation(node)


def _kind_of_operation(node: fx.Node) -> Kind:
    """The kind of a step that torch.export has named."""
    known = OPERATION_KINDS.get(node.target, OTHER)
    if known != OTHER:
        return known if isinstance(known, Kind) else _kind_of_call(node, known)
    arguments = arguments_of(node)
    if node.target is aten.add.Tensor:
        branches = all(isinstance(value, fx.Node) and value.op != "get_attr" for value in node.args[:2])
        return ADD if branches and arguments["alpha"] == 1 else OTHER
    if node.target is aten.mean.dim and arguments["dim"] and 0 not in arguments["dim"]:
        return _homogeneous("pooling")  # a mean of k entries shortens by the root of k
    if node.target in (aten.pad.default, aten.constant_pad_nd.default):
        zeros = arguments.get("mode", "constant") == "constant" and not arguments.get("value")
        return _homogeneous("pad") if zeros else OTHER
    return OTHER


def _is_shape(node: fx.Node) -> bool:
    if node.target in (operator.getitem, operator.mul, operator.floordiv):
        read = node.all_input_nodes
        return bool(read) and all(map(_is_shape, read))
    if node.target in ("size", "dim", aten.sym_size.int):
        return True
    return node.target is getattr and node.args[1] in ("shape", "ndim", "dtype")


def _kind_of_call(node: fx.Node, module_type: type[nn.Module]) -> Kind:
    known = MODULE_KINDS[module_type]
    if module_type is nn.Dropout:
        return OTHER if arguments_of(node).get("training", True) else _homogeneous("dropout")
    if isinstance(known, Kind):
        return known
    if len(node.all_input_nodes) > 1:
        return OTHER  # a setting such as the window is itself computed
    arguments = arguments_of(node)
    settings = {
        name: arguments[name] for name in inspect.signature(module_type).parameters if name in arguments
    }
    return known(module_type(**settings))


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """The arguments of a call by name, defaults included."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        given = dict(zip((each.name for each in schema.arguments), node.args, strict=False)) | node.kwargs
        defaults = (each for each in schema.arguments if each.has_default_value())
        return {each.name: each.default_value for each in defaults} | given
    try:
        normalised = node.normalized_arguments(nn.Module(), normalize_to_only_use_kwargs=True)
    except RuntimeError:  # of several functions of one name, torch cannot tell which
        return {}
    return {} if normalised is None else dict(normalised.kwargs)
