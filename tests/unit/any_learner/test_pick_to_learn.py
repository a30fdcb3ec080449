"""``PickToLearn`` as its users meet it: what it keeps, what it refuses, and what it says."""

import itertools
import pickle
import re
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

import codebound
from codebound.any_learner.candidates import RuleMessage
from codebound.any_learner.learners import _part
from codebound.any_learner.picking_rule import rounds
from codebound.bounds.facts import PickedFacts
from codebound.bounds.picked import picked_risk
from codebound.run.errors import CodeboundError, UsageError
from codebound.sample.dataset import permutation
from codebound.sample.losses import parse_loss

X, Y = load_digits(n_class=3, return_X_y=True)
PickToLearn = partial(codebound.PickToLearn, apart=0)  # all examples count, unless a test says so
NEAREST = KNeighborsClassifier(1)
VAGUE = LogisticRegression(C=1e-5)


def wrong_of(model, inputs, labels):
    return set(np.flatnonzero(model.predict(inputs) != labels).tolist())


def test_picks_and_errors_are_what_the_bound_is_told():
    model = PickToLearn(NEAREST, batch=4).fit(X, Y)
    assert wrong_of(model, X, Y) - set(model.picks_.tolist()) == set(model.errors_.tolist())
    assert len(set(model.picks_.tolist())) == len(model.picks_)
    again = clone(NEAREST).fit(X[model.picks_], Y[model.picks_])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    told = PickedFacts(
        picks=len(model.picks_),
        errors=len(model.errors_),
        n=len(X),
        delta=0.05,
        code_bits=model.message_.bits(1),
        classes=3,
    )
    assert model.risk_bound_ == picked_risk(told)
    assert model.n_ == len(X)


def test_code_of_messages_is_prefix_free():
    rounds = [RuleMessage(0, number).bits(1) for number in range(5000)]
    assert 2.0 ** -RuleMessage(0).bits(1) + sum(2.0**-bits for bits in rounds) <= 1.0
    assert sum(2.0 ** -RuleMessage(each).bits(5) for each in range(5)) <= 0.5


@pytest.mark.thorough
def test_the_order_of_the_rows_does_not_matter():
    order = np.random.default_rng(0).permutation(len(X))
    one = PickToLearn(LogisticRegression(), batch=4).fit(X, Y)
    other = PickToLearn(LogisticRegression(), batch=4).fit(X[order], Y[order])
    np.testing.assert_array_equal(order[other.picks_], one.picks_)
    assert other.risk_bound_ == one.risk_bound_
    assert other.picks_sha256_ == one.picks_sha256_
    assert other.sample_sha256_ != one.sample_sha256_


@pytest.mark.thorough
@examples(15)
@given(st.sets(st.integers(0, len(X) - 1)))
def test_throwing_away_what_was_not_kept_changes_nothing(dropped):
    def third_round(rows):
        model = PickToLearn(NEAREST, batch=4)
        (variant,) = model._variants(model._sample(X[rows], Y[rows]))
        found = rounds(variant.contents, variant.fitter, variant.rule, apart=0)
        return next(at for at in found if at.number == 3)

    whole = third_round(np.arange(len(X)))
    kept = np.array(sorted(set(range(len(X))) - (dropped - {*whole.picks.tolist(), *whole.errors.tolist()})))
    again = third_round(kept)
    np.testing.assert_array_equal(kept[again.picks], whole.picks)
    assert set(kept[again.errors].tolist()) == set(whole.errors.tolist())


def test_what_is_set_apart_is_learned_from_and_not_counted():
    model = PickToLearn(NEAREST, apart=100, first=0, batch=2).fit(X, Y)
    np.testing.assert_array_equal(model.apart_, permutation(len(X))[:100])
    assert not set(model.apart_.tolist()) & {*model.picks_.tolist(), *model.errors_.tolist()}
    assert model.n_ == len(X) - 100
    shown = np.concatenate([model.apart_, model.picks_])
    np.testing.assert_array_equal(clone(NEAREST).fit(X[shown], Y[shown]).predict(X), model.predict(X))


def test_without_picks_it_is_the_bound_of_a_split():
    model = PickToLearn(NEAREST, apart=100, first=0, max_rounds=0).fit(X, Y)
    assert model.message_ == RuleMessage(0, 0)
    assert model.risk_bound_.ref == "C-10"
    assert {each.bound.ref for each in model.stages_} == {"C-10", "C-15"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "choices",
    [
        [{"estimator__n_neighbors": 3, "first": 3}, {"batch": 2}, {"batch": 20}, {"aim": 0.5}],
        [{"first": 0, "apart": share} for share in (20, 60, 120, 400)],
    ],
)
def test_candidates_are_paid_for_and_the_best_is_kept(choices):
    model = PickToLearn(NEAREST, candidates=choices).fit(X, Y)
    alone = [PickToLearn(clone(NEAREST)).set_params(**each).fit(X, Y) for each in choices]
    best = min(alone, key=lambda each: each.risk_bound_.value)
    assert model.settings_ == choices[alone.index(best)]
    np.testing.assert_array_equal(model.picks_, best.picks_)
    np.testing.assert_array_equal(model.apart_, best.apart_)
    assert model.code_bits_ == model.risk_bound_.facts.code_bits == best.code_bits_ + 2.0
    assert {stage.message.candidate for stage in model.stages_} == {0, 1, 2, 3}


@pytest.mark.thorough
def test_choices_made_elsewhere_can_be_paid_for():
    free = PickToLearn(NEAREST).fit(X, Y)
    paid = PickToLearn(NEAREST, extra_bits=5.0).fit(X, Y)
    assert paid.risk_bound_.facts.code_bits == free.risk_bound_.facts.code_bits + 5.0
    assert paid.risk_bound_.value > free.risk_bound_.value


def test_the_claim_is_a_sentence_that_does_not_say_network():
    claim = PickToLearn(NEAREST).fit(X, Y).claim_
    assert re.fullmatch(
        r"With probability at least 1 - 0\.05 over the draw of the sample, what was learned is wrong on at "
        r"most \d+\.\d\d % of new data \(C-15\)\.",
        claim,
    )


def test_stopped_by_hand_the_best_so_far_is_kept():
    calls = itertools.count(1)

    class Stopped(KNeighborsClassifier):
        def fit(self, X, y):
            if next(calls) == 6:
                raise KeyboardInterrupt
            return super().fit(X, y)

    model, whole = PickToLearn(Stopped(1)).fit(X, Y), PickToLearn(NEAREST).fit(X, Y)
    assert (model.is_interrupted_, whole.is_interrupted_) == (True, False)
    assert model.message_.rounds is not None
    assert model.risk_bound_.facts.code_bits == model.message_.bits(1)
    assert whole.stages_[: len(model.stages_)] == model.stages_


def test_a_learner_without_a_seed_is_refused():
    with pytest.raises(UsageError, match=r"two different results.*random_state=0"):
        PickToLearn(RandomForestClassifier(5)).fit(X, Y)
    PickToLearn(RandomForestClassifier(5, random_state=0), max_rounds=2).fit(X, Y)


def test_regressors_have_losses_above_tau():
    values = X @ np.linspace(-1.0, 1.0, 64) + 0.1 * Y
    model = PickToLearn(LinearRegression(), tau=0.2, first=5).fit(X, values)
    off = np.flatnonzero(np.abs(model.predict(X) - values) > 0.2)
    assert set(off.tolist()) - set(model.picks_.tolist()) == set(model.errors_.tolist())
    assert "off by more than 0.2 on" in model.claim_
    assert is_regressor(model)
    assert not is_classifier(model)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tau": 1.0}, "for no classifier"),
        ({"estimator": LinearRegression()}, "give it for regressors"),
        ({"estimator": LinearRegression(), "tau": -1.0}, "at least 0"),
        ({"delta": 0.0}, "delta"),
        ({"batch": 0}, "`batch`"),
        ({"batch": 2, "leave": 2}, "smaller than `batch`"),
        ({"growth": 2.0}, "`growth`"),
        ({"apart": len(X)}, "`apart`"),
        ({"extra_bits": -1.0}, "code_bits"),
        ({"candidates": [{"delta": 0.1}]}, "cannot differ in delta"),
        ({"candidates": [{"estimator": LinearRegression()}]}, "give it for regressors"),
        ({"estimator": 3}, "an object with `fit`"),
        ({"estimator": GaussianNB}, "Got 'GaussianNB'"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        PickToLearn(**{"estimator": NEAREST, **arguments}).fit(X, Y)


@pytest.mark.thorough
def test_it_works_in_grids_pipelines_and_pickles():
    grid = GridSearchCV(PickToLearn(LogisticRegression()), {"estimator__C": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert grid.best_estimator_.risk_bound_.value < 0.2
    chain = make_pipeline(FunctionTransformer(np.sqrt), PickToLearn(LogisticRegression())).fit(X, Y)
    copy = pickle.loads(pickle.dumps(chain))
    np.testing.assert_array_equal(copy.predict(X), chain.predict(X))
    np.testing.assert_allclose(chain.predict_proba(X).sum(axis=1), 1.0)
    assert chain.score(X, Y) > 0.9
    assert hasattr(chain, "decision_function")
    assert not hasattr(PickToLearn(NEAREST), "decision_function")


def test_a_scaler_outside_is_noticed_and_inside_it_is_fine(recwarn):
    with pytest.warns(UserWarning, match="stands inside"):
        PickToLearn(NEAREST, max_rounds=1).fit(StandardScaler().fit_transform(X), Y)
    recwarn.clear()
    PickToLearn(make_pipeline(StandardScaler(), NEAREST), max_rounds=1).fit(X, Y)
    assert not recwarn.list


def test_rows_of_a_list_do_not_change_the_type_of_others():
    rows, labels = X.astype(int).tolist(), Y.tolist()
    one = PickToLearn(NEAREST, batch=4).fit(rows, labels)
    other = PickToLearn(NEAREST, batch=4).fit([*rows, [0.5] * 64], [*labels, 1])
    assert one.picks_.tolist()[:3] == other.picks_.tolist()[:3]


def test_texts_and_sparse_inputs_are_samples_too():
    texts = ["a few picks", "many bits", "few picks more", "bits and bits", "picks", "bits of many"]
    labels = ["pick", "bit", "pick", "bit", "pick", "bit"]
    learner = make_pipeline(CountVectorizer(), LogisticRegression())
    model = PickToLearn(learner, batch=1).fit(texts, labels)
    assert model.predict(["few picks"]).tolist() == ["pick"]
    longer = PickToLearn(learner, batch=1).fit([*texts, "bits " * 20], [*labels, "bit"])
    assert [texts[at] for at in longer.picks_] == [texts[at] for at in model.picks_]
    dense = PickToLearn(LogisticRegression(), batch=4, max_rounds=1).fit(X, Y)
    thin = PickToLearn(LogisticRegression(), batch=4, max_rounds=1).fit(sparse.csr_array(X), Y)
    assert [stage.picks for stage in thin.stages_] == [stage.picks for stage in dense.stages_]


@pytest.mark.thorough
def test_data_frames_go_through_to_the_learner():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"pixel{each}" for each in range(64)])
    model = PickToLearn(LogisticRegression(), batch=4).fit(frame, pandas.Series(Y))
    plain = PickToLearn(LogisticRegression(), batch=4).fit(X, Y)
    np.testing.assert_array_equal(model.picks_, plain.picks_)
    assert model.feature_names_in_[0] == "pixel0"
    assert model.n_features_in_ == 64
    mixed = frame.assign(word=["odd" if each % 2 else "even" for each in Y])
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["word"]), remainder="passthrough"
    )
    model = PickToLearn(make_pipeline(columns, LogisticRegression()), batch=4).fit(mixed, Y)
    assert model.score(mixed, Y) > 0.9


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
    model = codebound.PickToLearn(Peeking(PEEKS[name])).fit(frame, labels)
    assert model.risk_bound_.value > 0.4
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


def test_a_column_of_predictions_is_as_good_as_a_row():
    class Column(KNeighborsClassifier):
        def predict(self, X):
            return super().predict(X)[:, None]

    plain = PickToLearn(NEAREST, batch=4).fit(X, Y)
    column = PickToLearn(Column(1), batch=4).fit(X, Y)
    np.testing.assert_array_equal(column.picks_, plain.picks_)


LOSSES = {
    "class:1": lambda y, p: (y == 1) & (p != 1),
    "confused:1:2": lambda y, p: (y == 1) & (p == 2),
    "false-alarm:2": lambda y, p: (y != 2) & (p == 2),
    "cost-above:1:distance": lambda y, p: np.abs(y - p) > 1,
    "cost-above:2:013,103,520": lambda y, p: np.array([[0, 1, 3], [1, 0, 3], [5, 2, 0]])[y, p] > 2,
}
PARTS = {"class:1": Y == 1, "confused:1:2": Y == 1, "false-alarm:2": Y != 2}


@pytest.mark.parametrize("loss", LOSSES)
def test_another_loss_is_picked_counted_and_bounded_on_its_part(loss):
    model = PickToLearn(GaussianNB(), loss=loss, max_rounds=3, batch=2).fit(X, Y)
    predicted = model.predict(X)
    part = PARTS.get(loss, np.ones(len(Y), dtype=bool))
    rest = np.setdiff1d(np.arange(len(Y)), model.picks_)
    wrong = rest[LOSSES[loss](Y[rest], predicted[rest])]
    assert np.array_equal(wrong, model.errors_)
    assert model.n_ == part.sum()
    told = model.risk_bound_.facts
    assert (told.picks, told.errors) == (part[model.picks_].sum(), len(wrong))
    facts = PickedFacts(
        picks=told.picks, errors=told.errors, n=model.n_, delta=0.05, code_bits=model.code_bits_
    )
    assert model.risk_bound_.value == pytest.approx(picked_risk(facts).value, rel=1e-12)
    assert parse_loss(loss).says("").split(" at most")[0] in model.claim_


def test_the_label_is_among_the_best_guesses():
    model = PickToLearn(VAGUE, loss="top:2", batch=2, max_rounds=3).fit(X, Y)
    rest = np.setdiff1d(np.arange(len(Y)), model.picks_)
    places = np.argsort(np.argsort(-model.predict_proba(X), axis=1), axis=1)[np.arange(len(Y)), Y]
    assert np.array_equal(rest[places[rest] >= 2], model.errors_)
    plain = PickToLearn(VAGUE, batch=2, max_rounds=3).fit(X, Y)
    assert len(model.errors_) < len(plain.errors_) or len(model.picks_) < len(plain.picks_)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loss": "cost-above:0:11"}, "are not for 3 classes"),
        ({"loss": "top:3"}, "does not fit 3 classes"),
        ({"loss": "class:9"}, "can have the loss"),
        ({"loss": "nonsense"}, "unknown loss"),
        ({"loss": "class:1", "candidates": [{"loss": "class:2"}]}, "cannot differ in loss"),
    ],
)
def test_losses_that_do_not_fit_are_refused(changes, says):
    with pytest.raises(CodeboundError, match=says):
        PickToLearn(GaussianNB(), **changes).fit(X, Y)


def test_losses_name_classes_by_numbers():
    with pytest.raises(UsageError, match="whole numbers"):
        PickToLearn(GaussianNB(), loss="class:1").fit(X, Y.astype(str))
    with pytest.raises(UsageError, match="leave out `loss`"):
        PickToLearn(LinearRegression(), tau=1.0, loss="class:1").fit(X, Y.astype(float))


def test_it_promises_no_several_labels_where_its_learner_could():
    inner = get_tags(DecisionTreeClassifier())
    own = get_tags(PickToLearn(DecisionTreeClassifier()))
    assert inner.classifier_tags.multi_label
    assert not own.classifier_tags.multi_label
    assert inner.target_tags.multi_output
    assert not own.target_tags.multi_output


def test_copies_are_counted_and_said():
    x = np.arange(30.0)[:, None]
    with pytest.warns(UserWarning, match="90 of 120 examples are exact copies of earlier ones"):
        PickToLearn(GaussianNB(), first=2).fit(np.repeat(x, 4, axis=0), np.repeat(x[:, 0] > 15, 4))


def test_by_default_two_thirds_are_set_apart_and_nothing_else_is_picked_first():
    model = codebound.PickToLearn(NEAREST).fit(X, Y)
    same = codebound.PickToLearn(NEAREST, apart=2 * len(Y) // 3, first=0, growth=0.01).fit(X, Y)
    assert len(model.apart_) == 2 * len(Y) // 3
    assert model.n_ == len(Y) - len(model.apart_)
    assert model.risk_bound_ == same.risk_bound_
    assert model.risk_bound_.ref == "C-10"  # a hold-out set, as nothing that is picked helps here
    few = codebound.PickToLearn(NEAREST).fit(X[:99], Y[:99])
    assert len(few.apart_) == 0
    assert len(few.picks_) >= 3  # one of each class
    own = codebound.PickToLearn(NEAREST, first=2, growth=0.0, max_rounds=0).fit(X, Y)
    assert len(own.apart_) == 2 * len(Y) // 3
    assert len(own.picks_) == 6
    with pytest.raises(UsageError, match=r"or is 'auto'\. Got 'most'"):
        codebound.PickToLearn(NEAREST, apart="most").fit(X, Y)


def test_a_bound_no_better_than_the_commonest_label_is_called_vacuous():
    inputs = np.random.default_rng(0).normal(size=(300, 2))
    labels = (np.arange(300) % 10 == 0).astype(int)
    model = PickToLearn(GaussianNB(), max_rounds=3).fit(inputs, labels)
    assert 0.1 <= model.risk_bound_.value < 0.5
    assert "VACUOUS: the commonest label, always given, is wrong on 10.00 % of the examples" in model.claim_
    assert "VACUOUS" not in codebound.PickToLearn(NEAREST).fit(X, Y).claim_
    values = PickToLearn(LinearRegression(), tau=1e-9, first=5, max_rounds=1).fit(inputs, inputs[:, 0] ** 2)
    assert "VACUOUS: it says no more than guessing" in values.claim_


def test_a_series_of_texts_is_a_sample_and_a_table_with_one_column_of_them_is_named():
    pandas = pytest.importorskip("pandas")
    labels = np.arange(200) % 2
    texts = [
        f"{'bit byte' if label else 'risk bound'} {'x' * (at % 30 + 3)}" for at, label in enumerate(labels)
    ]
    learner = make_pipeline(CountVectorizer(), LogisticRegression())
    wanted = PickToLearn(learner, max_rounds=3).fit(texts, labels)
    for kind in ("object", "string"):
        series = pandas.Series(texts, dtype=kind)
        words = pandas.Series(np.where(labels, "yes", "no"), dtype=kind)
        assert PickToLearn(learner, max_rounds=3).fit(series, labels).sample_sha256_ == wanted.sample_sha256_
        model = codebound.PickToLearn(learner).fit(series, words)
        assert set(model.predict(series)) == {"yes", "no"}
        for table in (series.to_frame("text"), series.to_frame("text").to_numpy()):
            with pytest.raises(UsageError, match=r"one column of texts, .*X\['text'\] of a frame"):
                codebound.PickToLearn(learner).fit(table, words)


def test_without_a_listener_a_bar_is_drawn_where_somebody_watches(monkeypatch):
    heard = []
    monkeypatch.setattr(
        "codebound.any_learner.pick_to_learn.open_bar",
        lambda name: nullcontext(lambda *told: heard.append((name, *told))),
    )
    codebound.PickToLearn(NEAREST).fit(X, Y)
    assert heard
    assert heard[0][0] == "PickToLearn"
