"""Change of outputs by pruning and rounding (Guha et al. 2023, section 4), as published.

First come the statistics of G-Alg1 on a matrix of independent Gaussian entries, d the strength and Psi the
variance: predictions, as trained weights are not Gaussian. The corrected forms have the constants that the
proofs support. All need Gaussian weights and small changes; ``codebound.bounds.original.output_deviation`` on
measured norms needs neither and is never larger.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_papers.compress.compressors import rounding_bound
from codebound_papers.facts import LayerFacts, NetworkFacts, has_no_biases, is_fully_connected
from codebound_papers.framework import spectral_products
from codebound_papers.logs import log_sum, safe_log
from codebound_papers.value import Constant, Hypothesis, PublishedValue, expression

GAUSSIAN = "the weights of a layer are independent Gaussians of one variance"
HAS_GAUSSIAN_WEIGHTS = Hypothesis(GAUSSIAN, None)
"""Assumption 3.1, for each layer by itself (G-E24, G-E26)."""


@implements("G-chi", "G-E3", kind="numerics")
def kept_share(strength: float) -> float:
    r"""Probability that an off-diagonal Gaussian entry is kept: :math:`\chi = 1 - \sqrt{d/(d+2)}`.

    Differs.    G's Eq. (11) calls it the probability of being pruned; the proof uses it as the other one.

    >>> round(kept_share(2.0), 12)
    0.292893218813
    """
    check_strength(strength)
    root = math.sqrt(strength + 2.0)
    return 2.0 / (root * (root + math.sqrt(strength)))  # the same without cancellation


@implements("G-chi:inverse", kind="numerics")
def strength_for(kept: float) -> float:
    """The strength at which a share ``kept`` of Gaussian entries is kept.

    >>> round(strength_for(0.1), 10)
    8.5263157895
    """
    if not 0.0 < kept <= 1.0:
        raise UsageError(f"the share of entries to keep lies in (0, 1]. Got {kept}.")
    return 2.0 * (1.0 - kept) ** 2 / (kept * (2.0 - kept))


@implements("G-Lem4.1", kind="numerics")
def change_moments(strength: float, variance: float) -> tuple[float, float]:
    """Second and fourth moment of what pruning takes from an off-diagonal Gaussian entry; the first is 0.

    >>> [round(moment, 6) for moment in change_moments(2.0, 1.0)]
    [0.353553, 0.53033]
    """
    check_strength(strength)
    ratio = strength / (strength + 2.0)
    return variance * ratio**1.5, 3.0 * variance**2 * ratio**2.5


@implements("G-E4", kind="numerics")
def expected_nonzeros(rows: int, columns: int, *, strength: float, keep_diagonal: bool = True) -> float:
    """Mean number of kept entries of a Gaussian matrix.

    Differs.    G's Lemma 5.1 counts the diagonal, which is always kept, like any other entry.

    >>> round(expected_nonzeros(784, 784, strength=strength_for(0.001)), 1)
    1397.9
    """
    diagonal = min(rows, columns) if keep_diagonal else 0
    return kept_share(strength) * (rows * columns - diagonal) + diagonal


@implements("G-Lem4.2", "G-LemB.1", "G-E8", kind="published-form")
def expected_change_norm(
    rows: int, columns: int, *, strength: float, variance: float, constant: float = 1.0
) -> float:
    """Gamma_l: bound on the mean spectral norm of the change of a Gaussian matrix, by Latala's inequality.

    No guarantee: ``constant`` is universal but unknown. By Markov the norm exceeds eps Gamma with probability
    at most 1/eps. With constant 1, Gamma was 1.75 to 2.03 times the measured norm at 784 x 784.

    >>> round(expected_change_norm(784, 784, strength=1.0, variance=1.0), 2)
    43.11
    """
    if not 0.0 < constant < math.inf:
        raise UsageError(f"the constant of lemma 4.2 is a finite number > 0. Got {constant}.")
    second, fourth = change_moments(strength, variance)
    sides = math.sqrt(rows) + math.sqrt(columns)
    return constant * (math.sqrt(second) * sides + math.sqrt(math.sqrt(rows * columns * fourth)))


@implements("G-E6", kind="numerics")
def least_kept_share(depth: int, *, slack: float = 1.0) -> float:
    """Share of weights that must stay for ``slack ||Delta|| <= ||A|| / depth``, the condition of G-LemB.2.

    For a large Gaussian matrix ``||Delta|| / ||A||`` is ``(d / (d + 2))^(3/4)``. Markov asks for 2 depth.

    >>> round(least_kept_share(5), 2), round(least_kept_share(5, slack=10), 3)
    (0.66, 0.926)
    """
    if depth < 1 or slack * depth < 1.0:
        raise UsageError(f"depth and slack times depth are at least 1. Got {depth} and {slack}.")
    return 1.0 - math.pow(slack * depth, -2.0 / 3.0)


@implements("G-Lem4.4", kind="published-form")
def published_rounding_bound(size: float, *, nonzeros: int) -> float:
    r"""The published :math:`\rho J`: true, and :math:`2 \sqrt J` times too large (G-E9)."""
    return size * nonzeros


def check_strength(strength: float) -> None:
    """Refuses a strength of pruning that is negative or not finite."""
    if not 0.0 <= strength < math.inf:
        raise UsageError(f"the strength of pruning is a finite number >= 0. Got {strength}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedLayer:
    """Effect of pruning and rounding on one layer, measured or predicted."""

    name: str  # the layer
    strength: float  # d of G-Alg1
    kept_share: float  # chi, the share of weights that stay
    expected_change: float  # gamma_l, the bound of lemma 4.2 on the mean spectral norm of the change
    step: float  # rho_l, distance of two values of a weight
    nonzeros: int  # J_l, weights that are not zero after pruning
    change: float | None = None  # spectral norm of what pruning took away; None if not measured

    def __post_init__(self) -> None:
        norms = (self.expected_change, self.strength, self.change or 0.0)
        if not 0.0 <= self.kept_share <= 1.0 or not 0.0 < self.step < math.inf or self.nonzeros < 0:
            raise UsageError(
                f"layer {self.name}: a share, a step above 0 and a count are needed. Got {self}."
            )
        if any(not 0.0 <= norm < math.inf for norm in norms):
            raise UsageError(f"layer {self.name}: strength and norms are finite and >= 0. Got {self}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningFacts:
    """A pruned network, layer by layer, and how much room the theorems leave to chance."""

    layers: tuple[PrunedLayer, ...]  # in forward order, one for each layer of the network
    slack: float  # eps_l of all layers: a change exceeds eps_l Gamma_l with probability at most 1/eps_l
    # lambda_l of all layers: non-zeros exceed lambda_l times their mean with probability at most 1/lambda_l
    sparsity_slack: float
    constant: float = 1.0  # C of lemma 4.2 inside every Gamma_l; universal, and unknown

    def __post_init__(self) -> None:
        if not self.layers or any(
            not 0.0 < number < math.inf for number in (self.slack, self.sparsity_slack, self.constant)
        ):
            raise UsageError("a pruned network has a layer, and its slacks and constant are above 0.")

    def beside(self, facts: NetworkFacts) -> tuple[tuple[LayerFacts, PrunedLayer], ...]:
        """Every layer with what pruning did to it."""
        names, own = (", ".join(layer.name for layer in each.layers) for each in (facts, self))
        if names != own:
            raise UsageError(
                f"the pruned network has other layers than the network: {own} in place of {names}."
            )
        pairs = tuple(zip(facts.layers, self.layers, strict=True))
        for layer, pruned in pairs:
            if pruned.nonzeros > layer.weights:
                raise UsageError(
                    f"layer {layer.name}: {pruned.nonzeros:,} non-zeros do not fit {layer.weights:,} weights."
                )
        return pairs


@implements("G-Lem4.2:network", kind="numerics")
def gaussian_pruning(
    facts: NetworkFacts, *, strength: float, step: float, slack: float, sparsity_slack: float
) -> PruningFacts:
    """Predict the pruning of layers with Gaussian weights: d, rho, eps_l and lambda_l are those of all."""
    share = kept_share(strength)
    like = PrunedLayer(
        name="", strength=strength, kept_share=share, expected_change=0.0, step=step, nonzeros=0
    )
    layers = []
    for layer in facts.layers:
        rows, columns, variance = layer.rows, layer.columns, layer.variance
        change = expected_change_norm(rows, columns, strength=strength, variance=variance)
        nonzeros = round(expected_nonzeros(rows, columns, strength=strength))
        layers.append(replace(like, name=layer.name, expected_change=change, nonzeros=nonzeros))
    return PruningFacts(layers=tuple(layers), slack=slack, sparsity_slack=sparsity_slack)


@expression("G-Lem4.3", "G-LemB.3", name="Guha 4.3: pruned", unit="deviation")
def pruned_deviation(facts: NetworkFacts, *, pruning: PruningFacts) -> PublishedValue:
    """Change of the outputs by pruning, as printed: ``e d_1^0 prod ||A|| sum eps_l Gamma_l / ||A_l||``."""
    changes, errata = pruned_changes(facts, pruning), ("G-E5", "G-E6", "G-E7", "G-E8", "G-E26")
    sentence = "How far pruning moves an output, with the input dimension where the proof has its norm."
    return _printed_deviation(facts, pruning, changes, sentence=sentence, errata=errata)


@expression("G-Lem4.3:corrected", name="Guha 4.3: pruned, corrected", unit="deviation", kind="numerics")
def pruned_deviation_corrected(facts: NetworkFacts, *, pruning: PruningFacts) -> PublishedValue:
    """The same with what is proved: the norm of the input in place of its dimension."""
    sentence = "How far pruning moves an output of the sample, if weights are Gaussian and C is right."
    return _deviation(facts, pruning, pruned_changes(facts, pruning), sentence=sentence)


@expression("G-Lem4.4:network", name="Guha 4.4: pruned and rounded", unit="deviation")
def rounded_deviation(facts: NetworkFacts, *, pruning: PruningFacts) -> PublishedValue:
    """Change by pruning and rounding, as printed: ``eps_l Gamma_l + rho_l J_l`` in place of the first."""
    changes, errata = rounded_changes(facts, pruning), ("G-E5", "G-E6", "G-E9", "G-E26", "G-E28")
    sentence = """How far pruning and rounding move an output, with the input dimension for its norm and all
        rounding errors in one direction."""
    return _printed_deviation(facts, pruning, changes, sentence=sentence, errata=errata)


_CORRECTED = "Guha 4.4: pruned and rounded, corrected"


@expression("G-Lem4.4:network-corrected", name=_CORRECTED, unit="deviation", kind="numerics")
def rounded_deviation_corrected(facts: NetworkFacts, *, pruning: PruningFacts) -> PublishedValue:
    """The same with what is proved: the norm of the input, and ``rho_l sqrt(J_l) / 2`` for rounding."""
    changes = rounded_changes(facts, pruning, by=rounding_bound)
    sentence = """How far pruning and rounding move an output of the sample, if weights are Gaussian and C is
        right."""
    return _deviation(facts, pruning, changes, sentence=sentence)


def _deviation(
    facts: NetworkFacts, pruning: PruningFacts, changes: Sequence[float], *, sentence: str
) -> PublishedValue:
    failure = facts.depth / pruning.slack
    return PublishedValue(
        log_value=log_e_form(facts, changes, radius=facts.input_norm),
        sentence=sentence,
        failure_published=failure,
        failure_corrected=failure,
        hypotheses=deviation_conditions(facts, pruning, changes),
        constants=(latala(pruning),),
        errata=("G-E6", "G-E26"),
    )


def _printed_deviation(
    facts: NetworkFacts,
    pruning: PruningFacts,
    changes: Sequence[float],
    *,
    sentence: str,
    errata: tuple[str, ...],
) -> PublishedValue:
    """The same with the dimension of the input, which the lemmas print where its norm belongs."""
    proved = _deviation(facts, pruning, changes, sentence=sentence)
    log_value = log_e_form(facts, changes, radius=facts.input_size)
    hypotheses = has_short_inputs(facts), *proved.hypotheses
    return replace(proved, log_value=log_value, hypotheses=hypotheses, errata=errata)


def pruned_changes(facts: NetworkFacts, pruning: PruningFacts) -> list[float]:
    """``eps_l Gamma_l`` for every layer."""
    return [pruning.slack * pruned.expected_change for _, pruned in pruning.beside(facts)]


def rounded_changes(
    facts: NetworkFacts, pruning: PruningFacts, *, by: Callable[..., float] = published_rounding_bound
) -> list[float]:
    """``eps_l Gamma_l + rho_l J_l`` for every layer, or with another bound on rounding."""
    return [
        change + by(layer.step, nonzeros=layer.nonzeros)
        for change, layer in zip(pruned_changes(facts, pruning), pruning.layers, strict=True)
    ]


def log_e_form(facts: NetworkFacts, changes: Sequence[float], *, radius: float) -> float:
    """Log of ``e r prod ||A|| sum U_l / ||A_l||``: G-LemB.2 where norms have to stay logarithms."""
    return 1.0 + safe_log(radius) + log_sum(spectral_products(facts, changes))


def deviation_conditions(
    facts: NetworkFacts, pruning: PruningFacts, changes: Sequence[float]
) -> tuple[Hypothesis, ...]:
    """Conditions of lemmas 4.3 and 4.4 besides their constants."""
    return (
        has_small_changes(facts, changes),
        _covers_measured_changes(pruning),
        Hypothesis("eps_l is above 1, for Markov's inequality", pruning.slack > 1.0, f"{pruning.slack:g}"),
        HAS_GAUSSIAN_WEIGHTS,
        has_no_biases(facts),
        is_fully_connected(facts),
    )


def has_small_changes(facts: NetworkFacts, changes: Sequence[float]) -> Hypothesis:
    """The perturbation condition ``U_l <= ||A_l|| / L``, with the layer that is farthest from it (G-E6)."""
    limits = [layer.spectral / facts.depth for layer in facts.layers]
    excesses = [change - limit for change, limit in zip(changes, limits, strict=True)]
    worst = excesses.index(max(excesses))
    found = f"layer {facts.layers[worst].name}: {changes[worst]:.4g} against {limits[worst]:.4g}"
    statement = "every layer changes by at most its spectral norm over the number of layers"
    return Hypothesis(statement, excesses[worst] <= 0.0, found)


def has_short_inputs(facts: NetworkFacts) -> Hypothesis:
    """Condition for ``d_1^0`` to bound the norm of an input (G-E5)."""
    norm, size = facts.input_norm, facts.input_size
    found = f"{norm:.4g} against {size}"
    return Hypothesis("the norm of an input is at most its dimension", norm <= size, found)


def latala(pruning: PruningFacts) -> Constant:
    """The constant of lemma 4.2 that a pruned network was given."""
    return Constant("C", pruning.constant, "universal constant of Latala's inequality in Gamma_l, unknown")


def _covers_measured_changes(pruning: PruningFacts) -> Hypothesis:
    statement = "pruning took at most eps_l Gamma_l from every layer"
    if any(layer.change is None for layer in pruning.layers):
        return Hypothesis(statement, None)
    limits = (
        (each.name, each.change or 0.0, pruning.slack * each.expected_change) for each in pruning.layers
    )
    over = [name for name, change, limit in limits if change > limit]
    return Hypothesis(statement, not over, f"more from {', '.join(over)}" if over else "as measured")
