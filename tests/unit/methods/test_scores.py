"""Declared scores: which tables are offered, with which biases, and the usual learner of the known share."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.naive_bayes import GaussianNB
from worlds.outcomes import SAMPLE, outcome, table_of
from worlds.samples import clouds

from codebound.bits.plain_code import FIRST_TABLE, TABLE, USUAL_SPLIT
from codebound.certificate.file import Certificate
from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.score_tables import ScoreTable
from codebound.known.usual_learners import learn_usual
from codebound.methods import scores
from codebound.methods.search import Search, UnsuitedError
from codebound.request import Known, Run, Task
from codebound.run.errors import DataError, UsageError
from codebound.sample.columns import text_cells
from codebound.sample.load import load_sample
from codebound.sample.order import Design


def search_for(tables, sample=SAMPLE, effort="quick", *, is_asked=True):
    search = Search(Task(sample=sample, delta=0.05, tables=tables), effort)
    search.is_asked = is_asked
    return search


def test_every_table_is_offered_and_the_first_for_two_bits():
    search = search_for((table_of(seed=3), table_of(), table_of(rows=60, seed=1)))
    scores.propose_scores(search)
    found = {each.outcome.choice.table: each for each in search.offers}
    assert {number: each.bits.length for number, each in found.items()} == {1: 2, 2: 7, 3: 7}
    assert found[3].outcome.known_rows == 60
    for each in found.values():
        own = each.outcome.made.scores[each.outcome.known_rows :]  # no such rows are known here
        assert each.tally.errors <= len(own)


def test_biases_that_take_errors_away_are_offered_and_paid_for():
    table = table_of()
    shifted = ScoreTable(table.scores + np.float32([0.0, 0.5, 0.0]), "shifted", "other data")
    search = search_for((shifted,), effort="max")
    scores.propose_scores(search)
    plain = next(each for each in search.offers if each.outcome.form == FIRST_TABLE)
    biased = min(
        (each for each in search.offers if each.outcome.form == TABLE),
        key=lambda a: a.tally.errors,
    )
    assert biased.tally.errors < plain.tally.errors
    assert biased.outcome.choice.biases[1] < max(
        biased.outcome.choice.biases[0], biased.outcome.choice.biases[2]
    )
    values = shifted.scores.astype(float) + biased.outcome.choice.biases
    assert (values.argmax(1) != SAMPLE.y).sum() <= biased.tally.errors  # ties are wrong


@pytest.mark.parametrize("unit", [0.25, 1.0])
def test_signs_are_the_best_for_each_column_in_turn(unit):
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=(60, 3)), rng.integers(0, 4, 60)
    signs = scores._choose_signs(values, labels, unit)
    moved = values.copy()
    for column, sign in enumerate(signs):
        fewest = []
        for each in (0, 1, -1):
            tried = moved.copy()
            tried[:, column] += each * unit
            fewest.append(
                sum(
                    row[y] <= max(np.delete(row, y)) if y < 3 else 1
                    for row, y in zip(tried, labels, strict=True)
                )
            )
        assert fewest[(0, 1, -1).index(sign)] == min(fewest)
        moved[:, column] += sign * unit


def test_a_usual_learner_is_learned_of_the_known_share_alone():
    sample = clouds(400, features=4, apart=2.0)
    first = search_for((), sample, "standard")
    scores.propose_scores(first)
    (table,) = first.task.tables
    assert 200 <= table.rows <= 320
    assert table.of == "the known share alone"
    known, rest = first.task.arranged.split(table.rows)
    right = table.scores[rest].argmax(1) == sample.y[rest]
    assert next(each for each in first.offers if each.bits.length == 2).tally.errors == int((~right).sum())
    y = sample.y.copy()
    y[rest] = (y[rest] + 1) % 3
    second = search_for((), replace(sample, y=y), "standard")
    second.task.__dict__["arranged"] = replace(first.task.arranged, sample=second.task.sample)
    again = scores.learn_table(second)
    assert (again.by, again.rows) == (table.by, table.rows)
    np.testing.assert_array_equal(again.scores, table.scores)
    assert len(known) == table.rows


def test_pictures_have_a_kernel_on_features():
    digits = load_sample("digits").select(range(500), role="train")
    search = search_for((), digits, "standard")
    table = scores.learn_table(search)
    rest = search.task.arranged.split(table.rows)[1]
    assert "kernel ridge regression" in table.by
    assert (table.scores[rest].argmax(1) == digits.y[rest]).mean() > 0.9


def test_with_little_effort_a_split_is_enough():
    search = search_for((), clouds(400), is_asked=False)
    search.running = "split"
    search.offer(outcome(USUAL_SPLIT, search.task))
    with pytest.raises(UnsuitedError, match="more effort than quick"):
        scores.propose_scores(search)


def test_where_no_learner_suits_the_kernel_is_tried_and_all_reasons_are_said():
    sample = replace(clouds(20), y=np.r_[np.zeros(19, np.int64), 1])  # ten known rows, of one class
    search = Search(Task(sample=sample, delta=0.05, design=Design(order="file")), "standard")
    with pytest.raises(UnsuitedError, match=r"has one class.*kernel"):
        scores.learn_table(search)


def test_a_learner_that_fails_on_the_whole_share_gives_way_to_the_next(monkeypatch):
    failed = []

    def fail_once(names, *rest):
        if not failed:
            failed.append(names)
            raise UsageError("it fails today")
        return learn_usual(names, *rest)

    monkeypatch.setattr(scores, "learn_usual", fail_once)
    search = search_for((), clouds(200, features=4), "standard")
    assert scores.learn_table(search).rows >= 100
    assert search.skipped[f"learner: {failed[0]}"] == "it fails today"


def test_where_there_is_no_time_for_a_kernel_it_is_said_what_to_ask_for(monkeypatch):
    monkeypatch.setitem(scores._MOST_LEARNED, "standard", 50)
    search = search_for(
        (), load_sample("digits").select(range(200), role="train"), "standard", is_asked=False
    )
    scores.learn_table(search)
    assert "on 100 examples it takes many minutes: give the effort max" in search.skipped["learner: kernel"]


def train_nearest_mean(sample, *, device, progress):
    """A network of stored pictures, as an extension trains one."""
    means = np.stack([sample.x[sample.y == label].mean(0).ravel() for label in range(10)])
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    network[1].weight.data = torch.from_numpy(means).float()
    network[1].bias.data = torch.from_numpy(-0.5 * (means**2).sum(1)).float()

    class Stored(torch.nn.Module):
        def forward(self, x):
            return network(x.float())

    return Stored()


def test_many_pictures_have_the_network_of_an_extension(monkeypatch):
    digits = load_sample("digits").select(range(600), role="train")
    monkeypatch.setattr(scores, "_MANY_PICTURES", 500)
    monkeypatch.setattr(scores, "find_extensions", lambda: {"LEARNERS": {"pictures": "a:trainer"}})
    monkeypatch.setattr(scores, "resolve", {"a:trainer": train_nearest_mean}.get)
    search = search_for((), digits, "standard")
    scores.propose_scores(search)
    (table,) = search.task.tables
    known, rest = search.task.arranged.split(table.rows)
    assert (table.by, table.of) == ("a:trainer", "the known share alone")
    assert (table.scores[rest].argmax(1) == digits.y[rest]).mean() > 0.8
    network = train_nearest_mean(digits.select(known, role="prior"), device="cpu", progress=None)
    np.testing.assert_allclose(table.scores, network(torch.from_numpy(digits.x)).detach(), rtol=1e-5)
    with pytest.raises(UnsuitedError, match="give the effort max"):
        scores.learn_table(search_for((), digits, "standard", is_asked=False))


def test_a_table_of_words_and_gaps_is_certified_saved_and_predicts_any_row(tmp_path):
    rng = np.random.default_rng(0)
    towns, x = rng.choice([f"t{i}" for i in range(40)], 300), rng.normal(size=300)
    frame = pd.DataFrame({"x": np.where(rng.random(300) < 0.1, np.nan, x), "town": towns})
    found = certify((frame, (x > 0).astype(int)), method="scores")
    assert found.certificate.form == FIRST_TABLE
    lacking = torch.full((1, 2), torch.nan, dtype=torch.float64)
    assert found.classifier(lacking).isfinite().all()
    folder = found.save_to(tmp_path / "c").folder
    assert not (folder / "g.safetensors").exists()
    assert found.result["loads"] is True
    g = load_classifier(folder)  # fitted again
    rows = torch.cat([torch.from_numpy(found.sample.x), lacking])
    assert torch.equal(g(rows), found.classifier(rows))
    assert g.sentence == found.sentence
    assert g.predict(frame.head(3)) == g.predict(found.sample.x[:3])


def test_a_learner_that_answers_otherwise_has_no_guarantee(tmp_path, monkeypatch):
    sample = clouds(200, features=4, apart=2.0)
    folder = certify(sample, method="scores").save_to(tmp_path / "c").folder
    table = scores.fit_again(Certificate.load(folder / "certificate.cbound"), sample)
    other = replace(table, scores=-table.scores)
    monkeypatch.setattr("codebound.classifier.fit_again", lambda *_: other)
    assert load_classifier(folder).sentence.startswith("NO GUARANTEE: fitted again here, the learner answers")


def test_texts_are_certified_and_read_again_elsewhere(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    words = [[f"w{i}" for i in range(30)] + 5 * [side] for side in ("yes", "no")]
    texts = [" ".join(rng.choice(words[label], 12)) for label in y]
    found = certify((texts[:250], y[:250]))
    assert found.bound < 0.2
    folder = found.save_to(tmp_path / "c").folder
    said = found.classifier(torch.from_numpy(text_cells(texts)[:, None])).argmax(1).tolist()
    monkeypatch.setattr("codebound.sample.columns.TEXTS", read := {})
    monkeypatch.setattr("codebound.known.views.TEXTS", read)  # as in a new process
    g = load_classifier(folder)
    assert g.predict(texts) == said
    assert np.mean(np.array(said[250:]) != y[250:]) < 0.2


def test_scores_are_issued_for_two_bits_and_saved_beside_the_sample(tmp_path):
    found = certify(
        SAMPLE, method="scores", known=Known(scores=(table_of(), table_of(seed=1))), run=Run(effort="quick")
    )
    certificate = found.certificate
    assert (certificate.form, certificate.message.bits, len(certificate.known.tables)) == (FIRST_TABLE, 2, 2)
    assert "by its declared scores" in found.result["network"]
    names = {path.name for path in found.save_to(tmp_path / "c").folder.iterdir()}
    assert {"scores.safetensors", "scores-2.safetensors", "sample.npz"} <= names
    assert "g.safetensors" not in names


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: ScoreTable(np.zeros((5, 1), np.float32), "x", "y"), "2 to 2"),
        (lambda: ScoreTable(np.zeros((5, 3), np.int64), "x", "y"), "of float32 or float64"),
        (lambda: ScoreTable(np.full((5, 3), np.nan), "x", "y"), "NaN or infinite"),
    ],
)
def test_what_is_no_table_is_refused(made, words):
    with pytest.raises(DataError, match=words):
        made()


@pytest.mark.parametrize("method", ["split", "scores"])
def test_the_same_learner_of_the_whole_sample_stands_beside_the_test(method):
    sample, test = clouds(300, features=4, apart=2.0), clouds(120, features=4, apart=2.0, seed=7)
    found = certify(sample, test=test, method=method, run=Run(effort="quick"))
    errors = found.errors_of_whole
    assert errors == found.result["test_errors_of_whole"]
    assert 0 <= errors < 60
    assert f"makes {errors}" in str(found)


def test_your_learner_of_the_whole_sample_stands_beside_the_test():
    sample, test = clouds(300, features=4, apart=2.0), clouds(120, features=4, apart=2.0, seed=7)
    learner = GaussianNB()
    found = certify(sample, learner=learner, test=test, method="scores", run=Run(effort="quick"))
    whole = GaussianNB().fit(sample.x, sample.y)
    assert found.errors_of_whole == (whole.predict(test.x) != test.y).sum()


def test_a_split_is_never_compared_with_the_learner_that_was_given():
    split = SimpleNamespace(form=USUAL_SPLIT, made=SimpleNamespace(rule=SimpleNamespace(supports_each=1)))
    task = SimpleNamespace(arranged=SimpleNamespace(sample=SimpleNamespace(n=10**6)))
    assert scores.learn_whole(split, task, GaussianNB()) is None
