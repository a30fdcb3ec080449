"""Plain graphs written by hand: operations of torch, the tensors that they read, and what each computes."""

import torch
from torch import fx, nn

from codebound_networks.reading.export import put


class _Noting(fx.Interpreter):
    """Keeps the value of every node beside it."""

    def run_node(self, n):
        n.meta["val"] = super().run_node(n)
        return n.meta["val"]


def held(tensors):
    """A module that has these tensors, and does nothing."""
    root = nn.Module()
    for name, tensor in tensors.items():
        put(root, name, nn.Parameter(tensor, requires_grad=False))
    return root


def graph_of(write, x, tensors):
    """The graph that ``write(graph, x, read)`` adds its operations to; ``read(name)`` is a tensor."""
    graph = fx.Graph()
    graph.output(write(graph, graph.placeholder("x"), lambda name: graph.create_node("get_attr", name)))
    _Noting(fx.GraphModule(held(tensors), graph)).run(x)
    graph.owning_module = None  # tensors may be others soon
    return graph


def module_of(write, x, **layers: nn.Module):
    """The same with layers, which ``write`` calls by their names."""
    root, graph = nn.Module(), fx.Graph()
    for name, layer in layers.items():
        put(root, name, layer)
    graph.output(write(graph, graph.placeholder("x")))
    module = fx.GraphModule(root, graph)
    with torch.no_grad():
        _Noting(module).run(x)
    return module


def computed(graph, x, tensors):
    """What a graph makes of inputs."""
    with torch.no_grad():
        return fx.Interpreter(held(tensors), graph=graph).run(x)


def operations(graph):
    """Names of the operations, in their order."""
    return [str(node.target).split(".")[1] for node in graph.nodes if node.op == "call_function"]
