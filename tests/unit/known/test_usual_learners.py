"""The usual learners: which are compared, on what, and how large a share they ask for."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from worlds.samples import clouds, noise_images, random_labels, rows_of

from codebound.known import usual_learners
from codebound.known.usual_learners import Candidate, Comparison, is_usual, learn_usual, list_candidates
from codebound.run.errors import UsageError
from codebound.sample.load import as_dataset
from codebound.sample.order import Design, arrange


def comparison(sample, share=None, **given):
    arranged = arrange(sample, Design())
    return Comparison(arranged, arranged.units // 2 if share is None else share, **given)


class OneAnswer:
    """A learner that always says the same class, and counts how often it learns."""

    fits = 0

    def __init__(self, answer=0, fails=False):
        self.answer, self.fails = answer, fails

    def get_params(self, deep=False):
        return {"answer": self.answer, "fails": self.fails}

    def fit(self, x, y):
        type(self).fits += 1
        if self.fails:
            raise FloatingPointError("never")
        return self

    def predict(self, x):
        return np.full(len(x), self.answer)


def candidate(name, estimator, seconds=0.0, **given):
    return Candidate(name, "made", "codes", estimator, lambda n, d, c: seconds, **given)


def test_the_best_is_found_and_the_same_twice():
    found, again = (comparison(clouds(300, features=5, apart=3.0)) for _ in range(2))
    assert found.scores[0].errors <= 15
    assert [each.errors for each in found.scores] == sorted(each.errors for each in found.scores)
    assert [each.errors for each in found.scores] == [each.errors for each in again.scores]
    np.testing.assert_array_equal(found.scores[0].odds, again.scores[0].odds)


def test_counted_rows_change_nothing():
    sample = clouds(200, features=4)
    arranged = arrange(sample, Design())
    _, counted = arranged.split(100)
    x, y = sample.x.copy(), sample.y.copy()
    x[counted], y[counted] = 7.0, (y[counted] + 1) % 3
    other = replace(arranged, sample=replace(sample, x=x, y=y))
    found, again = (Comparison(each, 100) for each in (arranged, other))
    assert [each.errors for each in found.scores] == [each.errors for each in again.scores]
    assert found.choose_share(delta=0.05) == again.choose_share(delta=0.05)


def test_equal_inputs_share_a_fold():
    x = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 5, axis=0)
    found = comparison(rows_of(x))
    owners = found.arranged.inputs[found.rows]
    assert all(len(np.unique(found.folds[owners == each])) == 1 for each in np.unique(owners))
    assert len(np.unique(found.folds)) == 5


def test_a_learner_that_fails_or_takes_too_long_is_skipped(monkeypatch):
    sample = clouds(200)
    tried = [
        candidate("good", OneAnswer(0)),
        candidate("bad", OneAnswer(1, fails=True)),
        candidate("slow", OneAnswer(0), seconds=1e3),
        candidate("small", OneAnswer(0), seconds=np.inf),
    ]
    monkeypatch.setattr(usual_learners, "list_candidates", lambda *_: tried)
    found = comparison(sample)
    assert [each.members[0].family for each in found.scores] == ["good"]
    assert "FloatingPointError: never" in found.skipped["bad, made"]
    assert "too long" in found.skipped["slow, made"]
    assert "too long" in found.skipped["small, made"]
    assert {each.family for each in comparison(sample, effort="max").allowed()} == {"good", "bad", "slow"}


def test_what_is_much_worse_in_one_fold_is_not_learned_again(monkeypatch):
    sample = rows_of(
        np.random.default_rng(0).normal(size=(400, 2)), np.r_[np.zeros(380), np.ones(20)], classes=2
    )
    tried = [candidate("commonest", OneAnswer(0)), candidate("rarest", OneAnswer(1))]
    monkeypatch.setattr(usual_learners, "list_candidates", lambda *_: tried)
    OneAnswer.fits = 0
    found = comparison(sample)
    assert [each.members[0].family for each in found.scores] == ["commonest"]
    assert OneAnswer.fits == 5 + 1


@pytest.mark.parametrize(
    ("sample", "views"),
    [
        (clouds(60), {"codes", "scaled", "stored"}),
        (noise_images(60), {"codes", "scaled", "stored"}),
        (
            as_dataset((pd.DataFrame({"w": list("abc") * 20, "x": np.arange(60.0)}), np.arange(60) % 2)),
            {"codes", "scaled"},
        ),
    ],
)
def test_candidates_follow_from_the_kind_of_inputs(sample, views):
    found = comparison(sample)
    listed = list_candidates(sample, found.views, found.known)
    assert {each.view for each in listed} == views
    assert len({each.name for each in listed}) == len(listed)
    has_boosting = any(each.family == "boosting" for each in listed)
    assert has_boosting == (sample.x.ndim == 2)
    if sample.is_cells:
        boosting = next(each for each in listed if each.family == "boosting")
        assert boosting.estimator.categorical_features == [True, False]


def test_many_hashed_words_have_linear_learners_without_support_vectors():
    sample = random_labels(60, shape=(600,))
    found = comparison(sample)
    families = {each.family for each in list_candidates(sample, found.views, found.known)}
    assert "support vectors" not in families
    assert "logistic regression" in families


@pytest.mark.parametrize("share", [0, 1, 3])
def test_too_few_rows_are_not_compared(share):
    found = comparison(clouds(12), share)
    assert found.scores == []
    assert "too small" in found.skipped["every learner"]
    assert found.choose_share(delta=0.05) is None


@pytest.mark.thorough
def test_the_share_is_the_largest_that_nearly_promises_the_smallest_bound():
    found = comparison(clouds(2000, features=5, apart=2.0))
    share = found.choose_share(delta=0.05)
    errors, rows = found.scores[0].errors, len(found.rows)

    def expect(known):  # Clopper-Pearson at two bits, of the errors that the usual curve says
        rate = errors / rows * (800 / known) ** 0.35
        left = 2000 - known
        return beta.ppf(1 - 0.05 / 4, rate * left + 1, left - rate * left)

    limits = {known: expect(known) for known in range(1000, 1601, 100)}
    nearly = [known for known, limit in limits.items() if limit <= 1.05 * min(limits.values())]
    assert abs(share - max(nearly)) <= 100


def test_few_errors_ask_for_no_more_than_half():
    assert comparison(clouds(600, features=5, apart=6.0)).choose_share(delta=0.05) == 300
    assert 300 < comparison(random_labels(600)).choose_share(delta=0.05) <= 480


def test_the_share_of_a_large_sample_is_chosen_by_its_first_rows(monkeypatch):
    monkeypatch.setitem(usual_learners.COMPARED, "standard", 50)
    assert comparison(random_labels(300)).choose_share(delta=0.05) >= 150


def texts_of(n=200):
    rng = np.random.default_rng(1)
    topics = (("goal", "match", "coach", "team"), ("vote", "party", "law", "court"))
    y = rng.integers(0, 2, n)
    words = ("the", "a", "of", "and", "today", *(f"w{i}" for i in range(40)))
    return [" ".join(rng.choice([*words, *2 * topics[label]], 12)) for label in y], y


def test_texts_have_linear_learners_of_their_words():
    texts, y = texts_of()
    found = comparison(as_dataset((texts, y)))
    assert {each.view for each in found.allowed()} == {"texts"}
    assert found.scores[0].errors <= 20  # of 100, where a guess errs on 50


def test_a_column_of_texts_stands_beside_the_others():
    texts, y = texts_of()
    frame = pd.DataFrame({"text": texts, "x": np.arange(200.0), "plan": list("ab") * 100})
    listed = comparison(as_dataset((frame, y))).allowed()
    assert {each.view for each in listed} == {"texts", "codes", "scaled"}


@pytest.mark.parametrize("pair", [False, True])
def test_a_name_says_what_was_learned(pair):
    sample = clouds(200, features=4, apart=2.0)
    found = comparison(sample)
    score = next(each for each in found.scores if (len(each.members) == 2) == pair)
    table = learn_usual(score.names, found.arranged, 120)
    again = learn_usual(table.by, found.arranged, 120)  # seed and versions say nothing
    np.testing.assert_array_equal(table.scores, again.scores)
    assert is_usual(table.by)
    assert not is_usual("SVC(), sklearn 1.9.1")
    rest = found.arranged.split(120)[1]
    assert (table.scores.argmax(1) == sample.y)[rest].mean() > 0.7


def test_an_unknown_name_is_refused():
    found = comparison(clouds(60))
    with pytest.raises(UsageError, match="no usual learner 'oracles'"):
        learn_usual("oracles", found.arranged, 30)


def test_what_a_larger_share_adds_is_answered_by_what_learned_from_the_half():
    found = comparison(clouds(400, features=5, apart=2.0))
    best, added = found.compare_on(320), 120
    assert {len(each.labels) for each in best} == {len(found.rows) + added}
    assert {len(each.members) for each in best} == {1, 2, 3}
    known = found.arranged.split(320)[0]
    np.testing.assert_array_equal(best[0].labels[-added:], found.arranged.sample.y[known[200:]])
    assert best[0].errors <= 1.03 * min(each.errors for each in best)
    assert found.compare_on(200) is found.scores  # which adds nothing


def test_rows_that_were_learned_from_are_not_answered_again():
    x = np.repeat(np.random.default_rng(0).normal(size=(60, 3)), 5, axis=0)
    found = comparison(rows_of(x), 100)
    added = found.arranged.split(200)[0][100:]
    are_new = ~np.isin(found.arranged.inputs[added], found.arranged.inputs[found.known])
    assert len(found.compare_on(200)[0].labels) == 100 + are_new.sum()
