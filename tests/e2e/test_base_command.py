"""``certify --known base=FILE``, from files to a verified certificate."""

import json
import shlex
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from worlds.commands import refused
from worlds.samples import cloud_arrays

from codebound_networks.methods import subspace_networks as subspace
from codebound_verify.__main__ import main as verify_main

MODULE = """
from torch import nn

def tanh(input_shape, classes):
    return nn.Sequential(nn.Linear(input_shape[0], 6), nn.Tanh(), nn.Linear(6, classes))

def normed(input_shape, classes):
    return nn.Sequential(
        nn.Linear(input_shape[0], 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, classes)
    )
"""
WORDS = "trained on clusters with five classes"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    for name, n, seed, classes in (("sample", 300, 0, 3), ("test", 100, 1, 3), ("other", 300, 2, 5)):
        x, y = cloud_arrays(n, seed=seed, classes=classes, features=5, noise=0.5)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    (tmp_path / "few_nets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subspace, "_STEPS", {"standard": 150})
    monkeypatch.setattr(subspace, "_RUNS", {"standard": 1})
    yield tmp_path
    sys.modules.pop("few_nets", None)


def is_verified(record, capsys):
    program, *arguments = shlex.split(record["verify"])
    assert program == "codebound-verify"
    code = verify_main(arguments)
    return code == 0, capsys.readouterr().out


@pytest.fixture
def pretrained(workspace, codebound):
    """The run folder of a network with five classes."""
    arguments = ("--epochs", "15", "--lr", "0.02", "--device", "cpu", "-q")
    assert codebound("train", "mlp:widths=8", "--data", "other.npz", *arguments, "--out", "b")[0] == 0
    return workspace / "b" / "model.safetensors"


class TestCertify:
    @pytest.mark.thorough
    def test_a_base_of_other_classes_is_fine_tuned_in_a_subspace(
        self, pretrained, codebound, capsys, monkeypatch
    ):
        command = ("certify", "--model", "mlp:widths=8", "sample.npz", "--test", "test.npz")
        command += ("--known", f"base={pretrained}", "--known", f"says={WORDS}", "--method", "subspace")
        code, out, err = codebound(*command, "--out", "g")
        assert code == 0, err
        assert "DECLARED" in out
        assert "No program can" in " ".join(out.split())
        record = json.loads((pretrained.parents[1] / "g" / "result.json").read_text())
        assert record["method"] == "subspace"
        assert not record["vacuous"]
        assert WORDS in record["declared"]["base"]
        assert record["n"] == 300
        monkeypatch.chdir("g")  # whose files name each other
        accepted, said = is_verified(record, capsys)
        assert accepted
        own, declared = said.split("The file declares:")
        assert f"The file says that '{WORDS}; its last layer starts at zero' made it of" in own
        assert f"Base: {WORDS}; its last layer starts at zero, made of other data" in declared
        base = load_file("base.safetensors")
        assert not base["1.weight"].any()
        assert torch.equal(base["0.weight"], load_file(pretrained)["linear1.weight"])
        assert "neither trained nor selected" in (pretrained.parents[1] / "g/report.html").read_text()

    def test_a_base_that_is_f(self, workspace, codebound):
        torch.manual_seed(0)
        save_file({"linear1.weight": 5 * torch.eye(3, 5), "linear1.bias": torch.zeros(3)}, "b.safetensors")
        command = ("certify", "--model", "linear", "sample.npz", "--run", "effort=quick")
        code, out, _ = codebound(*command, "--known", "base=b.safetensors", "--format", "json", "--out", "s")
        assert code == 0
        record = json.loads(out)
        assert record["network"] == "the network that was given, by its scores as they were declared"
        assert record["declared"] == {"scores": "the file b.safetensors, made of other data"}
        assert record["code_bits"] == 2
        naive = (
            *command,
            "--known",
            "base=b.safetensors",
            "--method",
            "naive",
            "--format",
            "json",
            "--out",
            "c",
        )
        assert codebound(*naive)[0] == 0

    def test_a_network_that_was_trained_on_the_sample_is_no_base(self, workspace, codebound):
        train = ("train", "linear", "--epochs", "1", "--device", "cpu", "-q", "--out", "f")
        assert codebound(*train, "--data", "sample.npz")[0] == 0
        command = ("certify", "--model", "linear", "sample.npz")
        refused(
            codebound(*command, "--known", "base=f/model.safetensors", "-q"), 1, "trained on this very sample"
        )

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (("--known", "base=absent.safetensors"), 2, "absent.safetensors"),
            (("--known", "base=wide.safetensors"), 1, "linear1.weight (9, 5) instead of (8, 5)"),
            (("--known", "says=words"), 2, "says describes"),
            (("--known", "base=good.safetensors", "--known", "share=0.5"), 2, "not both"),
            (("--known", "base=good.safetensors", "--known", "says=two\nlines"), 2, "one line"),
        ],
    )
    def test_bad_input_is_one_message(self, arguments, code, message, workspace, codebound):
        good = {"linear1.weight": torch.ones(8, 5), "linear1.bias": torch.ones(8)}
        save_file(good, "good.safetensors")
        save_file({**good, "linear1.weight": torch.ones(9, 5)}, "wide.safetensors")
        command = ("certify", "--model", "mlp:widths=8", "sample.npz", "-q", "--out", "g")
        refused(codebound(*command, *arguments), code, message)
        assert not (workspace / "g").exists()
