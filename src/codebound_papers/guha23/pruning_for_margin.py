"""One draw of randomised magnitude pruning, as strong as a margin allows, with the norms of its changes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from codebound.rng import torch_stream
from codebound_papers.guha23.kappa import released_needed_margin
from codebound_papers.guha23.magnitude import prune_randomly
from codebound_papers.guha23.pruning import PrunedLayer, PruningFacts
from codebound_papers.guha23.pruning_law import expected_change_norm, kept_share
from codebound_papers.measure.spectral import matrix_spectral_norm

if TYPE_CHECKING:
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network
    from codebound_papers.facts import LayerFacts, NetworkFacts

_STRONGEST, _TOLERANCE = 10.0, 1e-3  # of the search in the released code
_LEVELS = 255  # values of a weight after rounding: a byte
_SLACK = 4.0  # eps_l and lambda_l over the number of layers: all layers together fail with 1/4 each


def prune_for_margin(
    network: Network, facts: NetworkFacts, *, keep_diagonal: bool, seed: int = 0
) -> PruningFacts:
    """Prunes a network as strongly as its margin allows, by what the released code of Guha et al. asks for.

    The strength is found by bisection, as there; nothing is pruned where the margin is not positive, or where
    even the weakest pruning asks for more. All strengths use the same random numbers.

    Args:
        network: The network that the facts are about.
        facts: Its norms, and the margin.
        keep_diagonal: Whether the diagonal is never pruned: as published. The released code prunes it.
        seed: Of the draw.

    Example:
        >>> from codebound_papers.measure.record import measure_facts
        >>> from codebound.data.load import load_dataset
        >>> from codebound.nets.loading import load_model
        >>> net = load_model("linear", input_shape=(1, 8, 8), classes=10)
        >>> measured = measure_facts(net, load_dataset("digits"))
        >>> (layer,) = prune_for_margin(measured.network, measured.facts, keep_diagonal=True).layers
        >>> layer.strength, layer.change  # an untrained network has no margin
        (0.0, 0.0)
    """

    def drawn(strength: float) -> PruningFacts:
        layers = tuple(
            _pruned(view, layer, strength=strength, keep_diagonal=keep_diagonal, seed=seed)
            for view, layer in zip(network.layers, facts.layers, strict=True)
        )
        slack = _SLACK * facts.depth
        return PruningFacts(layers=layers, slack=slack, sparsity_slack=slack)

    def is_allowed(strength: float) -> bool:
        needed = released_needed_margin(facts, pruning=drawn(strength))
        return needed.log_value <= math.log(facts.margin)

    if facts.margin <= 0.0 or not is_allowed(_TOLERANCE):
        return drawn(0.0)
    low, high = _TOLERANCE, _STRONGEST
    while high - low > _TOLERANCE:
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_allowed(middle) else (low, middle)
    return drawn(low)


def _pruned(
    view: AbstractLayerView, layer: LayerFacts, *, strength: float, keep_diagonal: bool, seed: int
) -> PrunedLayer:
    matrix = view.matrix.detach().cpu()
    pruned = prune_randomly(
        matrix,
        strength=strength,
        variance=layer.variance,
        generator=torch_stream(seed, f"compared pruning/{view.name}"),
        keep_diagonal=keep_diagonal,
    )
    largest = float(matrix.abs().max())
    return PrunedLayer(
        name=view.name,
        strength=strength,
        kept_share=kept_share(strength),
        expected_change=expected_change_norm(
            layer.rows, layer.columns, strength=strength, variance=layer.variance
        ),
        step=largest / (_LEVELS // 2) if largest > 0.0 else 1.0,
        nonzeros=int(torch.count_nonzero(pruned)),
        change=matrix_spectral_norm(matrix - pruned).value if strength > 0.0 else 0.0,
    )
