"""The bound from spectral norms and the margin (Arora et al. 2018, theorem 2.2).

Each layer loses its small singular values; ``compress.exponential_deviation`` (A-Lem9) says how far the
outputs move. The recipe for the rank is in ``compress.lowrank``.
"""

import math

from codebound_papers.baselines.risks import over_squared_margin, spectral_capacity
from codebound_papers.facts import NetworkFacts
from codebound_papers.framework import big_o_risk
from codebound_papers.value import (
    BIG_O,
    Hypothesis,
    PublishedValue,
    expression,
    has_no_biases,
    is_fully_connected,
    safe_exp,
    safe_log,
    separates,
)


@expression("A-Thm2.2", name="Arora 2.2: spectral norms", subject="f")
def spectral_margin_risk(facts: NetworkFacts) -> PublishedValue:
    """``margin loss + sqrt(h d^2 max||x||^2 prod||A||_2^2 sum_i srank_i / (gamma^2 n))``.

    Differs.    The theorem prints ``max||x||`` without the square that its proof has (A-E10);
                ``printed_spectral_margin_risk`` leaves it so.

    Example:
        >>> from codebound_papers.facts import LayerFacts
        >>> layer = LayerFacts(name="0", rows=10, columns=784, frobenius=9.0, spectral=3.0, operator_norm=3.0,
        ...                    l2_1=28.0, l1_inf=80.0, variance=0.01)
        >>> facts = NetworkFacts(layers=(layer,), examples=60_000, classes=10, margin=0.5, margin_loss=0.1,
        ...                      input_norm=28.0, input_size=784, largest_output=9.0, delta=0.05,
        ...                      parameters=7840)
        >>> round(spectral_margin_risk(facts).value, 2)  # 0.1 + sqrt(10 * 28^2 * 9^2 / (0.5^2 * 60000))
        6.61
    """
    return _risk(
        facts,
        log_input=2.0 * safe_log(facts.input_norm),
        sentence="Margin loss plus the root of width, stable ranks and squared depth, input norm and "
        "spectral norms over the squared margin and n.",
    )


@expression("A-Thm2.2:printed", name="Arora 2.2 as printed", subject="f")
def printed_spectral_margin_risk(facts: NetworkFacts) -> PublishedValue:
    """The same with ``max||x||`` in place of its square: the value depends on the unit of the inputs."""
    return _risk(
        facts,
        log_input=safe_log(facts.input_norm),
        sentence="Theorem 2.2 of Arora et al. with the input norm not squared: its value changes with the "
        "unit in which inputs are measured.",
    )


def _risk(facts: NetworkFacts, *, log_input: float, sentence: str) -> PublishedValue:
    log_numerator = (
        math.log(facts.width)
        + 2.0 * math.log(facts.depth)
        + log_input
        + spectral_capacity(facts, [layer.frobenius for layer in facts.layers])
    )
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=over_squared_margin(log_numerator, facts)),
        sentence=sentence,
        margin_loss=facts.margin_loss,
        hypotheses=(
            separates(facts),
            is_fully_connected(facts),
            has_no_biases(facts),
            _allowance_is_small(facts),
            Hypothesis("no input of the domain is longer than those of the sample", None),
        ),
        constants=(BIG_O,),
        errata=("A-E1", "A-E10", "A-E20", "A-E23"),
    )


def _allowance_is_small(facts: NetworkFacts) -> Hypothesis:
    """What a layer may lose is at most 1/d of its norm, as the perturbation lemma needs."""
    log_limit = 1.0 + safe_log(facts.input_norm) + sum(safe_log(layer.spectral) for layer in facts.layers)
    return Hypothesis(
        "gamma <= e max||x|| prod||A||_2",
        safe_log(max(facts.margin, 0.0)) <= log_limit,
        f"{facts.margin:.4g} against {safe_exp(log_limit):.4g}",
    )
