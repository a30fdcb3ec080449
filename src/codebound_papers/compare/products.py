"""Whether a product over its layers describes a network, as the published bounds assume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.errors import ModelError
from codebound.nets.kinds import SHAPE
from codebound.nets.steps import steps_of

if TYPE_CHECKING:
    from codebound.nets.steps import Step
    from codebound.nets.walk import Network


def obstacle(network: Network) -> str:
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
