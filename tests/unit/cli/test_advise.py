"""``codebound advise``: a table, a paragraph, a picture."""

import json

import pytest

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


@pytest.mark.parametrize("arguments", [("--n", 100), ("--errors-guess", 0.1), ("--data", "digits")])
def test_it_needs_a_guess_and_the_labels(codebound, arguments):
    code, _, err = codebound("advise", *arguments)
    assert code == 2
    assert "option" in err
