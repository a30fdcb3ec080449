"""Rounds of picks by any learner: the rule of C-15, and the rounds whose classifiers are declared.

Nothing here looks at the size, the order or a statistic of the sample: only at what was picked, at one
example at a time and at constants. docs/why.md says why that matters, and
tests/validity/test_estimator_rules.py tries every option on every small sample.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Positions = NDArray[np.int64]

THE_END, NO_ROUNDS = 1, 2
"""Places in the list of tables; as messages they cost two bits and seven."""


class UndecidedError(UsageError):
    """A learner judges an example differently when other examples stand beside it."""


class AnyLearner(Protocol):
    """Learning from picks, and judging other examples."""

    def learn(self, picks: Positions) -> Any:
        """A model of these examples, in their order."""

    def judge(self, model: Any, rest: Positions) -> Sequence[NDArray[np.float64]]:
        """Margins of examples, in one or several surroundings: at most 0 where it is wrong."""


@dataclass(frozen=True, slots=True)
class PickingRule:
    """Constants of a rule.

    Attributes:
        batch: Wrong examples picked in a round, at most.
        growth: Picks of a round for each example that is learned from, if those are more than ``batch``.
        max_rounds: Rounds after which it ends; None: when nothing is wrong.
    """

    batch: int = 1
    growth: float = 0.0
    max_rounds: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("max_rounds", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < least):
                raise UsageError(f"`{name}` is a whole number, at least {least}. Got {value!r}.")
        if not 0.0 <= self.growth <= 1.0:
            raise UsageError(f"`growth` is a share of what was learned, from 0 to 1. Got {self.growth!r}.")

    def size(self, learned: int) -> int:
        """Most picks of a round, after so many examples were learned from."""
        return max(self.batch, math.floor(self.growth * learned))

    def describe(self, place: int) -> str:
        """The rounds of a place in the list of tables, in words.

        Example:
            >>> PickingRule(5).describe(THE_END), PickingRule(5).describe(5)
            ('picks until none is wrong, batch 5, growth 0', 'picks in 4 rounds, batch 5, growth 0')
        """
        most = "" if self.max_rounds is None else f" or {self.max_rounds} rounds are over"
        when = f"until none is wrong{most}" if place == THE_END else f"in {1 << place >> 3} rounds"
        return f"picks {when}, batch {self.batch}, growth {self.growth:g}"


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """The state after so many rounds: places of the picks in their order, and of others that are wrong."""

    number: int
    picks: Positions
    errors: Positions
    model: Any
    is_last: bool

    @property
    def places(self) -> tuple[int, ...]:
        """Places in the list of tables, which is fixed: the end; no rounds; then 1, 2, 4, 8, ... rounds.

        Example:
            >>> none = np.zeros(0, np.int64)
            >>> [Round(number, none, none, None, number == 4).places for number in range(5)]
            [(2,), (3,), (4,), (), (1, 5)]
        """
        doublings = self.number.bit_length()
        is_listed = self.number.bit_count() <= 1
        return ((THE_END,) if self.is_last else ()) + ((NO_ROUNDS + doublings,) if is_listed else ())


def rounds(
    order: Positions, ids: NDArray[np.int64], learner: AnyLearner, rule: PickingRule, *, apart: int = 0
) -> Iterator[Round]:
    """Carry the rule out, a round at a time: the wrong examples with the smallest margins are picked.

    Args:
        order: Positions of the examples that can be picked, ordered by their content.
        ids: A number for the content of each position: the same for copies.
        learner: Learns from examples that are set apart, and from the picks.
        rule: Its constants.
        apart: How many examples are set apart.

    Raises:
        UndecidedError: Other examples beside an example decide about it.
    """
    picks = np.zeros(0, np.int64)
    for number in itertools.count():
        model = learner.learn(picks)
        rest = order[~np.isin(order, picks)]
        margins = learner.judge(model, rest)
        wrong = margins[0] <= 0.0
        if any(not np.array_equal(each <= 0.0, wrong) for each in margins):
            raise UndecidedError("whether an example is wrong depends on the other examples of its batch.")
        is_last = not wrong.any() or number == rule.max_rounds
        yield Round(number, picks, rest[wrong], model, is_last)
        if is_last:
            return
        chosen = [rest[_choose(each, rule.size(apart + len(picks)))] for each in margins]
        if any(not np.array_equal(ids[each], ids[chosen[0]]) for each in chosen):
            raise UndecidedError("which example is picked depends on the other examples of its batch.")
        picks = np.concatenate([picks, chosen[0]])


def _choose(margins: NDArray[np.float64], count: int) -> Positions:
    """Places of the next picks: the smallest margins of wrong ones, ties by content; in the order of all."""
    wrong = np.flatnonzero(margins <= 0.0)
    return np.sort(wrong[np.argsort(margins[wrong], kind="stable")][:count])
