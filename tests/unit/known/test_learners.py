"""Fitted learners as classifiers of stored inputs: what they read, what they say, and who fails."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from worlds.samples import clouds

from codebound.known.learners import Fitted, Mean, as_odds, learn_scores, load_learner
from codebound.run.errors import UsageError
from codebound.sample.load import as_dataset
from codebound.sample.order import Design, arrange


def mixed_sample(n=120):
    rng = np.random.default_rng(0)
    towns, x = rng.choice(["ulm", "bonn", "rom"], n), rng.normal(size=n)
    y = ((towns == "ulm") | (x > 1.0)).astype(int)
    return as_dataset((pd.DataFrame({"x": np.where(rng.random(n) < 0.1, np.nan, x), "town": towns}), y))


@pytest.mark.parametrize(
    "learner", [HistGradientBoostingClassifier(random_state=0), RandomForestClassifier(random_state=0)]
)
def test_a_learner_reads_words_and_gaps(learner):
    sample = mixed_sample()
    table = learn_scores(learner, arrange(sample, Design()), 80)
    known, counted = arrange(sample, Design()).split(80)
    assert (table.scores.argmax(1) == sample.y)[counted].mean() > 0.8
    assert table.rows == len(known) == 80
    lacking = torch.from_numpy(sample.x[:1].copy())
    lacking[0] = torch.nan
    assert table.classifier(lacking).isfinite().all()


def test_scores_depend_on_the_known_share_alone():
    sample = clouds(90, features=4)
    arranged = arrange(sample, Design())
    known, counted = arranged.split(60)
    flipped = sample.y.copy()
    flipped[counted] = (flipped[counted] + 1) % 3
    other = clouds(90, features=4)
    object.__setattr__(other, "y", flipped)
    learner = RandomForestClassifier(random_state=0)
    again = type(arranged)(
        other,
        arranged.design,
        arranged.places,
        arranged.inputs,
        arranged.keys,
        None,
        arranged.cluster_keys,
    )
    found = [learn_scores(learner, each, 60).scores for each in (arranged, again)]
    np.testing.assert_array_equal(*found)
    assert set(known) | set(counted) == set(range(90))


def test_the_table_says_learner_and_version():
    table = learn_scores(SVC(C=3), arrange(clouds(60), Design()), 40)
    assert table.by.startswith("SVC(C=3), sklearn 1.")


def test_a_learner_that_fails_is_named():
    with pytest.raises(UsageError, match=r"LogisticRegression failed on the 80 examples.*NaN"):
        learn_scores(LogisticRegression(), arrange(mixed_sample(), Design()), 80)


class FailsLater(ClassifierMixin, BaseEstimator):
    """Learns, and cannot answer."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        raise ZeroDivisionError("later")


def test_a_learner_that_fails_on_the_sample_is_named():
    with pytest.raises(UsageError, match="FailsLater failed on the sample with ZeroDivisionError"):
        learn_scores(FailsLater(), arrange(clouds(60), Design()), 40)


def test_the_mean_of_two_learners_is_the_mean_of_their_odds():
    sample = clouds(60, features=4)
    fitted = [
        Fitted(each.fit(sample.x, sample.y), 3)
        for each in (SVC(C=1), RandomForestClassifier(10, random_state=0))
    ]
    x = torch.from_numpy(sample.x)
    odds = [each.odds(x) for each in fitted]
    assert all(torch.allclose(each.sum(1), torch.ones(60), atol=1e-3) for each in odds)
    torch.testing.assert_close(Mean(fitted)(x), (odds[0] + odds[1]) / 2)
    assert as_odds(SVC(), np.float32([[0.0, 0.0]])).tolist() == [[0.5, 0.5]]


def test_a_learner_is_loaded_by_its_name():
    assert load_learner("sklearn.svm:SVC", 5).random_state == 5
    with pytest.raises(UsageError, match="no learner"):
        load_learner("sklearn.svm:NoSuch", 0)
    with pytest.raises(UsageError, match="no fit and is no function"):
        load_learner("math:pi", 0)
