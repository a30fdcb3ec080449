"""A network that is ready to be measured: batch norms folded, wrapped once, and its forward pass as steps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, fx, nn

from codebound.run.errors import ModelError, UsageError
from codebound.sample.dataset import Sample
from codebound_networks.reading.walk import Network, observe, trace_steps, wrap
from codebound_networks.train.rng import numpy_stream
from codebound_networks.views.fold import fold_batch_norms, has_batch_norms
from codebound_networks.views.kinds import FIXED, OTHER, SHAPE, Kind, kind_of_node
from codebound_networks.views.layers import AbstractLayerView, refusal_of, view_of
from codebound_networks.views.rebuild import first_weight, require_tensors

PROBES = 64
"""Random directions behind the norm of a Jacobian that is too large to be written out."""


@dataclass(frozen=True, eq=False)
class Step:
    """One step of the forward pass."""

    name: str  # qualified name of the module, or the name of the traced operation
    kind: Kind  # what is known about the step
    view: AbstractLayerView | None = field(repr=False)  # the layer's view, where the step is a layer
    inputs: tuple[int, ...]  # indices of the steps whose outputs it uses


@dataclass(frozen=True, eq=False)
class Steps:
    """A network as steps and cuts."""

    sequence: tuple[Step, ...]  # the steps in forward order, first the input
    # indices of the steps after which only their output is needed, from the input to the output
    cuts: tuple[int, ...]
    network: Network = field(repr=False)
    nodes: tuple[fx.Node, ...] = field(repr=False)

    @property
    def is_chain(self) -> bool:
        """Return True if each step reads only the output of its predecessor; sizes do not count."""
        main = [index for index, step in enumerate(self.sequence) if step.kind != SHAPE]
        return all(
            [used for used in self.sequence[index].inputs if used in main] == [previous]
            for previous, index in pairwise(main)
        )

    def segment(self, start: int, stop: int) -> Callable[[Tensor], Tensor]:
        """The map from the activation at cut ``start`` to the activation at cut ``stop``.

        Segments compose to the forward pass, bit for bit; they are differentiable and spare their argument.
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
        try:
            module = fx.GraphModule(self.network.predictor, graph)
        except SyntaxError:
            raise ModelError(
                "torch.fx cannot write this network as code: the name of a module has a quotation mark, a "
                "backslash or a line break in it. Rename it, in add_module or in a dictionary of modules."
            ) from None
        return lambda x: module(x.clone())


def steps_of(network: Network) -> Steps:
    """The steps of a network's forward pass; refuses networks that cannot be traced.

    >>> steps = steps_of(wrap(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))))
    >>> [step.kind.name for step in steps.sequence], steps.is_chain
    (['input', 'layer', 'activation', 'layer'], True)
    >>> steps.segment(1, 3)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """
    nodes, output = trace_steps(network)
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
        # nothing is known about other steps: they may return several tensors, or none; fixed ones stack views
        if horizon <= index and step.kind not in (FIXED, OTHER, SHAPE):
            cuts.append(index)
        horizon = max(horizon, last_use[index])
    return (*cuts, output)


@dataclass(frozen=True, eq=False)
class LayerActivation:
    """Input and output of one call of a layer."""

    name: str  # the layer
    input: Tensor = field(repr=False)  # what the layer was applied to, phi(x^{i-1})
    output: Tensor = field(repr=False)  # its output before any activation, x^i


def activations(network: Network, x: Tensor) -> tuple[LayerActivation, ...]:
    """Inputs and outputs of the layers on a batch, in the order of their calls; no gradients.

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


@dataclass(frozen=True, slots=True)
class Workload:
    """Cost of a network, and the sizes that two cores measure in about a minute."""

    multiplications: int  # by weights, in the forward pass of one example
    widest: int  # entries of the largest output of a layer
    outputs: int  # entries of the last layer's output

    @property
    def examples(self) -> int:
        """Number of examples to measure: 1,000, and fewer from ten million multiplications on."""
        return max(10, min(1000, 10**10 // max(1, self.multiplications)))

    def probes(self, interlayer: str) -> int | None:
        """Return the number of probes per Jacobian norm: None, which is exact, where Jacobians are small."""
        is_small = self.outputs <= 64 if interlayer == "output" else self.widest <= 1024
        return None if is_small else PROBES


@dataclass(frozen=True, eq=False)
class FoldedNetwork:
    """A network whose batch norms are folded as far as they can be, wrapped once for all that is measured."""

    network: Network = field(repr=False)  # the result
    example: Tensor = field(repr=False)  # one input, in its arithmetic
    notes: tuple[str, ...] = ()  # what was done, in sentences

    @cached_property
    def calls(self) -> tuple[LayerActivation, ...]:
        """Inputs and outputs of the layers on the example."""
        return activations(self.network, self.example)

    def input_shape(self, layer: str) -> tuple[int, ...]:
        """Shape of one input of a layer."""
        return next(tuple(call.input.shape[1:]) for call in self.calls if call.name == layer)

    @property
    def workload(self) -> Workload:
        """The work of a forward pass."""
        seen = [(call.output.numel(), self.network.layer(call.name).weight) for call in self.calls]
        return Workload(
            multiplications=sum(weight.numel() * (entries // len(weight)) for entries, weight in seen),
            widest=max((entries for entries, _ in seen), default=0),
            outputs=seen[-1][0] if seen else 0,
        )


def first_example(module: nn.Module, sample: Sample) -> Tensor:
    """A batch of the first example alone, of the type and in the place of the network's numbers."""
    weight = first_weight(module)
    stored = torch.from_numpy(np.array(sample.x[:1]))  # not the whole sample
    return sample.scaling.apply(stored, weight.dtype).to(weight.device)


def fold_and_wrap(model: nn.Module | Network, sample: Sample) -> FoldedNetwork:
    """Folds, wraps and traces a network once; one that is wrapped without batch norms is taken as it is."""
    module = model.model if isinstance(model, Network) else model
    require_tensors(module)
    if next(module.parameters(), None) is None:
        raise ModelError(f"{type(module).__name__} has no weights, so nothing to measure.")
    example = first_example(module, sample)
    network = model if isinstance(model, Network) else wrap(module, example=example, classes=sample.classes)
    notes = network.notes
    try:
        folding = fold_batch_norms(network.traced) if has_batch_norms(network.model) else None
    except ModelError as cause:
        return FoldedNetwork(network, example, (*notes, f"Batch norms stay as they are: {cause}"))
    if folding is None or not (count := len(folding.folded)):
        return FoldedNetwork(network, example, notes)
    norms = "1 batch norm is" if count == 1 else f"{count} batch norms are"
    notes = (*notes, f"{norms} folded into the layer before; all numbers are about the layers after that.")
    return FoldedNetwork(network.with_model(folding.model), example, notes)


def fold_strictly(network: Network) -> Network:
    """The network without batch norms, in which every layer is called once; refused where there is none."""
    if network.shared:
        raise ModelError(
            f"layer {network.shared[0]} is called more than once, and the theorems have one matrix per step."
        )
    if not has_batch_norms(network.model):
        return network
    return network.with_model(fold_batch_norms(network.traced, strict=True).model)


def chain_obstacle(network: Network) -> str:
    """Return the reason why a product of norms does not bound this network. Empty where it does."""
    if network.graph is None:
        return f"it is unknown whether the network is a chain of layers: {network.untraceable}."
    if network.shared:
        shared = ", ".join(network.shared)
        return f"the network calls {shared} more than once; the bounds have one matrix per layer."
    try:
        steps = steps_of(network)
    except ModelError as refusal:
        return str(refusal)
    if not steps.is_chain:
        return (
            "the network is no chain: a step uses an earlier output again, as residual blocks do, so a "
            "product over the layers does not describe it."
        )
    for step in steps.sequence:
        if _is_between(step) and (step.kind.lipschitz is None or not step.kind.homogeneous):
            return (
                f"step {step.name} ({step.kind.name}) is not known to be Lipschitz and homogeneous, as "
                "ReLU and max pooling are, and the bounds are about such networks."
            )
    return ""


def expansions(network: Network) -> tuple[str, ...]:
    """Steps between the layers of a chain that may lengthen a difference: the papers assume that none does.

    >>> expansions(wrap(nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(3, stride=2))))
    ('1 (pooling, by up to 2)',)
    """
    return tuple(
        f"{step.name} ({step.kind.name}, by up to {step.kind.lipschitz:.4g})"
        for step in steps_of(network).sequence
        if _is_between(step) and step.kind.lipschitz is not None and step.kind.lipschitz > 1.0
    )


def _is_between(step: Step) -> bool:
    return step.view is None and step.kind != SHAPE


def draw_examples(sample: Sample, count: int, *, seed: int, purpose: str = "measured examples") -> Sample:
    """That many examples at random, in stored order, or all; another purpose has other ones."""
    if count < 1:
        raise UsageError(f"examples is at least 1. Got {count}.")
    if count >= sample.n:
        return sample
    picked = numpy_stream(seed, purpose).permutation(sample.n)[:count]
    return sample.select(sorted(picked.tolist()), role=sample.role)
