"""The result of a certified bound, and the assumptions it rests on in words."""

import math
from dataclasses import dataclass
from fractions import Fraction

from codebound.bounds.facts import AbstractFacts, Subject
from codebound.run.references import implements

IID = "The sample is an independent draw from the distribution on which the network will be used."
CODE_FIRST = (
    "The code, the helper and its seed were fixed before the sample was seen; "
    "every choice made afterwards is inside the message and paid for in bits."
)
CODE_ALONE = "The code was fixed before the sample was seen."
ROWS_FIRST = (
    "Which rows the sample has, how many and in which order was decided before anybody looked at their "
    "labels or at the errors of a network."
)
DETERMINISTIC = "The decoder is deterministic, and errors were counted on the network that it returns."
PREPROCESSING = (
    "Stored numbers were made from each example by itself, and preprocessing uses literal constants: nothing "
    "was estimated from the sample."
)
DISJOINT_BASE = (
    "Weights that the decoder knows beforehand, if any, were neither trained nor selected on the sample."
)
FRESH = (
    "The hold-out examples were used for no choice: not for training, not for selection, not for stopping."
)
DUPLICATES = "Test data shown beside the bound share no examples with the sample, or the copies are reported."
PRIOR_SPLIT = (
    "The helper comes from the first part alone, by a split that ignores the data values; errors were "
    "counted on the part that the helper never saw, and every other choice is inside the message and paid "
    "for in bits."
)
UNLABELLED_FRESH = "The unlabelled inputs are a fresh independent draw, used for no choice."
BOUNDED_DOMAIN = (
    "Every input on which f will be used lies in the declared range, which is a fact, not an estimate."
)
RULE_FIRST = (
    "The rule that picks, learns and counts was fixed before the sample was seen; every choice among its "
    "variants is inside the message and paid for in bits."
)
RULE_LOOKS = (
    "The rule looks at one example, at what was picked before it and at constants: never at the size, the "
    "order or any statistic of the rest of the sample."
)
NOTHING_PICKED = (
    "The rule picks nothing: of the examples after the first, nothing but their number, which says how many "
    "come first, entered the network."
)
FIRST_APART = (
    "The first examples, which are learned from and not counted, were set apart in an order that ignores the "
    "data values."
)
LOOKS_TOLD = (
    "Whoever chose the network knew of these examples nothing but the answers that the ledger holds, and "
    "every look at them is in it."
)
TWO_DRAWS = "sample and of the unlabelled inputs"
"""Draws behind a bound that uses labelled and unlabelled examples."""
NORMS_ABOVE = "Norms of the layers are upper bounds, not estimates from below."


def percent(bound: float, digits: int = 2) -> str:
    """A bound in per cent, rounded up: what is printed must not be smaller than what was proved.

    Example:
        >>> percent(0.0737163)
        '7.38 %'
    """
    scale = 10**digits  # a product of floats could round down what has to be rounded up
    return f"{math.ceil(Fraction(bound) * 100 * scale) / scale:.{digits}f} %"


def rate(share: float, digits: int = 2) -> str:
    """A share that was counted, in per cent: rounded to the nearest, because nothing is promised.

    Example:
        >>> rate(155 / 1437)
        '10.79 %'
    """
    return f"{100.0 * share:.{digits}f} %"


def count_of(number: float, one: str, many: str = "", *, form: str = "") -> str:
    """A number of things in words.

    Args:
        number: How many.
        one: What one is called, and what it does.
        many: What several are called; where it is left out, one with an s.
        form: How the number is written.

    Example:
        >>> count_of(1, "look"), count_of(2, "look"), count_of(1, "file was", "files were")
        ('1 look', '2 looks', '1 file was')
    """
    return f"{number:{form}} {one if number == 1 else many or one + 's'}"


def claim_sentence(
    subject: Subject,
    bound: float,
    *,
    delta: float,
    vacuous: bool,
    drawn: str = "sample",
    data: str = "new data",
    provided: str = "",
    does: str | None = None,
) -> str:
    """A guarantee in words.

    Args:
        subject: The network.
        bound: On its risk.
        delta: Failure probability.
        vacuous: Whether guessing does as well.
        drawn: Where the failure probability comes from.
        data: On which data the network errs that little.
        provided: What else has to be true, and is at risk.
        does: What the network does at most that often, where it is no plain error.

    Example:
        >>> claim_sentence("g", 0.0737163, delta=0.05, vacuous=False)[-57:]
        'the decoded network g errs on at most 7.38 % of new data.'
    """
    who = {"g": "the decoded network g", "f": "the original network f"}[subject]
    condition = f", provided that {provided}" if provided else ""
    claim = (
        f"With probability at least 1 - {delta!r} over the draw of the {drawn}, "
        f"{who} {does or f'errs on at most {percent(bound)} of {data}'}{condition}."
    )
    return claim + (" VACUOUS: guessing does as well." if vacuous else "")


@implements("C-14", kind="certificate")
def occam_assumptions() -> tuple[str, ...]:
    """The assumptions that every Occam certificate prints, the most fragile first.

    Example:
        >>> occam_assumptions()[0][:25]
        'The code, the helper and '
    """
    return (CODE_FIRST, ROWS_FIRST, PREPROCESSING, IID, DISJOINT_BASE, DETERMINISTIC, DUPLICATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskBound:
    """An upper bound on a 0-1 risk that holds with probability at least ``1 - delta``: true as printed.

    Attributes:
        ref: ID of the statement in docs/references.md.
        value: The bound, in [0, 1].
        delta: Total failure probability.
        subject: ``g``, the decoded network, or ``f``, the original one.
        facts: The counts that the statement was told.
        assumptions: What has to be true outside the computation, in words.
        drawn: Where the failure probability comes from.
    """

    ref: str
    value: float
    delta: float
    subject: Subject
    facts: AbstractFacts
    assumptions: tuple[str, ...]
    drawn: str = "sample"

    @property
    def vacuous(self) -> bool:
        """Return True if the bound says no more than guessing.

        That is a value of at least ``1 - 1/classes``, or 1 if the number of classes is unknown.
        """
        classes = self.facts.classes
        return self.value >= (1.0 if classes is None else 1.0 - 1.0 / classes)

    @property
    def sentence(self) -> str:
        """The claim as a sentence."""
        return claim_sentence(
            self.subject, self.value, delta=self.delta, vacuous=self.vacuous, drawn=self.drawn
        )
