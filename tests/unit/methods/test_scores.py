"""Declared scores: which tables are offered, with which biases, and the usual learner of the known share."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from worlds.outcomes import SAMPLE, outcome, table_of
from worlds.samples import clouds

from codebound.bits.plain_code import FIRST_TABLE, TABLE, USUAL_SPLIT
from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.learners import fit_known
from codebound.known.score_tables import ScoreTable
from codebound.methods import scores
from codebound.methods.search import Search, UnsuitedError
from codebound.request import Known, Run, Task
from codebound.run.errors import CertificateError, DataError, UsageError
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

    def fit_once(learner, *rest):
        if not failed:
            failed.append(learner)
            raise UsageError("it fails today")
        return fit_known(learner, *rest)

    monkeypatch.setattr(scores, "fit_known", fit_once)
    search = search_for((), clouds(200, features=4), "standard")
    assert scores.learn_table(search).rows >= 100
    assert "it fails today" in search.skipped.values()


def test_where_there_is_no_time_for_a_kernel_it_is_said_what_to_ask_for(monkeypatch):
    monkeypatch.setattr(scores, "_estimate_seconds", lambda *_: 6000.0)
    search = search_for(
        (), load_sample("digits").select(range(200), role="train"), "standard", is_asked=False
    )
    scores.learn_table(search)
    assert "100 minutes here: give the effort max" in search.skipped["learner: kernel"]


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
    assert found.result["loads"] is False
    with pytest.raises(CertificateError, match="declared scores"):
        load_classifier(folder)


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
