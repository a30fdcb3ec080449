"""A plain graph without detours: products with a stored matrix are layers, work without effect goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

aten = torch.ops.aten

_PRODUCTS = (aten.addmm.default, aten.mm.default, aten.matmul.default)
_TURNED = (aten.t.default, aten.transpose.int, aten.permute.default)


def simplify(graph: fx.Graph, tensors: dict[str, Tensor]) -> list[str]:
    """Changes a plain graph in place. A weight that inputs are multiplied with from the left is turned.

    Returns what was done to tensors, in sentences.
    """
    turned = _linear_layers(graph, tensors)
    for node in [node for node in graph.nodes if node.op == "call_function"]:
        same = next((found for rule in _RULES if (found := rule(node)) is not None), None)
        if same is not None:
            node.replace_all_uses_with(same)
            graph.erase_node(node)
    if not turned:
        return []
    which = turned[0] if len(turned) == 1 else f"{turned[0]} and {len(turned) - 1} more"
    return [f"Matrices that inputs are multiplied with are those of linear layers, transposed ({which})."]


def _linear_layers(graph: fx.Graph, tensors: dict[str, Tensor]) -> list[str]:
    """Products with a stored matrix as linear layers. Returns the names of those that were transposed."""
    products = {node: weight for node in graph.nodes if (weight := _weight_of(node, tensors)) is not None}
    readers = {name: [u for n in graph.nodes if n.target == name for u in n.users] for name in tensors}
    turned: list[str] = []
    for node, weight in products.items():
        name = str(weight.target)
        if node.args[-1] is weight:
            if not all(user in products and user.args[-1].target == name for user in readers[name]):
                continue  # something else reads it as it is
            if name not in turned:
                old = tensors[name]
                tensors[name] = nn.Parameter(old.detach().t().contiguous(), old.requires_grad)
                turned.append(name)
        with graph.inserting_before(node):
            read = graph.create_node("get_attr", name)
            read.meta["val"] = tensors[name]
            made = graph.call_function(aten.linear.default, (node.args[-2], read, *node.args[:-2]))
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    return turned


def _weight_of(node: fx.Node, tensors: Mapping[str, Tensor]) -> fx.Node | None:
    """The stored matrix that an operation multiplies its input with, as it is or transposed."""
    if node.target not in _PRODUCTS or node.kwargs:
        return None
    *bias, x, matrix = node.args
    value = _value(matrix)
    if not isinstance(matrix, fx.Node) or value is None or value.dim() != 2 or x.op == "get_attr":  # type: ignore[union-attr]
        return None
    if any(_sizes(each) != _sizes(matrix)[1:] for each in bias):
        return None
    if matrix.op == "get_attr":
        return matrix
    weight: Any = matrix.args[0] if matrix.target in _TURNED else None
    if weight is None or weight.op != "get_attr":
        return None
    stored = tensors[str(weight.target)].detach()
    is_turned = torch.equal(matrix.target(stored, *matrix.args[1:]), stored.t())  # type: ignore[operator]
    return weight if is_turned else None


def _value(node: Any) -> Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, Tensor) else None


def _is_float(node: Any) -> bool:
    value = _value(node)
    return value is not None and value.is_floating_point()


def _sizes(node: Any) -> list[str]:
    """The sizes of a result as text: comparing those that vary would fix them."""
    value = _value(node)
    return [] if value is None else [str(size) for size in value.shape]


def _without_effect(node: fx.Node) -> fx.Node | None:
    """Return the operand that an operation returns unchanged, or None."""
    source = node.args[0] if node.args else None
    ours, theirs = _value(node), _value(source)
    if ours is None or theirs is None or not isinstance(source, fx.Node):
        return None
    if node.target is aten.to.dtype:
        is_alike = ours.is_floating_point() and theirs.is_floating_point()
        return source if is_alike and not _is_of_no_precision(source) else None
    if ours.dtype != theirs.dtype or _sizes(node) != _sizes(source):
        return None
    neutral = {aten.add.Tensor: 0, aten.sub.Tensor: 0, aten.mul.Tensor: 1, aten.div.Tensor: 1}
    if node.target in neutral and not isinstance(node.args[1], fx.Node):
        return source if node.args[1] == neutral[node.target] else None
    return source if node.target in (aten.reshape.default, aten.expand.default) else None


def _is_of_no_precision(node: fx.Node) -> bool:
    """Return True if an operation makes floating-point numbers of none.

    Then nothing but a cast says in which precision.
    """
    return node.op == "call_function" and not any(map(_is_float, node.all_input_nodes))


def _merge_reshapes(node: fx.Node) -> fx.Node | None:
    """A reshape of a reshape is one. Linear layers do not need any, since they act on the last axis."""
    source: Any = node.args[0] if node.args else None
    if node.target is not aten.reshape.default or not isinstance(source, fx.Node):
        return None
    if source.target is aten.reshape.default and not any(u.target is aten.linear.default for u in node.users):
        node.args = (source.args[0], *node.args[1:])
        return _without_effect(node)
    if source.target is not aten.linear.default or len(source.users) > 1:
        return None
    flat: Any = source.args[0]
    if flat.target is not aten.reshape.default:
        return None
    x = flat.args[0]
    if _sizes(x)[-1:] != _sizes(flat)[-1:] or [*_sizes(x)[:-1], *_sizes(source)[-1:]] != _sizes(node):
        return None
    source.args = (x, *source.args[1:])
    source.meta = dict(node.meta)
    return source


def _absorb_biases(node: fx.Node) -> fx.Node | None:
    """A linear layer and a vector that is added to what it makes are one operation."""
    if node.target is not aten.add.Tensor or node.kwargs:
        return None
    for made, bias in (node.args, node.args[::-1]):
        if (
            isinstance(made, fx.Node)
            and isinstance(bias, fx.Node)
            and made.target is aten.linear.default
            and (len(made.args), len(made.users)) == (2, 1)
            and bias.op == "get_attr"
            and _sizes(bias) == _sizes(made.args[1])[:1]
        ):
            with node.graph.inserting_before(node):
                joined = node.graph.call_function(aten.linear.default, (*made.args, bias))
            joined.meta = dict(node.meta)
            return joined
    return None


_RULES: tuple[Callable[[fx.Node], fx.Node | None], ...] = (_without_effect, _merge_reshapes, _absorb_biases)
