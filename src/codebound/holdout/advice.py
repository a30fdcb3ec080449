"""Advice on n labels: hold-out set, message or picks, and numbers needed."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

from codebound.bounds.held_out import looked_risk, picked_risk
from codebound.bounds.numerics import log_binomial_cdf
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import MAX_N, LookFacts, OccamFacts, PickedFacts, check_delta
from codebound.run.errors import UsageError

SHARES = tuple(i / 20 for i in range(2, 11))
"""Shares of the labels that may be held out: so far the guess of the error is not stretched by much."""
SPLIT_BITS = 2.0
"""Of a certificate by a learner of one's own, which learns from one part and counts on the other."""
WAYS = ("hold-out", "split", "message", "picks")
_SLOPE = 0.25  # the error of a network falls like this power of the labels it learned from
_TAILS = (0.1, 0.5, 0.9)
_MOST_LABELS = 10**8


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Known or guessed numbers before the labels are spent: the error is that after learning from all n."""

    n: int
    error: float
    delta: float = 0.05
    looks: int = 1
    bits: float | None = None
    picks: int | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        for name, value, low, high in (
            ("n", self.n, 2, _MOST_LABELS),
            ("looks", self.looks, 1, MAX_N),
            ("error", self.error, 0.0, 1.0),
            ("bits", self.bits, 0.0, 1e12),
            ("picks", self.picks, 0, self.n),
        ):
            if value is not None and not low <= value <= high:
                raise UsageError(f"`{name}` lies between {low} and {high:g}. Got {value}.")

    def error_after(self, labels: int) -> float:
        """Guessed error of a network that learned from fewer labels."""
        return min(1.0, self.error * math.pow(self.n / labels, _SLOPE))

    def with_labels(self, n: int) -> Situation:
        """The same with another number of labels: the error follows a power law, the share of picks stays."""
        picks = None if self.picks is None else min(n, math.ceil(self.picks / self.n * n))
        return replace(self, n=n, error=self.error_after(n), picks=picks)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to spend the labels: its certified error, in eight draws of ten ``low`` to ``high``."""

    name: str
    expected: float
    low: float
    high: float
    held_out: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """Ways to spend the labels, the best first, and the labels that each needs.

    ``most_bits`` and ``most_picks`` are as good as the best hold-out set; None where no message or pick is.
    """

    ways: tuple[Way, ...]
    most_bits: int | None
    most_picks: int | None
    needed: dict[str, int | None]


def plan(situation: Situation, *, target: float | None = None) -> Advice:
    """Compare the ways to spend labels; with a target, compute the labels that each needs.

    Nothing here is a guarantee: the bounds are exact, the error that they are computed for is a guess.

    Example:
        >>> found = plan(Situation(n=1000, error=0.05))
        >>> found.ways[0].name, found.ways[0].held_out
        ('hold-out', 350)
    """
    if target is not None and not 0.0 < target < 1.0:
        raise UsageError(f"`target` is an error strictly between 0 and 1. Got {target}.")
    is_asked = {"message": situation.bits is not None, "picks": situation.picks is not None}
    ways = [_evaluate(name, situation) for name in WAYS if is_asked.get(name, True)]
    held_out = ways[0].expected

    def most(name: str, what: str, limit: int) -> int | None:
        """The largest message, or number of picks, that is as good as the best hold-out set."""

        def loses(number: int) -> bool:
            return _evaluate(name, replace(situation, **{what: number})).expected > held_out

        found = bisect_left(range(limit + 1), True, key=loses) - 1
        return None if found < 0 else found

    return Advice(
        ways=tuple(sorted(ways, key=lambda each: each.expected)),
        most_bits=most("message", "bits", 10**9),
        most_picks=most("picks", "picks", situation.n),
        needed={way.name: _labels_needed(situation, way.name, target) for way in ways if target is not None},
    )


def _limit(name: str, known: Situation, errors: int, n: int) -> float:
    """Return the bound of a way for so many errors on n counted examples."""
    if name == "hold-out":  # chosen before the labels are seen, so the choice costs nothing
        return looked_risk(LookFacts(errors=errors, n=n, delta=known.delta, looks=known.looks)).value
    if name == "picks":
        picks = known.picks or 0
        facts = PickedFacts(picks=picks, errors=min(errors, n - picks), n=n, delta=known.delta)
        return picked_risk(facts).value
    # a split is the hold-out set as a file
    bits = SPLIT_BITS if name == "split" else known.bits or 0.0
    return occam_binomial(OccamFacts(errors=errors, n=n, code_bits=bits, delta=known.delta)).value


def _evaluate(name: str, situation: Situation) -> Way:
    def limit(errors: int, counted: int) -> float:
        return _limit(name, situation, errors, counted)

    def error(size: int) -> float:
        return situation.error_after(n - size)

    n, held_out = situation.n, 0
    if name in ("hold-out", "split"):
        sizes = sorted({min(n - 1, max(1, round(share * n))) for share in SHARES})
        held_out = min(sizes, key=lambda size: limit(_quantile(size, error(size), 0.5), size))
        drawn, counted, rate = held_out, held_out, error(held_out)
    else:
        drawn = max(1, n - (situation.picks or 0)) if name == "picks" else n
        counted, rate = n, situation.error
    low, expected, high = (limit(_quantile(drawn, rate, tail), counted) for tail in _TAILS)
    return Way(name, expected, low, high, held_out)


def _quantile(n: int, p: float, tail: float) -> int:
    """Fewest errors that are not exceeded with probability ``tail``."""
    return bisect_left(range(n), True, key=lambda errors: log_binomial_cdf(errors, n, p) >= math.log(tail))


def _labels_needed(situation: Situation, name: str, target: float) -> int | None:
    """Labels for the target, to one part in a hundred and rounded up."""

    def misses(n: int) -> bool:
        return _evaluate(name, situation.with_labels(n)).expected > target

    low, high = 2, 4
    while misses(high):
        low, high = high, 2 * high
        if high > _MOST_LABELS:
            return None
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if misses(middle) else (low, middle)
    return high
