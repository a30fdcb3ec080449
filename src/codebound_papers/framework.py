"""The compression framework: few networks g, each close to f, so the training error of g is trustworthy.

Arora et al. 2018, theorem 2.1, and Guha et al. 2023, theorems 3.1 and D.1, as published. The explicit and
true form is C-4 (``codebound.bounds.occam.occam_hoeffding``), on the errors of g itself.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_papers.facts import NetworkFacts, separates
from codebound_papers.logs import log_sum, risk_of, safe_exp, safe_log
from codebound_papers.value import BIG_O, Hypothesis, PublishedValue, expression


@implements("I-03", kind="published-form")
def big_o_risk(facts: NetworkFacts, *, log_nats: float) -> float:
    """Log of ``margin loss + sqrt(nats / n)``: the shape of every bound here, with O(.) as 1.

    Infinite where f has no positive margin, because then no theorem speaks. ``log_nats`` is the logarithm of
    what is divided by n, itself in nats for a count.
    """
    if facts.margin <= 0.0:
        return math.inf
    return risk_of(facts.margin_loss, 0.5 * (log_nats - math.log(facts.examples)))


_NEEDS = {"parameters": "code_bits", "deviation": "deviation"}


@expression(
    "G-Thm3.1", "A-Thm2.1", name="Compression framework", refused="A-Thm2.1", facts="all", needs=_NEEDS
)
def parameter_framework(
    facts: NetworkFacts, *, parameters: int, levels: int = 2, deviation: float | None = None
) -> PublishedValue:
    """Risk of g with q parameters of r levels: ``margin loss of f + sqrt(q ln r / n)``.

    The bits of a message have 2 levels. The deviation is the largest difference between scores of f and g.

    >>> from codebound_papers.facts import LayerFacts
    >>> layer = LayerFacts(name="0", rows=10, columns=784, frobenius=9.0, spectral=3.0, operator_norm=3.0,
    ...                    l2_1=28.0, l1_inf=80.0, variance=0.01)
    >>> facts = NetworkFacts(layers=(layer,), examples=60_000, classes=10, margin=0.5, margin_loss=0.1,
    ...                      input_norm=28.0, input_size=784, largest_output=9.0, delta=0.05,
    ...                      parameters=7840)
    >>> round(parameter_framework(facts, parameters=500, levels=256).value, 4)
    0.315
    """
    if parameters < 1 or levels < 2:
        raise UsageError(
            f"the framework needs at least 1 parameter of at least 2 levels. Got {parameters} and {levels}."
        )
    nats = parameters * math.log(levels)
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=math.log(nats)),
        sentence="Margin loss of f plus the root of the parameters of g, times the logarithm of their "
        "levels, over n; C-4 is the true form, with its constant and the failure probability.",
        margin_loss=facts.margin_loss,
        failure_corrected=safe_exp(-nats),
        hypotheses=(separates(facts), is_close(facts, deviation)),
        constants=(BIG_O,),
        errata=("G-E2", "A-E1", "A-E2", "A-E23"),
    )


_OUTLIERS = {"parameters": "code_bits", "outliers": "outliers"}


@expression("A-CorA.1", name="Compression framework with outliers", facts="all", needs=_OUTLIERS)
def parameter_framework_with_outliers(
    facts: NetworkFacts, *, parameters: int, levels: int = 2, outliers: float, deviation: float | None = None
) -> PublishedValue:
    """The same, the deviation being that on all but a share zeta of the sample, added to the risk."""
    if not 0.0 <= outliers <= 1.0:
        raise UsageError(f"`outliers` is a share of the sample between 0 and 1. Got {outliers}.")
    everywhere = parameter_framework(facts, parameters=parameters, levels=levels, deviation=deviation)
    return replace(
        everywhere,
        log_value=log_sum([everywhere.log_value, safe_log(outliers)]),
        sentence=f"{everywhere.sentence} The share {outliers:.4g} of outliers is added.",
    )


_COUNT = {"log_count": "code_nats", "deviation": "deviation"}


@expression("G-ThmD.1", name="Guha D.1: counting", facts="all", needs=_COUNT)
def counting_framework(
    facts: NetworkFacts, *, log_count: float, deviation: float | None = None
) -> PublishedValue:
    """Risk of one of J networks by Hoeffding: ``margin loss of f + sqrt(ln(J / delta) / (2 n))``.

    ``log_count`` is ln J; the deviation is that of ``parameter_framework``.
    """
    if not 0.0 <= log_count < math.inf:
        raise UsageError(f"`log_count` is the logarithm of a count of at least 1. Got {log_count}.")
    nats = (log_count - math.log(facts.delta)) / 2.0
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=math.log(nats)),
        sentence="Margin loss of f plus Hoeffding's term for the number of networks that g is one of; "
        "C-4 is the same term on the errors of g, and true.",
        margin_loss=facts.margin_loss,
        failure_published=facts.delta,
        failure_corrected=facts.delta,
        hypotheses=(separates(facts), is_close(facts, deviation)),
        errata=("G-E2", "G-E12"),
    )


def is_close(facts: NetworkFacts, deviation: float | None) -> Hypothesis:
    """Condition that the proof needs for a margin of g. It is half of what the papers ask (G-E2, A-E1)."""
    statement = "every score of g is within gamma/2 of that of f on the sample (the papers ask for gamma)"
    if deviation is None:
        return Hypothesis(statement, None)
    limit = facts.margin / 2.0
    return Hypothesis(statement, deviation <= limit, f"{deviation:.4g} against {limit:.4g}")


def spectral_products(facts: NetworkFacts, norms: Sequence[float]) -> list[float]:
    """Logs of every layer's norm times the spectral norms of all others: ``prod ||A|| N_l / ||A_l||``."""
    logs = [safe_log(layer.spectral) for layer in facts.layers]
    return [safe_log(norm) + math.fsum(logs[:place] + logs[place + 1 :]) for place, norm in enumerate(norms)]


def spectral_capacity(facts: NetworkFacts, norms: Sequence[float]) -> float:
    """Log of ``prod ||A||_2^2 sum_l N_l^2 / ||A_l||_2^2`` for one norm N_l per layer."""
    return log_sum([2.0 * product for product in spectral_products(facts, norms)])


def over_squared_margin(log_value: float, facts: NetworkFacts) -> float:
    """``log(value / gamma^2)``; infinite without a positive margin, whatever the value."""
    return log_value - 2.0 * math.log(facts.margin) if facts.margin > 0.0 else math.inf


@implements("S-Thm2:integral", kind="numerics")
def dudley_integral(numbers: float, *, log_kappa: float, diameter: float = 1.0) -> float:
    """``int_0^D sqrt(q log(2 q kappa / e)) de`` in closed form, finite for any kappa.

    With ``Lam = log(2 q kappa / D)`` it is ``D sqrt(q) (sqrt(Lam) + sqrt(pi)/2 exp(Lam) erfc(sqrt(Lam)))``.
    Where ``D > 2 q kappa`` one network covers all, and the integral ends at ``2 q kappa``. D is the diameter.

    >>> round(dudley_integral(100, log_kappa=5.0), 3)
    33.582
    """
    if numbers < 0 or not 0.0 < diameter < math.inf:
        raise UsageError(f"q is at least 0 and D positive. Got {numbers} and {diameter}.")
    if numbers == 0 or log_kappa == -math.inf:
        return 0.0
    log_end = math.log(2.0 * numbers) + log_kappa
    log_diameter = min(math.log(diameter), log_end)
    root = math.sqrt(log_end - log_diameter)
    tail = root + math.sqrt(math.pi) / 2.0 * _scaled_erfc(root)
    return math.exp(log_diameter) * math.sqrt(numbers) * tail


def _scaled_erfc(x: float) -> float:
    """``exp(x^2) erfc(x)`` for x >= 0, to about 1e-13 relative."""
    if x <= 20.0:
        return math.exp(x * x) * math.erfc(x)
    total = term = 1.0
    for i in range(1, 8):  # the asymptotic series; its terms fall below 1e-16 here
        term *= -(2 * i - 1) / (2.0 * x * x)
        total += term
    return total / (x * math.sqrt(math.pi))
