"""The forward pass as a list of steps, cut where a single activation determines everything after it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from torch import Tensor, fx

from codebound.errors import ModelError, UsageError
from codebound.nets.kinds import OTHER, SHAPE, Kind, kind_of_node
from codebound.nets.layers import AbstractLayerView, refusal_of, view_of
from codebound.nets.walk import Network


@dataclass(frozen=True, eq=False)
class Step:
    """One step of the forward pass.

    Attributes:
        name: Qualified name of the module, or the name of the traced operation.
        kind: What is known about the step.
        view: The layer's view, where the step is a layer.
        inputs: Indices of the steps whose outputs it uses.
    """

    name: str
    kind: Kind
    view: AbstractLayerView | None = field(repr=False)
    inputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Steps:
    """A network as steps and cuts.

    Attributes:
        sequence: The steps in forward order, first the input.
        cuts: Indices of the steps after which their output is the only value still needed. The first
            is the input, the last is the network's output. A chain is cut after every step, a residual
            network between its blocks.
    """

    sequence: tuple[Step, ...]
    cuts: tuple[int, ...]
    network: Network = field(repr=False)
    nodes: tuple[fx.Node, ...] = field(repr=False)

    @property
    def is_chain(self) -> bool:
        """Whether each step takes just the output of the step before it (sizes of tensors aside)."""
        main = [index for index, step in enumerate(self.sequence) if step.kind != SHAPE]
        return all(
            [used for used in self.sequence[index].inputs if used in main] == [previous]
            for previous, index in pairwise(main)
        )

    def segment(self, start: int, stop: int) -> Callable[[Tensor], Tensor]:
        """The map from the activation at cut ``start`` to the activation at cut ``stop``.

        Composing segments gives the forward pass of the predictor bit for bit. The map is differentiable
        and leaves its argument alone, also where the network works in place.
        """
        if not 0 <= start <= stop < len(self.cuts):
            raise UsageError(
                f"a segment needs 0 <= start <= stop < {len(self.cuts)}. Got {start} and {stop}."
            )
        graph = fx.Graph()
        copies = {self.nodes[self.cuts[start]]: graph.placeholder("x")}
        for node in self.nodes[self.cuts[start] + 1 : self.cuts[stop] + 1]:
            for constant in node.all_input_nodes:
                if constant.op == "get_attr" and constant not in copies:
                    copies[constant] = graph.node_copy(constant)
            copies[node] = graph.node_copy(node, lambda old: copies[old])
        graph.output(copies[self.nodes[self.cuts[stop]]])
        module = fx.GraphModule(self.network.predictor, graph)
        return lambda x: module(x.clone())


def steps_of(network: Network) -> Steps:
    """The steps of a network's forward pass; refuses networks that cannot be traced.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from codebound.nets.walk import wrap
        >>> steps = steps_of(wrap(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))))
        >>> [step.kind.name for step in steps.sequence], steps.is_chain
        (['input', 'layer', 'activation', 'layer'], True)
        >>> steps.segment(1, 3)(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """
    name = type(network.model).__name__
    if network.graph is None:
        raise ModelError(f"the steps of {name} cannot be found: {network.untraceable}.")
    inputs = [node for node in network.graph.nodes if node.op == "placeholder"]
    (output,) = (node.args[0] for node in network.graph.nodes if node.op == "output")
    if len(inputs) != 1 or not isinstance(output, fx.Node):
        raise ModelError(
            f"{name} must take one tensor and return one. It takes {len(inputs)} arguments "
            f"({', '.join(node.name for node in inputs)}) and returns {output}. "
            "Wrap it in a module that does."
        )
    nodes = tuple(node for node in network.graph.nodes if node.op not in ("get_attr", "output"))
    position = {node: index for index, node in enumerate(nodes)}
    steps = tuple(_step(node, network, position) for node in nodes)
    return Steps(sequence=steps, cuts=_cuts(steps, output=position[output]), network=network, nodes=nodes)


def _step(node: fx.Node, network: Network, position: dict[fx.Node, int]) -> Step:
    name, view = node.name, None
    if node.op == "call_module":
        name = str(node.target)
        module = network.model.get_submodule(name)
        view = None if refusal_of(module) else view_of(name, module)
    return Step(
        name=name,
        kind=kind_of_node(node, network.predictor),
        view=view,
        inputs=tuple(position[used] for used in node.all_input_nodes if used in position),
    )


def _cuts(steps: tuple[Step, ...], *, output: int) -> tuple[int, ...]:
    last_use = list(range(len(steps)))
    for index, step in enumerate(steps):
        for used in step.inputs:
            last_use[used] = index
    cuts = []
    horizon = 0  # last use of anything computed before this step
    for index, step in enumerate(steps[:output]):
        # nothing is known about other steps: they may return several tensors, or none
        if horizon <= index and step.kind not in (OTHER, SHAPE):
            cuts.append(index)
        horizon = max(horizon, last_use[index])
    return (*cuts, output)
