"""``CertifiedClassifier`` in worlds of known risk, and how much goes wrong when something is not paid for.

Inputs are cells; a cell has a probability of the label 1. The learner votes among the examples of a cell, so
that its risk is known exactly, and it can learn noise by heart if it is allowed to.
"""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from worlds import rates

import codebound
from codebound.certificate.offers import Offer
from codebound.sample.counting import Term

N, CELLS, DELTA = 60, 30, 0.2
REPS, MANY = 24, 400
WORLDS = {
    "clean": np.repeat([0.0, 1.0], CELLS // 2),
    "noisy": np.repeat([0.2, 0.8], CELLS // 2),
    "coins": np.full(CELLS, 0.5),
}


class Votes(ClassifierMixin, BaseEstimator):
    """The label that most examples of a cell have; beyond that a guess that the seed makes."""

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


def draw(world, rng, n):
    """Rows that differ in a second column, which nobody looks at."""
    cells = rng.integers(CELLS, size=n)
    return np.column_stack([cells, rng.random(n)]), (rng.random(n) < world[cells]).astype(int)


def misses(world, make, *, bound=lambda model: model.bound_, reps=REPS, n=N):
    """How often the bound of what was learned lies below its risk."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(reps):
        inputs, labels = draw(world, rng, n)
        model = make(inputs, labels).fit(inputs, labels)
        predicted = model.predict(np.column_stack([np.arange(CELLS), np.zeros(CELLS)]))
        found += bound(model) < np.where(predicted == 1, 1.0 - world, world).mean()
    return found


def exceeds(count, *, reps=REPS):
    return rates.exceeds(count, reps=reps, delta=DELTA)


SETTINGS = {
    "share": {},
    "small share": {"share": 0.2},
    "picks": {"method": "picks", "share": 0.2},
    "picks to the end": {"method": "picks", "share": 0.5},
    "many picks at once": {"method": "picks", "share": 0.1, "batch": 20},
    "few rounds": {"method": "picks", "share": 0.2, "max_rounds": 3, "batch": 2},
}


def limit_of(model, *, count):
    """The bound of a certificate if other things counted."""
    certificate = model.result_.certificate
    limit, law = certificate.limit, certificate.claim.law
    return Term(law, count(limit), limit.n, certificate.message.bits).limit(DELTA)


@pytest.mark.few(2)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("world", ["coins", *(pytest.param(each, marks=pytest.mark.slow) for each in WORLDS)])
def test_it_holds_with_every_choice_paid(world, settings, request):
    def make(inputs, labels):
        return codebound.CertifiedClassifier(Votes(), delta=DELTA, **SETTINGS[settings])

    reps = MANY if request.node.get_closest_marker("slow") else REPS
    assert not exceeds(misses(WORLDS[world], make, reps=reps), reps=reps)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["share", "picks"])
def test_it_holds_for_few_coin_flips(method):
    def make(inputs, labels):
        return codebound.CertifiedClassifier(Votes(), method, delta=DELTA)

    assert not exceeds(misses(WORLDS["coins"], make, reps=MANY, n=16), reps=MANY)


def test_picks_that_cost_nothing_are_caught(monkeypatch):
    """Whoever does not pay for picks chooses as if they were free."""
    monkeypatch.setattr(Offer, "rank", property(lambda each: (each.tally.errors / each.tally.n, 0)))

    def make(inputs, labels):
        return codebound.CertifiedClassifier(Votes(), delta=DELTA, **SETTINGS["many picks at once"])

    def free(model):
        return limit_of(model, count=lambda limit: limit.errors)

    assert exceeds(misses(WORLDS["coins"], make, bound=free))


@pytest.mark.thorough
def test_errors_that_cost_nothing_are_caught():
    def make(inputs, labels):
        return codebound.CertifiedClassifier(Votes(), delta=DELTA)

    def free(model):
        return limit_of(model, count=lambda limit: limit.errors // 2)

    assert exceeds(misses(WORLDS["coins"], make, bound=free))


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["share", "picks"])
def test_a_learner_that_has_seen_the_sample_is_caught(method):
    def make(inputs, labels):
        return codebound.CertifiedClassifier(Votes(seen=(inputs, labels)), method, delta=DELTA)

    assert exceeds(misses(WORLDS["coins"], make, reps=4 * REPS), reps=4 * REPS)
