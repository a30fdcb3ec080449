"""``codebound sketch`` on small networks: what comes back, what does not and why, and what it costs."""

import csv
import io
import json
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from codebound.certificate.decoding import decode
from codebound.certification import certify
from codebound.request import Run
from codebound.sample.load import load_sample
from codebound_networks.chains.message import decode as read
from codebound_networks.reading.loading import load_model
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_papers.guha23.sketch.codec import Sketched

KEYS = [
    *("name", "rows", "columns", "nnz", "j_r", "j_c", "m1", "m2"),
    *("m_squared_over_nnz", "m_squared_over_dense", "seconds", "status"),
    *("bits_sketch", "bits_sparse", "bits_dense"),
]
MODEL = ("--model", "mlp:widths=60x60", "--input-shape", "1x8x8")


@pytest.fixture
def run(codebound, empty_folder):
    return partial(codebound, "sketch")


def test_layers_come_back_and_cost_more_than_their_non_zeros(run, tmp_path):
    code, out, err = run(*MODEL, "--keep", "0.03", "--format", "json", "--out", "results")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["status"] == "recovered"
    assert [layer["name"] for layer in record["layers"]] == ["linear1", "linear2", "linear3"]
    for layer in record["layers"]:
        assert list(layer) == KEYS
        assert layer["status"] == "recovered"
        numbers = layer["m1"] * layer["m2"]
        assert layer["m_squared_over_nnz"] == numbers / layer["nnz"] > 1.0
        assert layer["m_squared_over_dense"] == numbers / (layer["rows"] * layer["columns"]) < 1.0
        assert layer["bits_sparse"] < layer["bits_sketch"] < layer["bits_dense"]  # G-E18
    assert "times longer than plain sparse coding" in record["finding"]
    assert json.loads((tmp_path / "results" / "result.json").read_text()) == record
    settings = json.loads((tmp_path / "results" / "config.json").read_text())
    assert settings["pruning"] == "LargestWeights(density=0.03, levels=15)"
    code, _, err = run(*MODEL, "--out", "results")
    assert code == 2
    assert "never overwritten" in err


def test_tables_and_rows_say_the_same(run):
    chosen = (*MODEL, "--layer", "linear2", "--m", "40", "--strength", "100", "--degree", "4", "--seed", "3")
    code, out, _ = run(*chosen)
    assert code == 0
    assert "60 x 60" in out
    assert "Sketching is" in out
    code, out, _ = run(*chosen, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert list(row) == KEYS
    assert (row["name"], row["m1"], row["m2"]) == ("linear2", "40", "40")


def test_a_full_row_is_named(run, tmp_path):
    model = load_model("mlp:widths=60x60", input_shape=(1, 8, 8), classes=10)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weights["linear2.weight"][17] = 1.0
    save_file(weights, tmp_path / "full.safetensors")
    code, out, _ = run(*MODEL, "--network", "full.safetensors", "--keep", "0.03", "--format", "json")
    assert code == 0
    record = json.loads(out)
    assert record["status"] == "partly recovered"
    full = record["layers"][1]
    assert full["status"].startswith("not recovered: row 17 has 60 non-zeros, more than half of m")
    assert full["bits_sketch"] is None
    code, out, _ = run(*MODEL, "--network", "full.safetensors", "--layer", "linear2")
    assert code == 0
    assert "row 17" in " ".join(out.split())
    assert "nothing to compare" in out


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (("--m", "many"), "--m is auto or a whole number"),
        (("--m", "0"), "--m is auto or a whole number"),
        (("--keep", "0.1", "--strength", "2"), "not both"),
        (("--keep", "1.5"), "lies in (0, 1]"),
        (("--strength", "-1"), "strength of pruning"),
        (("--levels", "4"), "odd"),
        (("--layer", "linear9"), "The network has: linear1, linear2, linear3"),
        (("--network", "missing.safetensors"), "missing.safetensors"),
    ],
)
def test_bad_input_is_one_message(run, arguments, because):
    code, out, err = run(*MODEL, *arguments)
    assert code in (1, 2)
    assert out == ""
    assert because in err
    assert "Traceback" not in err


@pytest.mark.thorough
def test_a_certificate_of_sketches_is_accepted_by_the_verifier():
    digits = load_sample("digits").select(range(600), role="train")
    model = load_model("mlp:widths=12", input_shape=digits.input_shape, classes=10)
    trained = fit(model, digits, TrainConfig(epochs=12, learning_rate=0.01)).model
    found = certify(
        digits, network=trained, method="sketch", run=Run(effort="quick")
    )  # verified, or it raises
    certificate = found.certificate
    message = read(certificate.bits, input_shape=digits.input_shape, witness=certificate.witness)
    matrices = [code.matrix for code in message.codes.values() if isinstance(code, Sketched)]
    assert matrices
    assert all(np.any(matrix) for matrix in matrices)
    again = decode(certificate).state_dict()
    assert all(torch.equal(again[name], value) for name, value in found.network.state_dict().items())
