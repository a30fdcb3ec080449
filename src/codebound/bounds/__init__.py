"""Bounds as pure functions of frozen facts, true as printed: explicit constants, rounded to the safe side.

Example:
    >>> import codebound as cb
    >>> facts = cb.bounds.OccamFacts(errors=300, n=60_000, code_bits=5000, delta=0.05)
    >>> round(cb.bounds.occam_binomial(facts).value, 4)
    0.0737
"""

from codebound.run.extensions import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    """
    codebound.bounds.risk: OccamFacts HoldoutFacts PickedFacts
    codebound.bounds.occam: occam_binomial occam_kl occam_hoeffding
    codebound.bounds.held_out: holdout picked_risk
    """,
)
