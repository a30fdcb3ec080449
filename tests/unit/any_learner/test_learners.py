"""Estimators as learners: what is a loss, which losses come first, and what a learner must not do."""

import numpy as np
import pytest

from codebound.any_learner.learners import Fitter, LearnerError
from codebound.sample.losses import parse_loss

SCORES = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.25, 0.5, 0.25], [0.1, 0.2, 0.7], [0.4, 0.4, 0.2]])
LABELS = np.array([0, 0, 2, 1, 1])
EVERY = np.arange(5)


class Told:
    """A classifier that looks its scores up; an input is a row of the table."""

    classes_ = np.arange(3)

    def __init__(self, scores=SCORES):
        self.scores = scores

    def fit(self, inputs, labels):
        self.fitted = len(inputs)
        return self

    def predict(self, inputs):
        return self.scores[inputs[:, 0]].argmax(1)

    def predict_proba(self, inputs):
        return self.scores[inputs[:, 0]]

    def get_params(self, deep=False):
        return {"scores": self.scores}


def fitter(estimator=None, labels=LABELS, **changes):
    given = {"apart": np.zeros(0, np.int64), "tau": None, "aim": None, "classes": 3}
    return Fitter(estimator or Told(), np.arange(5)[:, None], labels, **{**given, **changes})


def judged(model=None, rest=EVERY, **changes):
    one, other = fitter(**changes).judge(model or Told(), rest)
    assert np.array_equal(one.wrong, other.wrong)
    assert np.array_equal(one.score, other.score)
    return one


def test_wrong_examples_are_ordered_by_the_margin_of_their_label():
    found = judged()
    assert found.wrong.tolist() == [False, True, True, True, True]
    margins = [0.0, 0.3 - 0.4, 0.25 - 0.5, 0.2 - 0.7, 0.4 - 0.4]
    assert found.score == pytest.approx(margins, abs=2**-15)


def test_margins_near_an_aim_come_first():
    found = judged(aim=0.25)
    assert found.score[1:] == pytest.approx([0.15, 0.0, 0.25, 0.25], abs=2**-15)


@pytest.mark.parametrize(
    ("loss", "wrong"),
    [
        ("top:2", [False, True, True, False, False]),  # the label is level with another, or behind two
        ("class:0", [False, True, False, False, False]),
        ("confused:1:2", [False, False, False, True, False]),
        ("cost-above:1:distance", [False, False, False, False, False]),
        ("cost-above:0:distance", [False, True, True, True, True]),
    ],
)
def test_losses_are_those_by_hand(loss, wrong):
    assert judged(loss=parse_loss(loss)).wrong.tolist() == wrong


def test_a_class_that_nobody_knows_costs_the_most():
    class Strange(Told):
        def predict(self, inputs):
            return np.full(len(inputs), 7)

    assert judged(Strange(), loss=parse_loss("cost-above:1:distance")).wrong.all()


@pytest.mark.parametrize("tau", [0.5, 1.0])
def test_a_value_that_is_far_off_is_a_loss_and_so_is_none(tau):
    class Values(Told):
        def predict(self, inputs):
            return np.array([0.0, 1.0, 2.5, np.nan, 1.5])[inputs[:, 0]]

    found = judged(Values(), labels=np.array([0.0, 0.0, 2.0, 1.0, 1.5]), tau=tau)
    assert found.wrong.tolist() == [False, tau < 1.0, False, True, False]
    assert found.score[3] == -np.inf


def test_what_depends_on_the_other_examples_is_seen():
    class Ranking(Told):
        def predict(self, inputs):
            return (np.arange(len(inputs)) > 0).astype(int)

    one, other = fitter().judge(Ranking(), EVERY)
    assert not np.array_equal(one.wrong, other.wrong)


def test_a_learner_learns_from_what_is_set_apart_and_the_picks():
    apart = np.array([4, 1])
    assert fitter(apart=apart).learn(np.array([0])).fitted == 3


def test_a_learner_that_draws_is_not_repeatable():
    class Drawing(Told):
        def fit(self, inputs, labels):
            self.scores = np.random.default_rng().random((5, 3))
            return self

    for kind, same in ((Told, True), (Drawing, False)):
        learner = fitter(kind())
        assert learner.is_repeatable(learner.learn(EVERY), EVERY) is same


class Failing(Told):
    """One that takes no labels."""

    def fit(self, inputs, labels):
        raise ValueError("needs more")

    def predict(self, inputs):
        return np.zeros((len(inputs), 2))


class NoScores:
    def predict(self, inputs):
        return np.zeros(len(inputs))


def test_failures_of_a_learner_are_told_as_its_own():
    with pytest.raises(
        LearnerError, match=r"Failing failed on 5 examples with ValueError: needs more.*`first`"
    ):
        fitter(Failing()).learn(EVERY)
    with pytest.raises(LearnerError, match=r"predicts values of shape \(5, 2\) for 5"):
        fitter().judge(Failing(), EVERY)
    with pytest.raises(LearnerError, match="has no scores"):
        fitter(loss=parse_loss("top:2")).judge(NoScores(), EVERY)
