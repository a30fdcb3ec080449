"""Requirements of magnitude pruning (Guha et al. 2023, lemmas 4.2, 4.3, theorem 5.2)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from codebound.bounds.risk import rate
from codebound.run.errors import ModelError
from codebound.run.progress import Progress, silent
from codebound_networks.train.rng import torch_stream
from codebound_papers.facts import LayerFacts
from codebound_papers.guha23.magnitude import prune_randomly
from codebound_papers.guha23.pruning import expected_change_norm, kept_share, least_kept_share
from codebound_papers.measure.record import Measured
from codebound_papers.measure.spectral import matrix_spectral_norm
from codebound_papers.value import one_line

_WEAKEST, _STRONGEST = -120.0, 20.0  # log2 of the strengths of pruning that are searched
_BISECTIONS = 16
_NO_BIASES = "The theorem has no biases; they are left out here."


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunableLayer:
    """Limits on pruning one layer by the perturbation condition, ``||Delta|| <= ||A|| / L``."""

    name: str  # the layer
    weights: int  # its number of weights
    norm: float  # spectral norm of its matrix
    # least share chi of Gaussian weights to keep, by the change of this very matrix, pruned once
    kept_exact: float
    strength_exact: float  # the strength d that goes with it
    kept_markov: float  # the same where the norm is eps_l Gamma_l: lemma 4.2, by Markov's inequality
    strength_markov: float  # the strength d that goes with that
    change_norm: float  # gamma_l at that strength, with C = 1
    asked: int  # weights that stay where the margin condition holds too, as corrected


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningLimit:
    """The strongest pruning, the same in every layer, at which theorem 5.2 applies if nothing is rounded."""

    strength: float | None  # d; None if no strength down to 2^-120 will do
    pruned: float  # share of Gaussian weights that it prunes; 0 if none will do


@dataclass(frozen=True, slots=True, kw_only=True)
class MbpRequirements:
    """Requirements of G-Lem4.3 and G-Thm5.2."""

    layers: tuple[PrunableLayer, ...]  # in forward order
    slack: float  # eps_l = L / delta: the union over L layers then fails with probability delta
    gaussian_exact: float  # least share to keep in a large Gaussian matrix, with exact norms (G-E6)
    gaussian_markov: float  # the same with slack (G-E6)
    published: PruningLimit  # limit by the margin condition as published, with the input dimension
    corrected: PruningLimit  # by the condition that keeps its promise, with sqrt(2) max ||x|| (G-E2, G-E5)
    notes: tuple[str, ...]  # what a reader should know, in sentences

    @property
    def verdict(self) -> str:
        """In plain words."""
        total = sum(layer.weights for layer in self.layers)
        exact = sum(layer.kept_exact * layer.weights for layer in self.layers) / total
        markov = sum(layer.kept_markov * layer.weights for layer in self.layers) / total
        return one_line(
            f"""The perturbation condition keeps {rate(markov, 1)} of the weights by lemma 4.2, and
            {rate(exact, 1)} if norms are measured instead; in as many large Gaussian layers it would be
            {rate(self.gaussian_markov, 1)} and {rate(self.gaussian_exact, 1)}. The margin condition, as
            published, {_limit_in_words(self.published, total)}; corrected, it
            {_limit_in_words(self.corrected, total)}."""
        )


def mbp_requirements(measured: Measured, *, progress: Progress = silent) -> MbpRequirements:
    """Find the pruning that the perturbation lemma and theorem 5.2 allow."""
    facts, seed = measured.theorem_facts, measured.settings.seed
    depth = facts.depth
    slack = depth / facts.delta
    strengths = []
    for position, (layer, view) in enumerate(zip(facts.layers, measured.network.layers, strict=True)):
        progress(position, depth, layer.name)
        strengths.append(_find_limits(layer, view.matrix, layer.spectral / depth, slack=slack, seed=seed))
    progress(depth, depth, "")
    product = math.prod(layer.spectral for layer in facts.layers)
    most = min(markov for _, markov in strengths)

    def limit(length: float) -> PruningLimit:
        """By the margin condition for inputs of a length, and by the perturbation condition."""

        def holds(strength: float) -> bool:
            changes = sum(slack * _change_norm(layer, strength) / layer.spectral for layer in facts.layers)
            return math.e * length * product * changes <= facts.margin

        strength = _largest_strength(holds)
        if strength is None:
            return PruningLimit(strength=None, pruned=0.0)
        strength = min(strength, most)
        return PruningLimit(strength=strength, pruned=math.sqrt(strength / (strength + 2.0)))

    corrected = limit(math.sqrt(2.0) * facts.input_norm)
    layers = tuple(
        PrunableLayer(
            name=layer.name,
            weights=layer.weights,
            norm=layer.spectral,
            kept_exact=kept_share(exact),
            strength_exact=exact,
            kept_markov=kept_share(markov),
            strength_markov=markov,
            change_norm=_change_norm(layer, markov),
            asked=math.ceil((1.0 - corrected.pruned) * layer.weights),
        )
        for layer, (exact, markov) in zip(facts.layers, strengths, strict=True)
    )
    return MbpRequirements(
        layers=layers,
        slack=slack,
        gaussian_exact=least_kept_share(depth),
        gaussian_markov=least_kept_share(depth, slack=slack),
        published=limit(facts.input_size),
        corrected=corrected,
        notes=(*measured.chain_notes, *measured.filter_notes, *([_NO_BIASES] if measured.has_biases else ())),
    )


def _change_norm(layer: LayerFacts, strength: float) -> float:
    return expected_change_norm(layer.rows, layer.columns, strength=strength, variance=layer.variance)


def _find_limits(
    layer: LayerFacts, matrix: Tensor, change: float, *, slack: float, seed: int
) -> tuple[float, float]:
    """The largest strengths at which a matrix changes by at most that much: measured, and by lemma 4.2."""
    if layer.spectral == 0.0:
        raise ModelError(f"layer {layer.name} is zero: no change of it is small enough. Check the weights.")
    entries = matrix.detach().cpu().double()

    def is_small(strength: float) -> bool:
        stream = torch_stream(seed, f"pruned/{layer.name}")
        left = prune_randomly(entries, strength=strength, variance=layer.variance, generator=stream)
        return matrix_spectral_norm(entries - left).value <= change

    markov = _largest_strength(lambda strength: slack * _change_norm(layer, strength) <= change)
    return _largest_strength(is_small) or 0.0, markov or 0.0


def _largest_strength(holds: Callable[[float], bool]) -> float | None:
    """The largest strength of pruning at which a condition holds that fails from some strength on."""
    low, high = _WEAKEST, _STRONGEST
    if not holds(2.0**low):
        return None
    if holds(2.0**high):
        return float(2.0**high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(2.0**middle) else (low, middle)
    return float(2.0**low)


def _limit_in_words(limit: PruningLimit, weights: int) -> str:
    if limit.strength is None:
        return "holds for no strength at all"
    count = math.floor(limit.pruned * weights)
    return f"lets a share of {limit.pruned:.1g} be pruned, {count or 'not one'} of {weights:,} weights"
