"""``codebound train``, ``certify`` and ``compare`` on the embedded digits, as a user runs them."""

import json
import subprocess
import sys

import pytest


def codebound(folder, *arguments):
    command = [sys.executable, "-c", "from codebound.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("compare")
    train = (
        "train",
        "mlp:widths=16",
        "--data",
        "digits",
        "--holdout",
        "0.2",
        "--epochs",
        "30",
        "--lr",
        "0.01",
    )
    done = codebound(place, *train, "--keep-epochs", "15", "--device", "cpu", "--out", "f", "-q")
    assert done.returncode == 0, done.stderr
    return place


DATA = ("--model", "mlp:widths=16", "--data", "digits", "--holdout", "0.2")


def test_a_certificate_is_made_compared_and_given_again(folder):
    weights = ("--weights", "f/model.safetensors")
    made = codebound(folder, "certify", *DATA, *weights, "--effort", "quick", "--out", "cert", "-q")
    assert made.returncode == 0, made.stderr
    given = ("--certificate", "cert/certificate.cbound", "--examples", "50", "--like-for-like")
    done = codebound(folder, "compare", *DATA, *weights, *given, "--out", "table", "--format", "json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record == json.loads((folder / "table/compare.json").read_text())
    rows = record["rows"]
    bound = json.loads((folder / "cert/result.json").read_text())["bound"]
    assert [row["value"] for row in rows if row["reference"] == "C-2"] == [bound]
    assert sum(row["kind"] == "published" for row in rows) >= 30
    assert all(row["guarantee"] is (row["kind"] in ("certified", "holdout")) for row in rows)
    errors = {row["subject"]: row["value"] for row in rows if row["kind"] == "test"}
    assert errors["f"] < 0.15

    other = codebound(folder, "compare", *DATA[:4], *weights, *given)
    assert other.returncode == 1
    assert "refused for the sample digits" in other.stderr
    assert other.stdout == ""


def test_bounds_along_the_training(folder):
    done = codebound(
        folder, "compare", *DATA, "--over", "epochs", "f", "--examples", "50", "--format", "csv", "-q"
    )
    assert done.returncode == 0, done.stderr
    header, *lines = done.stdout.splitlines()
    assert header.startswith("epoch,train_error,test_error,gamma,least_margin,log10 ")
    assert [line.split(",")[0] for line in lines] == ["15", "30"]
