"""A plain network as a module with layers: linear maps and batch norms can be viewed again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn

from codebound_networks.reading.export import mark_plain, plain_network, put
from codebound_networks.views.kinds import arguments_of
from codebound_networks.views.rebuild import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codebound_networks.reading.export import Plain

aten = torch.ops.aten


def plain_layers(model: nn.Module, example: Tensor) -> fx.GraphModule:
    """A network as operations of torch with layers, on such inputs: itself where it is plain already."""
    return model if is_plain(model) else with_layers(plain_network(model, example))


def with_layers(plain: Plain) -> fx.GraphModule:
    """The same network, in evaluation mode, with a module for each linear map and batch norm of it.

    A layer has the name of the module that had its weight; a weight that another layer has too is read by its
    first name. Other operations stay as they are.

    >>> from codebound_networks.reading.export import plain_network
    >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    >>> dict(with_layers(plain_network(net, torch.zeros(1, 3))).named_children())
    {'0': Linear(in_features=3, out_features=2, bias=True)}
    """
    copied: dict[fx.Node, fx.Node] = {}
    graph = fx.Graph()
    graph.output(graph.graph_copy(plain.graph, copied))
    for old, new in copied.items():
        new.meta = dict(old.meta)
    found = _Layers(dict(plain.tensors))
    for node in list(graph.nodes):
        if node.op == "call_function" and (name := found.layer_of(node)) is not None:
            with graph.inserting_before(node):
                call = graph.call_module(name, (node.args[0],))
            call.meta = dict(node.meta)
            node.replace_all_uses_with(call)
            graph.erase_node(node)
    found.rename_others()
    for node in reversed(list(graph.nodes)):
        if node.op == "get_attr" and not node.users:
            graph.erase_node(node)
        elif node.op == "get_attr":
            node.target = found.renamed.get(str(node.target), str(node.target))
    read = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    root = nn.Module()
    for before, tensor in plain.tensors.items():
        name = found.renamed.get(before, before)
        layer = name.rpartition(".")[0]
        if layer in found.layers:
            put(root, layer, found.layers[layer])
        if name in read and name not in found.filled:
            put(root, name, tensor)
    return mark_plain(fx.GraphModule(root, graph))


@dataclass
class _Layers:
    """The layers that were found, and the names that their tensors got."""

    tensors: dict[str, Tensor]
    layers: dict[str, nn.Module] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    read: dict[str, tuple[str | None, ...]] = field(default_factory=dict)

    def layer_of(self, node: fx.Node) -> str | None:
        """The name of the layer that an operation applies. None where it is no layer of its own."""
        make = _MAKERS.get(node.target)
        names = None if make is None else _tensor_names(node)
        if make is None or names is None or names[0] is None:
            return None
        known = next((layer for layer, own in self.read.items() if own == names), None)
        if known is not None:
            return known
        if any(name in self.renamed for name in names if name is not None):
            return None
        layer = make([None if name is None else self.tensors[name] for name in names], node)
        if layer is None:
            return None
        called = self._name(names[0])
        self.layers[called], self.read[called] = layer, names
        parts = ("weight", "bias", "running_mean", "running_var")
        self.renamed |= {name: f"{called}.{part}" for name, part in zip(names, parts, strict=False) if name}
        self.filled |= {f"{called}.{part}" for name, part in zip(names, parts, strict=False) if name}
        return called

    def rename_others(self) -> None:
        """Other tensors of a layer, such as a bias that is added behind it, do not take its places."""
        for name in self.tensors:
            prefix, _, last = name.rpartition(".")
            if name not in self.renamed and prefix in self.layers and hasattr(self.layers[prefix], last):
                self.renamed[name] = f"{name}_"

    def _name(self, weight: str) -> str:
        """The name of a weight without its last word, or a new one where there is a layer of that name."""
        prefix, _, last = weight.rpartition(".")
        stem = last.replace("weight", "").strip("_")
        name = ".".join(part for part in (prefix, stem) if part) or "layer"
        while name in self.layers:
            name += "_"
        return name


def _tensor_names(node: fx.Node) -> tuple[str | None, ...] | None:
    """The tensors that an operation reads behind its input. None where one of them is computed."""
    found: list[str | None] = []
    for value in node.args[1 : 1 + _MOST_TENSORS.get(node.target, 2)]:
        if isinstance(value, fx.Node) and value.op == "get_attr":
            found.append(str(value.target))
        elif value is None:
            found.append(None)
        else:
            return None
    return tuple(found)


def _fill(layer: Any, weight: Tensor | None, bias: Tensor | None) -> nn.Module:
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and not isinstance(tensor, nn.Parameter):
            tensor = nn.Parameter(tensor, requires_grad=False)
        setattr(layer, name, tensor)
    return layer  # type: ignore[no-any-return]


def _linear(tensors: list[Tensor | None], node: fx.Node) -> nn.Module | None:
    weight, bias = (*tensors, None)[:2]
    assert weight is not None  # it has a name
    with torch.device("meta"):
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    return _fill(layer, weight, bias)


def _convolution(kind: type[nn.Module]) -> Callable[[list[Tensor | None], fx.Node], nn.Module | None]:
    def make(tensors: list[Tensor | None], node: fx.Node) -> nn.Module | None:
        weight, bias = (*tensors, None)[:2]
        assert weight is not None  # it has a name
        arguments = arguments_of(node)
        axes, groups = weight.dim() - 2, arguments.get("groups", 1)
        sizes = (weight.shape[1] * groups, weight.shape[0])
        if issubclass(kind, nn.modules.conv._ConvTransposeNd):
            sizes = (weight.shape[0], weight.shape[1] * groups)
        settings = {
            key: _per_axis(arguments[key], axes)
            for key in ("stride", "padding", "dilation", "output_padding")
            if key in arguments
        }
        with torch.device("meta"):
            layer = kind(*sizes, tuple(weight.shape[2:]), groups=groups, bias=bias is not None, **settings)
        return _fill(layer, weight, bias)

    return make


def _per_axis(value: Any, axes: int) -> Any:
    if isinstance(value, str):
        return value
    return tuple(value) * (axes // len(value)) if isinstance(value, list | tuple) else (value,) * axes


def _batch_norm(tensors: list[Tensor | None], node: fx.Node) -> nn.Module | None:
    weight, bias, mean, variance = tensors
    arguments = arguments_of(node)
    if mean is None or variance is None or arguments["training"]:
        return None
    shape = node.meta["val"].shape
    kind = nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d
    with torch.device("meta"):
        norm: Any = kind(len(mean), eps=arguments["eps"], affine=weight is not None)
    norm.register_buffer("running_mean", mean.detach())
    norm.register_buffer("running_var", variance.detach())
    norm.num_batches_tracked = None
    return _fill(norm, weight, bias)


_MAKERS: Mapping[object, Callable[[list[Tensor | None], fx.Node], nn.Module | None]] = {
    aten.linear.default: _linear,
    aten.conv1d.default: _convolution(nn.Conv1d),
    aten.conv1d.padding: _convolution(nn.Conv1d),
    aten.conv2d.default: _convolution(nn.Conv2d),
    aten.conv2d.padding: _convolution(nn.Conv2d),
    aten.conv_transpose1d.default: _convolution(nn.ConvTranspose1d),
    aten.conv_transpose2d.input: _convolution(nn.ConvTranspose2d),
    aten.batch_norm.default: _batch_norm,
}
_MOST_TENSORS: Mapping[object, int] = {aten.batch_norm.default: 4}
