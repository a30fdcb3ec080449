"""``certify --known base=FILE`` and ``train --for-certificate``, from files to a verified certificate."""

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
FOLDED = "Batch norms are folded (1): a method that trains anew does so without them."


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
        assert not record["base_is_g"]
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
        assert json.loads(codebound(*naive)[1])["base_is_g"] is True

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
            (("--known", "base=absent.safetensors"), 1, "absent.safetensors"),
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


class TestTrain:
    @pytest.mark.thorough
    @pytest.mark.parametrize("arch", [(), ("mlp:widths=8",)])
    def test_weights_and_certificate_are_of_one_network(self, arch, workspace, codebound, capsys):
        code, out, err = codebound(
            "train",
            *arch,
            "--for-certificate",
            "--data",
            "sample.npz",
            "--test",
            "test.npz",
            "--device",
            "cpu",
        )
        assert code == 0, err
        assert "Certified error" in out
        record = json.loads((workspace / "runs/train-1/result.json").read_text())
        assert record["weights"] == "runs/train-1/model.safetensors"
        assert record["train_error"] == record["train_errors"] / 300
        assert record["test_n"] == 100
        assert record["original_errors"] is None
        weights = load_file(record["weights"])
        layers = len([name for name in weights if name.endswith("weight")])
        assert layers == (2 if arch else 3)
        accepted, _ = is_verified(record, capsys)
        assert accepted

    @pytest.mark.thorough
    def test_batch_norms_are_folded_and_it_is_said(self, workspace, codebound, capsys):
        command = ("train", "few_nets:normed", "--for-certificate", "--data", "sample.npz", "--device", "cpu")
        code, _, err = codebound(*command, "--out", "g")
        assert code == 0, err
        assert FOLDED in err
        record = json.loads((workspace / "g/result.json").read_text())
        assert FOLDED in record["notes"]
        assert FOLDED not in codebound(*command, "--out", "quiet", "-q")[2]
        weights = load_file("g/model.safetensors")
        shapes = {name: tuple(value.shape) for name, value in weights.items()}
        assert shapes == {"0.weight": (6, 5), "1.weight": (3, 6)}
        with np.load("sample.npz") as file:
            x, y = torch.from_numpy(file["x"]), torch.from_numpy(file["y"])
        logits = torch.relu(x @ weights["0.weight"].T) @ weights["1.weight"].T
        assert int((logits.argmax(1) != y).sum()) == record["train_errors"]
        assert is_verified(record, capsys)[0]

    @pytest.mark.thorough
    def test_around_a_base(self, pretrained, codebound, capsys):
        command = ("train", "mlp:widths=8", "--for-certificate", "--data", "sample.npz", "--device", "cpu")
        code, out, _ = codebound(*command, "--base", pretrained, "--base-says", WORDS, "--out", "g")
        assert code == 0
        assert f"DECLARED, not checked: base: {WORDS}" in out
        record = json.loads((pretrained.parents[1] / "g/result.json").read_text())
        assert is_verified(record, capsys)[0]
        # what was trained for a certificate has seen its sample
        certify = ("certify", "--model", "mlp:widths=8", "sample.npz", "-q")
        assert "this very sample" in codebound(*certify, "--known", "base=g/model.safetensors")[2]
        with np.load("sample.npz") as file:
            np.savez("sample.npz", x=file["x"][::-1], y=file["y"][::-1])
        assert "300 of the 300 inputs" in codebound(*certify, "--known", "base=g/model.safetensors")[2]

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (("mlp", "--for-certificate", "--epochs", "3", "--lr", "1"), 2, "--lr, --epochs cannot be given"),
            (("mlp", "--effort", "max"), 2, "belongs to --for-certificate"),
            ((), 2, "give an architecture"),
            (("--for-certificate", "--base", "b.safetensors"), 2, "give it too (arch)"),
            (("--for-certificate", "--effort", "quick"), 1, "longer than a quick search"),
            (("--for-certificate", "--effort", "huge"), 2, "unknown effort"),
            (("few_nets:tanh", "--for-certificate"), 1, "is no chain of layers"),
        ],
    )
    def test_bad_input_is_one_message(self, arguments, code, message, workspace, codebound):
        refused(
            codebound("train", *arguments, "--data", "sample.npz", "-q", "--device", "cpu"), code, message
        )
        assert not list((workspace / "runs").glob("*"))
