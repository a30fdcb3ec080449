"""The forward pass as a list of steps, cut where one activation determines what comes after; activations."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from torch import Tensor, fx

from codebound.errors import UsageError
from codebound.nets.kinds import OTHER, SHAPE, Kind, kind_of_node
from codebound.nets.layers import AbstractLayerView, refusal_of, view_of
from codebound.nets.walk import Network, observe, traced_steps


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
    nodes, output = traced_steps(network)
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


@dataclass(frozen=True, eq=False)
class LayerActivation:
    """What went in and out of one call of a layer.

    Attributes:
        name: The layer.
        input: What the layer was applied to, ``phi(x^{i-1})``.
        output: Its output before any activation, ``x^i``.
    """

    name: str
    input: Tensor = field(repr=False)
    output: Tensor = field(repr=False)


def activations(network: Network, x: Tensor) -> tuple[LayerActivation, ...]:
    """Inputs and outputs of the layers on a batch, in the order of their calls; no gradients.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from codebound.nets.walk import wrap
        >>> net = wrap(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
        >>> [tuple(a.output.shape) for a in activations(net, torch.zeros(5, 4))]
        [(5, 3), (5, 2)]
    """
    kept: list[LayerActivation] = []

    def record(name: str, x: Tensor, output: Tensor) -> None:
        # copies, because a later in-place step would overwrite what was recorded
        kept.append(LayerActivation(name, x.clone(), output.clone()))

    observe(network.predictor, x, names=[view.name for view in network.layers], record=record)
    return tuple(kept)
