"""The older bounds as the released code of Guha et al. 2023 computes them for tables 1 and 2.

They are neither divided by n nor square-rooted, while the paper's own value beside them is both, and the
tables print natural logarithms (G-E22): compare with ``like_for_like``. The code has these three only.
"""

import math

from codebound.refs import implements
from codebound_papers.baselines.risks import over_squared_margin, spectral_capacity
from codebound_papers.facts import NetworkFacts
from codebound_papers.value import PublishedValue, expression, safe_log, separates

_REF = "I-17:guha-code"


@expression(
    _REF,
    name="Baselines of Guha's code",
    unit="capacity",
    subject="f",
    facts="least margin",
    form=", Guha's code",
)
def guha_code(facts: NetworkFacts) -> tuple[PublishedValue, ...]:
    """The older bounds in the order of the tables; ``log_value`` is what the tables print."""
    return neyshabur15(facts), neyshabur17(facts), bartlett17(facts)


def neyshabur15(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_F^2 / gamma^2``."""
    return _row(
        facts,
        name="Neyshabur 2015",
        log_numerator=math.fsum(2.0 * safe_log(layer.frobenius) for layer in facts.layers),
        sentence="Product of squared Frobenius norms over the squared margin.",
    )


def neyshabur17(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_2^2 sum fan_in ||A||_F^2 / ||A||_2^2 / gamma^2``."""
    return _row(
        facts,
        name="Neyshabur 2017",
        log_numerator=spectral_capacity(
            facts, [math.sqrt(layer.columns) * layer.frobenius for layer in facts.layers]
        ),
        sentence="Product of squared spectral norms times fan-ins and stable ranks, over the squared margin.",
    )


@implements("G-E22", kind="published-form")
def bartlett17(facts: NetworkFacts) -> PublishedValue:
    """``prod ||A||_2^2 sum ||A||_F^2 / ||A||_2^2 / gamma^2``: Frobenius norms where (1, 2) norms belong."""
    return _row(
        facts,
        name="Bartlett 2017",
        log_numerator=spectral_capacity(facts, [layer.frobenius for layer in facts.layers]),
        sentence="Product of squared spectral norms times stable ranks, where Bartlett's bound has row "
        "norms, over the squared margin.",
    )


@implements("G-E23", kind="numerics")
def decimal_orders(nats: float) -> float:
    """Orders of magnitude of a difference between entries of the tables, which are natural logarithms.

    Differs.    The paper reads differences of 9.6 to 11.8 as "at least 7 orders of magnitude".

    Example:
        >>> round(decimal_orders(22.40 - 11.68), 1)
        4.7
    """
    return nats / math.log(10.0)


def _row(facts: NetworkFacts, *, name: str, log_numerator: float, sentence: str) -> PublishedValue:
    return PublishedValue(
        ref=_REF,
        name=name,
        log_value=over_squared_margin(log_numerator, facts),
        unit="capacity",
        subject="f",
        sentence=sentence,
        hypotheses=(separates(facts),),
        errata=("G-E22", "G-E23"),
    )
