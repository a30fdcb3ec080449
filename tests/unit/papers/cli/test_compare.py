"""``codebound compare``: what it prints, and refusals."""

import csv
import io
import json
import sys

import numpy as np
import pytest
from worlds.samples import cloud_arrays

MODULE = """
from torch import nn

def small():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(x + self.first(x).relu())

def wide():
    return nn.Linear(7, 3)
"""
KEYS = [
    *("name", "reference", "value", "log10", "kind", "subject", "guarantee", "vacuous"),
    *("conditions", "note"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("compare")
    x, y = cloud_arrays(90, features=6, apart=4.0, noise=0.5, in_turn=True)
    np.savez(place / "sample.npz", x=x[:60], y=y[:60])
    np.savez(place / "fresh.npz", x=x[60:], y=y[60:])
    (place / "compared_nets.py").write_text(MODULE)
    return place


@pytest.fixture
def command(folder, monkeypatch, codebound):
    monkeypatch.chdir(folder)
    yield codebound
    sys.modules.pop("compared_nets", None)


@pytest.fixture
def compare(command):
    defaults = (
        "--model",
        "compared_nets:small",
        "--data",
        "sample.npz",
        "--device",
        "cpu",
        "--examples",
        "9",
    )
    return lambda *arguments: command("compare", *defaults, *arguments)


def test_json_rows_have_exactly_the_promised_keys(compare):
    code, out, err = compare("--no-certify", "--test", "fresh.npz", "--format", "json")
    assert code == 0
    record = json.loads(out)
    assert all(list(row) == KEYS for row in record["rows"])
    assert {row["kind"] for row in record["rows"]} == {"certified", "holdout", "test", "published"}
    assert record["settings"]["margin_share"] == 0.05
    assert record["test"]["n"] == 30
    assert "9 of them for noise stability" in err


def test_the_table_has_plain_columns_and_one_sentence(compare):
    code, out, _ = compare("--no-certify")
    assert code == 0
    header = next(line for line in out.splitlines() if "reference" in line)
    assert header.split() == ["bound", "reference", "value", "about", "kind", "conditions"]
    assert out.count("Infinite: divided by a margin of f") == 1  # it is not trained: a line for all of them
    assert "Only certified and hold-out rows are guarantees" in out
    assert "Without a number here" in out


@pytest.mark.thorough
def test_csv_and_files_hold_the_same_rows(compare, tmp_path):
    code, out, _ = compare("--no-certify", "--format", "csv", "--out", tmp_path / "new", "-q")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == KEYS
    files = tmp_path / "new"
    assert sorted(path.name for path in files.iterdir()) == [
        "compare.csv", "compare.html", "compare.json", "compare.svg"
    ]  # fmt: skip
    assert (files / "compare.csv").read_text() == out
    saved = json.loads((files / "compare.json").read_text())
    assert [row["name"] for row in saved["rows"]] == [row["name"] for row in rows]
    page = (files / "compare.html").read_text()
    assert page.count("<svg") == 1
    assert "<script" not in page
    assert (files / "compare.svg").read_text().startswith("<svg xmlns=")


def test_a_residual_network_gets_reasons(compare):
    code, out, _ = compare("--model", "compared_nets:Residual", "--no-certify")
    assert code == 0
    assert "the network is no chain" in out
    assert "Parameter counting" in out


@pytest.mark.thorough
def test_over_epochs_goes_on_where_it_was(command, compare, folder, tmp_path):
    run = tmp_path / "run"
    training = (
        "--data",
        "sample.npz",
        "--epochs",
        "4",
        "--keep-epochs",
        "2",
        "--device",
        "cpu",
        "--out",
        run,
    )
    assert command("train", "compared_nets:small", *training, "-q")[0] == 0
    code, out, err = compare("--over", "epochs", run, "--test", "fresh.npz", "--format", "json")
    assert code == 0
    points = json.loads(out)["epochs"]
    assert [point["epoch"] for point in points] == [2, 4]
    assert all(0.0 <= point["test_error"] <= 1.0 for point in points)
    assert "Parameter counting" in points[0]["log10"]
    assert "goes on" in err
    kept = run / "compare" / "epochs.json"
    record = json.loads(kept.read_text())
    del record["cells"]["4"]
    record["cells"]["2"]["value"]["train_error"] = 0.125  # what is finished is not computed again
    kept.write_text(json.dumps(record))
    code, out, _ = compare("--over", "epochs", run, "--test", "fresh.npz", "-q")
    assert code == 0
    assert "12.50 %" in out
    assert sorted(path.name for path in kept.parent.iterdir()) == ["epochs.csv", "epochs.json", "epochs.svg"]
    assert compare("--over", "epochs", run, "--margin-share", "0.2")[0] == 2  # another run: not mixed
    code, _, err = compare("--over", "epochs", run, "--data", "fresh.npz")
    assert (code, "another sample" in err) == (1, True)


BAD = {
    "an unknown model": (("--model", "lenet7"), 2, "unknown model"),
    "a network of other inputs": (("--model", "compared_nets:wide"), 1, "inputs"),
    "absent weights": (("--network", "absent.safetensors"), 2, "absent.safetensors"),
    "absent initial weights": (("--initial", "absent.safetensors"), 1, "absent.safetensors"),
    "absent data": (("--data", "absent.npz"), 1, "absent.npz"),
    "an absent certificate": (("--certificate", "absent.cbound"), 1, "absent.cbound"),
    "a certificate that is none": (("--certificate", "sample.npz"), 1, "no certificate"),
    "a share of all margins": (("--margin-share", "1"), 2, "margin_share"),
    "no examples": (("--examples", "0"), 2, "examples"),
    "no chunk": (("--chunk-size", "0"), 2, "chunk_size"),
    "no failure probability": (("--delta", "0"), 2, "delta"),
    "two test samples": (("--test", "fresh.npz", "--holdout", "0.2"), 2, "not both"),
    "an unknown device": (("--device", "abacus"), 2, "abacus"),
    "a run that is none": (("--over", "epochs", "absent"), 1, "config.json"),
    "over something else": (("--over", "layers", "absent"), 2, "layers"),
    "weights beside a run": (("--over", "epochs", "absent", "--network", "w.safetensors"), 2, "--network"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message_and_an_exit_code(name, compare, tmp_path):
    arguments, code, message = BAD[name]
    found, text, err = compare("--no-certify", *arguments, "--out", tmp_path / "out")
    assert (found, text) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()
