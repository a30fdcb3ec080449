"""``codebound study`` as a user runs it."""

import json
import shlex
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from worlds.commands import python

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
        (("guha23", "--network", "."), "weights belong to an architecture"),
        (("guha23", "--network", "w.safetensors"), "does not exist"),
        (("guha23", "--d", 0), "d is a finite number above 0. Got 0.0."),
        (("guha23", "--d", "nan"), "d is a finite number above 0. Got nan."),
        (("guha23", "--lambda", -1), "lambda is a finite number above 0"),
        (("guha23", "--levels", 4), "odd number of levels"),
        (("guha23", "--prune", "best"), "pruning is by algorithm1"),
        (("guha23", "--data", "nothing"), "no dataset 'nothing'"),
        (("guha23", "--margin-share", 2), "the share of low margins"),
        (("guha23", "--delta", 0), "strictly between 0 and 1"),
        (("guha23", "--holdout", 1.5), "holdout is a fraction"),
        (("arora18", "--share", 0), "the numbers for each weight"),
        (("arora18", "--shuffle-labels", 2), "the share of shuffled labels"),
        (("arora18", "--examples", 0), "examples are at least 1"),
        (("shin21", "--trials", 0), "trials are at least 1"),
        (("shin21", "--resamples", 3), "resamples are at least 20"),
    ],
)
def test_options_that_do_not_belong_are_refused(study, words, said):
    code, _, err = study(*words, "--epochs", 1, "--out", "bad")
    assert code != 0
    assert said in " ".join(err.replace("│", " ").split())


def test_options_are_refused_before_torch_is_loaded():
    code = """if True:
        import sys
        from codebound.cli.main import main
        sys.argv = ["codebound", "study", "guha23", "--d", "0"]
        try:
            main()
        except SystemExit as end:
            print(end.code, "torch" in sys.modules)
    """
    assert python(code).split() == ["2", "False"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "mlp:width=0"), "width must be an integer from 1"),
        (("--model", "nothing"), "unknown model 'nothing'"),
        (("--model", "mlp:widths=8", "--network", "nan.safetensors"), "NaN or infinity in linear1.weight"),
        (("--model", "mlp:widths=8", "--network", "text.safetensors"), "not a whole safetensors file"),
        (("--model", "mlp:widths=9", "--network", "nan.safetensors"), "wrong shapes"),
        (("--data", "gaps.npz"), "has gaps or words, and a network reads numbers"),
    ],
)
def test_networks_and_samples_are_refused_in_a_sentence(study, tmp_path, words, said):
    numbers = np.full((60, 4), np.nan, dtype=np.float32)
    np.savez(tmp_path / "gaps.npz", x=numbers, y=np.arange(60) % 3)
    (tmp_path / "text.safetensors").write_text("words")
    state = {"linear1.weight": torch.full((8, 64), torch.nan), "linear1.bias": torch.zeros(8)}
    state |= {"linear2.weight": torch.zeros(10, 8), "linear2.bias": torch.zeros(10)}
    save_file(state, tmp_path / "nan.safetensors")
    code, _, err = study("guha23", *words, "--epochs", 1, "--quiet", "--out", "bad")
    assert code != 0
    assert said in " ".join(err.split())


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
