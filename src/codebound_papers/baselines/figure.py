"""The older bounds as the bars of Arora et al. 2018, figure 2: numerators, before n and the root.

Depth, logarithms, constants and the input norm are left out, as printed; ``like_for_like`` makes them risks.
"""

import math

from codebound_papers.arora18.noise_stability import table_rows
from codebound_papers.baselines.risks import over_squared_margin, spectral_capacity
from codebound_papers.facts import NetworkFacts
from codebound_papers.value import PublishedValue, expression, log_sum, safe_log, separates

_REF = "I-17:arora-figure"


@expression(_REF, name="Bars of Arora's figure 2", unit="capacity", subject="f", form=", Arora's figure")
def arora_figure(facts: NetworkFacts) -> tuple[PublishedValue, ...]:
    """The bars of older bounds in the order of the figure, and the parameter count beside them."""
    return l1_inf(facts), frobenius(facts), spectral_l12(facts), spectral_frobenius(facts), parameters(facts)


@expression(
    "A-Fig2M:ours",
    name="noise stability (Arora18)",
    unit="capacity",
    facts="stability",
    form=", Arora's figure",
)
def noise_stability_bar(facts: NetworkFacts) -> PublishedValue:
    """The bar "ours" of figure 2: ``max||f||^2 / gamma^2`` times the sum of the rows of table 1.

    Depth, logarithms and constants are left out, as in the other bars.
    """
    rows = log_sum([row.log_value for row in table_rows(facts)])
    return PublishedValue(
        log_value=over_squared_margin(2.0 * safe_log(facts.largest_output) + rows, facts),
        sentence="Squared largest output over the squared margin, times contraction, spread and patch size "
        "over the cushions, summed over layers.",
        hypotheses=(separates(facts),),
        errata=("A-E22",),
    )


def l1_inf(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_{1,inf} / gamma^2``: without the square that the other bars have (A-E22)."""
    return _bar(
        facts,
        name="l1,inf (BM02)",
        log_numerator=math.fsum(safe_log(layer.l1_inf) for layer in facts.layers),
        sentence="Product of the largest row l1 norms, not squared, over the squared margin.",
    )


def frobenius(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_F^2 / gamma^2``."""
    return _bar(
        facts,
        name="Frobenius (Ney15)",
        log_numerator=math.fsum(2.0 * safe_log(layer.frobenius) for layer in facts.layers),
        sentence="Product of squared Frobenius norms over the squared margin.",
    )


def spectral_l12(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_2^2 sum ||A||_{1,2}^2 / ||A||_2^2 / gamma^2``: squares for Bartlett's powers 2/3."""
    return _bar(
        facts,
        name="spectral l1,2 (Bartlett17)",
        log_numerator=spectral_capacity(facts, [layer.l2_1 for layer in facts.layers]),
        sentence="Product of squared spectral norms times the squared relative sums of row norms, over the "
        "squared margin.",
    )


def spectral_frobenius(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_2^2 sum h_i ||A||_F^2 / ||A||_2^2 / gamma^2``, h_i the units of a layer."""
    return _bar(
        facts,
        name="spectral Frobenius (Ney17)",
        log_numerator=spectral_capacity(
            facts, [math.sqrt(layer.rows) * layer.frobenius for layer in facts.layers]
        ),
        sentence="Product of squared spectral norms times units and stable ranks, over the squared margin.",
    )


def parameters(facts: NetworkFacts) -> PublishedValue:
    """The number of parameters: the bar called VC."""
    return PublishedValue(
        ref=_REF,
        name="Parameters",
        log_value=math.log(facts.parameters),
        unit="capacity",
        subject="f",
        sentence="Number of parameters, biases included.",
        errata=("A-E22",),
    )


def _bar(facts: NetworkFacts, *, name: str, log_numerator: float, sentence: str) -> PublishedValue:
    return PublishedValue(
        ref=_REF,
        name=name,
        log_value=over_squared_margin(log_numerator, facts),
        unit="capacity",
        subject="f",
        sentence=sentence,
        hypotheses=(separates(facts),),
        errata=("A-E22",),
    )
