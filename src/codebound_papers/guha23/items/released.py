"""Pruning strength and bound as the released code of Guha et al. 2023 computes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor, nn

from codebound.sample.dataset import DeviceData, Sample
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.rebuild import with_weights
from codebound_papers.guha23.kappa import STRONGEST, TOLERANCE, released_needed_margin
from codebound_papers.guha23.magnitude import prune_randomly
from codebound_papers.guha23.pruning import PrunedLayer, PruningFacts, kept_share
from codebound_papers.guha23.sketching import released_sketching
from codebound_papers.measure.record import Measured, MeasureSettings, measure_facts
from codebound_papers.measure.spectral import SpectralNorm, matrix_spectral_norm
from codebound_papers.reproduce.items import Size
from codebound_papers.value import PublishedValue

_STRENGTHS: dict[Size, int] = {"tiny": 3, "quick": 21, "full": 100}
_CHUNK = 4096


def strengths(size: Size) -> list[float]:
    """The values of d in the plots of the repository, from 0 to the strongest."""
    steps = _STRENGTHS[size] - 1
    return [STRONGEST * step / steps for step in range(steps + 1)]


@dataclass(frozen=True, eq=False)
class Pruned:
    """One pruning of a network, with the same strength d for all layers; biases stay as they are."""

    network: Network
    strength: float
    matrices: Mapping[str, Tensor]

    @property
    def chi(self) -> float:
        """The share of weights that Gaussian layers would keep: it enters the bound."""
        return kept_share(self.strength)

    @property
    def kept_share(self) -> float:
        """The share that these layers have kept."""
        kept = sum(int(matrix.count_nonzero()) for matrix in self.matrices.values())
        return kept / sum(matrix.numel() for matrix in self.matrices.values())

    @cached_property
    def changes(self) -> tuple[SpectralNorm, ...]:
        """Spectral norms of what was taken away, layer by layer."""
        return tuple(
            matrix_spectral_norm(view.matrix.detach() - self.matrices[view.name])
            for view in self.network.layers
        )

    @property
    def facts(self) -> PruningFacts:
        """Inputs of the published expressions."""
        # the code has measured norms in place of expected ones, and neither steps nor slacks
        told = {"strength": self.strength, "kept_share": self.chi, "expected_change": 0.0, "step": 1.0}
        layers = []
        for (name, matrix), change in zip(self.matrices.items(), self.changes, strict=True):
            nonzeros = int(matrix.count_nonzero())
            layers.append(PrunedLayer(name=name, nonzeros=nonzeros, change=change.value, **told))
        return PruningFacts(layers=tuple(layers), slack=1.0, sparsity_slack=1.0)

    @property
    def model(self) -> nn.Module:
        """The pruned network."""
        model = self.network.model
        weights = {f"{name}.weight": matrix for name, matrix in self.matrices.items()}
        return with_weights(model, {**model.state_dict(), **weights}).eval()


def draw_pruning(
    network: Network, *, strength: float, seed: int, draw: int = 0, keep_diagonal: bool = False
) -> Pruned:
    """Prunes all linear layers by chance; in the text the diagonal stays, the released code prunes it."""

    def pruned(name: str, matrix: Tensor) -> Tensor:
        here = matrix.detach().cpu()
        stream = torch_stream(seed, f"pruning/{strength:.6g}/{draw}/{name}")
        variance = float(here.double().var(correction=0))
        return prune_randomly(
            here, strength=strength, variance=variance, generator=stream, keep_diagonal=keep_diagonal
        ).to(matrix.device)

    return Pruned(network, strength, {view.name: pruned(view.name, view.matrix) for view in network.layers})


class Change(NamedTuple):
    """Largest changes of outputs by pruning, on a sample."""

    output: float  # Euclidean distance of two outputs: what lemma B.2 bounds
    score: float  # difference of the scores of an example's own class: what the released code looks at


def largest_change(pruned: Pruned, data: DeviceData) -> Change:
    """The largest changes over all examples."""
    before, after = pruned.network.predictor, pruned.model
    found = torch.zeros(2, device=data.x.device)
    with torch.no_grad():
        for x, y in data.chunks(_CHUNK):
            change = after(x) - before(x)
            largest = change.norm(dim=1).max(), change.gather(1, y.long().unsqueeze(1)).abs().max()
            found = torch.maximum(found, torch.stack(largest))
    output, score = found.tolist()
    return Change(output, score)


def measure_smallest_margin(network: Network, sample: Sample, *, device: str) -> Measured:
    """Norms and margins of a network, at the smallest margin of its sample."""
    asked = MeasureSettings(families=("margins", "norms"), margin_share=0.0, device=device)
    return measure_facts(network, sample, asked)


def search_strength(margin: float, asked: Callable[[float], float]) -> float:
    """The strength at which the released code prunes: its bisection on [0, 10].

    Nothing is pruned unless the smallest margin of the sample is positive. Every time that a strength is
    asked for the margin it needs, a new mask is drawn: what is searched is noisy, and so is where it ends.

    >>> round(search_strength(2.0, lambda strength: strength**2), 2)
    1.41
    >>> search_strength(-1.0, lambda strength: 0.0)
    0.0
    """
    if margin <= 0.0:
        return 0.0
    low = middle = 0.0
    step = STRONGEST
    while step >= TOLERANCE:
        step /= 2.0
        middle = low + step
        if asked(middle) <= margin:
            low = middle
    return middle


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """So-called bound of the released code, for a further draw of the pruning.

    The strength is what the smallest margin allows; beside the bound is the margin that this pruning needs.
    """

    pruned: Pruned
    needed: float
    bound: PublishedValue


def released_bound(measured: Measured, *, seed: int) -> Released:
    """Prunes as strongly as the smallest margin allows by the e-form with kappas, and evaluates the bound.

    ``prune_for_margin`` does the same on one draw, and never ends above the margin.
    """
    return _search_bound(measured, partial(needed_margin, measured), seed=seed)


def bound_by_change(measured: Measured, sample: Sample, *, seed: int, device: str) -> Released:
    """The same where the search looks at the largest change of a score on the sample, not a bound on it."""
    data = sample.on(device)  # once for all draws
    return _search_bound(measured, lambda pruned: largest_change(pruned, data).score, seed=seed)


def needed_margin(measured: Measured, pruned: Pruned) -> float:
    """The margin that the released code asks for."""
    return released_needed_margin(measured.facts, pruning=pruned.facts).value


def _search_bound(measured: Measured, asked: Callable[[Pruned], float], *, seed: int) -> Released:
    draws = count(1)

    def asked_at(strength: float) -> float:
        return asked(draw_pruning(measured.network, strength=strength, seed=seed, draw=next(draws)))

    strength = search_strength(measured.facts.margin, asked_at)
    pruned = draw_pruning(measured.network, strength=strength, seed=seed)
    needed = needed_margin(measured, pruned)
    loss = measured.margins.loss(needed)
    bound = released_sketching(measured.facts, pruning=pruned.facts, needed_loss=loss)
    return Released(pruned, needed, bound)
