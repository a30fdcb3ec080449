"""``codebound advise``: a table, a paragraph, a picture."""

import json

import numpy as np
import pytest
from worlds.samples import cloud_arrays

pytestmark = pytest.mark.usefixtures("empty_folder")


def test_it_says_what_to_do(codebound):
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


@pytest.mark.thorough
def test_it_draws(codebound, tmp_path):
    code, _, err = codebound(
        "advise", "--n", 60, "--errors-guess", 0.1, "--picks", 5, "--train-error", 0.02, "--picture", "a.svg"
    )
    assert code == 0, err
    assert "<svg" in (tmp_path / "a.svg").read_text()
    code, _, err = codebound("advise", "--n", 60, "--errors-guess", 0.1, "--picture", "a.svg")
    assert "exists already" in err


@pytest.fixture
def clouds():
    x, y = cloud_arrays(240, apart=2.5)
    np.savez("clouds.npz", x=x, y=y)


@pytest.mark.thorough
def test_a_quick_run_replaces_the_guess(codebound, clouds, tmp_path):
    code, out, err = codebound(
        "advise", "--data", "clouds.npz", "--quick", "--picture", "b.svg", "--target", 0.2, "--format", "json"
    )
    assert code == 0, err
    record = json.loads(out)
    trial = record["trial"]
    assert (trial["tried"], trial["held_out"], trial["situation"]["n"]) == (240, 60, 240)
    assert 0 <= trial["errors"] < 30
    assert {way["name"] for way in record["ways"]} == {"hold-out", "message", "picks", "split"}
    for way in record["ways"]:
        if way["name"] in ("message", "picks"):  # on the very examples: what was certified, but for chance
            assert way["expected"] == pytest.approx(trial["certified"][way["name"]], rel=0.2)
    best = record["ways"][0]
    assert all(best["expected"] <= way["expected"] for way in record["ways"])
    assert ("Hold out" in record["paragraph"]) == (best["name"] == "hold-out")
    assert "it was a look" in record["paragraph"]
    assert "<svg" in (tmp_path / "b.svg").read_text()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--n", 100),
        ("--errors-guess", 0.1),
        ("--data", "digits"),
        ("--quick",),
        ("--data", "digits", "--quick", "--errors-guess", 0.1),
        ("--data", "digits", "--quick", "--bits", 100),
    ],
)
def test_a_guess_or_a_quick_run_and_not_both(codebound, arguments):
    code, _, err = codebound("advise", *arguments)
    assert code != 0
    assert "UsageError" in err or "give --errors-guess" in err
