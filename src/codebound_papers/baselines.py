"""Older bounds on f in three forms: as excess risks, as bars of a figure, and as released code has them.

A risk is the margin loss plus an excess that shrinks with sqrt(n); constants and logarithms that the theorems
leave open are 1, or left out, and declared. The bars of Arora et al. 2018, figure 2, are numerators before n
and the root, without depth, logarithms, constants and input norm. So are three in the released code of Guha
et al. 2023, beside its own value, which is divided and rooted (G-E22). ``like_for_like`` makes risks of them.
"""

import math
from dataclasses import replace
from functools import partial

from codebound.run.references import implements
from codebound_papers.facts import NetworkFacts, has_no_biases, is_fully_connected, separates
from codebound_papers.framework import big_o_risk, over_squared_margin, spectral_capacity, spectral_products
from codebound_papers.logs import log_sum, safe_log
from codebound_papers.value import BIG_O, Constant, Hypothesis, PublishedValue, expression

_FIGURE, _CODE = "I-17:arora-figure", "I-17:guha-code"
_ERRATA = {_FIGURE: ("A-E22",), _CODE: ("G-E22", "G-E23")}
_ARORA, _GUHA = ", Arora's figure", ", Guha's code"
_LOGARITHMS = Constant("~", 1.0, "logarithms of n, width and 1/delta that the theorem multiplies with")


@expression("I-17", name="Bounds of the literature", subject="f")
def literature(facts: NetworkFacts) -> tuple[PublishedValue, ...]:
    """The older bounds as risks: l1, Frobenius, spectral with l2,1, spectral with Frobenius."""
    return bm02(facts), neyshabur15(facts), bartlett17(facts), neyshabur17(facts)


def bm02(facts: NetworkFacts) -> PublishedValue:
    """Bartlett and Mendelson 2002: ``sqrt(prod ||A||_{1,inf}^2 / (gamma^2 n))``."""
    is_short, found = facts.input_norm <= 1.0, f"Euclidean norm up to {facts.input_norm:.4g}"
    in_cube = Hypothesis("inputs have coordinates between -1 and 1", is_short or None, found)
    capacity = math.fsum(2.0 * safe_log(layer.l1_inf) for layer in facts.layers)
    sentence = "Margin loss plus the product of the largest row l1 norms over gamma sqrt(n)."
    name = "Bartlett-Mendelson 2002"
    risk = _risk(facts, name=name, log_capacity=capacity, sentence=sentence, constants=(BIG_O,))
    return replace(risk, hypotheses=(*risk.hypotheses, in_cube))


def neyshabur15(facts: NetworkFacts) -> PublishedValue:
    """Neyshabur et al. 2015: ``sqrt(B^2 4^L prod ||A||_F^2 / (gamma^2 n))``; many drop the 4^L."""
    log_product = math.fsum(2.0 * safe_log(layer.frobenius) for layer in facts.layers)
    capacity = _log_squared_input(facts) + facts.depth * math.log(4.0) + log_product
    sentence = "Margin loss plus the product of Frobenius norms, 2^L and input norm over gamma sqrt(n)."
    constants = BIG_O, Constant("4", 4.0, "to the power of the depth; most comparisons drop it")
    return _risk(facts, name="Neyshabur 2015", log_capacity=capacity, sentence=sentence, constants=constants)


def bartlett17(facts: NetworkFacts) -> PublishedValue:
    """Bartlett et al. 2017: ``B^2 prod ||A||_2^2 (sum (||A^T||_{2,1} / ||A||_2)^{2/3})^3 / (gamma^2 n)``.

    That is under the root; the reference matrices are zero.
    """
    products = spectral_products(facts, [layer.l2_1 for layer in facts.layers])
    capacity = _log_squared_input(facts) + 3.0 * log_sum([2.0 / 3.0 * product for product in products])
    sentence = """Margin loss plus the product of spectral norms, corrected by row norms, and the input norm
        over gamma sqrt(n)."""
    constants = BIG_O, _LOGARITHMS, Constant("M_l", 0.0, "reference matrices")
    return _risk(facts, name="Bartlett 2017", log_capacity=capacity, sentence=sentence, constants=constants)


def neyshabur17(facts: NetworkFacts) -> PublishedValue:
    """Neyshabur et al. 2017: ``B^2 L^2 h ln(Lh) prod ||A||_2^2 sum ||A||_F^2 / ||A||_2^2 / (gamma^2 n)``.

    That is under the root; h is the width.
    """
    sizes = 2.0 * math.log(facts.depth) + math.log(facts.width)
    logarithm = safe_log(math.log(facts.depth * facts.width))
    norms = spectral_capacity(facts, [layer.frobenius for layer in facts.layers])
    sentence = """Margin loss plus the product of spectral norms, stable ranks, depth, width and the input
        norm over gamma sqrt(n)."""
    constants = BIG_O, Constant("ln(L n/delta)", 0.0, "added under the root by the theorem, left out")
    capacity = _log_squared_input(facts) + sizes + logarithm + norms
    return _risk(facts, name="Neyshabur 2017", log_capacity=capacity, sentence=sentence, constants=constants)


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
    facts: NetworkFacts, *, name: str, log_capacity: float, sentence: str, constants: tuple[Constant, ...]
) -> PublishedValue:
    return PublishedValue(
        ref="I-17",
        name=name,
        log_value=big_o_risk(facts, log_nats=over_squared_margin(log_capacity, facts)),
        subject="f",
        sentence=sentence,
        margin_loss=facts.margin_loss,
        failure_published=facts.delta,
        hypotheses=(separates(facts), has_no_biases(facts), is_fully_connected(facts)),
        constants=constants,
    )


@expression(_FIGURE, name="Bars of Arora's figure 2", unit="capacity", subject="f", form=_ARORA)
def arora_figure(facts: NetworkFacts) -> tuple[PublishedValue, ...]:
    """The bars of older bounds in the order of the figure, and the parameter count, called VC, beside them.

    ``prod ||A||_{1,inf}`` has no square (A-E22); the spectral bars are ``prod ||A||_2^2 sum N^2 / ||A||_2^2``
    with ``N = ||A||_{1,2}``, squared for Bartlett's powers 2/3, and ``N^2 = h_i ||A||_F^2``, h_i the units.
    """
    layers, bar = facts.layers, partial(_bar, facts, _FIGURE)
    l1_inf = math.fsum(safe_log(layer.l1_inf) for layer in layers)
    by_rows = spectral_capacity(facts, [layer.l2_1 for layer in layers])
    by_units = spectral_capacity(facts, [math.sqrt(layer.rows) * layer.frobenius for layer in layers])
    largest = "Product of the largest row l1 norms, not squared, over the squared margin."
    sums = """Product of squared spectral norms times the squared relative sums of row norms, over the squared
        margin."""
    ranks = "Product of squared spectral norms times units and stable ranks, over the squared margin."
    count = bar(name="Parameters", log_numerator=0.0, sentence="Number of parameters, biases included.")
    return (
        bar(name="l1,inf (BM02)", log_numerator=l1_inf, sentence=largest),
        _frobenius(facts, _FIGURE, name="Frobenius (Ney15)"),
        bar(name="spectral l1,2 (Bartlett17)", log_numerator=by_rows, sentence=sums),
        bar(name="spectral Frobenius (Ney17)", log_numerator=by_units, sentence=ranks),
        replace(count, log_value=math.log(facts.parameters), hypotheses=()),
    )


@expression(
    _CODE, name="Baselines of Guha's code", unit="capacity", subject="f", facts="least margin", form=_GUHA
)
def guha_code(facts: NetworkFacts) -> tuple[PublishedValue, ...]:
    """The older bounds in the order of the tables; ``log_value`` is what the tables print."""
    older = _frobenius(facts, _CODE, name="Neyshabur 2015")
    return older, released_neyshabur17(facts), released_bartlett17(facts)


def released_neyshabur17(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_2^2 sum fan_in ||A||_F^2 / ||A||_2^2 / gamma^2``."""
    norms = [math.sqrt(layer.columns) * layer.frobenius for layer in facts.layers]
    sentence = "Product of squared spectral norms times fan-ins and stable ranks, over the squared margin."
    capacity = spectral_capacity(facts, norms)
    return _bar(facts, _CODE, name="Neyshabur 2017", log_numerator=capacity, sentence=sentence)


@implements("G-E22", kind="published-form")
def released_bartlett17(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_2^2 sum ||A||_F^2 / ||A||_2^2 / gamma^2``: Frobenius norms where (1, 2) norms belong."""
    capacity = spectral_capacity(facts, [layer.frobenius for layer in facts.layers])
    sentence = """Product of squared spectral norms times stable ranks, where Bartlett's bound has row norms,
        over the squared margin."""
    return _bar(facts, _CODE, name="Bartlett 2017", log_numerator=capacity, sentence=sentence)


@implements("G-E23", kind="numerics")
def decimal_orders(nats: float) -> float:
    """Orders of magnitude of a difference between entries of the tables, which are natural logarithms.

    Differs.    The paper reads differences of 9.6 to 11.8 as "at least 7 orders of magnitude".

    >>> round(decimal_orders(22.40 - 11.68), 1)
    4.7
    """
    return nats / math.log(10.0)


def _frobenius(facts: NetworkFacts, ref: str, *, name: str) -> PublishedValue:
    norms = math.fsum(2.0 * safe_log(layer.frobenius) for layer in facts.layers)
    sentence = "Product of squared Frobenius norms over the squared margin."
    return _bar(facts, ref, name=name, log_numerator=norms, sentence=sentence)


def _bar(facts: NetworkFacts, ref: str, *, name: str, log_numerator: float, sentence: str) -> PublishedValue:
    log_value, hypotheses = over_squared_margin(log_numerator, facts), (separates(facts),)
    bar = PublishedValue(ref=ref, name=name, log_value=log_value, sentence=sentence, hypotheses=hypotheses)
    return replace(bar, unit="capacity", subject="f", errata=_ERRATA[ref])


def _log_squared_input(facts: NetworkFacts) -> float:
    return 2.0 * safe_log(facts.input_norm)
