"""The rule of C-15 for any learner: first picks, rounds of wrong examples, and what is left wrong.

Nothing here looks at the size, the order or a statistic of the sample: only at what was picked, at one
example at a time and at constants. docs/picked.md says why that matters, and
tests/validity/test_estimator_rules.py tries every option on every small sample.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from codebound.any_learner.learners import Fitter

    Positions = NDArray[np.int64]


class UndecidedError(UsageError):
    """A learner judges an example differently when other examples stand beside it."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} depends on the other examples of its batch: then no rule says what is picked, and there "
            "is no bound. Use a learner that predicts each example for itself."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleConstants:
    """The constants of a rule.

    Attributes:
        first: First picks in each group of examples, by content; a smaller group is taken whole.
        batch: Wrong examples picked in a round, at most.
        growth: Picks of a round for each example that is learned from, if those are more than ``batch``.
        leave: The rounds end when no more than so many examples are wrong; below ``batch``.
        max_rounds: The rounds end after so many; None: no limit.
    """

    first: int = 1
    batch: int = 1
    growth: float = 0.0
    leave: int = 0
    max_rounds: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("first", 0), ("batch", 1), ("leave", 0), ("max_rounds", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < least):
                raise UsageError(f"`{name}` is a whole number, at least {least}. Got {value!r}.")
        if not 0.0 <= self.growth <= 1.0:
            raise UsageError(f"`growth` is a share of the picks, from 0 to 1. Got {self.growth!r}.")
        if self.leave >= self.batch:
            raise UsageError(
                f"`leave` must be smaller than `batch`: else the rounds would end by counting examples that "
                f"are thrown away. Got leave={self.leave}, batch={self.batch}."
            )

    def size(self, learned: int) -> int:
        """Most picks of a round, after so many examples were learned from."""
        return max(self.batch, math.floor(self.growth * learned))


@dataclass(frozen=True, slots=True)
class Contents:
    """A sample as a rule may see it.

    Attributes:
        order: Positions of the examples, ordered by their content.
        ids: A number for the content of each position: the same for copies.
        groups: The group of each position, a part of its content; the first picks are made in each.
    """

    order: Positions
    ids: NDArray[np.int64]
    groups: Sequence[object]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Errors and scores of a model on examples.

    Attributes:
        wrong: Whether it gets each of them wrong.
        score: Wrong examples with the smallest scores are picked first.
    """

    wrong: NDArray[np.bool_]
    score: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Round:
    """The state after some rounds.

    Attributes:
        number: How many rounds of picks were made.
        picks: Positions of the picks, in their order.
        errors: Positions of the others that are wrong.
        model: What was learned from the picks.
        is_last: Whether the rule ends here.
    """

    number: int
    picks: Positions
    errors: Positions
    model: Any
    is_last: bool


def rounds(contents: Contents, learner: Fitter, rule: RuleConstants, *, apart: int = 0) -> Iterator[Round]:
    """Carries the rule out, a round at a time; so many examples ``apart`` are learned from besides.

    A learner says the same of an example in whatever surroundings it judges it.

    Yields:
        Each round with its model. Whoever stops early has to pay for the number of rounds.

    Raises:
        UndecidedError: What stands beside an example decides about it.
    """
    order = contents.order
    picks = _first(contents, rule.first)
    for number in itertools.count():
        model = learner.learn(picks)
        rest = order[~np.isin(order, picks)]
        judged = learner.judge(model, rest)
        if not all(np.array_equal(each.wrong, judged[0].wrong) for each in judged):
            raise UndecidedError("whether an example is wrong")
        errors = rest[judged[0].wrong]
        is_last = len(errors) <= rule.leave or number == rule.max_rounds
        yield Round(number, picks, errors, model, is_last)
        if is_last:
            return
        count = rule.size(apart + len(picks))
        next_picks = [rest[_choose(each, count)] for each in judged]
        if any(not np.array_equal(contents.ids[each], contents.ids[next_picks[0]]) for each in next_picks):
            raise UndecidedError("which example is picked")
        picks = np.concatenate([picks, next_picks[0]])


def _first(contents: Contents, count: int) -> Positions:
    """The first examples of each group, in the order of all."""
    seen: dict[object, int] = {}
    found = []
    for position in contents.order.tolist():
        group = contents.groups[position]
        seen[group] = seen.get(group, 0) + 1
        if seen[group] <= count:
            found.append(position)
    return np.array(found, dtype=np.int64)


def _choose(judged: Judgement, count: int) -> Positions:
    """Places of the next picks: wrong ones with the smallest scores, ties by content; in the order of all."""
    wrong = np.flatnonzero(judged.wrong)
    ranked = wrong[np.argsort(judged.score[wrong], kind="stable")]
    return np.sort(ranked[:count])
