"""``codebound plan`` as a function: the record, what a listener hears, and what a folder gets."""

import json

import pytest
import torch
from safetensors.torch import save_file

from codebound.run.errors import UsageError
from codebound.run.progress import Listener
from codebound_networks.reading.loading import load_model
from codebound_papers.plan.command import plan_from_options

MODEL = "mlp:widths=8"


@pytest.fixture
def options(tmp_path):
    net = load_model(MODEL, input_shape=(1, 8, 8), classes=10)
    with torch.no_grad():
        net.linear2.bias[0] = 100.0  # it always says 0
    save_file(net.state_dict(), tmp_path / "weights.safetensors")
    return {
        "model": MODEL,
        "data": "digits",
        "method": "mbp",
        "weights": tmp_path / "weights.safetensors",
        "data_folder": None,
        "delta": 0.05,
        "margin_share": 0.95,
        "tolerance": 1.0,
        "examples": 40,
        "biases": "augmented",
        "device": "cpu",
        "seed": 0,
        "out": None,
        "quiet": False,
    }


def test_the_record_is_what_a_new_folder_gets(options, tmp_path):
    heard = []
    record = plan_from_options(options, out=tmp_path / "new", listener=Listener(note=heard.append))
    assert record == json.loads((tmp_path / "new" / "plan.json").read_text())
    assert heard == ["Measured on 40 of 1,797 examples; a theorem takes the worst of all of them."]
    assert [row["name"] for row in record["layers"]] == ["linear1", "linear2"]
    assert record["measured"]["trials"][0]["setting"] == record["measured"]["reached"]["setting"] == 0.01
    assert record["settings"]["method"] == record["method"] == "mbp"
    assert "quiet" not in record["settings"]


def test_a_refusal_leaves_no_folder(options, tmp_path):
    with pytest.raises(UsageError, match="positive one"):
        plan_from_options(options | {"margin_share": 0.0}, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()
