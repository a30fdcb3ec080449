"""``codebound bound`` and ``advise``: the published keys, the published numbers, and refusals."""

import csv
import io
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


def test_csv_holds_the_same_digits_as_json(bound):
    record = json.loads(bound(*GOLDEN, "--format", "json").stdout)
    (row,) = csv.DictReader(io.StringIO(bound(*GOLDEN, "--format", "csv").stdout))
    assert {form: float(row[form]) for form in ("binomial", "kl", "hoeffding")} == {
        form: record[form] for form in ("binomial", "kl", "hoeffding")
    }


def test_the_table_rounds_up_and_the_claim_goes_to_stderr(bound):
    result = bound(*GOLDEN)
    exact = json.loads(bound(*GOLDEN, "--format", "json").stdout)["binomial"]
    printed = next(line for line in result.stdout.splitlines() if "C-2" in line).split()[2]
    assert float(printed) / 100 >= exact
    assert "errs on at most" in result.stderr
    assert "errs on at most" not in result.stdout


def test_holdout_is_the_clopper_pearson_limit(bound):
    fresh = bound("--errors", "215", "--n", "10000", "--holdout", "--format", "json")
    assert json.loads(fresh.stdout)["holdout"] == pytest.approx(0.024041827678, abs=1e-12)


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


def test_picks_need_no_bits_and_their_bits_are_paid(bound):
    free, paid = (
        json.loads(bound("--picks", "10", "--errors", "2", "--n", "500", *bits, "--format", "json").stdout)
        for bits in ((), ("--bits", "40"))
    )
    assert free["picked"] < paid["picked"]
    assert free["holdout"] == paid["holdout"]


@pytest.mark.parametrize(("classes", "vacuous"), [("2", True), ("10", False)])
def test_the_number_of_classes_decides_what_is_vacuous(bound, classes, vacuous):
    coin = ("--errors", "0", "--n", "60000", "--bits", "60000", "--classes", classes)
    assert json.loads(bound(*coin, "--format", "json").stdout)["vacuous"] is vacuous
    assert ("VACUOUS" in bound(*coin).stderr) is vacuous


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--errors", "11", "--n", "10", "--bits", "1"), "errors"),
        (("--errors", "-1", "--n", "10", "--bits", "1"), "errors"),
        (("--errors", "1", "--n", "0", "--bits", "1"), "`n`"),
        (("--errors", "1", "--n", "10", "--bits", "nan"), "code_bits"),
        (("--errors", "1", "--n", "10", "--bits", "1", "--delta", "0"), "delta"),
        (("--errors", "1", "--n", "10", "--bits", "1", "--delta", "1"), "delta"),
        (("--errors", "1", "--n", "10", "--bits", "1", "--classes", "1"), "classes"),
        (("--errors", "1", "--n", "10"), "bits is missing"),
        (("--errors", "1", "--n", "10", "--bits", "5", "--holdout"), "leave out bits"),
        (("--errors", "1", "--n", "10", "--picks", "5", "--holdout"), "leave out bits and picks"),
        (("--errors", "6", "--n", "10", "--picks", "5"), "different examples"),
        (("--errors", "1", "--n", "10", "--picks", "-1"), "`picks`"),
    ],
)
def test_numbers_that_no_sample_can_have_are_refused(bound, arguments, word):
    result = bound(*arguments)
    assert isinstance(result.exception, UsageError)
    assert word in str(result.exception)
    assert result.stdout == ""


def test_a_test_set_used_for_choosing_among_a_thousand_networks(bound):
    used = ("--errors", "500", "--n", "10000", "--holdout", "--looks", "1000", "--fixed-before")
    record = json.loads(bound(*used, "--format", "json").stdout)
    assert list(record) == ["looked", "holdout", "vacuous", "provided"]
    assert [round(100 * record[form], 2) for form in ("looked", "holdout")] == [5.90, 5.37]
    said = "of new data, provided that all 1,000 networks were fixed before the first was tried."
    assert f"the network errs on at most 5.91 % {said}" in bound(*used).stderr
    led = json.loads(bound(*used[:-1], "--bits", "77", "--format", "json").stdout)
    exact = json.loads(bound(*used[:-1], "--format", "json").stdout)
    assert exact["looked"] > led["looked"] > record["looked"] == exact["fixed"]


def test_looks_are_looks_at_hold_out_examples(bound):
    refused = bound("--errors", "5", "--n", "100", "--bits", "10", "--looks", "3")
    assert isinstance(refused.exception, UsageError)


def test_a_fault_has_its_own_words(bound):
    shown = bound("--errors", "12", "--n", "980", "--bits", "100", "--fault", "class:3")
    assert "errs on at most 10.57 % of new data of class 3." in shown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--n", "100", "--errors", "1"),
        (*GOLDEN, "--fault", "abstain:0.5"),
        (*GOLDEN, "--fault", "cost:distance"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(bound, arguments):
    assert isinstance(bound(*arguments).exception, UsageError)


def test_advice_says_what_to_do(codebound):
    code, out, err = codebound("advise", "--n", 300, "--errors-guess", 0.1, "--target", 0.15, "--bits", 200)
    assert code == 0, err
    assert "hold-out" in out
    assert "about" in out
    assert err.startswith("Hold out ")
    assert "proves nothing" in err


def test_a_short_message_is_advised_where_it_wins(codebound):
    _, out, _ = codebound(
        "advise", "--n", 100, "--errors-guess", 0.2, "--delta", 1e-6, "--bits", 1, "--format", "json"
    )
    record = json.loads(out)
    assert record["ways"][0]["name"] == "message"
    assert record["paragraph"].startswith("Learn from all labels")
    assert record["most_bits"] >= 1


@pytest.mark.parametrize("arguments", [("--n", 100), ("--errors-guess", 0.1), ("--data", "digits")])
def test_advice_needs_a_guess_and_the_labels(codebound, arguments):
    code, _, err = codebound("advise", *arguments)
    assert code == 2
    assert "option" in err
