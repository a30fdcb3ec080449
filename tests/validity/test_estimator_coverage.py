"""``PickToLearn`` in worlds of known risk, and how much goes wrong when something is not paid for.

Inputs are cells; a cell has a probability of the label 1. The learner votes among the picks of a cell, so
that its risk is known exactly, and it can learn noise by heart if it is allowed to.
"""

from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from worlds import rates

import codebound
from codebound.any_learner.candidates import Variant

N, CELLS, DELTA = 60, 30, 0.2
REPS, MANY = 24, 200
WORLDS = {
    "clean": np.repeat([0.0, 1.0], CELLS // 2),
    "noisy": np.repeat([0.2, 0.8], CELLS // 2),
    "coins": np.full(CELLS, 0.5),
}


class Votes(ClassifierMixin, BaseEstimator):
    """The label that most picks of a cell have; beyond that a guess that the seed makes."""

    def __init__(self, seed=0, seen=None):
        self.seed, self.seen = seed, seen

    def fit(self, X, y):
        X, y = (X, y) if self.seen is None else self.seen
        guess = np.random.default_rng(self.seed).uniform(-0.5, 0.5, CELLS)
        self.votes_ = guess + np.bincount(X[:, 0].astype(int), weights=2.0 * y - 1.0, minlength=CELLS)
        self.classes_ = np.arange(2)
        return self

    def decision_function(self, X):
        return self.votes_[X[:, 0].astype(int)]

    def predict(self, X):
        return (self.decision_function(X) > 0.0).astype(int)


def draw(world, rng):
    cells = rng.integers(CELLS, size=N)
    return cells[:, None], (rng.random(N) < world[cells]).astype(int)


def misses(world, make, *, reps=REPS, seed=0):
    """How often the bound of what was learned lies below its risk."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(reps):
        inputs, labels = draw(world, rng)
        model = make(inputs, labels).fit(inputs, labels)
        predicted = model.predict(np.arange(CELLS)[:, None])
        found += model.risk_bound_.value < np.where(predicted == 1, 1.0 - world, world).mean()
    return found


exceeds = partial(rates.exceeds, reps=REPS, delta=DELTA)


GUESSES = [{"estimator__seed": seed} for seed in range(32)]
SETTINGS = {
    "rounds": {"batch": 2},
    "first share": {"apart": 20, "first": 0, "batch": 1},
    "share": {"first": 0, "candidates": [{"apart": share} for share in (5, 20, 40)]},
    "some left": {"batch": 4, "leave": 3, "aim": 0.5},
    "many guesses": {"candidates": GUESSES, "max_rounds": 0, "first": 0, "apart": 1},
}


@pytest.mark.few(1)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("world", ["coins", *(pytest.param(each, marks=pytest.mark.slow) for each in WORLDS)])
def test_it_holds_with_every_choice_paid(world, settings, request):
    def make(inputs, labels):
        return codebound.PickToLearn(Votes(), delta=DELTA, **SETTINGS[settings])

    reps = MANY if request.node.get_closest_marker("slow") else REPS
    assert not exceeds(misses(WORLDS[world], make, reps=reps), reps=reps)


@pytest.mark.thorough
def test_candidates_that_cost_nothing_are_caught(monkeypatch):
    monkeypatch.setattr("codebound.any_learner.candidates.RuleMessage.bits", lambda self, candidates: 0.0)

    def make(inputs, labels):
        return codebound.PickToLearn(Votes(), delta=DELTA, **SETTINGS["many guesses"])

    assert exceeds(misses(WORLDS["coins"], make))


def test_picks_that_cost_nothing_are_caught(monkeypatch):
    paid = Variant.bound
    monkeypatch.setattr(
        Variant, "bound", lambda self, message, *, picks, **others: paid(self, message, picks=0, **others)
    )

    def make(inputs, labels):
        return codebound.PickToLearn(Votes(), delta=DELTA, batch=2)

    assert exceeds(misses(WORLDS["coins"], make))


@pytest.mark.thorough
def test_a_learner_that_has_seen_the_sample_is_caught():
    def make(inputs, labels):
        return codebound.PickToLearn(Votes(seen=(inputs, labels)), delta=DELTA)

    assert exceeds(misses(WORLDS["coins"], make))


class Means(RegressorMixin, BaseEstimator):
    """The mean of the picks of a cell."""

    def fit(self, X, y):
        cells = X[:, 0].astype(int)
        counts = np.bincount(cells, minlength=CELLS)
        self.means_ = np.bincount(cells, weights=y, minlength=CELLS) / np.maximum(1, counts)
        return self

    def predict(self, X):
        return self.means_[X[:, 0].astype(int)]


def regression_misses(*, reps=REPS, tau=0.6):
    """Values are uniform within 1 of the cell's number: the risk of any prediction is known."""
    rng = np.random.default_rng(1)
    found, cells = 0, np.arange(CELLS)
    for _ in range(reps):
        inputs = rng.integers(CELLS, size=(N, 1))
        values = inputs[:, 0] + rng.uniform(-1.0, 1.0, N)
        model = codebound.PickToLearn(Means(), tau=tau, delta=DELTA, batch=2).fit(inputs, values)
        off = model.predict(cells[:, None]) - cells
        inside = np.clip(np.minimum(off + tau, 1.0) - np.maximum(off - tau, -1.0), 0.0, None) / 2.0
        found += model.risk_bound_.value < (1.0 - inside).mean()
    return found


@pytest.mark.thorough
def test_residuals_above_tau_are_covered():
    assert not exceeds(regression_misses())


@pytest.mark.thorough
def test_residuals_that_cost_nothing_are_caught(monkeypatch):
    paid = Variant.bound
    monkeypatch.setattr(
        Variant,
        "bound",
        lambda self, message, *, picks, errors, **others: paid(self, message, picks=0, errors=0, **others),
    )
    assert exceeds(regression_misses())
