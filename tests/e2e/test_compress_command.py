"""``codebound compress`` on small networks: files, numbers, and what it says when something is wrong."""

import csv
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from scipy.stats import beta
from typer.testing import CliRunner
from worlds.commands import refused

from codebound.bits.plain_code import Bits
from codebound.cli.actions import load_samples
from codebound.cli.main import app
from codebound_networks.about_f.models import load_layers
from codebound_networks.codes.modes import decode_tensors
from codebound_papers.compress.catalogue import COMPRESSORS

MODELS = Path(os.environ.get("CODEBOUND_MODELS", Path(__file__).parents[3] / "shared" / "models"))
LAYER_KEYS = {
    "name",
    "shape",
    "kept",
    "dense_bytes",
    "sparse_bytes",
    "coded_bits",
    "spectral_error_measured",
    "spectral_error_predicted",
    "predicted_by",
}
QUICK = {
    "lottery": ("--set", "epochs=1"),
    "imp": ("--set", "epochs=1"),
    "balanced": ("--set", "epochs=8"),
    "conv": ("--set", "numbers=8"),
}
FACTORIES = """
from torch import nn

def half():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10)).half()

def broken():
    raise RuntimeError("no network today")

def bare():
    return nn.Sequential(nn.Linear(5, 3))
"""

pytestmark = pytest.mark.usefixtures("empty_folder")


def decoded(folder: Path) -> dict[str, np.ndarray]:
    """The message, decoded to the file of weights, bit for bit."""
    weights = {}
    with (folder / "message.bin").open("rb") as file:
        for tensor in json.loads((folder / "message.json").read_text())["tensors"]:
            bits = Bits(file.read((tensor["bits"] + 7) // 8), tensor["bits"])
            (code,) = decode_tensors(bits, [tuple(tensor["shape"])])
            weights[tensor["name"]] = code.weights()
        assert file.read() == b""
    return weights


@pytest.mark.few(3)
@pytest.mark.parametrize("method", COMPRESSORS)
def test_every_method_writes_a_message_that_decodes_to_the_weights(method, codebound, tmp_path):
    model = "lenet5" if method == "conv" else "mlp:widths=8"
    arguments = ("--model", model, "--method", method, "--data", "digits", "--examples", 100)
    code, text, err = codebound(
        "compress", *arguments, *QUICK.get(method, ()), "--out", "o", "--format", "json"
    )
    assert code == 0, err
    record = json.loads(text)
    assert record == json.loads((tmp_path / "o" / "result.json").read_text())
    assert all(set(layer) == LAYER_KEYS for layer in record["layers"])
    weights, again = load_file(tmp_path / "o" / "compressed.safetensors"), decoded(tmp_path / "o")
    assert weights.keys() == again.keys()
    assert all(weights[name].tobytes() == again[name].tobytes() for name in weights)
    assert record["coded_bytes"] == (tmp_path / "o" / "message.bin").stat().st_size
    assert record["coded_bits"] <= 8 * record["coded_bytes"]
    assert 0.0 <= record["accuracy_before"] <= 1.0
    assert 0.0 <= record["accuracy_after"] <= 1.0
    assert record["deviation"]["largest"] >= record["deviation"]["mean"] >= 0.0
    config = json.loads((tmp_path / "o" / "config.json").read_text())
    assert config["method"] == method
    assert config["options"] == record["options"]


def test_options_that_are_not_given_spare_the_accuracy(codebound):
    assert codebound("train", "linear", "--data", "digits", "--epochs", 8, "--out", "f", "-q")[0] == 0
    asked = ("compress", "--model", "linear", "--network", "f/model.safetensors", "--method", "mbp")
    code, text, err = codebound(*asked, "--data", "digits", "--out", "mild", "--format", "json")
    assert code == 0, err
    mild = json.loads(text)
    assert mild["accuracy_after"] >= mild["accuracy_before"] - 0.01 - 1e-9
    options = [part for name, value in mild["options"].items() for part in ("--set", f"{name}={value}")]
    code, text, err = codebound(*asked, "--data", "digits", *options, "--out", "b", "--format", "json")
    assert json.loads(text)["coded_bits"] == mild["coded_bits"]
    code, text, _ = codebound(
        *asked, "--data", "digits", "--set", "strength=1", "--out", "c", "--format", "json"
    )
    assert json.loads(text)["accuracy_after"] < mild["accuracy_after"]  # the default of the class


@pytest.mark.thorough
def test_weights_of_the_same_architecture_load_again(codebound, tmp_path):
    arguments = ("--model", "resnet20", "--method", "naive")
    code, _, err = codebound("compress", *arguments, "--out", "o", "-q")
    assert (code, err) == (0, "")
    again = ("--network", "o/compressed.safetensors", "--set", "density=1", "--out", "again")
    assert codebound("compress", *arguments, *again, "-q")[0] == 0
    first, second = (load_file(tmp_path / out / "compressed.safetensors") for out in ("o", "again"))
    assert all((first[name] != 0).sum() == (second[name] != 0).sum() for name in first)


def test_tables_csv_and_a_plain_word_on_speed(codebound):
    command = (
        "compress",
        "--model",
        "lenet5",
        "--input-shape",
        "1x8x8",
        "--method",
        "mbp",
        "--layers",
        "conv1,linear3",
    )
    code, out, err = codebound(*command, "--out", "a")
    assert code == 0
    assert "conv1" in out
    assert "not asked for" in out
    assert "no speed-up is claimed" in err
    assert "CSR" in err
    assert "lemma 4.2 of Guha et al. 2023" in err
    code, out, err = codebound(*command, "--out", "b", "--format", "csv", "-q")
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["name"] for row in rows[:2]] == ["conv1", "linear3"]
    assert {row["reason"] for row in rows[2:]} == {"not asked for", "no weight matrix, coded as it is"}


def test_measuring_on_the_held_out_part(codebound):
    command = (
        "compress",
        "--model",
        "linear",
        "--method",
        "lottery",
        "--set",
        "epochs=1",
        "--data",
        "digits",
    )
    code, out, _ = codebound(*command, "--holdout", "0.2", "--format", "json", "--out", "a")
    assert code == 0
    accuracy = json.loads(out)["accuracy_after"]
    assert accuracy * 360 == pytest.approx(round(accuracy * 360), abs=1e-9)


def test_the_last_line_bounds_how_often_g_answers_unlike_f_on_fresh_inputs(codebound, tmp_path):
    command = ("compress", "--model", "linear", "--method", "naive", "--set", "density=0.5", "--seed", 1)
    code, out, err = codebound(*command, "--data", "digits", "--holdout", 0.2, "--out", "g")
    assert code == 0, err
    found = json.loads((tmp_path / "g/result.json").read_text())["faithful"]
    fresh = load_samples({"data": "digits", "data_folder": None, "test": None, "holdout": 0.2})[1].on("cpu")
    x = next(fresh.chunks(360, torch.float64))[0].flatten(1).numpy()
    g = load_file(tmp_path / "g/compressed.safetensors")
    f = load_layers("linear", (1, 8, 8), 10, None).model.state_dict()
    said = [(x @ np.float64(w["linear1.weight"]).T + np.float64(w["linear1.bias"])).argmax(1) for w in (f, g)]
    differ = int((said[0] != said[1]).sum())
    assert 0 < differ < 360
    assert (found["differ"], found["n"], found["delta"]) == (differ, 360, 0.05)
    assert found["limit"] == pytest.approx(beta.ppf(0.95, differ + 1, 360 - differ), rel=1e-9)
    assert " ".join(err.split()).endswith(found["says"])
    sizes = ("--input-shape", "1x8x8", "--classes", 10)
    np.savez(tmp_path / "twice.npz", x=np.float32(x), y=np.arange(360) % 10)
    twice = ("--data", "twice.npz", "--test", "twice.npz")
    for more in (("--data", "digits"), twice, sizes):  # what may have made f, copies, and nothing
        code, out, err = codebound(*command, *more, "--format", "json")
        assert code == 0, err
        assert json.loads(out)["faithful"] is None


def test_folders_are_numbered_and_never_overwritten(codebound, tmp_path):
    command = ("compress", "--model", "linear", "--method", "naive", "-q")
    assert codebound(*command)[0] == codebound(*command)[0] == 0
    assert (tmp_path / "runs/compress-2/message.bin").is_file()
    refused(codebound(*command, "--out", "runs/compress-2"), 2, "exists already")


def test_a_method_that_can_do_nothing_says_so(codebound):
    code, out, err = codebound("compress", "--model", "linear", "--method", "conv")
    assert code == 0
    assert "no convolution" in out
    assert "No layer was compressed" in err
    assert "no smaller than the original. Nothing runs faster: no speed-up is claimed." in err


def test_the_list_and_the_help_name_every_method(codebound):
    code, out, _ = codebound("compress", "--list")
    assert code == 0
    assert all(name in out for name in COMPRESSORS)
    assert "strength=1.0" in out
    shown = CliRunner().invoke(app, ["compress", "--help"], env={"COLUMNS": "400"}).output
    assert all(name in shown for name in COMPRESSORS)


BAD = {
    "an unknown method": (("--method", "magic"), 2, f"Known: {', '.join(COMPRESSORS)}."),
    "an unknown option": (("--set", "strength=1"), 2, "naive takes density=0.1, levels=31"),
    "an option of the wrong type": (("--set", "levels=few"), 2, "levels is a whole number"),
    "an option outside its range": (("--set", "density=2"), 2, "density"),
    "an even number of levels": (("--set", "levels=4"), 2, "odd"),
    "no data for a lottery": (("--method", "lottery"), 2, "as data"),
    "no data for imp": (("--method", "imp"), 2, "as data"),
    "an unknown layer": (("--layers", "conv9"), 2, "conv9"),
    "an unknown model": (("--model", "lenet7"), 2, "unknown model"),
    "a factory that fails": (("--model", "some_nets:broken", "--input-shape", "5"), 1, "no network today"),
    "a factory of unknown input": (("--model", "some_nets:bare"), 2, "input_shape"),
    "a shape that is none": (("--input-shape", "wide"), 2, "input_shape"),
    "a shape beside data": (("--data", "digits", "--input-shape", "1x8x8"), 2, "leave these out"),
    "absent weights": (("--network", "absent.safetensors"), 2, "absent.safetensors"),
    "absent data": (("--data", "absent.npz"), 1, "absent.npz"),
    "no examples": (("--data", "digits", "--examples", "0"), 2, "--examples"),
    "no convolution": (
        ("--method", "conv", "--model", "some_nets:bare", "--layers", "a", "--input-shape", "5"),
        2,
        "a",
    ),
    "a negative seed": (("--seed", "-1"), 2, "seed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message_and_an_exit_code(name, codebound, tmp_path):
    (tmp_path / "some_nets.py").write_text(FACTORIES)
    arguments, code, message = BAD[name]
    try:
        found, out, err = codebound(
            "compress", "--model", "linear", "--method", "naive", "--out", "o", *arguments
        )
    finally:
        sys.modules.pop("some_nets", None)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "o").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("resnet20", "mbp"),
        *(
            pytest.param(name, method, marks=pytest.mark.slow)
            for name in ("resnet20", "resnet56")
            for method in ("naive", "project", "vector-compress", "vector-project", "lowrank", "heavytail")
        ),
    ],
)
def test_pretrained_resnets(name, method, codebound, tmp_path):
    weights = MODELS / f"{name}_cifar10.safetensors"
    if not weights.is_file():
        pytest.skip(f"{weights.name} is not in {MODELS}; set CODEBOUND_MODELS to the folder that has it")
    arguments = ("--model", name, "--network", weights, "--method", method, "--out", "o", "--format", "json")
    code, text, err = codebound("compress", *arguments)
    assert code == 0, err
    record = json.loads(text)
    assert len(record["layers"]) == int(name.removeprefix("resnet"))
    assert 8 * record["dense_bytes"] > 3 * record["coded_bits"]
    again = decoded(tmp_path / "o")
    for tensor, value in load_file(tmp_path / "o" / "compressed.safetensors").items():
        assert value.tobytes() == again[tensor].tobytes()


def test_a_network_of_another_precision_is_compressed_in_the_one_that_codes_have(codebound, tmp_path):
    (tmp_path / "some_nets.py").write_text(FACTORIES)
    try:
        code, _, err = codebound(
            *("compress", "--model", "some_nets:half", "--input-shape", "1x8x8", "--method", "naive"),
            *("--out", "o"),
        )
    finally:
        sys.modules.pop("some_nets", None)
    assert code == 0, err
    assert "Its weights are float16, and codes decode to float32" in " ".join(err.split())
    assert "float16" in json.loads((tmp_path / "o" / "result.json").read_text())["notes"][-1]
    assert {
        tensor.dtype.name for tensor in load_file(tmp_path / "o" / "compressed.safetensors").values()
    } == {"float32"}
