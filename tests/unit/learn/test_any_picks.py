"""Rounds whose decisions depend on other examples, and places of rounds in a list that is fixed."""

from dataclasses import dataclass

import numpy as np
import pytest

from codebound.learn.any_picks import NO_ROUNDS, THE_END, PickingRule, UndecidedError, rounds
from codebound.run.errors import UsageError


@dataclass(frozen=True)
class TwoMinds:
    """Judges the four examples in two ways."""

    one: tuple[float, ...]
    other: tuple[float, ...]

    def learn(self, picks):
        return len(picks)

    def judge(self, model, rest):
        return [np.array(each)[rest] for each in (self.one, self.other)]


class Steps:
    """Errs on three examples fewer for every pick."""

    def learn(self, picks):
        return len(picks)

    def judge(self, model, rest):
        return [np.where(np.arange(len(rest)) < 20 - 3 * model, -1.0, 1.0)]


def numbers(one, other, ids=(0, 1, 2, 3), **constants):
    found = rounds(np.arange(4), np.array(ids), TwoMinds(one, other), PickingRule(**constants))
    return [at.number for at in found]


def steps(**constants):
    return list(rounds(np.arange(60), np.arange(60), Steps(), PickingRule(**constants)))


def test_an_example_that_is_wrong_for_one_of_two_is_undecided():
    with pytest.raises(UndecidedError, match="whether an example is wrong depends on the other"):
        numbers((-1.0, 1.0, 1.0, 1.0), (1.0, -1.0, 1.0, 1.0))


def test_a_cut_that_falls_between_others_is_undecided():
    falling, rising = (-1.0, -2.0, -3.0, 1.0), (-3.0, -2.0, -1.0, 1.0)
    with pytest.raises(UndecidedError, match="which example is picked depends on the other"):
        numbers(falling, rising)
    assert numbers(falling, rising, batch=3) == [0, 1]


def test_copies_can_stand_for_one_another():
    falling, rising = (-1.0, -2.0, -3.0, 1.0), (-3.0, -2.0, -1.0, 1.0)
    assert numbers(falling, rising, ids=(7, 7, 7, 0)) == [0, 1, 2, 3]


def test_the_worst_are_picked_and_content_decides_between_equals():
    found = rounds(np.array([3, 1, 0, 2]), np.arange(4), TwoMinds((-1.0,) * 4, (-1.0,) * 4), PickingRule(2))
    assert [at.picks.tolist() for at in found] == [[], [3, 1], [3, 1, 0, 2]]


def test_rounds_end_when_nothing_is_wrong_or_their_number_is_reached():
    assert [(len(at.picks), len(at.errors)) for at in steps()][:3] == [(0, 20), (1, 17), (2, 14)]
    assert [at.is_last for at in steps()] == [False] * 7 + [True]
    assert [at.number for at in steps(max_rounds=2)] == [0, 1, 2]
    assert [len(at.picks) for at in steps(batch=2, growth=1.0)] == [0, 2, 4, 8]


def test_places_are_those_of_the_end_of_no_rounds_and_of_doublings():
    places = [at.places for at in steps(max_rounds=6)]
    assert places == [(NO_ROUNDS,), (3,), (4,), (), (5,), (), (THE_END,)]
    assert PickingRule(max_rounds=9).describe(THE_END).startswith("picks until none is wrong or 9 rounds")
    assert [PickingRule().describe(place)[:16] for place in (3, 6)] == [
        "picks in 1 round",
        "picks in 8 round",
    ]


@pytest.mark.parametrize(
    ("constants", "says"),
    [({"batch": 0}, "`batch`"), ({"growth": 2.0}, "`growth`"), ({"max_rounds": -1}, "`max_rounds`")],
)
def test_constants_out_of_range_are_refused(constants, says):
    with pytest.raises(UsageError, match=says):
        PickingRule(**constants)
