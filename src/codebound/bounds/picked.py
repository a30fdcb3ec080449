"""The bound of a network that was learned from few examples, which a fixed rule picked out of the sample."""

from codebound.bounds.facts import PickedFacts
from codebound.bounds.numerics import binomial_inverse_upper, picked_inverse_upper
from codebound.bounds.risk import (
    DETERMINISTIC,
    DUPLICATES,
    FIRST_APART,
    IID,
    NOTHING_PICKED,
    PREPROCESSING,
    ROWS_FIRST,
    RULE_FIRST,
    RULE_LOOKS,
    RiskBound,
)
from codebound.run.references import implements


@implements("C-15", kind="certificate")
def picked_risk(facts: PickedFacts) -> RiskBound:
    r"""The sample as its own test set: picked examples count like errors. For g.

    Statement.  A rule maps every finite multiset U of examples to a part c(U) of it, such that throwing away
                examples outside c(U) changes nothing (*preference*), and such that g errs on a new example z
                only if c(c(U) + z) is not c(U). Let ``k = picks + errors`` be the size of c(S), for a sample
                S of n examples. With probability at least ``1 - delta``, for all rules of a prefix-free code
                at once, ``R(g)`` is at most the root p of

    .. math:: n p \; P(\mathrm{Bin}(n, p) = k) = \delta 2^{-\ell} \; P(\mathrm{Bin}(n, p) > k) .

    Reference.  C-15: Campi and Garatti 2023, theorem 4 and its corollary for preferent compressions; the sum
                that defines their limit in closed form. docs/picked.md has the proof.
    Differs.    The union over the rules of a code is ours, as in C-2. Examples that were set apart first are
                not counted: given them the others are still independent draws.
                A rule that picks nothing (``is_held_out``) leaves a hold-out set, for which
                ``P(Bin(n, p) <= errors) = delta 2^-l`` is enough: a union bound over Clopper-Pearson limits.
    Needs.      The rule looks at what was picked and at constants, never at the rest of S: docs/picked.md
                lists what breaks it.
    Direction.  Upper; it rises with ``picks + errors``, so counting too many is safe.
    Checked by. oracle (the sum, in mpmath), property, validity (teeth: each broken rule is caught).

    Example:
        >>> facts = PickedFacts(picks=700, errors=100, n=60_000, code_bits=30, delta=0.05)
        >>> round(picked_risk(facts).value, 5)
        0.01703
    """
    inverse = binomial_inverse_upper if facts.is_held_out else picked_inverse_upper
    apart = (FIRST_APART,) if facts.n_first else ()
    return RiskBound(
        ref="C-15",
        value=inverse(facts.counted, facts.n, -facts.nats),
        delta=facts.delta,
        subject="g",
        facts=facts,
        assumptions=(
            RULE_FIRST,
            ROWS_FIRST,
            IID,
            NOTHING_PICKED if facts.is_held_out else RULE_LOOKS,
            *apart,
            DETERMINISTIC,
            PREPROCESSING,
            DUPLICATES,
        ),
    )
