"""Advice on n labels: hold-out set, message or picks, and numbers needed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codebound.bounds.facts import MAX_N, LookFacts, OccamFacts, PickedFacts, check_delta
from codebound.bounds.held_out import looked_risk
from codebound.bounds.numerics import log_binomial_cdf
from codebound.bounds.occam import occam_binomial
from codebound.bounds.picked import picked_risk
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

SHARES = tuple(i / 20 for i in range(2, 11))
"""Shares of the labels that may be held out: so far the guess of the error is not stretched by much."""
SPLIT_BITS = 20.0
"""Of a certificate that learns from one part of the sample and counts on the other, without a pick."""
_TAILS = (0.1, 0.5, 0.9)
_MOST_LABELS = 10**8


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Known or guessed numbers before the labels are spent.

    Attributes:
        n: Labels there are, or will be.
        error: Error on new data of a network that learned from all n, guessed.
        delta: Failure probability.
        slope: How fast the error falls with the labels learned from: as ``m**-slope``; 0 for not at all.
        looks: Networks that will be tried on the held-out examples, fixed before the first is tried.
        bits: Length of a message, where one is in sight.
        picks: Examples that a rule would pick, where that is known.
        train_error: Error of the network on what it learned from; by default as on new data.
    """

    n: int
    error: float
    delta: float = 0.05
    slope: float = 0.25
    looks: int = 1
    bits: float | None = None
    picks: int | None = None
    train_error: float | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        for name, value, low, high in (
            ("n", self.n, 2, _MOST_LABELS),
            ("looks", self.looks, 1, MAX_N),
            ("error", self.error, 0.0, 1.0),
            ("train_error", self.train_error, 0.0, 1.0),
            ("slope", self.slope, 0.0, 2.0),
            ("bits", self.bits, 0.0, 1e12),
            ("picks", self.picks, 0, self.n),
        ):
            if value is not None and not low <= value <= high:
                raise UsageError(f"`{name}` lies between {low} and {high:g}. Got {value}.")

    def error_after(self, labels: int) -> float:
        """Guessed error of a network that learned from fewer labels."""
        return min(1.0, self.error * math.pow(self.n / labels, self.slope))

    def with_labels(self, n: int) -> Situation:
        """The same with another number of labels: the error follows the slope, the share of picks stays."""
        picks = None if self.picks is None else min(n, math.ceil(self.picks / self.n * n))
        return replace(self, n=n, error=self.error_after(n), picks=picks)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to spend the labels.

    Attributes:
        name: ``hold-out``, ``split``, ``message`` or ``picks``.
        expected: The certified error, if the guess is right and the draw is neither lucky nor unlucky.
        low, high: In eight draws of ten or more it lies between them, if the guess is right.
        held_out: Labels that are held out; 0 where all are learned from.
    """

    name: str
    expected: float
    low: float
    high: float
    held_out: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """Ways to spend the labels, ranked, and their limits.

    Attributes:
        ways: All ways that were asked about, the best first.
        most_bits: Longest message that says as much as the best hold-out set; None if none does.
        most_picks: Most picks that do; None if none do.
        needed: Labels that each way needs for the target; None where a hundred million are too few.
    """

    ways: tuple[Way, ...]
    most_bits: int | None
    most_picks: int | None
    needed: dict[str, int | None]


def advise(situation: Situation, *, target: float | None = None) -> Advice:
    """Compares the ways to spend labels.

    Nothing here is a guarantee: the bounds are exact, the error that they are computed for is a guess.

    Args:
        situation: What is known or guessed.
        target: Certified error that is wanted: then the labels for it are computed too.

    Example:
        >>> found = advise(Situation(n=1000, error=0.05))
        >>> found.ways[0].name, found.ways[0].held_out
        ('hold-out', 350)
    """
    if target is not None and not 0.0 < target < 1.0:
        raise UsageError(f"`target` is an error strictly between 0 and 1. Got {target}.")
    ways = {"hold-out": _held_out, "split": _after_split}
    if situation.bits is not None:
        ways["message"] = _by_message
    if situation.picks is not None:
        ways["picks"] = _by_picks
    found = sorted((way(situation) for way in ways.values()), key=lambda each: each.expected)
    held_out = next(each for each in found if each.name == "hold-out").expected
    return Advice(
        ways=tuple(found),
        most_bits=_most(lambda bits: _by_message(replace(situation, bits=bits)).expected <= held_out, 10**9),
        most_picks=_most(lambda m: _by_picks(replace(situation, picks=m)).expected <= held_out, situation.n),
        needed={}
        if target is None
        else {name: _labels_needed(situation, way, target) for name, way in ways.items()},
    )


def _held_out(situation: Situation) -> Way:
    """The best hold-out set; where it begins is chosen before the labels are seen, so it costs nothing."""

    def limit(errors: int, size: int) -> float:
        facts = LookFacts(errors=errors, n=size, delta=situation.delta, looks=situation.looks)
        return looked_risk(facts).value

    return _at_best_share("hold-out", situation, limit)


def _after_split(situation: Situation) -> Way:
    """The same as a file that a second program checks: who learns from which part is a short message."""

    def limit(errors: int, size: int) -> float:
        facts = OccamFacts(errors=errors, n=size, code_bits=SPLIT_BITS, delta=situation.delta)
        return occam_binomial(facts).value

    return _at_best_share("split", situation, limit)


def _at_best_share(name: str, situation: Situation, limit: Callable[[int, int], float]) -> Way:
    sizes = {min(situation.n - 1, max(1, round(share * situation.n))) for share in SHARES}

    def error(size: int) -> float:
        return situation.error_after(situation.n - size)

    best = min(sorted(sizes), key=lambda size: limit(_quantile(size, error(size), 0.5), size))
    return _way(name, best, error(best), lambda errors: limit(errors, best), held_out=best)


def _by_message(situation: Situation) -> Way:
    def limit(errors: int) -> float:
        facts = OccamFacts(
            errors=errors, n=situation.n, code_bits=situation.bits or 0.0, delta=situation.delta
        )
        return occam_binomial(facts).value

    return _way("message", situation.n, _train_error(situation), limit)


def _by_picks(situation: Situation) -> Way:
    picks = situation.picks or 0
    left = situation.n - picks

    def limit(errors: int) -> float:
        facts = PickedFacts(picks=picks, errors=min(errors, left), n=situation.n, delta=situation.delta)
        return picked_risk(facts).value

    return _way("picks", max(1, left), _train_error(situation), limit)


def _train_error(situation: Situation) -> float:
    return situation.error if situation.train_error is None else situation.train_error


def _way(name: str, n: int, error: float, limit: Callable[[int], float], *, held_out: int = 0) -> Way:
    low, expected, high = (limit(_quantile(n, error, tail)) for tail in _TAILS)
    return Way(name, expected, low, high, held_out)


def _quantile(n: int, p: float, tail: float) -> int:
    """Fewest errors that are not exceeded with probability ``tail``."""

    def is_enough(errors: int) -> bool:
        return log_binomial_cdf(errors, n, p) >= math.log(tail)

    near = 4 * math.ceil(1.0 + math.sqrt(n * p * (1.0 - p)))  # errors are seldom farther from their mean
    low, high = max(-1, math.floor(n * p) - near), min(n, math.ceil(n * p) + near)
    if low >= 0 and is_enough(low):
        low = -1
    if not is_enough(high):
        high = n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _most(is_enough: Callable[[int], bool], most: int) -> int | None:
    """The largest number with a property that is lost on the way up; None if 0 has it not."""
    if not is_enough(0):
        return None
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_enough(middle) else (low, middle)
    return low


def _labels_needed(situation: Situation, way: Callable[[Situation], Way], target: float) -> int | None:
    """Labels for the target, to one part in a hundred and rounded up."""

    def misses(n: int) -> bool:
        return way(situation.with_labels(n)).expected > target

    if situation.slope == 0.0 and situation.error >= target:
        return None
    low, high = 2, 4
    while misses(high):
        low, high = high, 2 * high
        if high > _MOST_LABELS:
            return None
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if misses(middle) else (low, middle)
    return high
