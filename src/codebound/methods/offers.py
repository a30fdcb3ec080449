"""Offers of a search: what each came to, which are refused, and the routes beside a hold-out set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.risk import percent
from codebound.run.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codebound.certificate.assessment import AbstractAssessed
    from codebound.certificate.task import Task
    from codebound.known.encoder import Encoder
    from codebound.methods.search import Search
    from codebound.sample.dataset import Dataset

HOLD_OUT = "hold-out"
SPLIT = "split"
BY_HELPER = "helper"
_SHOWN_BYTES = 64  # of a message, which can be as large as a network


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """An assessed message, and the method that proposed it."""

    assessed: AbstractAssessed
    method: str


class Attempt(NamedTuple):
    """Outcome of a search for one claim, with its samples."""

    task: Task
    search: Search
    best: AbstractAssessed
    method: str
    sample: Dataset
    encoder: Encoder | None

    @property
    def others(self) -> list[Attempt]:
        """The same search with what it offers next, in its order."""
        return [self._replace(best=each.assessed, method=each.method) for each in self.search.offers[1:]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An offer that was not issued, with what a report of the defect needs.

    Attributes:
        method: The method that proposed it.
        bound: The bound that it would have had.
        reasons: Why it was refused.
        says: The rule of its message, or options and architecture.
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
    def of(assessed: AbstractAssessed, method: str, reasons: Sequence[str]) -> Refusal:
        """The refusal of what a method offered."""
        says = assessed.rules or (assessed.message.setting, getattr(assessed.message, "chain", None))
        return Refusal(
            method=method,
            bound=assessed.bound.value,
            reasons=tuple(reasons),
            says=", ".join(map(repr, says)),
            code_bits=assessed.bits.length,
            message=assessed.bits.data[:_SHOWN_BYTES].hex(),
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
        name: ``picks``, ``message``, ``split``, ``helper`` or ``hold-out``.
        bound: The smallest bound that it came to.
        price: What was counted and paid.
        has_certificate: Whether a certificate would say it; a hold-out set is a comparison.
        beforehand: Of a split, the bound without its bits: for a learner and a share that were fixed before.
        is_issued: Whether its certificate was issued.
    """

    name: str
    bound: float
    price: str
    has_certificate: bool = True
    beforehand: float | None = None
    is_issued: bool = False


def compare_routes(
    searches: Sequence[Search], issued: Route | None, refused: Sequence[float] = ()
) -> tuple[Route, ...]:
    """All routes that were gone, the best first; of a split, what a hold-out set would have said beside it.

    Args:
        searches: Those that went them.
        issued: The route of the certificate that was issued.
        refused: Bounds of certificates that were refused: no route ends there.
    """
    found = {} if issued is None else {issued.name: replace(issued, is_issued=True)}
    for search in searches:
        for route in search.routes.values():
            known = found.get(route.name)
            is_better = known is None or (route.bound < known.bound and not known.is_issued)
            if is_better and route.bound not in refused:
                found[route.name] = route
    split = found.get(SPLIT)
    if split is not None and split.beforehand is not None:
        price = "the errors of the split, at 0 bits: had its learner and its share been fixed beforehand"
        found[HOLD_OUT] = Route(HOLD_OUT, split.beforehand, price, has_certificate=False)
    return tuple(sorted(found.values(), key=lambda each: each.bound))


def route_of(method: str, found: AbstractAssessed) -> Route | None:
    """The route that a method goes, from what was assessed; None for what is compared with nothing."""
    name, price = found.route(method)
    if not name:
        return None
    facts, beforehand = found.facts, None
    if name == SPLIT:
        beforehand = holdout(HoldoutFacts(errors=facts.errors, n=facts.n, delta=facts.delta)).value
    return Route(name, found.bound.value, price, beforehand=beforehand)


def _round_bound(bound: float) -> float:
    """The number that is printed: what is said about two of them has to agree with them."""
    return float(percent(bound).removesuffix(" %"))


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
            f"The {best.name} came to {percent(best.bound)}, but what it saw is declared. The {issued.name} "
            "was issued, which the second program repeats by itself: less than a tenth is between them."
        )
    if rival is not None:
        apart = f"{abs(_round_bound(issued.bound) - _round_bound(rival.bound)):.2f} points"
        said.append(
            "Had the learner and the share of the split been fixed beforehand, its errors as those of a "
            f"hold-out set would have said {percent(rival.bound)}, {apart} "
            + (
                f"less than {issued.name}: the price of choosing after the look."
                if rival.bound < issued.bound
                else f"more than {issued.name}."
            )
        )
    return " ".join(said)
