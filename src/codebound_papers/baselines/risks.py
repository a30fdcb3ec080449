"""The older bounds in the form of the literature: margin loss plus an excess that shrinks with sqrt(n).

Constants and logarithms that the theorems leave open are 1, or left out, and are declared as such.
"""

import math
from collections.abc import Sequence

from codebound_papers.facts import NetworkFacts
from codebound_papers.framework import big_o_risk
from codebound_papers.value import (
    BIG_O,
    Constant,
    Hypothesis,
    PublishedValue,
    expression,
    has_no_biases,
    is_fully_connected,
    log_sum,
    safe_log,
    separates,
)

_LOGARITHMS = Constant("~", 1.0, "logarithms of n, width and 1/delta that the theorem multiplies with")


@expression("I-17", name="Bounds of the literature", subject="f")
def literature(facts: NetworkFacts) -> tuple[PublishedValue, ...]:
    """The older bounds as risks: l1, Frobenius, spectral with l2,1, spectral with Frobenius."""
    return bm02(facts), neyshabur15(facts), bartlett17(facts), neyshabur17(facts)


def bm02(facts: NetworkFacts) -> PublishedValue:
    """Bartlett and Mendelson 2002: ``sqrt(prod ||A||_{1,inf}^2 / (gamma^2 n))``."""
    in_cube = Hypothesis(
        "inputs have coordinates between -1 and 1",
        True if facts.input_norm <= 1.0 else None,
        f"Euclidean norm up to {facts.input_norm:.4g}",
    )
    return _risk(
        facts,
        name="Bartlett-Mendelson 2002",
        log_capacity=math.fsum(2.0 * safe_log(layer.l1_inf) for layer in facts.layers),
        sentence="Margin loss plus the product of the largest row l1 norms over gamma sqrt(n).",
        constants=(BIG_O,),
        extra=(in_cube,),
    )


def neyshabur15(facts: NetworkFacts) -> PublishedValue:
    """Neyshabur et al. 2015: ``sqrt(B^2 4^L prod ||A||_F^2 / (gamma^2 n))``; many drop the 4^L."""
    log_product = math.fsum(2.0 * safe_log(layer.frobenius) for layer in facts.layers)
    return _risk(
        facts,
        name="Neyshabur 2015",
        log_capacity=_log_squared_input(facts) + facts.depth * math.log(4.0) + log_product,
        sentence="Margin loss plus the product of Frobenius norms, 2^L and input norm over gamma sqrt(n).",
        constants=(BIG_O, Constant("4", 4.0, "to the power of the depth; most comparisons drop it")),
    )


def bartlett17(facts: NetworkFacts) -> PublishedValue:
    """Bartlett et al. 2017: ``B^2 prod ||A||_2^2 (sum (||A^T||_{2,1} / ||A||_2)^{2/3})^3 / (gamma^2 n)``.

    That is under the root; the reference matrices are zero.
    """
    products = spectral_products(facts, [layer.l2_1 for layer in facts.layers])
    return _risk(
        facts,
        name="Bartlett 2017",
        log_capacity=_log_squared_input(facts) + 3.0 * log_sum([2.0 / 3.0 * product for product in products]),
        sentence="Margin loss plus the product of spectral norms, corrected by row norms, and the input norm "
        "over gamma sqrt(n).",
        constants=(BIG_O, _LOGARITHMS, Constant("M_l", 0.0, "reference matrices")),
    )


def neyshabur17(facts: NetworkFacts) -> PublishedValue:
    """Neyshabur et al. 2017: ``B^2 L^2 h ln(Lh) prod ||A||_2^2 sum ||A||_F^2 / ||A||_2^2 / (gamma^2 n)``.

    That is under the root; h is the width.
    """
    sizes = 2.0 * math.log(facts.depth) + math.log(facts.width)
    logarithm = safe_log(math.log(facts.depth * facts.width))
    norms = spectral_capacity(facts, [layer.frobenius for layer in facts.layers])
    return _risk(
        facts,
        name="Neyshabur 2017",
        log_capacity=_log_squared_input(facts) + sizes + logarithm + norms,
        sentence="Margin loss plus the product of spectral norms, stable ranks, depth, width and the input "
        "norm over gamma sqrt(n).",
        constants=(BIG_O, Constant("ln(L n/delta)", 0.0, "added under the root by the theorem, left out")),
    )


@expression("I-17", name="Parameter counting", subject="f", facts="all", kind=None)
def parameter_counting(facts: NetworkFacts) -> PublishedValue:
    """``sqrt(parameters ln 2 / n)``: what counting gives at one bit for every parameter."""
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=math.log(facts.parameters * math.log(2.0))),
        sentence="Margin loss plus the root of the parameters, at one bit each, over n.",
        margin_loss=facts.margin_loss,
        failure_published=facts.delta,
        hypotheses=(separates(facts),),
        constants=(BIG_O, Constant("r", 2.0, "values that a parameter can take; real ones take more")),
    )


def _risk(
    facts: NetworkFacts,
    *,
    name: str,
    log_capacity: float,
    sentence: str,
    constants: tuple[Constant, ...],
    extra: tuple[Hypothesis, ...] = (),
) -> PublishedValue:
    return PublishedValue(
        ref="I-17",
        name=name,
        log_value=big_o_risk(facts, log_nats=over_squared_margin(log_capacity, facts)),
        unit="risk",
        subject="f",
        sentence=sentence,
        margin_loss=facts.margin_loss,
        failure_published=facts.delta,
        hypotheses=(separates(facts), has_no_biases(facts), is_fully_connected(facts), *extra),
        constants=constants,
    )


def _log_squared_input(facts: NetworkFacts) -> float:
    return 2.0 * safe_log(facts.input_norm)


def spectral_products(facts: NetworkFacts, norms: Sequence[float]) -> list[float]:
    """Logs of every layer's norm times the spectral norms of all others: ``prod ||A|| N_l / ||A_l||``.

    Nothing is divided, so a layer of zeros gives a product of zero and no error.
    """
    logs = [safe_log(layer.spectral) for layer in facts.layers]
    return [safe_log(norm) + math.fsum(logs[:place] + logs[place + 1 :]) for place, norm in enumerate(norms)]


def spectral_capacity(facts: NetworkFacts, norms: Sequence[float]) -> float:
    """Log of ``prod ||A||_2^2 sum_l N_l^2 / ||A_l||_2^2`` for one norm N_l per layer."""
    return log_sum([2.0 * product for product in spectral_products(facts, norms)])


def over_squared_margin(log_value: float, facts: NetworkFacts) -> float:
    """``log(value / gamma^2)``; infinite without a positive margin, whatever the value."""
    return log_value - 2.0 * math.log(facts.margin) if facts.margin > 0.0 else math.inf
