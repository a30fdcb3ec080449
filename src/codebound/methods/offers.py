"""Offers of a search: what each came to, which are refused, and how they stand beside a hold-out set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bits.forms import RULES
from codebound.bounds.risk import count_of, percent
from codebound.certificate.limits import Term
from codebound.run.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound.certificate.assessment import Assessed

HOLD_OUT = "hold-out"
_SHOWN_BYTES = 64  # of a message, which can be as large as a network
_CLEARLY = 0.9  # of the bound of another: what is recounted has to be better by a tenth


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """An assessed outcome, and the method that proposed it."""

    assessed: Assessed
    method: str

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better; what the second program repeats by itself wins unless it is clearly worse."""
        bound, distance = self.assessed.rank
        return (bound / _CLEARLY if self.assessed.outcome.is_recounted else bound), distance


@dataclass(frozen=True, slots=True)
class Refusal:
    """An offer that was not issued, with what a report of the defect needs.

    Attributes:
        method: The method that proposed it.
        bound: The bound that it would have had.
        reasons: Why it was refused.
        says: What its message says.
        code_bits: Length of the message.
        message: The first bytes of the message, in hexadecimal digits.
    """

    method: str
    bound: float
    reasons: tuple[str, ...]
    says: str
    code_bits: int
    message: str

    @staticmethod
    def of(offer: Offer, reasons: Sequence[str]) -> Refusal:
        """The refusal of an offer."""
        found = offer.assessed
        return Refusal(
            method=offer.method,
            bound=found.bound,
            reasons=tuple(reasons),
            says=f"{found.outcome.form}, {found.outcome.says}; {found.ledger}",
            code_bits=found.bits.length,
            message=found.bits.data[:_SHOWN_BYTES].hex(),
        )

    def __str__(self) -> str:
        return f"{self.method}, {percent(self.bound)}: {'; '.join(self.reasons)}"


def refusal_error(refusals: Sequence[Refusal]) -> RefusedError:
    """The error of a search none of whose offers can be issued."""
    return RefusedError(
        "the independent verifier refuses every certificate that was made, so none was issued. That is a "
        "defect of codebound: please report it with these lines.\n  "
        + "\n  ".join(f"{each}\n    {each.says}" for each in refusals),
        reasons=[reason for each in refusals for reason in each.reasons],
    )


@dataclass(frozen=True, slots=True)
class Route:
    """One way to a bound with these labels.

    Attributes:
        name: The method, or ``hold-out`` for a comparison.
        bound: The smallest bound that it came to.
        price: What was counted and paid.
        assurance: ``replayed`` or ``recounted``; empty for a comparison.
        is_issued: Whether its certificate was issued.
    """

    name: str
    bound: float
    price: str
    assurance: str = ""
    is_issued: bool = False

    @property
    def has_certificate(self) -> bool:
        """Return True if a certificate would say it; a hold-out set is a comparison."""
        return bool(self.assurance)


def list_routes(offers: Sequence[Offer], issued: Offer | None, *, delta: float) -> tuple[Route, ...]:
    """The best of every method, best first, and what a hold-out set would say with the errors of a split."""
    best: dict[str, Offer] = {} if issued is None else {issued.method: issued}
    for offer in offers:
        best.setdefault(offer.method, offer)
    routes = [_describe(offer, is_issued=offer is issued) for offer in best.values()]
    held_out = [each.assessed for each in best.values() if _is_held_out(each.assessed)]
    if held_out:
        tally = min(held_out, key=lambda each: each.rank).tally
        value = Term("binomial", tally.errors, tally.n).limit(delta)
        price = f"{count_of(tally.errors, 'error')} of {tally.n}, had learner and share been fixed beforehand"
        routes.append(Route(HOLD_OUT, value, price))
    return tuple(sorted(routes, key=lambda each: each.bound))


def _is_held_out(assessed: Assessed) -> bool:
    """Return True if its errors are those of a hold-out set."""
    outcome = assessed.outcome
    is_learned = outcome.form in RULES or outcome.is_recounted
    return is_learned and outcome.picked is None and assessed.question.is_plain


def _describe(offer: Offer, *, is_issued: bool) -> Route:
    found = offer.assessed
    tally, bits = found.tally, count_of(found.bits.length, "bit", form="g")
    wrong = f"{count_of(tally.errors, 'error')} of {tally.n}"
    price = "; ".join(filter(None, (wrong, found.outcome.says, bits)))
    assurance = "recounted" if found.outcome.is_recounted else "replayed"
    return Route(offer.method, found.bound, price, assurance, is_issued)


def advice(routes: Sequence[Route]) -> str:
    """The distance to a hold-out set, and why it may not be the smallest bound that was issued.

    Empty where there is nothing to compare.
    """
    rival = next((each for each in routes if not each.has_certificate), None)
    issued = next((each for each in routes if each.is_issued), None)
    if issued is None:
        return ""
    best, said = next(each for each in routes if each.has_certificate), []
    if best.bound < issued.bound:
        said.append(
            f"The method {best.name} came to {percent(best.bound)}, but what it counts is declared. The "
            f"method {issued.name} was issued, which the second program repeats by itself: less than a tenth "
            "is between them."
        )
    if rival is not None:
        apart = f"{abs(_round_bound(issued.bound) - _round_bound(rival.bound)):.2f} points"
        side = "less" if rival.bound < issued.bound else "more"
        said.append(
            f"As a hold-out set that was fixed beforehand, the same errors would have said "
            f"{percent(rival.bound)}, {apart} {side}."
        )
    return " ".join(said)


def _round_bound(bound: float) -> float:
    """The number that is printed: what is said about two of them has to agree with them."""
    return float(percent(bound).removesuffix(" %"))
