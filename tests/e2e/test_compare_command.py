"""``codebound train``, ``certify`` and ``compare`` on files, as a user runs them."""

import json
import subprocess
import sys

import numpy as np

MODEL = "mlp:widths=16"
DATA = ("--data", "sample.npz", "--test", "fresh.npz", "--device", "cpu")


def codebound(folder, *arguments):
    command = [sys.executable, "-c", "from codebound.cli.main import main; main()", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_network_is_trained_certified_and_compared(tmp_path):
    y = np.arange(600) % 3
    x = 4.0 * np.eye(3, 8)[y] + np.random.default_rng(0).normal(size=(600, 8))
    np.savez(tmp_path / "sample.npz", x=x[:400].astype(np.float32), y=y[:400])
    np.savez(tmp_path / "fresh.npz", x=x[400:].astype(np.float32), y=y[400:])
    codebound(tmp_path, "train", MODEL, *DATA, "--epochs", "6", "--lr", "0.05", "--out", "f", "-q")
    network = ("--model", MODEL, "--weights", "f/model.safetensors", *DATA)
    codebound(
        tmp_path, "certify", *network, "--method", "lowrank", "--effort", "quick", "--out", "cert", "-q"
    )
    given = ("--certificate", "cert/certificate.cbound", "--examples", "20", "--like-for-like")
    record = json.loads(
        codebound(tmp_path, "compare", *network, *given, "--out", "table", "--format", "json")
    )
    assert record == json.loads((tmp_path / "table/compare.json").read_text())
    rows = record["rows"]
    bound = json.loads((tmp_path / "cert/result.json").read_text())["bound"]
    certified = [row for row in rows if row["reference"] == "C-2"]
    assert [(row["name"], row["value"]) for row in certified] == [("Certificate (certificate.cbound)", bound)]
    assert sum(row["kind"] == "published" for row in rows) >= 30
    assert all(row["guarantee"] is (row["kind"] in ("certified", "holdout")) for row in rows)
    errors = {row["subject"]: row["value"] for row in rows if row["kind"] == "test"}
    assert errors["f"] < 0.15
