"""``codebound bound`` and ``holdout plan``: the published keys, the published numbers, and refusals."""

import json

import pytest
from typer.testing import CliRunner

from codebound.cli.main import app
from codebound.run.errors import UsageError

GOLDEN = ("--errors", "300", "--n", "60000", "--bits", "5000", "--delta", "0.05")


@pytest.fixture
def bound(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: CliRunner().invoke(app, ("bound", *arguments))


def test_json_has_the_three_forms_and_whether_they_say_anything(bound):
    record = json.loads(bound(*GOLDEN, "--format", "json").stdout)
    assert list(record) == ["binomial", "kl", "hoeffding", "vacuous"]
    assert [round(record[form], 4) for form in ("binomial", "kl", "hoeffding")] == [0.0737, 0.0738, 0.1750]
    assert record["vacuous"] is False
    result = bound(*GOLDEN)
    printed = next(line for line in result.stdout.splitlines() if "C-2" in line).split()[2]
    assert float(printed) / 100 >= record["binomial"]  # a table rounds up
    assert "errs on at most" in result.stderr
    assert "errs on at most" not in result.stdout


PICKED = ("--picks", "700", "--errors", "100", "--n", "60000", "--bits", "30", "--delta", "0.05")


def test_picks_count_like_errors_and_stand_beside_a_hold_out_set(bound):
    record = json.loads(bound(*PICKED, "--format", "json").stdout)
    assert list(record) == ["picked", "holdout", "vacuous"]
    assert 0.0165 < record["picked"] < 0.0175
    fresh = bound("--errors", "800", "--n", "60000", "--holdout", "--format", "json")
    assert record["holdout"] == json.loads(fresh.stdout)["holdout"] < record["picked"]
    shown = bound(*PICKED)
    assert "C-15" in shown.stdout
    assert "own test set" in shown.stdout
    assert "errs on at most 1.71 %" in shown.stderr


def test_what_guessing_does_as_well_is_vacuous(bound):
    coin = ("--errors", "0", "--n", "60000", "--bits", "60000", "--classes", "2")
    assert json.loads(bound(*coin, "--format", "json").stdout)["vacuous"] is True
    assert "VACUOUS" in bound(*coin).stderr


def test_numbers_that_no_sample_can_have_are_refused(bound):
    result = bound("--errors", "11", "--n", "10", "--bits", "1")
    assert isinstance(result.exception, UsageError)
    assert "errors" in str(result.exception)
    assert result.stdout == ""


def test_a_test_set_used_for_choosing_among_a_thousand_networks(bound):
    used = ("--errors", "500", "--n", "10000", "--holdout", "--looks", "1000", "--fixed-before")
    record = json.loads(bound(*used, "--format", "json").stdout)
    assert list(record) == ["looked", "holdout", "vacuous", "provided"]
    assert [round(100 * record[form], 2) for form in ("looked", "holdout")] == [5.90, 5.37]
    said = "of new data, provided that all 1,000 networks were fixed before the first was tried."
    assert f"the classifier errs on at most 5.91 % {said}" in bound(*used).stderr
    led = json.loads(bound(*used[:-1], "--bits", "77", "--format", "json").stdout)
    exact = json.loads(bound(*used[:-1], "--format", "json").stdout)
    assert exact["looked"] > led["looked"] > record["looked"] == exact["fixed"]


def test_a_loss_has_its_own_words(bound):
    shown = bound("--errors", "12", "--n", "980", "--bits", "100", "--loss", "class:3")
    assert "errs on at most 10.57 % of new data of class 3." in shown.stderr


def test_advice_says_what_to_do(codebound):
    code, out, err = codebound(
        "holdout", "plan", "--n", 300, "--errors-guess", 0.1, "--target", 0.15, "--bits", 200
    )
    assert code == 0, err
    assert "hold-out" in out
    assert "about" in out
    assert err.startswith("Hold out ")
    assert "proves nothing" in err


def test_a_short_message_is_advised_where_it_wins(codebound):
    _, out, _ = codebound(
        "holdout", "plan", "--n", 100, "--errors-guess", 0.2, "--delta", 1e-6, "--bits", 1, "--format", "json"
    )
    record = json.loads(out)
    assert record["ways"][0]["name"] == "message"
    assert record["paragraph"].startswith("Learn from all labels")
    assert record["most_bits"] >= 1


@pytest.mark.parametrize("arguments", [("--n", 100), ("--errors-guess", 0.1), ("--data", "digits")])
def test_advice_needs_a_guess_and_the_labels(codebound, arguments):
    code, _, err = codebound("holdout", "plan", *arguments)
    assert code == 2
    assert "option" in err
