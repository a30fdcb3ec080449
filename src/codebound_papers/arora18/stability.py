"""Noise stability as the theorems use it: read off the facts, as a plan, and as conditions."""

import math

from codebound.errors import UsageError
from codebound_papers.arora18.projection_plan import (
    LayerCushions,
    PlanSettings,
    ProjectionPlan,
    epsilon_for_margin,
    plan_projection,
)
from codebound_papers.facts import LayerFacts, NetworkFacts
from codebound_papers.value import Hypothesis, safe_log, separates

_LEAST_ACCURACY = 1e-100  # its square is still a double; zero cushions and infinite contractions are below


def cushion(layer: LayerFacts) -> float:
    """mu_i."""
    return _measured(layer.cushion, layer, "layer cushion")


def interlayer_cushion(layer: LayerFacts) -> float:
    """mu_{i->}."""
    return _measured(layer.interlayer_cushion, layer, "interlayer cushion")


def contractions(facts: NetworkFacts) -> tuple[float, ...]:
    """c_i of every layer; 1 for the last, which has no activation."""
    measured = [_measured(each.contraction, each, "activation contraction") for each in facts.layers[:-1]]
    return (*measured, 1.0)


def spreads(facts: NetworkFacts) -> tuple[float, ...]:
    """beta_i of every layer; 1 for a fully connected layer and for the last."""
    measured = [
        1.0 if layer.patch is None else _measured(layer.spread, layer, "Jacobian spread")
        for layer in facts.layers[:-1]
    ]
    return (*measured, 1.0)


def log_demand(layer: LayerFacts) -> float:
    """Log of ``ceil(kappa/s)^2 / (mu_i^2 mu_{i->}^2)``; infinite where a cushion is zero."""
    return 2.0 * (math.log(layer.patch or 1) - safe_log(cushion(layer)) - safe_log(interlayer_cushion(layer)))


def plan(
    facts: NetworkFacts,
    *,
    constant: float = 1.0,
    contraction: float | None = None,
    spread: float | None = None,
) -> ProjectionPlan | None:
    """What the lemmas ask of every layer for the margin; None where they ask for infinitely many numbers.

    Args:
        facts: The network and its sample.
        constant: Q of algorithm 4, which the paper leaves open.
        contraction: The largest c_i where it is not that of a layer: sums of branches have one too.
        spread: The same for beta.
    """
    layers = [(layer, cushion(layer), interlayer_cushion(layer)) for layer in facts.layers]
    contraction = max(contractions(facts)) if contraction is None else contraction
    spread = max(spreads(facts)) if spread is None else spread
    if min(facts.margin, facts.largest_output) <= 0.0:
        return None
    epsilon = (
        epsilon_for_margin(facts.margin, largest_output=facts.largest_output)
        if fits_the_outputs(facts).holds
        else 1.0
    )
    if epsilon * min(a * b for _, a, b in layers) < _LEAST_ACCURACY * contraction * spread:
        return None
    return plan_projection(
        [
            LayerCushions(
                name=layer.name, weights=layer.weights, cushion=a, interlayer_cushion=b, patch=layer.patch
            )
            for layer, a, b in layers
        ],
        PlanSettings(
            contraction=contraction,
            epsilon=epsilon,
            delta=facts.delta,
            examples=facts.examples,
            width=facts.width,
        ),
        spread=spread,
        constant=constant,
    )


def conditions(facts: NetworkFacts, planned: ProjectionPlan | None) -> tuple[Hypothesis, ...]:
    """What the induction over the layers needs."""
    return separates(facts), is_smooth(facts), fits_the_outputs(facts), _is_accurate(planned)


def is_smooth(facts: NetworkFacts) -> Hypothesis:
    """Smoothness of at least three times the depth."""
    statement = "interlayer smoothness rho_delta >= 3d"
    if facts.smoothness is None:
        return Hypothesis(statement, None)
    least = 3 * facts.depth
    return Hypothesis(statement, facts.smoothness >= least, f"{facts.smoothness:.4g} against {least}")


def fits_the_outputs(facts: NetworkFacts) -> Hypothesis:
    """A larger margin than the outputs allow makes every example an error, and the theorem trivial."""
    return Hypothesis(
        "gamma^2 <= 2 max||f(x)||^2",
        abs(facts.margin) <= math.sqrt(2.0) * facts.largest_output,
        f"gamma {facts.margin:.4g}, max||f(x)|| {facts.largest_output:.4g}",
    )


def _is_accurate(planned: ProjectionPlan | None) -> Hypothesis:
    statement = "eps_i <= 1 in every layer"
    if planned is None:
        return Hypothesis(statement, None)
    worst = max(planned.layers, key=lambda layer: layer.epsilon)
    return Hypothesis(statement, worst.epsilon <= 1.0, f"at most {worst.epsilon:.3g}, in {worst.name}")


def _measured(value: float | None, layer: LayerFacts, what: str) -> float:
    if value is None:
        raise UsageError(
            f"layer {layer.name} has no {what}: it was not measured, and the expression needs it. "
            "Measure noise stability on the sample first (codebound_papers.measure.record)."
        )
    return value
