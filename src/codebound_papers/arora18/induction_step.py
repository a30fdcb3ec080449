"""The induction behind Matrix-Project (Arora et al. 2018, lemma 3), checked on a sample.

Layers are replaced one after the other, and what that does to all later layers is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from codebound.nets.walk import activations, wrap
from codebound.progress import Progress, silent
from codebound.refs import implements

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.nets.walk import LayerActivation
    from codebound_papers.compress.compressors import CompressedNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionStep:
    """What replacing the layers up to one of them does to the sample.

    Attributes:
        name: The last replaced layer, i.
        deviation: Largest ``||xhat^j - x^j|| / ||x^j||`` over the sample and over all j >= i.
        worst: The layer j where that is.
        allowed: ``(i/d) eps``.
    """

    name: str
    deviation: float
    worst: str
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether the induction hypothesis holds after this layer."""
        return self.deviation <= self.allowed


@implements("A-Lem3:induction", "S-Lem2.2", kind="measure")
@torch.no_grad()
def induction(
    compressed: CompressedNetwork,
    inputs: Tensor,
    *,
    epsilon: float,
    batch: int = 256,
    progress: Progress = silent,
) -> tuple[InductionStep, ...]:
    """Replaces the layers one after the other and measures the induction of lemma 3 on a sample.

    Args:
        compressed: The compressed network; layers that were carried change nothing when their turn comes.
        inputs: The sample, on the device of the network.
        epsilon: Relative accuracy that the outputs should have in the end.
        batch: Examples at a time.
        progress: Told how many layers are replaced.

    Returns:
        One step per layer, in forward order. A pre-activation that is zero and is moved counts as infinitely
        far off.
    """
    network = compressed.network
    names = [view.name for view in network.layers]
    replaced = {layer.name: layer for layer in compressed.layers}
    steps = []
    for i, name in enumerate(names):
        progress(i, len(names), name)
        so_far = tuple(replaced[each] for each in names[: i + 1] if each in replaced)
        partial = wrap(replace(compressed, layers=so_far).module(), example=inputs[:1])
        worst: dict[str, float] = {}
        for part in torch.split(inputs, batch):
            pairs = zip(activations(network, part), activations(partial, part), strict=True)
            for before, after in list(pairs)[network.calls.index(name) :]:
                worst[before.name] = max(worst.get(before.name, 0.0), _deviation(before, after))
        where = max(worst, key=lambda layer: worst[layer])
        allowed = (i + 1) / len(names) * epsilon
        steps.append(InductionStep(name=name, deviation=worst[where], worst=where, allowed=allowed))
    progress(len(names), len(names), "")
    return tuple(steps)


def _deviation(before: LayerActivation, after: LayerActivation) -> float:
    x = before.output.flatten(1).double()
    moved = (after.output.flatten(1).double() - x).norm(dim=1)
    return float(torch.where(moved > 0.0, moved / x.norm(dim=1), 0.0).max())
