"""``codebound study`` as a user runs it."""

import json
import shlex
from functools import partial

import pytest

SMALL = ("--model", "mlp:depth=2,width=12,bias=false", "--epochs", 2, "--quiet")


@pytest.fixture
def study(tmp_path, monkeypatch, codebound):
    monkeypatch.chdir(tmp_path)
    return partial(codebound, "study")


@pytest.mark.thorough
def test_guha_in_one_line(study, tmp_path):
    code, out, _ = study("guha23", *SMALL, "--d", 8, "--lambda", 3, "--out", "here", "--format", "json")
    record = json.loads(out)
    assert code == 0
    assert record == json.loads((tmp_path / "here/result.json").read_text())
    assert (record["settings"]["d"], record["settings"]["lambda"]) == (8.0, 3.0)
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert names >= {"f.safetensors", "g.safetensors", "g-recovered.safetensors", "study.html", "g.cbound"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("arora18", "--widths", "8"), "arora18 takes no widths"),
        (("guha23", "--trials", 3), "guha23 takes no trials"),
        (("kant", "--quiet"), "the papers are guha23, arora18, shin21"),
        (("shin21", "--lambda", 3), "shin21 takes no lambda"),
        (("guha23", "--widths", "8;9"), "widths are whole numbers"),
        (("guha23", "--network", "w.safetensors"), "weights belong to an architecture"),
    ],
)
def test_options_that_do_not_belong_are_refused(study, words, said):
    code, _, err = study(*words, "--epochs", 1, "--out", "bad")
    assert code != 0
    assert said in err


@pytest.mark.thorough
@pytest.mark.parametrize("paper", ["guha23", "arora18", "shin21"])
def test_every_command_of_a_page_runs(study, codebound, paper):
    _, out, _ = study(paper, *SMALL, "--margin-share", 0.95, "--out", "here", "--format", "json")
    record = json.loads(out)
    assert len(record["sentences"]) == 3
    for number, command in enumerate(record["commands"]):
        program, verb, *words = shlex.split(command)
        assert program == "codebound"
        code, _, err = codebound(verb, *words, *(["--out", f"part{number}"] if verb == "compress" else []))
        assert code == 0, err
