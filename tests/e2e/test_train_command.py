import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from worlds.commands import refused

FACTORY = """
import time
from torch import nn

class Slow(nn.Module):
    def forward(self, x):
        if self.training:
            time.sleep(0.004)
        return x

def build(input_shape, classes):
    width = input_shape[0]
    return nn.Sequential(
        Slow(), nn.Linear(width, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, classes)
    )
"""

START = "from codebound.cli.main import main; main()"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A folder with a small sample and a factory of a network that trains slowly enough to be killed."""
    stream = np.random.default_rng(0)
    y = stream.integers(3, size=200)
    np.savez(tmp_path / "sample.npz", x=(np.eye(5)[y] + stream.normal(size=(200, 5))).astype(np.float32), y=y)
    (tmp_path / "slow_net.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("slow_net", None)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "optimizer", [("sgd", "--lr", "0.05"), ("adam", "--lr", "0.01")], ids=["sgd", "adam"]
)
def test_a_killed_run_goes_on_and_ends_with_the_same_bits(optimizer, workspace, codebound):
    command = ["train", "slow_net:build", "--data", "sample.npz", "--epochs", "8", "--batch-size", "10"]
    command += ["--device", "cpu", "--optimizer", *optimizer]
    killed = subprocess.Popen([sys.executable, "-c", START, *command, "--out", "killed"])
    deadline = time.monotonic() + 60
    while not (workspace / "killed" / "checkpoint.safetensors").exists():
        assert killed.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(0.03)  # an epoch takes 80 ms or more: this is the middle of the next one
    killed.kill()
    assert killed.wait() == -9
    assert not (workspace / "killed" / "result.json").exists()

    code, out, err = codebound(*command, "--out", "killed")
    assert code == 0
    assert "continuing after epoch" in err
    assert "Weights: killed/model.safetensors" in out
    assert codebound(*command, "--out", "whole", "-q")[0] == 0
    resumed, whole = (load_file(workspace / name / "model.safetensors") for name in ("killed", "whole"))
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


@pytest.mark.thorough
def test_digits_with_defaults_are_learnt_and_the_second_call_reads_the_result(workspace, codebound):
    command = ("train", "mlp", "--data", "digits", "--holdout", "0.2", "--device", "cpu", "--format", "json")
    code, out, err = codebound(*command)
    record = json.loads(out)
    assert code == 0
    assert record["train_error"] < 0.03
    assert (record["n"], record["test_n"], record["epochs"], record["seed"]) == (1437, 360, 20, 0)
    assert record["train_error"] == record["train_errors"] / 1437
    assert record["out"].startswith("runs/mlp-digits-")
    assert f"wrong on {record['train_errors']} of 1437 training examples" in record["sentence"]
    assert json.loads((workspace / record["out"] / "result.json").read_text()) == record
    assert len(err.splitlines()) == 2

    weights = workspace / record["weights"]
    written = weights.stat().st_mtime_ns
    code, out, err = codebound(*command)
    assert code == 0
    assert json.loads(out) == record
    assert "finished before" in err
    assert weights.stat().st_mtime_ns == written


def test_what_is_taken_for_the_scores_is_said(workspace, codebound):
    (workspace / "slow_net.py").write_text(
        "from torch import nn\n"
        "class Named(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return {'logits': super().forward(x), 'inputs': x}\n"
        "def build(input_shape, classes):\n"
        "    return Named(*input_shape, classes)\n"
    )
    command = ("train", "slow_net:build", "--data", "sample.npz", "--epochs", "1", "--device", "cpu")
    code, out, err = codebound(*command, "--format", "json")
    assert code == 0
    assert json.loads(out)["notes"] == [said := "Named returns a dict: its logits is taken for the logits."]
    assert said in err.replace("\n", " ")
    assert said not in codebound(*command, "--quiet")[2]


def test_trained_weights_can_be_trained_further(workspace, codebound):
    base = (
        "train",
        "linear",
        "--data",
        "sample.npz",
        "--epochs",
        "1",
        "--device",
        "cpu",
        "-q",
        "--format",
        "json",
    )
    first = json.loads(codebound(*base)[1])
    second = json.loads(codebound(*base, "--network", first["weights"])[1])
    assert second["out"] != first["out"]
    assert second["weights_sha256"] != first["weights_sha256"]


def test_flags_go_on_top_of_a_preset(workspace, codebound):
    code, out, _ = codebound(
        "train",
        "linear",
        "--data",
        "sample.npz",
        "--preset",
        "arora18",
        "--epochs",
        "1",
        "--format",
        "json",
        "-q",
    )
    config = json.loads(out)["config"]
    assert code == 0
    assert (config["epochs"], config["learning_rate"], config["momentum"]) == (1, 0.05, 0.9)
    assert config["schedule"] == "step:every=30,multiply=0.5"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("lenet7",), 2, "unknown model 'lenet7'"),
        (("linear", "--preset", "vgg"), 2, "unknown preset 'vgg'"),
        (("linear", "--schedule", "linear"), 2, "unknown schedule 'linear'"),
        (("linear", "--optimizer", "lion"), 2, "`optimizer` must be"),
        (("linear", "--batch-size", "0"), 2, "`batch_size` must be at least 1"),
        (("linear", "--epochs", "-3"), 2, "`epochs` must be at least 0"),
        (("linear", "--lr", "nan"), 2, "`learning_rate` must be"),
        (("linear", "--shuffle-labels", "2"), 2, "`label_shuffle` must be"),
        (("linear", "--device", "cuda:99"), 2, "'cuda:99' is not there"),
        (("linear", "--holdout", "1"), 2, "holdout must be a fraction"),
        (("linear", "--holdout", "0.2", "--test", "sample.npz"), 2, "choose one of them"),
        (("linear", "--augment", "crop"), 1, "augmentation needs images"),
        (("lenet5",), 1, "lenet5"),
        (("linear", "--network", "absent.safetensors"), 1, "absent.safetensors"),
        (("linear", "--network", "nan.safetensors"), 1, "NaN"),
        (("linear", "--network", "small.safetensors"), 1, "shape"),
        (("linear", "--test", "absent.npz"), 1, "absent.npz"),
        (("linear", "--out", "."), 2, "holds no run"),
    ],
)
def test_bad_input_is_one_message_and_an_exit_code(arguments, code, message, workspace, codebound):
    save_file(
        {"linear1.weight": torch.full((3, 5), torch.nan), "linear1.bias": torch.zeros(3)}, "nan.safetensors"
    )
    save_file({"linear1.weight": torch.zeros(3, 4), "linear1.bias": torch.zeros(3)}, "small.safetensors")
    refused(codebound("train", *arguments, "--data", "sample.npz", "-q"), code, message)
    assert not (workspace / "runs").exists()
