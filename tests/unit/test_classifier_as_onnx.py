"""The network as ONNX answers as the module does; without the packages a sentence says what is missing."""

import json
import stat
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from worlds.bright_rows import images, solved

from codebound.certification import certify
from codebound.classifier import Classifier, load_classifier
from codebound.known.encoder import Encoder
from codebound.request import Run
from codebound.run.errors import UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.load import load_sample

SAMPLE = replace(images(), class_names=("top", "middle", "low"))
PICTURES = load_sample("digits").select(range(300), role="train")


def table(dtype):
    x = np.random.default_rng(0).normal(size=(120, 3)).astype(dtype) * 5.0
    return from_arrays(x, (x[:, 0] + x[:, 1] > 0).astype(int), name="sums")


def encoded():
    plane = torch.randn(64, 40, generator=torch.Generator().manual_seed(0))
    return Encoder("plane", lambda x: (x.flatten(1) @ plane).relu(), "0" * 64).table(PICTURES)


def picked(sample):
    return certify(sample, method="picks", run=Run(effort="quick"))


CASES = {
    "message": (
        SAMPLE,
        lambda: certify(SAMPLE, network=solved().build(), method="prune", run=Run(effort="quick")),
    ),
    "pictures": (PICTURES, lambda: picked(PICTURES)),
    "table in float32": (table(np.float32), lambda: picked(table(np.float32))),
    "table in float64": (table(np.float64), lambda: picked(table(np.float64))),
    "behind an encoder": (encoded(), lambda: picked(encoded())),
}


TIERS = {"message": (), "table in float64": pytest.mark.thorough}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=TIERS.get(name, pytest.mark.slow)) for name in CASES]
)
def test_the_answers_are_those_of_the_module(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    sample, make = CASES[name]
    saved = make().save_to(tmp_path / "cert")
    g = load_classifier(saved.folder)
    file = g.save_onnx(tmp_path / "g.onnx")
    assert stat.S_IMODE(file.stat().st_mode) & 0o044 == 0o044  # others may read it
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (stored,) = session.get_inputs()
    assert stored.name == "stored"
    given = sample.x if stored.type != "tensor(float)" else sample.x.astype(np.float32)
    scores, label = session.run(["scores", "label"], {"stored": given})
    wanted = g(torch.from_numpy(given))
    np.testing.assert_allclose(scores, wanted.numpy(), rtol=1e-5, atol=1e-5)
    assert np.array_equal(label, wanted.argmax(dim=1).numpy())
    (alone,) = session.run(["label"], {"stored": given[:1]})
    assert alone[0] == label[0]
    known = session.get_modelmeta().custom_metadata_map
    assert known["guarantee"] == saved.sentence
    assert json.loads(known["classes"]) == list(g.class_names or range(sample.classes))
    assert known.get("encoder", "") == ("plane" if name == "behind an encoder" else "")


def test_behind_an_encoder_it_is_said_what_inputs_are(tmp_path):
    saved = picked(encoded()).save_to(tmp_path / "cert")
    g = load_classifier(saved.folder)
    assert g.encoder == "plane"
    assert len(g.predict(torch.from_numpy(encoded().x[:2]))) == 2
    for given in (torch.from_numpy(PICTURES.x[:2]), ["a text"]):
        with pytest.raises(UsageError, match=r"rows of the encoder plane, .*load_encoder\(\"plane\"\)"):
            g.predict(given)


def test_what_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match=r"pip install onnx onnxscript\.$"):
        Classifier(nn.Linear(2, 2), None, input_shape=(2,), classes=2).save_onnx(tmp_path / "g.onnx")
    assert list(tmp_path.iterdir()) == []
