"""The bounds from noise stability (Arora et al. 2018, sections 4 and 5) as published.

They depend on the network through cushions, contraction and spread, and on the outputs relative to the
margin. Cushions of A-Imp-i and A-Imp-ii are used by putting them into the facts.
"""

import math
from dataclasses import dataclass, replace

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_papers.arora18 import projection_plan
from codebound_papers.facts import NetworkFacts, separates
from codebound_papers.framework import big_o_risk, over_squared_margin
from codebound_papers.logs import log_sum, safe_exp, safe_log
from codebound_papers.value import BIG_O, Constant, Hypothesis, PublishedValue, expression

OUTLIERS = 0.05
"""Share of the examples that the rows with outliers leave out of the measures of noise stability."""
_ERRATA = ("A-E4", "A-E6", "A-E7", "A-E8", "A-E14", "A-E15", "A-E23", "A-E26")
_CONV_ERRATA = (*_ERRATA, "A-E17", "A-E18")


@dataclass(frozen=True, slots=True)
class LayerComplexity:
    """A row of table 1: what a layer adds to the sum, beside its number of weights."""

    name: str  # the layer
    log_value: float  # logarithm of c_i^2 beta_i^2 ceil(kappa/s)^2 / (mu_i^2 mu_{i->}^2)
    weights: int  # its number of weights

    @property
    def value(self) -> float:
        """The same on its natural scale; infinite where a double overflows."""
        return safe_exp(self.log_value)

    @property
    def percent(self) -> float:
        """The value in percent of the weights, which is no compression ratio (A-E22)."""
        return 100.0 * self.value / self.weights


@implements("A-Tab1", kind="published-form")
def table_rows(facts: NetworkFacts) -> tuple[LayerComplexity, ...]:
    """Table 1: one row per layer, with the contraction and the spread of that layer."""
    rows, spreads = [], projection_plan.spreads(facts)
    for layer, c, beta in zip(facts.layers, projection_plan.contractions(facts), spreads, strict=True):
        log_value = 2.0 * (safe_log(c) + safe_log(beta)) + projection_plan.log_demand(layer)
        rows.append(LayerComplexity(layer.name, log_value, layer.weights))
    return tuple(rows)


@expression("A-Lem10:count", name="Arora lemma 10: numbers", unit="numbers", facts="stability")
def margin_numbers(facts: NetworkFacts) -> PublishedValue:
    """Numbers that stand for f: ``144 c^2 d^2 log(mdh/delta) max||f||^2/gamma^2 sum_i 1/(mu_i mu_{i->})^2``.

    That is lemma 3, ``published_total``, at the accuracy of ``epsilon_for_margin``.
    """
    _require_fully_connected(facts)
    log_numerator = math.log(2.0 * projection_plan.compression_threshold(facts)) + _log_stability(facts)
    return PublishedValue(
        log_value=over_squared_margin(log_numerator, facts),
        sentence=f"Numbers that lemma 10 asks for, with its constant 144; f has {facts.parameters:,}.",
        failure_published=facts.delta / 2.0,
        hypotheses=_conditions(facts),
        errata=_ERRATA,
    )


@expression(
    "A-X4.1:total", name="Arora lemma 10: proven numbers", unit="numbers", facts="stability", kind="numerics"
)
def proven_numbers(facts: NetworkFacts) -> PublishedValue:
    """Numbers with which the proof of lemma 10 goes through: the counts of ``plan_projection``, added up."""
    _require_fully_connected(facts)
    planned = projection_plan.plan_projection(facts)
    counts = [] if planned is None else [layer.count or 0 for layer in planned.layers]
    return PublishedValue(
        log_value=math.log(sum(counts)) if counts else math.inf,
        sentence="Numbers with which the proof of lemma 10, its constants repaired, keeps every "
        f"classification of margin gamma on the sample; f has {facts.parameters:,}.",
        failure_corrected=facts.delta / 2.0 + facts.delta,
        hypotheses=_conditions(facts),
        errata=("A-E4", "A-E6", "A-E8", "A-E26"),
    )


@expression("A-Thm4.1", name="Arora 4.1: noise stability", facts="stability")
def fully_connected_risk(facts: NetworkFacts, *, outliers: float = 0.0) -> PublishedValue:
    """``margin loss + sqrt(c^2 d^2 max||f||^2 sum_i 1/(mu_i mu_{i->})^2 / (gamma^2 n))``, about g.

    Differs.    The failure probability of the measured smoothness, which the paper leaves out, is in the
                corrected one: delta again (A-E8). The hidden logarithms contain the depth once more (A-E15).

    The outliers zeta are the share of the sample that the measurements leave out; it is added.

    >>> from codebound_papers.facts import LayerFacts
    >>> layer = LayerFacts(name="0", rows=10, columns=784, frobenius=9.0, spectral=3.0, operator_norm=3.0,
    ...                    l2_1=28.0, l1_inf=80.0, variance=0.01, cushion=0.2, interlayer_cushion=0.3)
    >>> facts = NetworkFacts(layers=(layer,), examples=60_000, classes=10, margin=0.5, margin_loss=0.1,
    ...                      input_norm=28.0, input_size=784, largest_output=9.0, delta=0.05,
    ...                      parameters=7840, smoothness=2.0)
    >>> risk = fully_connected_risk(facts)
    >>> round(risk.value, 3)  # 0.1 + 9 / (0.5 * 0.2 * 0.3 * sqrt(60000))
    1.325
    >>> [condition.statement for condition in risk.unmet]
    ['interlayer smoothness rho_delta >= 3d', 'some layer needs fewer numbers than it has weights']
    """
    _require_fully_connected(facts)
    return PublishedValue(
        log_value=_log_risk(facts, outliers),
        sentence="Margin loss of f plus the root of contraction, depth, largest output and cushions over the "
        "margin and n; about a compressed g that need not exist.",
        margin_loss=facts.margin_loss,
        failure_published=facts.delta,
        failure_corrected=2.0 * facts.delta,
        hypotheses=_conditions(facts),
        constants=(BIG_O,),
        errata=_ERRATA,
    )


@implements("A-Thm4.1:cover", kind="published-form")
def covering_nats(numbers: float, *, width: int, log_kappa: float, log_distance: float = 0.0) -> float:
    """``2 q ln(kappa h / eps)``: log of the networks of q numbers of which one is within eps of any other.

    For theorems 4.1 and 5.1; the integral of its root is ``dudley_integral(2 q)`` at ``kappa h / (4 q)``.

    >>> round(covering_nats(100, width=50, log_kappa=3.0, log_distance=-1.0), 1)
    1582.4
    """
    if numbers < 0 or width < 1:
        raise UsageError(f"a network has numbers, and layers of a width. Got {numbers} and {width}.")
    return 2.0 * numbers * max(0.0, log_kappa + math.log(width) - log_distance)


@expression("A-Imp-i", name="Arora: noise stability, from the initial weights", facts="distance", kind=None)
def noise_stability_from_initial(facts: NetworkFacts) -> tuple[PublishedValue, ...]:
    """Theorem 5.1 or, without a convolution, 4.1, with cushions relative to the distance from the start."""
    has_convolution = any(layer.patch is not None for layer in facts.layers)
    value = (convolutional_risk if has_convolution else fully_connected_risk)(facts)
    return (replace(value, ref="A-Imp-i", name=f"{value.name}, from the initial weights"),)


_WITH_OUTLIERS = f"Arora 4.1: noise stability, {OUTLIERS:.0%} outliers"


@expression("A-Imp-ii", name=_WITH_OUTLIERS, facts="without outliers", kind=None)
def fully_connected_risk_with_outliers(facts: NetworkFacts) -> PublishedValue:
    """Theorem 4.1, measured on all but a share of the sample, which is added."""
    return fully_connected_risk(facts, outliers=OUTLIERS)


@expression("A-Lem14:count", "A-Lem13", name="Arora lemma 14: numbers", unit="numbers", facts="stability")
def convolutional_numbers(facts: NetworkFacts) -> PublishedValue:
    """Numbers by lemma 14: those of algorithm 4 for convolutions, of lemma 3 for fully connected layers.

    Lemma 13 has ``Q = 144 Q'^2`` with another open constant. No count is proven for convolutions (A-E17).
    """
    planned = projection_plan.plan_projection(facts)
    published = [] if planned is None else [safe_log(layer.published) for layer in planned.layers]
    return PublishedValue(
        log_value=log_sum(published) if published else math.inf,
        sentence=f"Numbers that lemma 14 asks for, with its open constant as 1; f has {facts.parameters:,}.",
        failure_published=facts.delta,
        hypotheses=(*_conditions(facts), _is_independent(facts)),
        constants=(Constant("Q", 1.0, "in the numbers of algorithm 4"),),
        errata=_CONV_ERRATA,
    )


@expression("A-Thm5.1", name="Arora 5.1: noise stability", facts="convolutions")
def convolutional_risk(facts: NetworkFacts) -> PublishedValue:
    """Theorem 4.1 with a factor ``beta^2 ceil(kappa/s)^2`` in the sum, about g.

    Needs.      Lemma 12, which is false (A-E17): nothing of this is proven.
    """
    return PublishedValue(
        log_value=_log_risk(facts),
        sentence="Margin loss of f plus the root of contraction, spread, depth, patch size, largest output "
        "and cushions over the margin and n; its proof rests on a lemma that is false.",
        margin_loss=facts.margin_loss,
        failure_published=facts.delta,
        hypotheses=(*_conditions(facts), _is_independent(facts)),
        constants=(BIG_O,),
        errata=_CONV_ERRATA,
    )


@expression("A-CorC.1", name=_WITH_OUTLIERS.replace("4.1", "5.1"), facts="best of convolutions")
def convolutional_risk_with_outliers(facts: NetworkFacts, *, outliers: float = OUTLIERS) -> PublishedValue:
    """The same, measured on all but a share of the sample, zeta, which is added."""
    return replace(convolutional_risk(facts), log_value=_log_risk(facts, outliers))


def _log_stability(facts: NetworkFacts) -> float:
    """Log of ``c^2 beta^2 max||f||^2 sum_i ceil(kappa/s)^2 / (mu_i mu_{i->})^2``, c and beta the largest."""
    c, beta = max(projection_plan.contractions(facts)), max(projection_plan.spreads(facts))
    factors = sum(safe_log(factor) for factor in (c, beta, facts.largest_output))
    return 2.0 * factors + log_sum([projection_plan.log_demand(layer) for layer in facts.layers])


def _log_risk(facts: NetworkFacts, outliers: float = 0.0) -> float:
    if not 0.0 <= outliers <= 1.0:
        raise UsageError(f"`outliers` is a share of the sample between 0 and 1. Got {outliers}.")
    log_numerator = 2.0 * math.log(facts.depth) + _log_stability(facts)
    risk = big_o_risk(facts, log_nats=over_squared_margin(log_numerator, facts))
    return log_sum([risk, safe_log(outliers)])


def _conditions(facts: NetworkFacts) -> tuple[Hypothesis, ...]:
    """Conditions for the induction over the layers, and for a gain by it."""
    accurate, shorter = "eps_i <= 1 in every layer", "some layer needs fewer numbers than it has weights"
    first = separates(facts), projection_plan.is_smooth(facts), projection_plan.fits_the_outputs(facts)
    planned = projection_plan.plan_projection(facts)
    if planned is None:
        return *first, Hypothesis(accurate, None), Hypothesis(shorter, None)
    worst = max(planned.layers, key=lambda layer: layer.epsilon)
    small = [x.name for x in planned.layers if (x.published if x.count is None else x.count) < x.weights]
    return (
        *first,
        Hypothesis(accurate, worst.epsilon <= 1.0, f"at most {worst.epsilon:.3g}, in {worst.name}"),
        Hypothesis(shorter, bool(small), ", ".join(small) or "none is"),
    )


def _is_independent(facts: NetworkFacts) -> Hypothesis:
    has_convolution = any(layer.patch is not None for layer in facts.layers)
    found = "they share the projection on one subspace" if has_convolution else "there is none"
    return Hypothesis("errors at the locations of a convolution are independent", not has_convolution, found)


def _require_fully_connected(facts: NetworkFacts) -> None:
    for layer in facts.layers:
        if layer.patch is not None:
            raise UsageError(
                f"layer {layer.name} is a convolution, and the statement is about fully connected layers. "
                "Take `convolutional_risk` or `convolutional_numbers`."
            )


_BAR = "noise stability (Arora18)"


@expression("A-Fig2M:ours", name=_BAR, unit="capacity", facts="stability", form=", Arora's figure")
def noise_stability_bar(facts: NetworkFacts) -> PublishedValue:
    """The bar "ours" of figure 2: ``max||f||^2 / gamma^2`` times the sum of the rows of table 1."""
    rows = log_sum([row.log_value for row in table_rows(facts)])
    return PublishedValue(
        log_value=over_squared_margin(2.0 * safe_log(facts.largest_output) + rows, facts),
        sentence="Squared largest output over the squared margin, times contraction, spread and patch size "
        "over the cushions, summed over layers.",
        hypotheses=(separates(facts),),
        errata=("A-E22",),
    )
