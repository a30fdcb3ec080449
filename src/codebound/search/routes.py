"""The routes to a bound side by side: picks, message, split, helper, and the hold-out set beside them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bounds.risk import count_of, percent
from codebound.errors import ModelError
from codebound.picks.features import RoomError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from codebound.certificate.assessment import AbstractAssessed
    from codebound.data.dataset import Dataset
    from codebound.search.search import Search

HOLD_OUT = "hold-out"
BY_HELPER = "helper"
_FEW = 2000  # examples up to which other routes end near to a hold-out set
_LARGER = (
    " As a certificate, at 7 bits: with more time a helper of that share is tried too, which learns from "
    "more than a split can; it declares what it saw (docs/howto/certify.md)."
)


@dataclass(frozen=True, slots=True)
class Route:
    """One way to a bound with these labels.

    Attributes:
        name: ``picks``, ``message``, ``split``, ``helper`` or ``hold-out``.
        bound: The smallest bound that it came to.
        price: What was counted and paid.
        has_certificate: Whether a certificate would say it; a hold-out set is a comparison.
        is_reckoned: Whether nobody has counted: errors are reckoned from those after smaller shares.
    """

    name: str
    bound: float
    price: str
    has_certificate: bool = True
    is_reckoned: bool = False


def is_worth_helping(sample: Dataset) -> bool:
    """Whether a sample is so large that a helper may be needed (``search/helped.py``)."""
    return sample.n > _FEW


def compared_routes(
    searches: Sequence[Search], sample: Dataset, *, delta: float, device: str | torch.device
) -> tuple[Route, ...]:
    """All routes that were gone, the best first, with the hold-out set of the best share beside them."""
    from codebound.picks.rule import usual_rule
    from codebound.search.rivals import best_held_out

    found: dict[str, Route] = {}
    for search in searches:
        for route in search.routes.values():
            if route.name not in found or route.bound < found[route.name].bound:
                found[route.name] = route
    rival = next((each.held_out for each in searches if each.held_out is not None), None)
    if rival is None:
        rules = (rule for each in searches if each.best for rule in each.best.rules)
        rule = next(rules, usual_rule(sample.input_shape))
        with suppress(ModelError, RoomError):
            rival = best_held_out(rule, sample, delta=delta, device=device)
    if rival is not None:
        about, reckoned = ("about ", ", reckoned from smaller shares") if rival.is_reckoned else ("", "")
        price = (
            f"{about}{count_of(rival.errors, 'error')} of {rival.n} that were held out, after learning from "
            f"the other {rival.learned} without picks{reckoned}; best of {count_of(rival.shares, 'share')}, "
            "paid for"
        )
        found[HOLD_OUT] = Route(
            HOLD_OUT, rival.value, price, has_certificate=False, is_reckoned=rival.is_reckoned
        )
    return tuple(sorted(found.values(), key=lambda each: each.bound))


def route_of(method: str, found: AbstractAssessed) -> Route | None:
    """The route that a method goes, from what was assessed; None for what is compared with nothing."""
    name, price = found.route(method)
    return Route(name, found.bound.value, price) if name else None


def _shown(bound: float) -> float:
    """The number that is printed: what is said about two of them has to agree with them."""
    return float(percent(bound).removesuffix(" %"))


def advice(routes: Sequence[Route]) -> str:
    """Whether a hold-out set would have been better, and by how much; empty where there is none beside."""
    rival = next((each for each in routes if not each.has_certificate), None)
    best = next((each for each in routes if each.has_certificate), None)
    if rival is None or best is None:
        return ""
    value = f"{'about ' if rival.is_reckoned else ''}{percent(rival.bound)}"
    apart = f"{abs(_shown(best.bound) - _shown(rival.bound)):.2f} points"
    if rival.bound < best.bound:
        is_untried = rival.is_reckoned and all(each.name != BY_HELPER for each in routes)
        larger = _LARGER if is_untried else ""
        return (
            f"A hold-out set would have been better: {value}, {apart} less than {best.name}. "
            f"It has to be set aside before anything is tried, and serves once.{larger}"
        )
    return f"No hold-out set of the same learner says as much: {value}, {apart} more."
