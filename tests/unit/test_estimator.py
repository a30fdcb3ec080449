"""``CertifiedClassifier`` as its users meet it: what it counts, what it refuses, and what it says."""

import itertools
import pickle
import re
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from codebound.bits.plain_code import FIRST_TABLE, TABLE
from codebound.bounds.held_out import holdout
from codebound.bounds.risk import HoldoutFacts
from codebound.estimator import CertifiedClassifier, Fitter, LearnerError, _part
from codebound.learn.any_picks import PickingRule, rounds
from codebound.request import Claim
from codebound.run.errors import UsageError
from codebound.sample.counting import Term

X, Y = load_digits(n_class=3, return_X_y=True)
NEAREST = KNeighborsClassifier(1)
VAGUE = LogisticRegression(C=1e-5)
PICKS = {"method": "picks", "share": 0.1}


def wrong_of(model, places):
    return int((model.predict(X[places]) != Y[places]).sum())


def test_a_share_is_learned_from_and_the_errors_on_the_rest_are_counted():
    model = CertifiedClassifier(VAGUE).fit(X, Y)
    rest = np.setdiff1d(np.arange(len(X)), model.known_)
    again = clone(VAGUE).fit(X[model.known_], Y[model.known_])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    limit = model.result_.certificate.limit
    assert (limit.errors, limit.n, limit.picks) == (wrong_of(model, rest), len(rest), None)
    assert model.bound_ == model.result_.bound == Term("binomial", limit.errors, limit.n, 2).limit(0.05)
    assert model.bound_ < 1.2 * holdout(HoldoutFacts(errors=limit.errors, n=limit.n, delta=0.05)).value
    assert len(CertifiedClassifier(VAGUE, share=0.2).fit(X, Y).known_) == len(X) // 5


def test_picks_and_errors_are_what_the_bound_is_made_of():
    model = CertifiedClassifier(NEAREST, batch=4, **PICKS).fit(X, Y)
    rest = np.setdiff1d(np.arange(len(X)), np.concatenate([model.known_, model.picks_]))
    assert len(model.known_) + len(model.picks_) + len(rest) == len(X)
    certificate = model.result_.certificate
    limit = certificate.limit
    assert (limit.picks, limit.errors) == (len(model.picks_), wrong_of(model, rest))
    bits = certificate.message.bits
    assert model.bound_ == Term("picked", limit.picks + limit.errors, len(X) - len(model.known_), bits).limit(
        0.05
    )
    shown = np.concatenate([model.known_, model.picks_])
    again = clone(NEAREST).fit(X[shown], Y[shown])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("settings", [{}, PICKS])
def test_the_certificate_is_a_file_that_the_second_program_accepts(settings, tmp_path, codebound):
    model = CertifiedClassifier(LogisticRegression(max_iter=500), **settings).fit(X, Y)
    model.result_.save_to(tmp_path / "out")
    assert codebound("verify", str(tmp_path / "out"))[0] == 0
    declared = "\n".join(model.result_.certificate.declarations)
    assert "Scores: " in declared
    assert "LogisticRegression(max_iter=500), sklearn" in declared
    assert "nobody" not in declared
    assert model.result_.certificate.form in (FIRST_TABLE, TABLE)


def test_rounds_that_do_not_come_to_their_end_leave_its_place_empty():
    model = CertifiedClassifier(NEAREST, **PICKS).fit(X, Y)
    short = CertifiedClassifier(DummyClassifier(), **PICKS).fit(X, Y)
    assert "until none is wrong" in model.result_.tables[0].by
    assert short.result_.tables[0].by.startswith("nobody")
    assert not short.result_.tables[0].scores.any()
    assert short.result_.certificate.table_choice.table > 1
    assert "VACUOUS: guessing does as well" in short.claim_


@pytest.mark.thorough
def test_the_order_of_the_rows_does_not_matter():
    order = np.random.default_rng(0).permutation(len(X))
    one, other = (
        CertifiedClassifier(LogisticRegression(), **PICKS).fit(X[rows], Y[rows])
        for rows in (np.arange(len(X)), order)
    )
    assert set(order[other.picks_].tolist()) == set(one.picks_.tolist())
    assert other.bound_ == one.bound_


@pytest.mark.thorough
@examples(15)
@given(st.sets(st.integers(50, len(X) - 1)))
def test_throwing_away_what_was_not_kept_changes_nothing(dropped):
    """The first 50 rows are known, as if given."""

    def third_round(rows):
        fitter = Fitter(NEAREST, X[rows], Y[rows])
        sample = fitter.store()
        fitter.known = np.arange(50)
        inputs = np.unique(sample.x, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.lexsort((sample.y, inputs))
        found = rounds(order[order >= 50], inputs, fitter, PickingRule(2), apart=50)
        return next(at for at in found if at.number == 3 or at.is_last)

    whole = third_round(np.arange(len(X)))
    kept = np.array(sorted(set(range(len(X))) - (dropped - {*whole.picks.tolist(), *whole.errors.tolist()})))
    again = third_round(kept)
    np.testing.assert_array_equal(kept[again.picks], whole.picks)
    assert set(kept[again.errors].tolist()) == set(whole.errors.tolist())


def test_the_claim_is_a_sentence():
    claim = CertifiedClassifier(NEAREST).fit(X, Y).claim_
    assert re.fullmatch(
        r"With probability at least 1 - 0\.05 over the draw of the sample, this classifier errs on at most "
        r"\d+\.\d\d % of new data\.",
        claim,
    )


def test_another_loss_is_counted_where_it_is_claimed():
    model = CertifiedClassifier(VAGUE, claim=Claim(loss="class:1", by_class=True)).fit(X, Y.astype(str))
    rest = np.setdiff1d(np.flatnonzero(Y == 1), model.known_)
    predicted = model.predict(X[rest])
    assert model.result_.certificate.limit.errors == (predicted != "1").sum()
    assert "class" in model.claim_
    assert len(model.result_.by_class) == 3


def test_clusters_are_known_whole_and_never_picked():
    clusters = np.arange(len(X)) // 2
    claim = Claim(clusters=clusters)
    model = CertifiedClassifier(NEAREST, claim=claim).fit(X, Y)
    assert not set(clusters[model.known_]) & set(np.delete(clusters, model.known_))
    with pytest.raises(UsageError, match="never clusters"):
        CertifiedClassifier(NEAREST, claim=claim, **PICKS).fit(X, Y)


def test_stopped_by_hand_the_best_so_far_is_kept():
    calls = itertools.count(1)

    class Stopped(GaussianNB):
        def fit(self, X, y):
            if next(calls) == 4:
                raise KeyboardInterrupt
            return super().fit(X, y)

    model, whole = (CertifiedClassifier(each, **PICKS).fit(X, Y) for each in (Stopped(), GaussianNB()))
    assert (model.is_interrupted_, whole.is_interrupted_) == (True, False)
    assert model.bound_ >= whole.bound_
    assert [each.picks is None for each in model.result_.tables] == [True, True, False, False]


def test_a_learner_that_fails_later_leaves_its_rounds():
    calls = itertools.count(1)

    class Failing(GaussianNB):
        def fit(self, X, y):
            if next(calls) == 4:
                raise ValueError("too many")
            return super().fit(X, y)

    with pytest.warns(UserWarning, match=r"ended early: Failing failed on \d+ examples .* too many"):
        model = CertifiedClassifier(Failing(), **PICKS).fit(X, Y)
    assert len(model.result_.tables) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learner": LinearRegression()}, "is a classifier"),
        ({"learner": 3}, "an object with `fit`"),
        ({"learner": GaussianNB}, "Got 'GaussianNB'"),
        ({"method": "both"}, "share or picks"),
        ({"delta": 0.0}, "delta"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"batch": 0}, "`batch`"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        CertifiedClassifier(**{"learner": NEAREST, **settings}).fit(X, Y)


@pytest.mark.thorough
def test_it_works_in_grids_pipelines_and_pickles():
    grid = GridSearchCV(CertifiedClassifier(LogisticRegression()), {"learner__C": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert grid.best_estimator_.bound_ < 0.2
    chain = make_pipeline(FunctionTransformer(np.sqrt), CertifiedClassifier(LogisticRegression())).fit(X, Y)
    copy = pickle.loads(pickle.dumps(chain))
    np.testing.assert_array_equal(copy.predict(X), chain.predict(X))
    np.testing.assert_allclose(chain.predict_proba(X).sum(axis=1), 1.0)
    assert chain.score(X, Y) > 0.9
    assert hasattr(chain, "decision_function")
    assert not hasattr(CertifiedClassifier(NEAREST), "decision_function")
    assert is_classifier(CertifiedClassifier(NEAREST))


def test_a_scaler_outside_is_noticed_and_inside_it_is_fine(recwarn):
    with pytest.warns(UserWarning, match="stands inside"):
        CertifiedClassifier(NEAREST).fit(StandardScaler().fit_transform(X), Y)
    recwarn.clear()
    CertifiedClassifier(make_pipeline(StandardScaler(), NEAREST)).fit(X, Y)
    assert not recwarn.list


def test_what_it_predicts_is_what_was_counted():
    """Votes of pairs of classes and sums of them disagree; probabilities of a support vector machine too."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(200, 2)), rng.integers(0, 5, 200)
    model = CertifiedClassifier(SVC(gamma=5.0)).fit(inputs, labels)
    assert (model.decision_function(inputs).argmax(axis=1) != model.predict(inputs)).any()
    rest = np.setdiff1d(np.arange(200), model.known_)
    errors = int((model.predict(inputs[rest]) != labels[rest]).sum())
    assert model.result_.certificate.limit.errors == errors


def test_texts_and_sparse_inputs_are_samples_too():
    labels = np.arange(60) % 2
    texts = [f"{'bits' if label else 'picks'} {'x' * (at + 3)}" for at, label in enumerate(labels)]
    names = np.where(labels, "yes", "no")
    learner = make_pipeline(CountVectorizer(), LogisticRegression())
    for settings in ({}, PICKS):
        model = CertifiedClassifier(learner, **settings).fit(texts, names)
        assert model.predict(["picks"]).tolist() == ["no"]
        assert model.result_.sample.class_names == ("no", "yes")
    thin = CertifiedClassifier(LogisticRegression()).fit(sparse.csr_array(X), Y)
    dense = CertifiedClassifier(LogisticRegression()).fit(X, Y)
    assert thin.bound_ == dense.bound_
    large = sparse.eye_array(20_000, format="csr")
    with pytest.raises(UsageError, match=r"sparse matrix .* too large .* make_pipeline\(TfidfVectorizer"):
        CertifiedClassifier(LogisticRegression()).fit(large, np.arange(20_000) % 2)


def test_rows_of_lists_and_values_that_are_missing():
    one = CertifiedClassifier(NEAREST).fit(X.astype(int).tolist(), Y.tolist())
    assert one.bound_ == CertifiedClassifier(NEAREST).fit(X, Y).bound_
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    model = CertifiedClassifier(HistGradientBoostingClassifier(max_iter=5, random_state=0)).fit(holes, Y)
    assert model.result_.sample.is_cells
    assert model.bound_ < 0.5


def test_what_cannot_be_stored_is_said_by_the_learner_or_by_us():
    words = np.array([["a", 1.0], ["b", 2.0]] * 20, dtype=object)
    encoded = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    with pytest.raises(LearnerError, match="cannot be stored"):
        CertifiedClassifier(encoded).fit(words, np.arange(40) % 2)
    with pytest.raises(LearnerError, match="Input X contains infinity"):
        CertifiedClassifier(LogisticRegression()).fit(np.full((40, 2), np.inf), np.arange(40) % 2)
    with pytest.raises(LearnerError, match="two classes"):
        CertifiedClassifier(NEAREST).fit(X, np.zeros(len(X)))
    with pytest.raises(LearnerError, match="none is left"):
        CertifiedClassifier(NEAREST).fit(X[:2], [0, 1])


def test_the_known_share_grows_until_it_has_two_classes():
    labels = np.zeros(40, int)
    labels[7] = 1
    model = CertifiedClassifier(NEAREST, share=0.1).fit(np.arange(40.0)[:, None], labels)
    assert model.known_[-1] == 7
    assert set(labels[model.known_[:-1]]) <= {0}


@pytest.mark.thorough
def test_data_frames_go_through_to_the_learner(tmp_path, codebound):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"pixel{each}" for each in range(64)])
    model = CertifiedClassifier(LogisticRegression(), **PICKS).fit(frame, pandas.Series(Y))
    assert model.feature_names_in_[0] == "pixel0"
    assert model.n_features_in_ == 64
    mixed = frame.assign(word=["odd" if each % 2 else "even" for each in Y])
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["word"]), remainder="passthrough"
    )
    model = CertifiedClassifier(make_pipeline(columns, LogisticRegression())).fit(mixed, Y)
    assert model.score(mixed, Y) > 0.9
    assert model.result_.sample.is_cells
    model.result_.save_to(tmp_path / "out")
    assert codebound("verify", str(tmp_path / "out"))[0] == 0


class Peeking(ClassifierMixin, BaseEstimator):
    """Reads labels off whatever pandas hands on with a part of a frame."""

    def __init__(self, read):
        self.read = read

    def fit(self, X, y):
        self.classes_ = np.arange(2)
        self.known_ = dict(each.split("=") for each in self.read(X))
        return self

    def predict(self, X):
        return np.array([int(self.known_.get(str(each).split("=")[0], 0)) for each in X["a"]])


PEEKS = {
    "a column": lambda X: X["a"].cat.categories,
    "the index": lambda X: X.index.categories,
    "the levels of the index": lambda X: getattr(X.index.get_level_values(0), "categories", []),
    "the levels of plain labels": lambda X: X.index.levels[0],
}


@pytest.mark.parametrize("name", PEEKS)
def test_a_learner_is_handed_the_categories_of_its_part_alone(name):
    """Labels are random and every risk is one half: the categories of all rows held them."""
    pandas = pytest.importorskip("pandas")
    labels = np.random.default_rng(0).integers(0, 2, 200)
    words = [f"{place}={label}" for place, label in enumerate(labels)]
    index = {
        "a column": range(200),
        "the index": pandas.CategoricalIndex(words),
        "the levels of the index": pandas.MultiIndex.from_arrays([pandas.Categorical(words), range(200)]),
        "the levels of plain labels": pandas.MultiIndex.from_arrays([words, range(200)]),
    }[name]
    shown = [each.partition("=")[0] for each in words] if name != "a column" else pandas.Categorical(words)
    frame = pandas.DataFrame({"a": shown}, index=index)
    before = frame.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CertifiedClassifier(Peeking(PEEKS[name])).fit(frame, labels)
    assert model.bound_ > 0.4
    pandas.testing.assert_frame_equal(frame, before)


def test_levels_that_occur_in_a_part_are_kept_and_their_order_too():
    pandas = pytest.importorskip("pandas")
    sizes = pandas.Categorical(["s", "l", "m", "l"], categories=["s", "m", "l", "xl"], ordered=True)
    frame = pandas.DataFrame({"a": sizes, "b": range(4)})
    frame.columns = ["a", "a"]
    part = _part(frame, np.array([3, 0]))
    assert part.iloc[:, 0].cat.categories.tolist() == ["s", "l"]
    assert part.iloc[:, 0].cat.ordered
    assert part.iloc[:, 0].tolist() == ["l", "s"]
    assert part.iloc[:, 1].tolist() == [3, 0]
    assert _part(pandas.Series(sizes), np.array([1])).cat.categories.tolist() == ["l"]
    assert frame.iloc[:, 0].cat.categories.tolist() == ["s", "m", "l", "xl"]


def test_a_series_of_texts_is_a_sample_and_a_table_with_one_column_of_them_is_named():
    pandas = pytest.importorskip("pandas")
    labels = np.arange(80) % 2
    texts = [f"{'bit byte' if label else 'risk bound'} {'x' * (at + 3)}" for at, label in enumerate(labels)]
    learner = make_pipeline(CountVectorizer(), LogisticRegression())
    for kind in ("object", "string"):
        series = pandas.Series(texts, dtype=kind)
        words = pandas.Series(np.where(labels, "yes", "no"), dtype=kind)
        model = CertifiedClassifier(learner).fit(series, words)
        assert set(model.predict(series)) == {"yes", "no"}
        same = CertifiedClassifier(learner).fit(texts, labels)
        assert model.result_.sample.sha256 == same.result_.sample.sha256
        with pytest.raises(UsageError, match=r"one column of texts, .*X\['text'\] of a frame"):
            CertifiedClassifier(learner).fit(series.to_frame("text"), words)


def test_a_column_of_predictions_is_as_good_as_a_row():
    class Column(KNeighborsClassifier):
        def predict(self, X):
            return super().predict(X)[:, None]

    plain, column = (CertifiedClassifier(each, **PICKS).fit(X, Y) for each in (NEAREST, Column(1)))
    np.testing.assert_array_equal(column.picks_, plain.picks_)


def test_a_learner_that_looks_at_its_neighbours_is_refused():
    class Ranking(GaussianNB):
        def predict(self, X):
            return np.arange(len(X)) % 3

    with pytest.raises(LearnerError, match="differently when others stand beside them"):
        CertifiedClassifier(Ranking()).fit(X, Y)


def test_it_promises_no_several_labels_where_its_learner_could():
    inner = get_tags(DecisionTreeClassifier())
    own = get_tags(CertifiedClassifier(DecisionTreeClassifier()))
    assert inner.classifier_tags.multi_label
    assert not own.classifier_tags.multi_label
    assert not own.target_tags.multi_output


def test_a_bound_no_better_than_the_commonest_label_is_called_vacuous():
    inputs = np.random.default_rng(0).normal(size=(300, 2))
    labels = (np.arange(300) % 10 == 0).astype(int)
    model = CertifiedClassifier(GaussianNB()).fit(inputs, labels)
    assert 0.1 <= model.bound_ < 0.5
    assert "VACUOUS" in model.claim_
    assert "VACUOUS" not in CertifiedClassifier(NEAREST).fit(X, Y).claim_


def test_the_constant_classifier_ends_soon():
    heard = []
    model = CertifiedClassifier(
        DummyClassifier(), "picks", progress=lambda done, total, note: heard.append(note)
    ).fit(X, Y)
    assert len(heard) < 60
    assert re.match(r"0 picks, \d+ errors", heard[0])
    assert model.result_.vacuous


def test_without_a_listener_a_bar_is_drawn_where_somebody_watches(monkeypatch):
    heard = []
    monkeypatch.setattr(
        "codebound.estimator.open_bar",
        lambda name: nullcontext(lambda *told: heard.append((name, *told))),
    )
    CertifiedClassifier(NEAREST, **PICKS).fit(X, Y)
    assert heard[0][0] == "CertifiedClassifier"
