"""A network that is ready to be measured: batch norms folded, wrapped and traced once, run on one example."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from codebound.errors import ModelError, UsageError
from codebound.nets.fold import fold_batch_norms, has_batch_norms
from codebound.nets.kinds import SHAPE
from codebound.nets.walk import Network, wrap
from codebound.rng import numpy_stream
from codebound_papers.measure.steps import activations, steps_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from codebound.data.dataset import Dataset
    from codebound_papers.measure.steps import LayerActivation, Step

PROBES = 64


@dataclass(frozen=True, slots=True)
class Workload:
    """How heavy a network is, and what can be measured of it in about a minute on two cores.

    Attributes:
        multiplications: By weights, in the forward pass of one example.
        widest: Entries of the largest output of a layer.
        outputs: Entries of the last layer's output.
    """

    multiplications: int
    widest: int
    outputs: int

    @property
    def examples(self) -> int:
        """How many examples to measure: 1,000, and fewer from ten million multiplications on."""
        return max(10, min(1000, 10**10 // max(1, self.multiplications)))

    def probes(self, interlayer: str) -> int | None:
        """How many probes per Jacobian norm: None, which is exact, where the Jacobians are small; else 64.

        Those to the output are small up to 64 outputs, the others up to 1,024 entries.
        """
        is_small = self.outputs <= 64 if interlayer == "output" else self.widest <= 1024
        return None if is_small else PROBES


@dataclass(frozen=True, eq=False)
class FoldedNetwork:
    """A network whose batch norms are folded as far as they can be, wrapped once for all that is measured.

    Attributes:
        network: The result.
        example: One input, in its arithmetic.
        notes: What was done, in sentences.
    """

    network: Network = field(repr=False)
    example: Tensor = field(repr=False)
    notes: tuple[str, ...] = ()

    @cached_property
    def calls(self) -> tuple[LayerActivation, ...]:
        """What goes in and out of the layers on the example."""
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


def fold_and_wrap(model: nn.Module | Network, sample: Dataset) -> FoldedNetwork:
    """Folds, wraps and traces a network once; one that is wrapped and has no batch norms is taken as it is.

    One example of the sample is for a network that has to be run to be understood.
    """
    module = model.model if isinstance(model, Network) else model
    weight = next(module.parameters(), None)
    if weight is None:
        raise ModelError(f"{type(module).__name__} has no weights, so nothing to measure.")
    example = sample.on(weight.device).batch(torch.arange(1), weight.dtype)[0]
    if isinstance(model, Network) and not has_batch_norms(module):
        return FoldedNetwork(model, example)
    notes: tuple[str, ...] = ()
    try:
        folding = fold_batch_norms(module)
    except ModelError as cause:
        notes = (f"Batch norms stay as they are: {cause}",)
    else:
        module, count = folding.model, len(folding.folded)
        if count:
            norms = "1 batch norm is" if count == 1 else f"{count} batch norms are"
            notes = (f"{norms} folded into the layer before; all numbers are about the layers after that.",)
    return FoldedNetwork(wrap(module, example=example), example, notes)


def fold_strictly(network: Network) -> Network:
    """The network without batch norms, in which every layer is called once; refused where there is none."""
    if network.shared:
        raise ModelError(
            f"layer {network.shared[0]} is called more than once, and the theorems have one matrix per step."
        )
    if not has_batch_norms(network.model):
        return network
    return wrap(fold_batch_norms(network.model, strict=True).model)


def workload(model: nn.Module | Network, example: Tensor) -> Workload:
    """Counts the work of a forward pass, by running it.

    Args:
        model: The network, wrapped or not.
        example: A batch of one input.

    Example:
        >>> workload(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)), torch.zeros(1, 4))
        Workload(multiplications=18, widest=3, outputs=2)
    """
    network = model if isinstance(model, Network) else wrap(model, example=example)
    return FoldedNetwork(network, example).workload


def chain_obstacle(network: Network) -> str:
    """Why a product of norms over the layers does not bound this network; empty where it does."""
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

    Example:
        >>> from torch import nn
        >>> from codebound.nets.walk import wrap
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


def draw_examples(sample: Dataset, count: int, *, seed: int, purpose: str = "measured examples") -> Dataset:
    """That many examples at random, in stored order, or all; another purpose has other ones."""
    if count < 1:
        raise UsageError(f"examples is at least 1. Got {count}.")
    if count >= sample.n:
        return sample
    picked = numpy_stream(seed, purpose).permutation(sample.n)[:count]
    return sample.select(sorted(picked.tolist()), role=sample.role)
