"""``codebound plan`` as a user runs it: tables, JSON, CSV, a folder, and refusals."""

import csv
import io
import json
from functools import partial

import pytest
import torch
from safetensors.torch import save_file

from codebound.sample.load import load_sample
from codebound_networks.reading.loading import load_model
from codebound_papers.cli.plan import _COLUMNS

MODEL = "mlp:widths=24"
METHODS = ("project", "mbp", "heavytail")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small network that has learnt the digits."""
    place = tmp_path_factory.mktemp("plan")
    digits = load_sample("digits")
    net = load_model(MODEL, input_shape=digits.input_shape, classes=10)
    x, y = digits.on("cpu").batch(torch.arange(digits.n))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    save_file(net.state_dict(), place / "weights.safetensors")
    return place


@pytest.fixture
def plan(folder, monkeypatch, codebound):
    monkeypatch.chdir(folder)
    defaults = ("--model", MODEL, "--network", "weights.safetensors", "--data", "digits", "--device", "cpu")
    return partial(codebound, "plan", *defaults)


@pytest.mark.parametrize("method", METHODS)
def test_json_has_layers_a_verdict_and_what_was_measured(plan, method):
    code, out, err = plan("--method", method, "--examples", 150, "--format", "json")
    assert code == 0
    assert "150 of 1,797 examples" in err
    record = json.loads(out)
    assert [row["name"] for row in record["layers"]] == ["linear1", "linear2"]
    for row in record["layers"]:
        assert _COLUMNS[method].keys() <= row.keys()
        assert row["asked"] > 0.9 * row["weights"]
    assert record["verdict"].endswith(".")
    assert record["guarantee"] == "none"
    assert record["measured"]["method"] == method
    assert record["sample"]["measured"] == record["margin"]["measured"] == 150
    reached = record["measured"]["reached"]
    for row in record["layers"]:
        assert row["reached"] == (reached and reached["stored"][row["name"]])


@pytest.mark.few(2)
@pytest.mark.parametrize("method", METHODS)
def test_the_table_explains_every_column_and_ends_with_the_verdict(plan, method):
    code, out, _ = plan("--method", method, "--examples", 60)
    assert code == 0
    for title, sentence in _COLUMNS[method].values():
        assert f"  {title}: {sentence}" in out
    record = json.loads(plan("--method", method, "--examples", 60, "--format", "json")[1])
    assert record["verdict"] in out
    assert record["measured"]["verdict"] in out
    assert "the theorem asks for" in out
    assert "measurement reaches" in out
    assert "None of these numbers is a guarantee" in out


def test_csv_is_one_line_per_layer(plan):
    code, out, err = plan("--method", "mbp", "--examples", 60, "--format", "csv", "-q")
    assert code == 0
    assert err == ""
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["name"] for row in rows] == ["linear1", "linear2"]
    assert int(rows[0]["weights"]) == 64 * 24


def test_a_folder_holds_the_same_record_with_its_settings(plan, folder):
    _, out, err = plan("--method", "mbp", "--examples", 60, "--format", "json", "--out", "result")
    assert "plan.json" in err
    record = json.loads((folder / "result" / "plan.json").read_text())
    assert record == json.loads(out)
    assert record["settings"]["model"] == MODEL
    assert "quiet" not in record["settings"]
    code, _, err = plan("--method", "mbp", "--out", "result")
    assert code == 2
    assert "exists already" in err


@pytest.mark.thorough
def test_the_seed_names_everything(plan):
    arguments = ("--method", "heavytail", "--examples", 60, "--format", "json")
    assert plan(*arguments)[1] == plan(*arguments)[1]
    assert plan(*arguments)[1] != plan(*arguments, "--seed", 1)[1]


def test_a_tolerance_of_one_accepts_the_smallest_setting(plan):
    record = json.loads(
        plan("--method", "project", "--examples", 60, "--tolerance", 1, "--format", "json")[1]
    )
    assert record["measured"]["reached"]["setting"] == 1 / 64
    assert record["layers"][0]["reached"] == 24


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "magic"), "magic"),
        (("--method", "mbp", "--margin-share", "0.0001"), "positive one"),
        (("--method", "mbp", "--margin-share", "1.5"), "margin_share"),
        (("--method", "mbp", "--delta", "0"), "between 0 and 1"),
        (("--method", "mbp", "--examples", "0"), "examples is at least 1"),
        (("--method", "mbp", "--tolerance", "-1"), "tolerance"),
        (("--method", "mbp", "--biases", "some"), "augmented or separate"),
        (("--method", "mbp", "--network", "nowhere.safetensors"), "nowhere.safetensors"),
    ],
)
def test_bad_input_is_one_message_and_a_code(plan, arguments, message):
    code, out, err = plan(*arguments, "--out", "never")
    assert code in (1, 2)
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_a_refusal_leaves_no_folder(plan, folder):
    plan("--method", "mbp", "--margin-share", "0.0001", "--out", "never")
    assert not (folder / "never").exists()
