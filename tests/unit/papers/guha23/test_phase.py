"""The law of the threshold on planted data, the draws, the resumption, and what the committed results say."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import UsageError
from codebound_papers.guha23.items import phase as sketch_phase
from codebound_papers.guha23.items.phase import (
    HYBRID,
    L1,
    Design,
    Draws,
    fit_constant,
    measured_form,
    printed_form,
)
from codebound_papers.reproduce.items import Settings
from codebound_papers.reproduce.run import reproduce

COMMITTED = Path(__file__).parents[4] / "results/reproduce/sketch-phase.json"


def draws(number=2, iterations=300, seed=0):
    return Draws(seed=seed, device="cpu", number=number, iterations=iterations)


@given(
    st.floats(0.1, 10.0),
    st.lists(st.tuples(st.floats(1.0, 1e3), st.floats(-0.3, 0.3)), min_size=2, max_size=20),
)
def test_the_fit_is_that_of_least_squares(constant, points):
    law = [unit for unit, _ in points]
    measured = [constant * unit * math.exp(error) for unit, error in points]
    fit = fit_constant(measured, law)
    intercept = np.linalg.lstsq(np.ones((len(law), 1)), np.log(measured) - np.log(law), rcond=None)[0][0]
    assert fit.constant == pytest.approx(math.exp(intercept), rel=1e-9)
    assert fit.smallest <= fit.constant * (1 + 1e-12)
    assert fit.constant <= fit.largest * (1 + 1e-12)
    assert fit.spread == pytest.approx(np.std(np.log(measured) - np.log(law), ddof=1), abs=1e-9)


def test_a_planted_law_is_found_and_the_other_form_drifts():
    sizes = [(p, j) for p in (100, 200, 400, 784) for j in (1, 2, 4, 8)]
    planted = [1.17 * measured_form(p * j, p) for p, j in sizes]
    right = fit_constant(planted, [measured_form(p * j, p) for p, j in sizes])
    wrong = fit_constant(planted, [printed_form(j, p) for p, j in sizes])
    assert right.constant == pytest.approx(1.17)
    assert right.spread < 1e-12
    assert wrong.spread > 0.05
    assert wrong.largest > 1.3 * wrong.smallest


def test_a_fit_needs_a_size():
    with pytest.raises(UsageError, match="at least one size"):
        fit_constant([], [])


def test_the_threshold_is_the_smallest_side_that_is_enough():
    planted = {40: 4, 38: 4, 36: 3, 34: 2, 32: 3, 30: 0}
    rows = [
        {"decoder": L1, "p": 100, "j": 2, "nonzeros": 199.0, "m": m, "draws": 4, "recovered": recovered}
        for m, recovered in planted.items()
    ]
    (row,) = sketch_phase._thresholds(rows)
    assert row["m"] == 32
    assert row["numbers_per_nonzero"] == pytest.approx(32 * 32 / 199)
    assert row["c"] == pytest.approx(32 / math.sqrt(199 * math.log(10_000 / 199)))
    assert row["C"] == pytest.approx(32 / (math.sqrt(200) * math.log(100)))


def test_no_threshold_where_nothing_is_enough():
    row = {"decoder": L1, "p": 9, "j": 1, "nonzeros": 9.0, "m": 5, "draws": 4, "recovered": 2}
    assert list(sketch_phase._thresholds([row])) == []


def test_matrices_are_distributed_sparse():
    for j in (1, 3):
        x = draws()._matrix(20, j, 0)
        assert np.diag(x).all()
        assert (x != 0).sum(axis=1).max() <= j
    assert draws().nonzeros(20, 1) == 20.0


@pytest.mark.parametrize("decoder", [L1, HYBRID])
def test_known_sizes_succeed_and_fail(decoder):
    assert draws().count(Design(p=40, j=2, m=26), decoder)["recovered"] == 2
    assert draws().count(Design(p=40, j=2, m=12), decoder) == {
        "draws": 2,
        "recovered": 0,
        "proven": 0,
        "wrong": 0,
    }


@pytest.mark.thorough
def test_the_printed_ensemble_loses_rows_of_the_matrix():
    design = Design(p=60, j=2, m=34, line="row", ones=5)
    coverage = draws(number=8).coverage(design)
    empty = (1 - 1 / 60) ** (5 * 34)  # with replacement
    assert coverage["empty_columns"] == pytest.approx(empty, abs=0.03)
    assert coverage["lost_nonzeros"] == pytest.approx(1 - (1 - empty) ** 2, abs=0.06)
    assert draws().count(design, L1)["recovered"] == 0
    column = Design(p=60, j=2, m=34)
    assert draws().coverage(column) == {"ones_per_column": 5.0, "empty_columns": 0.0, "lost_nonzeros": 0.0}
    assert draws().count(column, L1)["recovered"] == 2


def test_noise_has_the_size_it_is_said_to_have():
    study = draws()
    case = study._cases(Design(p=20, j=1, m=12))[0]
    noisy = study._noisy(case, 0.01, 0)
    assert float((noisy.y - case.y).norm() / case.y.norm()) == pytest.approx(0.01)
    assert float((study._noisy(case, 0.01, 1).y - noisy.y).norm()) > 0.0


@pytest.mark.thorough
def test_errors_are_of_the_size_of_the_noise_by_l1_and_total_by_peeling():
    errors = draws(iterations=200).errors(Design(p=40, j=2, m=30), 1e-2)
    assert all(0.005 < error < 0.1 for error in errors["l1"])
    assert min(errors["peeling"]) > 0.5


@pytest.mark.thorough
def test_an_interrupted_study_is_continued_and_ends_the_same(tmp_path, monkeypatch):
    decoded: list[str] = []
    limit = math.inf
    plain = sketch_phase._by_l1

    def counting(cases, iterations):
        if len(decoded) == limit:
            raise KeyboardInterrupt
        decoded.append(f"{cases[0].y.shape} {cases[0].y.norm()}")
        return plain(cases, iterations)

    monkeypatch.setitem(sketch_phase._DECODERS, L1, counting)

    def run(folder):
        monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / f"{folder} cache"))
        return reproduce("sketch:phase", tmp_path / folder, Settings(size="tiny", device="cpu")).reproduction

    whole = run("whole")
    once, limit = decoded.copy(), len(decoded) // 2
    decoded.clear()
    with pytest.raises(KeyboardInterrupt):
        run("parts")
    assert len(decoded) == limit
    limit = math.inf
    parts = run("parts")
    assert set(decoded) == set(once)
    assert len(decoded) < 1.3 * len(once)  # one part was begun again, no other
    assert parts == whole  # figures with all their points among it
    limit = 0
    again = reproduce("sketch:phase", tmp_path / "again", Settings(size="tiny", device="cpu")).reproduction
    assert again.tables == whole.tables  # another folder, the same cache: nothing is decoded


def test_another_seed_draws_another_study():
    first, second = (draws(seed=seed).nonzeros(50, 8) for seed in (0, 1))
    assert first != second


def check_findings(record):
    """What an earlier implementation of other draws measured, within its resolution."""
    tables = list(record["tables"].values())
    thresholds, constants, ensembles, noise = tables
    law = next(row for row in constants if row["decoder"] == L1 and row["form"].startswith("c "))
    printed = next(row for row in constants if row["decoder"] == L1 and row["form"].startswith("C "))
    assert 1.1 < law["constant"] < 1.3
    assert law["spread"] < 0.06
    assert printed["spread"] > 2 * law["spread"]
    assert all(row["numbers_per_nonzero"] > 2 for row in thresholds)
    literal = next(row for row in ensembles if row["ones_by"] == "row")
    assert (literal["ones"], literal["recovered"]) == (5, 0)
    assert all(1.0 < row["l1_error_per_noise"] < 4.0 for row in noise if row["noise"] >= 1e-3)
    assert all(row["wrong"] == 0 for row in record["points"]["draws recovered"])


def test_the_committed_results_say_what_was_found_before():
    record = json.loads(COMMITTED.read_text())
    assert record["size"] in ("quick", "full")
    check_findings(record)


@pytest.mark.slow
def test_the_quick_study_finds_the_same_with_another_seed(tmp_path):
    check_findings(reproduce("sketch:phase", tmp_path, Settings(size="quick", seed=1, device="cpu")).record)
