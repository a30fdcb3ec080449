"""Heavy-tailed weights (Shin 2021): theorem 2 as published, and what its thresholds leave to replace."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_papers.arora18 import projection_plan
from codebound_papers.facts import NetworkFacts, is_fully_connected, separates
from codebound_papers.framework import big_o_risk, dudley_integral
from codebound_papers.logs import log_sum, safe_log
from codebound_papers.shin21 import compressor
from codebound_papers.value import BIG_O, Hypothesis, PublishedValue, expression

RANDOM_WEIGHTS = "weights are drawn from a power law, independently of the directions they act on"
_HAS_RANDOM_WEIGHTS = Hypothesis(RANDOM_WEIGHTS, None, "trained weights are not")
_BALANCE = 0.01  # by which the Frobenius norms of balanced layers may differ
_ERRATA = ("S-E1", "S-E2", "S-E6", "S-E7", "S-E8", "S-E12", "S-E21", "S-E22")


@dataclass(frozen=True, slots=True)
class LayerThreshold:
    """Below which size theorem 2 lets the weights of a layer be replaced."""

    name: str  # the layer
    epsilon: float  # accuracy eps_i; 0 where no positive one is left
    published: float  # eps_i / sqrt(ln(3/eta_i)), by algorithm 1 without noise
    scale_free: float  # eps_i ||W||_F / sqrt(2 ln(2/eta_i)), with the right constant and scale (S-E2, S-E8)
    typical: float  # root mean square of the weights


@implements("S-Alg1:threshold", kind="numerics")
def replacement_thresholds(facts: NetworkFacts) -> tuple[LayerThreshold, ...]:
    """The thresholds of theorem 2, layer by layer, beside a typical weight: far below it in real networks.

    ``eps_i = eps mu_i mu_{i->} / (6 c d)`` and ``eta_i = delta / (2 d^2 h m)``, as in ``plan_projection``.
    Where f does not separate the sample they are 0: nothing may be replaced.
    """
    planned = projection_plan.plan_projection(facts)
    if planned is None:
        epsilons, published, scale_free = [0.0] * facts.depth, 0.0, 0.0
    else:  # thresholds are proportional to the accuracy
        epsilons = [layer.epsilon for layer in planned.layers]
        published = math.sqrt(compressor.published_spread(1.0, planned.eta))
        scale_free = math.sqrt(compressor.spread(1.0, planned.eta))
    found = []
    for layer, epsilon in zip(facts.layers, epsilons, strict=True):
        free, typical = epsilon * scale_free * layer.frobenius, layer.frobenius / math.sqrt(layer.weights)
        found.append(LayerThreshold(layer.name, epsilon, epsilon * published, free, typical))
    return tuple(found)


@expression("S-Prop1.1:network", name="Shin 1.1: failure", unit="probability", facts="stability")
def published_replacement_failure(
    facts: NetworkFacts, *, thresholds: Sequence[float], variance: float = 0.0
) -> PublishedValue:
    """Evaluate the probability of S-Prop1.1 that some output moves too far, over all layers and examples.

    Weights of a layer below its threshold tau_i are replaced by noise of variance t.
    """
    tail, norms = compressor.published_product_tail, [1.0] * facts.depth
    return _failure(facts, thresholds, variance, tail=tail, norms=norms, law=_HAS_RANDOM_WEIGHTS)


@expression(
    "S-Prop1.1x:network", name="Shin 1.1x: failure", unit="probability", facts="stability", kind="numerics"
)
def replacement_failure(
    facts: NetworkFacts, *, thresholds: Sequence[float], variance: float = 0.0
) -> PublishedValue:
    """The same by S-Prop1.1x, with accuracies relative to the norms of the layers (S-E8)."""
    statement = (
        "replaced weights are independent, of mean zero, and independent of the directions they act on"
    )
    law = Hypothesis(statement, None, "trained weights are not")
    norms = [layer.frobenius for layer in facts.layers]
    return _failure(facts, thresholds, variance, tail=compressor.product_tail, norms=norms, law=law)


@expression("S-Thm2", name="Shin 2: heavy tails", facts="stability")
def heavy_tail_risk(facts: NetworkFacts, *, kept: Sequence[int]) -> PublishedValue:
    """``margin loss + sqrt(sum_i k_i / n)``, about g: a layer keeps k_i weights, the others are noise."""
    sentence = """Margin loss of f plus the root of the weights above the thresholds over n; where these
        weights are is not counted, and the others are noise."""
    return _risk(facts, kept, log_nats=safe_log(_total(facts, kept)), sentence=sentence)


@expression("S-Thm2:dudley", name="Shin 2 with logarithms", facts="stability")
def heavy_tail_risk_with_logarithms(facts: NetworkFacts, *, kept: Sequence[int]) -> PublishedValue:
    """The same with the logarithms that the proof hides: ``margin loss + dudley_integral / sqrt(n)``.

    ``kappa = e^2 c^d max||f|| d / prod_i mu_i``; Arora's factor 2/gamma is missing in it (S-E21).
    """
    contraction = facts.depth * math.log(max(projection_plan.contractions(facts)))
    cushions = sum(safe_log(projection_plan.cushion(layer)) for layer in facts.layers)
    log_kappa = 2.0 + contraction + safe_log(facts.largest_output) + math.log(facts.depth) - cushions
    integral = dudley_integral(_total(facts, kept), log_kappa=log_kappa)
    sentence = """Margin loss of f plus the entropy integral of the weights above the thresholds over the root
        of n."""
    return _risk(facts, kept, log_nats=2.0 * safe_log(integral), sentence=sentence)


def _risk(facts: NetworkFacts, kept: Sequence[int], *, log_nats: float, sentence: str) -> PublishedValue:
    plain = separates(facts), is_fully_connected(facts), projection_plan.is_smooth(facts)
    norms = projection_plan.fits_the_outputs(facts), *_are_balanced(facts)
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=log_nats),
        sentence=sentence,
        margin_loss=facts.margin_loss,
        failure_published=facts.delta,
        hypotheses=(*plain, *norms, _replaces(facts, kept), _HAS_RANDOM_WEIGHTS),
        constants=(BIG_O,),
        errata=_ERRATA,
    )


def _failure(
    facts: NetworkFacts,
    thresholds: Sequence[float],
    variance: float,
    *,
    tail: Callable[..., float],
    norms: Sequence[float],
    law: Hypothesis,
) -> PublishedValue:
    _check_layers(facts, thresholds, "threshold")
    if min(*thresholds, variance) < 0.0:
        raise UsageError(f"thresholds and variance are at least 0. Got {list(thresholds)} and {variance}.")
    planned, logs = projection_plan.plan_projection(facts), [math.inf]
    if planned is not None:
        logs = [
            safe_log(tail(layer.epsilon * norm, threshold=threshold, variance=variance))
            for layer, norm, threshold in zip(planned.layers, norms, thresholds, strict=True)
        ]
    directions = math.log(facts.depth * facts.width * facts.examples)
    plain = separates(facts), is_fully_connected(facts), projection_plan.fits_the_outputs(facts)
    return PublishedValue(
        log_value=directions + log_sum(logs),
        sentence="""Probability that replacing the weights below the thresholds moves some output of a layer
        too far for the margin, added up over layers, examples and coordinates.""",
        hypotheses=(*plain, law),
        errata=("S-E1", "S-E2", "S-E6", "S-E8"),
    )


def _are_balanced(facts: NetworkFacts) -> tuple[Hypothesis, Hypothesis]:
    least = min(facts.layers, key=lambda layer: layer.frobenius)
    low, high = least.frobenius, max(layer.frobenius for layer in facts.layers)
    same = f"all layers have the same Frobenius norm, within {_BALANCE:.0%}"
    return (
        Hypothesis("||W||_F >= 1 in every layer", low >= 1.0, f"{low:.4g} in {least.name}"),
        Hypothesis(same, high <= (1.0 + _BALANCE) * low, f"{low:.4g} to {high:.4g}"),
    )


def _replaces(facts: NetworkFacts, kept: Sequence[int]) -> Hypothesis:
    weights = sum(layer.weights for layer in facts.layers)
    found = f"{weights - sum(kept):,} of {weights:,} weights"
    reach = [each.published / each.typical for each in replacement_thresholds(facts) if each.typical > 0.0]
    if reach:
        found += f"; the theorem's thresholds are at most {max(reach):.2g} of a typical weight"
    return Hypothesis("something is replaced", sum(kept) < weights, found)


def _total(facts: NetworkFacts, kept: Sequence[int]) -> int:
    _check_layers(facts, kept, "count")
    for layer, count in zip(facts.layers, kept, strict=True):
        if not 0 <= count <= layer.weights:
            raise UsageError(f"layer {layer.name} has {layer.weights:,} weights and cannot keep {count:,}.")
    return sum(kept)


def _check_layers(facts: NetworkFacts, values: Sequence[float], what: str) -> None:
    if len(values) != facts.depth:
        raise UsageError(f"the network has {facts.depth} layers; got a {what} for {len(values)} of them.")
