"""``codebound train``, ``certify`` and ``compare`` on files, as a user runs them."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

MODEL = "mlp:widths=16"
DATA = ("--data", "sample.npz", "--test", "fresh.npz", "--device", "cpu")


pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.mark.thorough
def test_a_network_is_trained_certified_and_compared(codebound, tmp_path):
    y = np.arange(600) % 3
    x = 4.0 * np.eye(3, 8)[y] + np.random.default_rng(0).normal(size=(600, 8))
    np.savez(tmp_path / "sample.npz", x=x[:400].astype(np.float32), y=y[:400])
    np.savez(tmp_path / "fresh.npz", x=x[400:].astype(np.float32), y=y[400:])
    codebound("train", MODEL, *DATA, "--epochs", "6", "--lr", "0.05", "--out", "f", "-q")
    network = ("--model", MODEL, "--network", "f/model.safetensors")
    codebound(
        "certify",
        "sample.npz",
        *network,
        "--test",
        "fresh.npz",
        "--method",
        "lowrank",
        "--run",
        "effort=quick",
        "--out",
        "cert",
        "-q",
    )
    given = ("--certificate", "cert/certificate.cbound", "--examples", "20", "--like-for-like")
    code, out, err = codebound("compare", *network, *DATA, *given, "--out", "table", "--format", "json")
    assert code == 0, err
    record = json.loads(out)
    assert record == json.loads((tmp_path / "table/compare.json").read_text())
    rows = record["rows"]
    bound = json.loads((tmp_path / "cert/result.json").read_text())["bound"]
    certified = [row for row in rows if row["reference"] == "C-2"]
    assert [(row["name"], row["value"]) for row in certified] == [("Certificate (certificate.cbound)", bound)]
    assert sum(row["kind"] == "published" for row in rows) >= 30
    assert all(row["guarantee"] is (row["kind"] in ("certified", "holdout")) for row in rows)
    errors = {row["subject"]: row["value"] for row in rows if row["kind"] == "test"}
    assert errors["f"] < 0.15


@pytest.mark.thorough
def test_an_engine_and_what_certificates_were_made_with(codebound):
    y = np.arange(300) % 3
    x = (4.0 * np.eye(3, 8)[y] + np.random.default_rng(0).normal(size=(300, 8))).astype(np.float32)
    np.savez("sample.npz", x=x[:200], y=y[:200])
    np.savez("fresh.npz", x=x[200:], y=y[200:])
    for name, scale in (("before", 1.0), ("f", 2.0)):
        tensors = {"linear1.weight": np.eye(3, 8), "linear1.bias": np.ones(3)}
        save_file({key: (scale * t).astype(np.float32) for key, t in tensors.items()}, f"{name}.safetensors")
    network = ("--model", "linear", "--network", "f.safetensors", "--format", "json")
    for method, more, out in (
        ("naive", ("--known", "base=before.safetensors", "--known", "says=made by hand"), "from-base"),
        ("lowrank", ("--unlabelled", "fresh.npz"), "about-f"),
    ):
        code, _, error = codebound(
            *("certify", "sample.npz", *network, "--run", "effort=quick"),
            *("--method", method, *more, "--out", out, "-q"),
        )
        assert code == 0, error
    given = (
        *("--certificate", "from-base/certificate.cbound", "--base", "from-base/base.safetensors"),
        *("--certificate", "about-f/certificate.cbound", "--unlabelled", "fresh.npz"),
        *("--examples", "20", "--chunk-size", "64", "-q"),
    )
    alone, shared = (
        json.loads(codebound("compare", *network, "--data", "sample.npz", *given, *engine)[1])
        for engine in (("--device", "cpu"), ("--engine", "local", "--workers", "2"))
    )
    assert shared == alone
    references = [row["reference"] for row in alone["rows"] if row["kind"] == "certified"]
    assert sorted(references) == ["C-12b", "C-12c", "C-2", "C-7"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workers", "2"), "belong to an engine"),
        (("--engine", "abacus"), "an engine is local or ray"),
        (("--engine", "local", "--address", "auto"), "give the engine ray too"),
        (("--over", "epochs", "run", "--base", "b.safetensors"), "leave out"),
        (("--base", "b.safetensors"), "give the certificate too"),
    ],
)
def test_what_does_not_go_together_is_said(codebound, arguments, message):
    np.savez("sample.npz", x=np.ones((6, 4), np.float32), y=np.arange(6) % 2)
    save_file({"a": np.ones(1, np.float32)}, "b.safetensors")
    code, _, error = codebound("compare", "--model", "linear", "--data", "sample.npz", *arguments)
    assert code == 2
    assert message in error
