"""The best of all rounds: what is considered, when it is enough, and what a failing candidate leaves."""

import numpy as np
import pytest

from codebound.any_learner.candidates import RoundSearch, Sample, Variant
from codebound.any_learner.learners import LearnerError
from codebound.any_learner.picking_rule import Judgement, RuleConstants
from codebound.run.errors import UsageError
from codebound.run.progress import silent

N = 60
ALL = np.ones(N, dtype=bool)


class Steps:
    """A learner that errs on fewer examples the more it has picked."""

    apart = np.zeros(0, np.int64)

    def __init__(self, left, *, learns=4, fails_at=None, is_repeatable=True):
        self.left, self.learns, self.fails_at, self.repeats = left, learns, fails_at, is_repeatable

    def learn(self, picks):
        if len(picks) == self.fails_at:
            raise LearnerError("it fell over.")
        return len(picks)

    def judge(self, model, rest):
        wrong = np.arange(len(rest)) < max(0, self.left - self.learns * model)
        return [Judgement(wrong, np.zeros(len(rest)))] * 2

    def is_repeatable(self, model, picks):
        return self.repeats


def variant(learner, *, part=ALL):
    sample = Sample(np.arange(N), np.zeros(N, np.int64), [bytes([at]) for at in range(N)])
    return Variant(
        rule=RuleConstants(first=1),
        fitter=learner,
        contents=sample.contents(learner.apart, by_class=False),
        n=N,
        delta=0.05,
        classes=2,
        part=part,
    )


def test_the_smallest_bound_of_all_rounds_is_kept_and_each_round_is_told():
    told = []
    search = RoundSearch([variant(Steps(20))], lambda *given: told.append(given))
    best, _ = search.run()
    assert best.bound.value == min(stage.bound.value for stage in search.stages)
    assert [stage.picks for stage in search.stages][:3] == [1, 2, 3]
    assert [stage.errors for stage in search.stages][:3] == [16, 12, 8]
    assert best.errors == 0
    assert len(told) == len({stage.picks for stage in search.stages})
    assert "% (" in told[-1][2]


def test_rounds_end_where_no_later_one_can_be_better():
    """A learner that always errs on six: six picks without an error are no better than one with six."""
    search = RoundSearch([variant(Steps(6, learns=0))], silent)
    assert search.run()[0].picks == 1
    assert 5 <= len(search.stages) <= 8


def test_a_candidate_that_fails_at_once_is_left_out_with_a_word():
    search = RoundSearch([variant(Steps(20, fails_at=1)), variant(Steps(20))], silent)
    with pytest.warns(UserWarning, match="candidate 0 was left out: it fell over"):
        assert search.run()[0].message.candidate == 1


def test_rounds_before_a_failure_stay_true():
    search = RoundSearch([variant(Steps(20, fails_at=3))], silent)
    with pytest.warns(UserWarning, match="ended early: it fell over"):
        assert search.run()[0].picks <= 2


def test_without_any_message_the_failure_is_raised():
    with pytest.raises(LearnerError, match="fell over"):
        RoundSearch([variant(Steps(20, fails_at=1))], silent).run()


def test_a_learner_that_learns_something_else_each_time_has_no_bound():
    with pytest.raises(UsageError, match="fitted twice"):
        RoundSearch([variant(Steps(20, is_repeatable=False))], silent).run()


def test_ctrl_c_keeps_the_best_so_far():
    def impatient(done, total, note):
        raise KeyboardInterrupt

    search = RoundSearch([variant(Steps(20))], impatient)
    assert search.run()[0].picks == 1
    assert search.is_interrupted


def test_only_the_part_that_a_loss_is_about_counts():
    even = np.arange(N) % 2 == 0
    search = RoundSearch([variant(Steps(20), part=even)], silent)
    stage, at = search.run()
    assert stage.picks == sum(place % 2 == 0 for place in at.picks)
    assert stage.errors == sum(place % 2 == 0 for place in at.errors)


def test_a_rule_sees_contents_and_no_positions():
    digests = [b"c", b"a", b"b", b"a"]
    found = Sample(np.arange(4), np.array([5, 6, 7, 6]), digests).contents(np.array([2]), by_class=True)
    assert found.order.tolist() == [1, 3, 0]
    assert found.ids[1] == found.ids[3] != found.ids[0]
    assert found.groups == [5, 6, 7, 6]
