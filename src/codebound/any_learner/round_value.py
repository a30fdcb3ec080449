"""Value of a round: its message, the length, and the bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bounds.facts import OccamFacts, PickedFacts
from codebound.bounds.held_out import occam_split
from codebound.bounds.lengths import choice_bits
from codebound.bounds.picked import picked_risk

if TYPE_CHECKING:
    from codebound.bounds.risk import RiskBound


@dataclass(frozen=True, slots=True)
class RuleMessage:
    """Name of the chosen rule, in a prefix-free code fixed beforehand.

    Attributes:
        candidate: Number of the candidate settings, from 0.
        rounds: After how many rounds it stopped; None: where the rule ends by itself.
    """

    candidate: int = 0
    rounds: int | None = None

    def bits(self, candidates: int) -> float:
        """Length: one of the candidates, a bit for the end, and ``log2 (r + 1)(r + 2)`` for a round r.

        The numbers ``1/((r + 1)(r + 2))`` add up to 1, so there is a code of all rounds.

        Example:
            >>> RuleMessage().bits(1), RuleMessage(0, 2).bits(1) > 4.58, RuleMessage(3).bits(8)
            (1.0, True, 4.0)
        """
        length = 1.0 + choice_bits(candidates)
        return length if self.rounds is None else length + choice_bits((self.rounds + 1) * (self.rounds + 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Numbers that the bounds of all rounds have in common.

    Attributes:
        n: Examples that could be picked.
        n_first: Examples that were set apart.
        delta: Failure probability.
        classes: Number of classes; None for regressors.
        candidates: Settings that were to choose from.
        extra_bits: Bits for choices made elsewhere.
    """

    n: int
    n_first: int
    delta: float
    classes: int | None
    candidates: int
    extra_bits: float

    def bound(self, message: RuleMessage, *, picks: int, errors: int) -> RiskBound:
        """The bound of a message, with all choices paid.

        A message that says "no rounds", where there are no first picks either, leaves the sample untouched:
        it is a test set then, and C-10 holds, which is a little smaller than C-15.
        """
        bits = message.bits(self.candidates) + self.extra_bits
        if message.rounds == 0 and not picks and self.n_first:
            occam = OccamFacts(
                errors=errors, n=self.n, code_bits=bits, delta=self.delta, classes=self.classes
            )
            return occam_split(occam)
        facts = PickedFacts(
            picks=picks,
            errors=errors,
            n=self.n,
            delta=self.delta,
            code_bits=bits,
            n_first=self.n_first,
            classes=self.classes,
        )
        return picked_risk(facts)


@dataclass(frozen=True, slots=True)
class Stage:
    """Message, counts and bound after a round.

    Attributes:
        message: The message that stops here.
        picks: How many examples were picked.
        errors: How many others are wrong.
        bound: The bound, with all choices paid.
    """

    message: RuleMessage
    picks: int
    errors: int
    bound: RiskBound
