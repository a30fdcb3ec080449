"""Tangents through convolutions, ReLUs and sums: one pass of the linear parts, step by step.

Reverse mode applied twice gives the same numbers, but its second pass computes the gradients of all filters
too, which nobody asked for: half of its time.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from codebound_networks.views.zoo import Shortcut

_RELUS = (torch.relu, functional.relu, "relu")
_SUMS = (torch.add, operator.add, operator.iadd, "add", "add_")
_OF_CONVOLUTIONS = ("weight", "stride", "padding", "dilation", "groups")  # all but the bias
_MOVES = (nn.Identity, Shortcut)  # copy numbers, or leave them out


def tangent_map(module: fx.GraphModule, x: Tensor) -> Callable[[Tensor], Tensor] | None:
    """The derivative of a network at a batch x, or None where it has other steps than those known here."""
    rules: dict[fx.Node, Callable[..., Tensor]] = {}
    relus: list[fx.Node] = []
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        layer = module.get_submodule(str(node.target)) if node.op == "call_module" else None
        if node.kwargs or (layer is not None and (layer._forward_hooks or layer._forward_pre_hooks)):
            return None
        is_function = node.op in ("call_function", "call_method")
        # a subclass may compute something else
        if type(layer) is nn.Conv2d and layer.padding_mode == "zeros":
            linear = {name: getattr(layer, name) for name in _OF_CONVOLUTIONS}
            rules[node] = partial(functional.conv2d, **linear)
        elif type(layer) in _MOVES and layer is not None:
            rules[node] = layer
        elif type(layer) is nn.ReLU or (is_function and node.target in _RELUS):
            relus.append(node)
        elif is_function and node.target in _SUMS and all(isinstance(each, fx.Node) for each in node.args):
            rules[node] = operator.add
        else:
            return None
    outputs = _Kept(module, relus).of(x)

    @torch.no_grad()
    def push(tangent: Tensor) -> Tensor:
        found: dict[fx.Node, Tensor] = {}
        for node in module.graph.nodes:
            given = [found[each] for each in node.args if isinstance(each, fx.Node)]
            if node.op == "placeholder":
                found[node] = tangent
            elif node.op == "output":
                break
            elif node in outputs:
                found[node] = torch.ops.aten.threshold_backward(given[0], outputs[node], 0)
            else:
                found[node] = rules[node](*given)
        return given[0]

    return push


class _Kept(fx.Interpreter):
    """A forward pass that keeps the outputs of some steps."""

    def __init__(self, module: fx.GraphModule, wanted: list[fx.Node]) -> None:
        super().__init__(module)
        self._wanted = frozenset(wanted)
        self._found: dict[fx.Node, Tensor] = {}

    def of(self, x: Tensor) -> dict[fx.Node, Tensor]:
        """The outputs at a batch x, which is left alone."""
        self.run(x.clone())
        return self._found

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n in self._wanted:
            self._found[n] = result.clone()  # a step after it may work in place
        return result
