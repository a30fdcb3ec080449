"""What the released code of Guha et al. 2023 computes: how strongly a network is pruned, and its bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from codebound.bounds.published.kappa import released_needed_margin
from codebound.bounds.published.pruning import PrunedLayer, PruningFacts
from codebound.bounds.published.pruning_law import kept_share
from codebound.bounds.published.sketching import released_sketching
from codebound.compare.facts import Measured, MeasurePlan, measure_facts
from codebound.compress.mbp import prune_randomly
from codebound.measure.spectral import matrix_spectral_norm
from codebound.rng import torch_stream

if TYPE_CHECKING:
    import torch

    from codebound.bounds.published.facts import LayerFacts, NetworkFacts
    from codebound.bounds.published.value import PublishedValue
    from codebound.data.dataset import Dataset
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network

STRONGEST, TOLERANCE = 10.0, 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """One network as the released code sees it.

    Attributes:
        measured: Norms, and the margins of the sample; the margin of its facts is the smallest.
        pruning: The pruning that the margin allows.
        needed: The margin that this pruning asks for.
        bound: What the code calls its bound.
    """

    measured: Measured
    pruning: PruningFacts
    needed: float
    bound: PublishedValue

    @property
    def kept_share(self) -> float:
        """Share of the weights that the pruning has kept; ``chi`` is what Gaussian weights would keep."""
        layers = self.measured.facts.layers
        return sum(layer.nonzeros for layer in self.pruning.layers) / sum(layer.weights for layer in layers)

    @property
    def strength(self) -> float:
        """d, the same for all layers."""
        return self.pruning.layers[0].strength

    @property
    def chi(self) -> float:
        """The share of kept weights that enters the bound."""
        return self.pruning.layers[0].kept_share


def measure_smallest_margin(network: Network, sample: Dataset, *, device: str) -> Measured:
    """Norms and margins of a network, at the smallest margin of its sample."""
    return measure_facts(network, sample, MeasurePlan(margin_share=0.0, examples=1, device=device))


def released_bound(measured: Measured, *, seed: int) -> Released:
    """Prunes as strongly as the smallest margin allows, and evaluates the bound there.

    Args:
        measured: The network, by `measure_smallest_margin`.
        seed: Of all draws.
    """
    facts = measured.facts
    pruning = released_pruning(measured.network, facts, seed=seed)
    needed = released_needed_margin(facts, pruning=pruning).value
    bound = released_sketching(facts, pruning=pruning, needed_loss=measured.margins.loss(needed))
    return Released(measured, pruning, needed, bound)


def released_pruning(network: Network, facts: NetworkFacts, *, seed: int) -> PruningFacts:
    """The pruning at which the released code evaluates its bound.

    Bisection on [0, 10] for the strength whose needed margin is the margin of the facts, which there is the
    smallest of the sample. Every evaluation draws a new mask, so what is searched is noisy, and so is where
    the search ends; the pruning that is returned is a further draw. Nothing is pruned without a positive
    margin. The diagonal is pruned like the rest, biases are not.

    ``codebound.compare.prune_for_margin`` does the same on one draw, and never ends above the margin.

    Args:
        network: The network that the facts are about.
        facts: Its norms, and the margin.
        seed: Of all draws.
    """
    draws = count()

    def drawn(strength: float) -> PruningFacts:
        return draw_pruning(network, facts, strength=strength, seed=seed, draw=next(draws))

    if facts.margin <= 0.0:
        return drawn(0.0)
    low, high = 0.0, STRONGEST
    while high - low > TOLERANCE:
        middle = (low + high) / 2.0
        needed = released_needed_margin(facts, pruning=drawn(middle)).log_value
        low, high = (middle, high) if needed <= math.log(facts.margin) else (low, middle)
    return drawn((low + high) / 2.0)


def draw_pruning(
    network: Network, facts: NetworkFacts, *, strength: float, seed: int, draw: int = 0
) -> PruningFacts:
    """One pruning of all layers, as the released code draws it, with the norms of what it took away.

    Args:
        network: The network that the facts are about.
        facts: Its norms.
        strength: d of G-Alg1.
        seed: Of all draws.
        draw: Number of the draw.
    """
    layers = tuple(
        _pruned(view, layer, strength, torch_stream(seed, f"released pruning/{draw}/{view.name}"))
        for view, layer in zip(network.layers, facts.layers, strict=True)
    )
    return PruningFacts(layers=layers, slack=1.0, sparsity_slack=1.0)


def _pruned(
    view: AbstractLayerView, layer: LayerFacts, strength: float, generator: torch.Generator
) -> PrunedLayer:
    matrix = view.matrix.detach()
    pruned = prune_randomly(
        matrix.cpu(),
        strength=strength,
        variance=layer.variance,
        generator=generator,
        keep_diagonal=False,
    ).to(matrix.device)
    return PrunedLayer(
        name=view.name,
        strength=strength,
        kept_share=kept_share(strength),
        expected_change=0.0,  # the code has measured norms in its place, and neither steps nor slacks
        step=1.0,
        nonzeros=int(pruned.count_nonzero()),
        change=matrix_spectral_norm(matrix - pruned).value,
    )
