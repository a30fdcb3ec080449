"""Declared scores: which tables are offered, with which biases, and the kernel of a large share."""

import numpy as np
import pytest
from worlds.outcomes import SAMPLE, table_of
from worlds.samples import clouds

from codebound.bits.forms import FIRST_TABLE, TABLE
from codebound.certificate.task import Task
from codebound.certification import certify
from codebound.known.score_tables import ScoreTable
from codebound.methods import scores
from codebound.methods.search import Search, UnsuitedError
from codebound.run.errors import DataError


def search_for(tables, sample=SAMPLE, effort="quick", *, is_asked=True):
    search = Search(Task(sample=sample, delta=0.05, tables=tables), effort)
    search.is_asked = is_asked
    return search


def test_every_table_is_offered_and_the_first_for_two_bits():
    search = search_for((table_of(seed=3), table_of(), table_of(rows=60, seed=1)))
    scores.propose_scores(search)
    found = {each.assessed.outcome.choice.table: each.assessed for each in search.offers}
    assert {number: each.bits.length for number, each in found.items()} == {1: 2, 2: 7, 3: 7}
    assert found[3].outcome.known_rows == 60
    for each in found.values():
        own = each.outcome.table.scores[each.outcome.known_rows :]  # no such rows are known here
        assert each.tally.errors <= len(own)


def test_biases_that_take_errors_away_are_offered_and_paid_for():
    table = table_of()
    shifted = ScoreTable(table.scores + np.float32([0.0, 0.5, 0.0]), "shifted", "other data")
    search = search_for((shifted,), effort="max")
    scores.propose_scores(search)
    plain = next(each.assessed for each in search.offers if each.assessed.outcome.form == FIRST_TABLE)
    biased = min(
        (each.assessed for each in search.offers if each.assessed.outcome.form == TABLE),
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


def test_a_table_of_its_own_is_learned_of_the_known_share_alone():
    sample = clouds(400, features=4, apart=2.0)
    first = search_for((), sample)
    scores.propose_scores(first)
    (table,) = first.task.tables
    assert (table.rows, table.of) == (200, "the known share alone")
    known, rest = first.task.arranged.split(200)
    assert table.classifier.examples.tolist() == known.tolist()
    right = table.scores[rest].argmax(1) == sample.y[rest]
    assert first.offers[0].assessed.tally.errors == int((~right).sum())


def test_a_split_that_knows_as_much_makes_a_table_needless():
    search = search_for((), clouds(400), is_asked=False)
    with pytest.raises(UnsuitedError, match="a split learns from as many"):
        scores.propose_scores(search)


def test_where_there_is_no_time_it_is_said_what_to_ask_for(monkeypatch):
    monkeypatch.setattr(scores, "usual_share", lambda n, *, is_rule: n // 4 if is_rule else n // 2)
    monkeypatch.setattr(scores, "_estimate_seconds", lambda *_: 6000.0)
    for effort, words in (
        ("quick", "100 minutes here: give the effort standard"),
        ("standard", "effort max"),
    ):
        with pytest.raises(UnsuitedError, match=words):
            scores.propose_scores(search_for((), clouds(400), effort, is_asked=False))


def test_scores_are_issued_for_two_bits_and_saved_beside_the_sample(tmp_path):
    found = certify(None, SAMPLE, scores=(table_of(), table_of(seed=1)), method="scores", effort="quick")
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
