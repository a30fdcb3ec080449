"""``codebound doctor``: what is installed, and every tensor of a model."""

import csv
import io
import json
import sys

import pytest
from typer.testing import CliRunner

from codebound.cli.main import app
from codebound.run.errors import ModelError, UsageError

NETWORKS = """
import torch
from torch import nn

class Branching(nn.Module):  # torch.fx cannot trace a decision on values
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
    def forward(self, x):
        return self.layer(x) if x.sum() >= 0 else -self.layer(x)

class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, 4))
    def forward(self, x):
        return x @ self.weight.T


class Curved(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.last(self.first(x).tanh())


class Stuck(nn.Dropout):  # drops in evaluation too
    def train(self, mode=True):
        return super().train(True)


def stuck():
    return nn.Sequential(nn.Linear(4, 3), Stuck(), nn.ReLU(), nn.Linear(3, 2))
"""


@pytest.fixture
def doctor(tmp_path, monkeypatch, own_cache):
    (tmp_path / "doctored_nets.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    yield lambda *arguments: CliRunner().invoke(app, ("doctor", *arguments))
    sys.modules.pop("doctored_nets", None)


def test_reports_versions_device_data_and_extras(doctor):
    rows = {row["what"]: row for row in json.loads(doctor("--format", "json").stdout)}
    assert {"codebound", "python", "torch", "cpu", "cuda", "data digits", "extra [vision]"} <= set(rows)
    assert rows["data digits"]["found"]
    assert rows["data mnist"] == {
        "what": "data mnist",
        "found": "not here",
        "note": "codebound data get mnist",
    }


def test_lists_every_tensor_of_a_model(doctor):
    (weight, bias) = csv.DictReader(io.StringIO(doctor("--model", "linear", "--format", "csv").stdout))
    assert (weight["name"], weight["shape"], weight["status"]) == ("linear1.weight", "10x784", "seen")
    assert (bias["name"], bias["elements"]) == ("linear1.bias", "10")
    assert "0 unsupported" in doctor("--model", "linear").stderr


def test_a_model_that_cannot_be_traced_is_run_once(doctor):
    branching = ("--model", "doctored_nets:Branching", "--input-shape", "4")
    assert "15 seen" in doctor(*branching).stderr
    assert isinstance(doctor(*branching[:2]).exception, ModelError)


def test_it_says_how_a_certificate_would_code_the_network(doctor):
    assert (
        "message describes all of it: 1 operations with 7,850 numbers" in doctor("--model", "linear").stderr
    )
    curved = doctor("--model", "doctored_nets:Curved", "--input-shape", "4").stderr
    assert "given as a base, its scores are declared" in curved


def test_a_reason_that_many_tensors_have_is_said_once(doctor):
    said = doctor("--model", "resnet20").stdout
    assert said.count("read by an operation that is no layer") == 1
    assert "carried (bn1.weight and 75 more)" in said
    assert "carried (bn1.num_batches_tracked and 18 more): counts training batches" in said


def test_strict_refuses_what_cannot_be_read(doctor):
    bare = ("--model", "doctored_nets:Bare", "--input-shape", "4", "--strict")
    assert doctor(*bare).exit_code == 0
    refused = doctor("--model", "doctored_nets:Branching", "--input-shape", "4", "--strict").exception
    assert isinstance(refused, ModelError)
    assert "depend on values" in str(refused)


@pytest.mark.parametrize(
    "arguments", [("--strict",), ("--model", "nosuch"), ("--model", "mlp", "--input-shape", "8by8")]
)
def test_wrong_usage_is_refused(doctor, arguments):
    assert isinstance(doctor(*arguments).exception, UsageError)


def test_a_network_that_no_certificate_can_be_about_is_told_however_it_looks(doctor):
    told = doctor("--model", "doctored_nets:stuck", "--input-shape", "4", "--classes", "2").output
    assert "A certificate cannot be about this network: this network draws random numbers" in told
