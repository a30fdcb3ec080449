"""``codebound measure`` as a user runs it: tables, JSON, CSV, files, and refusals."""

import csv
import json
import re
import sys
from functools import partial

import numpy as np
import pytest
from safetensors.torch import save_file
from worlds.commands import refused

from codebound_networks.reading.loading import load_model

MODULE = """
from torch import nn

def small():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(),
        nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3),
    )

def curved():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 3))

def narrow():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

def bare():
    return nn.Flatten()
"""
LAYERS = ["0", "4", "6"]
LAYER_KEYS = {
    "name", "kind", "shape", "frobenius_norm", "spectral_norm", "stable_rank", "alpha", "layer_cushion",
    "interlayer_cushion", "activation_contraction", "interlayer_smoothness",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("measure")
    stream = np.random.default_rng(0)
    np.savez(place / "sample.npz", x=stream.random((40, 1, 4, 4), dtype=np.float32), y=np.arange(40) % 3)
    (place / "measured_nets.py").write_text(MODULE)
    return place


@pytest.fixture
def measure(folder, monkeypatch, codebound):
    monkeypatch.chdir(folder)

    yield partial(
        codebound, "measure", "--model", "measured_nets:small", "--data", "sample.npz", "--device", "cpu"
    )
    sys.modules.pop("measured_nets", None)


def test_json_has_every_measure_of_every_layer(measure):
    code, out, err = measure("--format", "json", "--examples", "20")
    assert code == 0
    assert "20 of 40 examples" in err
    record = json.loads(out)
    assert [row["name"] for row in record["layers"]] == LAYERS
    for row in record["layers"]:
        assert row.keys() >= LAYER_KEYS
        assert row["spectral_norm"]["value"] <= row["spectral_norm"]["upper"]
        assert row["alpha"]["status"] in ("undecided", "no power law")
        assert row["alpha"]["density_exponent"] == pytest.approx(1.0 + row["alpha"]["tail_exponent"])
        assert 0.0 < row["layer_cushion"]["min"] <= row["layer_cushion"]["quantiles"]["0.5"] <= 1.0
    first, middle, last = record["layers"]
    assert first["interlayer_cushion"]["min"] > 0.0
    assert middle["activation_contraction"]["max"] >= 1.0
    assert middle["interlayer_smoothness"]["rho"] > 0.0
    assert last["interlayer_cushion"] is None
    assert record["margins"]["n"] == record["sample"]["measured"] == 20
    assert record["sample"]["n"] == 40
    assert record["settings"]["seed"] == 0
    assert "folded" in record["notes"][0]
    assert "curves" not in record


def test_the_table_explains_every_column(measure):
    code, out, _ = measure("--jacobian", "probes", "--interlayer", "all")
    assert code == 0
    for title in ("Spectra and norms", "Tails of the eigenvalues", "Noise stability", "Margins"):
        assert title in out
    assert "layer cushion: length of the output, divided by the Frobenius norm" in out
    assert re.search(r"undecided: \d+ of 8 values in the tail, fewer than 50", out)
    assert "1 batch norm is folded" in out


def test_csv_has_one_line_per_layer(measure):
    code, out, err = measure("--format", "csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert [row["name"] for row in rows] == LAYERS
    assert float(rows[0]["layer_cushion"]) > 0.0
    assert "margins" in err
    code, out, err = measure("--format", "csv", "--families", "margins", "-q")
    (row,) = csv.DictReader(out.splitlines())
    assert (code, row["n"], err) == (0, "40", "")


@pytest.mark.thorough
def test_files_hold_the_rows_the_curves_and_a_page(measure, tmp_path):
    out = tmp_path / "new"
    code, text, err = measure("--out", out, "--format", "json")
    assert code == 0
    assert str(out / "measure.html") in err
    saved = json.loads((out / "measure.json").read_text())
    curves = saved.pop("curves")
    assert saved == json.loads(text)
    assert list(curves["layers"]) == LAYERS
    page = (out / "measure.html").read_text()
    assert page.count("<svg") >= 6
    assert not re.search(r"https?://|<script", page)
    assert sorted(path.name for path in out.iterdir()) == ["measure.html", "measure.json"]


@pytest.mark.thorough
def test_the_same_command_gives_the_same_files(measure, tmp_path):
    for name in ("a", "b"):
        assert measure("--examples", "15", "--seed", "3", "--out", tmp_path / name, "-q")[0] == 0
    for file in ("measure.json", "measure.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_families_are_chosen(measure):
    code, out, err = measure("--families", "spectra, margins", "--format", "json")
    record = json.loads(out)
    assert code == 0
    assert "Jacobian" not in err
    assert record["network"] is None
    assert record["layers"][0]["stable_rank"] > 0.0
    assert record["layers"][0]["layer_cushion"] is None
    assert record["layers"][0]["alpha"] is None


def test_initial_weights_outliers_and_projected_noise(measure, folder):
    before = load_model("measured_nets:small", input_shape=(1, 4, 4), classes=3, seed=5)
    save_file(before.state_dict(), folder / "initial.safetensors")
    arguments = ("--initial", "initial.safetensors", "--outliers", "0.25", "--smoothness", "project")
    code, out, _ = measure(*arguments, "--format", "json")
    record = json.loads(out)
    assert code == 0
    assert record["layers"][0]["distance_cushion"] > 0.0
    assert record["network"]["left_out"] == 10
    assert "random projections" in record["settings"]["smoothness"]


def test_what_cannot_be_measured_is_said(measure):
    code, out, _ = measure("--model", "measured_nets:curved")
    assert code == 0
    assert "Not measured" in out
    assert "homogeneous" in out
    assert "Spectra and norms" in out
    code, out, _ = measure("--model", "measured_nets:curved", "--biases", "separate", "--format", "json")
    assert code == 0
    assert json.loads(out)["not_measured"] == []


BAD = {
    "an unknown family": (("--families", "spectra,magic"), 2, "magic"),
    "no family": (("--families", ""), 2, "families"),
    "an unknown model": (("--model", "lenet7"), 2, "unknown model"),
    "no layer": (("--model", "measured_nets:bare"), 1, "nothing to measure"),
    "too few outputs": (("--model", "measured_nets:narrow"), 2, "2 outputs"),
    "absent weights": (("--network", "absent.safetensors"), 2, "does not exist"),
    "absent initial weights": (("--initial", "absent.safetensors"), 1, "absent.safetensors"),
    "absent data": (("--data", "absent.npz"), 1, "absent.npz"),
    "no examples": (("--examples", "0"), 2, "examples is at least 1"),
    "an unknown target": (("--interlayer", "some"), 2, "interlayer"),
    "an unknown norm": (("--jacobian", "guess"), 2, "jacobian is"),
    "an unknown noise": (("--smoothness", "pink"), 2, "smoothness is"),
    "an unknown treatment of biases": (("--biases", "none"), 2, "biases"),
    "unknown values": (("--tails-of", "logits"), 2, "logits"),
    "all examples outliers": (("--outliers", "1"), 2, "outliers"),
    "no chunk": (("--chunk-size", "0"), 2, "chunk_size"),
    "an unknown device": (("--device", "abacus"), 2, "abacus"),
    "a network that noise stability refuses": (
        ("--model", "measured_nets:curved", "--families", "stability"), 2, "homogeneous",
    ),
    "an unknown format": (("--format", "yaml"), 2, "yaml"),
}  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message_and_an_exit_code(name, measure, tmp_path):
    arguments, code, message = BAD[name]
    out = tmp_path / "out"
    refused(measure("--out", out, *arguments), code, message)
    assert not out.exists()


def test_results_are_never_overwritten(measure, tmp_path):
    (tmp_path / "kept.txt").write_text("mine")
    refused(measure("--out", tmp_path), 2, "exists already")
