"""Folding of constants: weight norms, masks, positions.

Whatever follows from the tensors of a plain network alone is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VIEWS = {
    *("t", "transpose", "permute", "view", "reshape", "_unsafe_view", "expand", "unsqueeze", "squeeze"),
    *("select", "slice", "flatten", "unflatten", "split", "split_with_sizes", "chunk", "unbind"),
}


def fold_constants(graph: fx.Graph, tensors: dict[str, Tensor]) -> list[str]:
    """Computes once what follows from tensors alone, where the result is no larger than they are.

    Returns what was done, in sentences.
    """
    notes = []
    found: dict[fx.Node, Tensor] = {}
    free: set[fx.Node] = set()  # made of numbers of the code
    for node in list(graph.nodes):
        if node.op == "get_attr":
            found[node] = tensors[str(node.target)]
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        read = [used for used in node.all_input_nodes if used.target is not getattr]
        if not all(used in found for used in read) or torch.Tag.nondeterministic_seeded in node.target.tags:
            continue
        with torch.no_grad():
            value = _compute(node, found)
        if not isinstance(value, Tensor):
            continue
        found[node] = value
        if all(used in free for used in read):
            free.add(node)
    for node, value in list(found.items()):
        if node.op == "get_attr" or node in free or not value.is_floating_point():
            continue
        sources = _sources(node)
        if _is_view(node) or all(user in found for user in node.users):
            continue
        if not value.isfinite().all() or value.numel() > sum(tensors[name].numel() for name in sources):
            continue  # a mask or a table: it is made anew
        name = _folded_name(node, sources, tensors)
        tensors[name] = value.detach().clone()
        with graph.inserting_before(node):
            kept = graph.create_node("get_attr", name)
        kept.meta["val"] = value
        node.replace_all_uses_with(kept)
        notes.append(
            f"{name} follows from {' and '.join(sources)}: it is computed once, and is a tensor of its own."
        )
    return notes


def _is_view(node: fx.Node) -> bool:
    """Return True if a node is a view of a tensor, however often."""
    while node.op == "call_function" and str(node.target).split(".")[1] in _VIEWS:
        (node, *_) = node.all_input_nodes
    return node.op == "get_attr"


def _compute(node: fx.Node, found: Mapping[fx.Node, Tensor]) -> Any:
    dtype = next((value.dtype for value in found.values() if value.is_floating_point()), torch.float32)

    def given(value: Any) -> Any:
        if not isinstance(value, fx.Node):
            return value
        return dtype if value.target is getattr else found[value]

    args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), given)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _sources(node: fx.Node) -> list[str]:
    """Names of the tensors that a node follows from."""
    names, todo = [], [node]
    while todo:
        current = todo.pop()
        if current.op == "get_attr":
            names.append(str(current.target))
        todo += current.all_input_nodes
    return sorted(set(names))


def _folded_name(node: fx.Node, sources: Sequence[str], tensors: Mapping[str, Tensor]) -> str:
    """A name beside those that it replaces: weights that are computed from others stay weights."""
    first = sources[0]
    prefix, _, rest = first.partition("parametrizations.")
    if rest:
        name = prefix + rest.split(".")[0]
    elif first.endswith(("_orig", "_mask", "_g", "_v", "_u")):
        name = first.rpartition("_")[0]
    else:
        name = ".".join([*first.split(".")[:-1], node.name])
    while name in tensors:
        name += "_"
    return name
