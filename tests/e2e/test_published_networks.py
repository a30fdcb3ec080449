"""Networks of timm, transformers and Lightning: every verb ends with a result, or with a sentence."""

import sys
from pathlib import Path

import pytest
from worlds.commands import script

SCRIPT = Path(__file__).parents[2] / "results" / "networks.py"


@pytest.fixture(scope="module")
def networks():
    module = sys.modules["networks"] = script(SCRIPT)
    module.mend_torchvision()  # before anything imports timm
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet10t", "mobilenetv3_small", "vit", "bert", "gpt2", "llama", "lightning_module"]
)
def test_every_verb_ends_in_words(name, networks, tmp_path):
    pytest.importorskip(networks.NETWORKS[name][0])
    networks.write_samples(tmp_path)
    found = {verb: networks.outcome(name, verb, tmp_path) for verb in networks.VERBS}
    assert not {verb: each.words for verb, each in found.items() if each.kind == "traceback"}
    for verb in ("doctor", "measure", "compare", "compress naive", "certify"):
        assert found[verb].kind == "result", found[verb].words
    assert found["verify"].words == "ACCEPT", found["certify base"].words


def test_a_traceback_is_called_one(networks, tmp_path, monkeypatch):
    networks.write_samples(tmp_path)
    monkeypatch.setattr(networks, "command", lambda *_: 1 / 0)
    assert networks.outcome("bert", "measure", tmp_path).kind == "traceback"
