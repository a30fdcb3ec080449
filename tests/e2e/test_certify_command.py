"""The command line from data to a verified certificate, and what it says when something is wrong."""

import csv
import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner
from worlds.commands import Page, refused
from worlds.samples import cloud_arrays

from codebound.cli.main import app
from codebound_networks.reading.loading import load_model
from codebound_verify.__main__ import main as verify_main

SAMPLE_KEYS = ("n", "rows", "classes", "class_names", "inputs")
KEYS = (
    "bound",
    "errors",
    *SAMPLE_KEYS,
    "code_bits",
    "message",
    "delta",
    "vacuous",
    "verdict",
    "assurance",
    "certificate",
)
MODULE = """
import torch
from torch import nn
import numpy as np

class Skip(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.a, self.norm = nn.Linear(features, 4), nn.BatchNorm1d(4)
        self.b, self.c = nn.Linear(4, classes), nn.Linear(features, classes)

    def forward(self, x):
        return self.b(torch.relu(self.norm(self.a(x)))) + self.c(x)

def skip():
    return Skip(5, 3)

def shaped(input_shape, classes):
    return Skip(input_shape[0], classes)

def narrow():
    return nn.Sequential(nn.Linear(5, 2))

def narrow_skip():
    return Skip(5, 2)

def broken():
    raise RuntimeError("no network today")

def data():
    with np.load("sample.npz") as file:
        return file["x"], file["y"]
"""


def clusters(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = cloud_arrays(n, features=5, noise=0.5, seed=seed)
    return x.clip(-2.0, 4.0), y


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with data, a module of factories, and a trained linear classifier."""
    folder = tmp_path_factory.mktemp("trained")
    for name, n, seed in (("sample", 400, 0), ("test", 100, 1), ("fresh", 200, 2)):
        x, y = clusters(n, seed)
        np.savez(folder / f"{name}.npz", x=x, y=y)
    np.savez(folder / "nolabels.npz", x=clusters(200, 3)[0])
    np.savez(folder / "other.npz", x=np.zeros((3, 4), np.float32), y=np.array([0, 1, 2]))
    np.savez(folder / "more.npz", x=clusters(8, 4)[0], y=np.arange(8))
    (folder / "some_nets.py").write_text(MODULE)
    command = (
        "train",
        "linear",
        "--data",
        "sample.npz",
        "--epochs",
        "20",
        "--lr",
        "0.05",
        "--out",
        "w",
        "-q",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert CliRunner().invoke(app, command).exit_code == 0
    return folder


@pytest.fixture
def workspace(trained, monkeypatch, tmp_path):
    """Commands run in the shared folder; what they write goes to a folder of the test."""
    monkeypatch.chdir(trained)
    yield tmp_path
    sys.modules.pop("some_nets", None)


@pytest.fixture
def certified(workspace, codebound):
    """Certifies the trained classifier by its message; the folder and the printed record."""

    def run(*arguments, model=("linear", "--network", "w/model.safetensors"), effort="quick", method="prune"):
        out, given = workspace / "run", arguments and not arguments[0].startswith("-")
        sample = () if given else ("sample.npz",)
        code, text, err = codebound(
            "certify", *sample, "--model", *model, "--run", f"effort={effort}", "--method", method,
            "--out", out, "--format", "json", *arguments,
        )  # fmt: skip
        assert code == 0, err
        return out, json.loads(text)

    return run


def verdict(capsys, *arguments) -> tuple[int, dict]:
    code = verify_main([*map(str, arguments), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def printed_command(record: dict) -> list[str]:
    program, *arguments = shlex.split(record["verify"])
    assert program == "codebound-verify"
    return arguments


def test_certify_verify_decode_show(certified, codebound, capsys):
    out, record = certified()
    assert tuple(record)[: len(KEYS)] == KEYS
    assert "holdout" not in record
    assert record["verdict"] == "ACCEPT"
    assert record["n"] == 400
    assert record["delta"] == 0.05
    assert record["vacuous"] is False
    assert record["errors"] / 400 <= record["bound"] < 0.4
    assert record["certificate"] == str(out / "certificate.cbound")
    from_there = {"certificate": "certificate.cbound", "verify": record["verify_here"]}
    assert json.loads((out / "result.json").read_text()) == record | from_there
    assert json.loads((out / "config.json").read_text())["effort"] == "quick"

    code, found = verdict(capsys, *printed_command(record))
    assert (code, found["verdict"], found["bound"], found["reasons"]) == (0, "ACCEPT", record["bound"], [])
    assert codebound("verify", record["certificate"], "--data", "sample.npz")[0] == 0

    code, text, err = codebound(
        "export", record["certificate"], "--to", "safetensors", "--out", out / "again.safetensors"
    )
    assert (code, text) == (0, "")
    assert "errs on at most" in err
    g, again = load_file(out / "g.safetensors"), load_file(out / "again.safetensors")
    assert g.keys() == again.keys()
    assert all(torch.equal(g[name], again[name]) for name in g)

    code, text, err = codebound("show", record["certificate"])
    assert code == 0
    assert f"{record['code_bits']} bits" in text
    assert "0.weight" in text
    code, text, _ = codebound("show", record["certificate"], "--format", "json")
    shown = json.loads(text)
    assert sum(bits for _, bits in shown["message"]["ledger"]) == record["code_bits"]
    assert shown["claim"]["bound"] == record["bound"]
    code, text, _ = codebound("show", record["certificate"], "--format", "csv")
    assert text.splitlines()[0] == "part,bits"


def test_the_decoded_network_is_the_certified_one(certified):
    """The errors in the certificate are those of the file that is handed over."""
    out, record = certified()
    g = load_file(out / "g.safetensors")
    with np.load("sample.npz") as file:
        logits = file["x"].astype(float) @ g["0.weight"].numpy().astype(float).T
        if "0.bias" in g:
            logits += g["0.bias"].numpy().astype(float)
        assert int((logits.argmax(1) != file["y"]).sum()) == record["errors"]


STATEMENTS = {
    "test": (("--test", "test.npz"), "C-2", "g"),
    "holdout": (("--holdout", "0.2"), "C-2", "g"),
    "unlabelled": (("--unlabelled", "fresh.npz"), "C-12b", "f"),
    "unlabelled without labels": (("--unlabelled", "nolabels.npz"), "C-12b", "f"),
    "input range": (("--claim", "input-range=-2:4"), "C-12a", "f"),
    "prior fraction": (("--known", "share=0.3"), "C-10", "g"),
    "a sample from a factory": (("some_nets:data",), "C-2", "g"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_is_accepted_by_the_printed_command(name, certified, capsys, monkeypatch):
    if name == "prior fraction":  # ten seconds of training otherwise
        monkeypatch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 1500)
    arguments, statement, subject = STATEMENTS[name]
    _, record = certified(*arguments)
    assert (record["statement"], record["subject"]) == (statement, subject)
    code, found = verdict(capsys, *printed_command(record))
    assert (code, found["reasons"]) == (0, [])
    assert found["bound"] == record["bound"] < 0.6
    if name in ("test", "holdout"):
        n = 100 if name == "test" else 80
        if name == "test":
            assert 0.0 < record["holdout"] < record["bound"]
        else:  # f was trained on all of it
            assert "holdout" not in record
            assert "NO GUARANTEE" in record["holdout_words"]
        assert record["test_errors"] <= n // 10
        assert record["n"] == (400 if name == "test" else 320)


@pytest.mark.thorough
@pytest.mark.parametrize("factory", ["some_nets:skip", "some_nets:shaped"])
def test_a_base_that_is_no_chain_is_certified_by_its_declared_scores(
    factory, workspace, codebound, capsys, monkeypatch
):
    """The verifier runs no code: the scores are a table in the folder."""
    module, weights = load_model(factory, input_shape=(5,), classes=3), workspace / "base.safetensors"
    save_file(module.state_dict(), weights)
    command = ("certify", "--model", factory, "sample.npz", "--method", "scores", "--out")
    declared = ("--known", f"base={weights}", "--known", "says=made by hand")
    code, _, err = codebound(*command, workspace / "g", *declared)
    assert code == 0, err
    record = json.loads((workspace / "g/result.json").read_text())
    assert record["assurance"] == "recounted"
    assert record["errors"] <= record["original_errors"]
    assert "made by hand" in record["declared"]["scores"]
    assert load_file(workspace / "g/scores.safetensors")["scores"].shape == (record["n"], 3)
    with monkeypatch.context() as patch:
        patch.chdir(workspace / "g")  # whose files name each other
        code, found = verdict(capsys, *printed_command(record))
    assert (code, found["reasons"]) == (0, [])


@pytest.mark.thorough
def test_the_standard_effort_trains_and_is_better(certified, monkeypatch):
    """Everything that the standard effort does, with a tenth of its epochs."""
    from codebound_networks.methods import pruned as pruning

    whole = pruning.prune

    def shorter(module, names, sample, plan, progress):
        return whole(module, names, sample, replace(plan, epochs=max(1, plan.epochs // 10)), progress)

    monkeypatch.setattr(pruning, "prune", shorter)
    _, record = certified(effort="standard")
    assert record["bound"] < 0.13
    assert record["messages_tried"] >= 3


@pytest.mark.thorough
def test_tables_and_csv(workspace, codebound, short_searches):
    command = ("certify", "sample.npz", "--run", "effort=quick", "--out")
    code, out, err = codebound(*command, workspace / "a")
    assert code == 0
    assert "certified error" in out
    assert "codebound verify" in err
    code, out, err = codebound(*command, workspace / "b", "--format", "csv", "-q")
    assert (code, err) == (0, "")
    header, row = out.splitlines()
    names = header.split(",")
    assert {"errors", *KEYS} <= {*names}
    (cells,) = csv.reader([row])
    assert len(cells) == len(names)


def test_results_are_never_overwritten(workspace, codebound):
    taken = workspace / "taken"
    taken.mkdir()
    (taken / "mine").touch()
    refused(codebound("certify", "--model", "linear", "sample.npz", "--out", taken), 2, "exists already")
    assert [path.name for path in taken.iterdir()] == ["mine"]


BAD = {
    "an unknown model": (("--model", "lenet7"), 2, "unknown model"),
    "a model for images": (("--model", "lenet5"), 1, "needs images"),
    "a factory that fails": (("--model", "some_nets:broken"), 1, "no network today"),
    "a factory that is not there": (("--model", "some_nets:absent"), 1, "absent"),
    "too few outputs": (("--model", "some_nets:narrow"), 1, "2 outputs"),
    "too few outputs, no chain": (("--model", "some_nets:narrow_skip"), 1, "2 outputs"),
    "absent weights": (("--network", "absent.safetensors"), 2, "does not exist"),
    "weights of another network": (("--model", "mlp", "--network", "w/model.safetensors"), 1, "not those of"),
    "absent data": (("absent.npz",), 1, "absent.npz"),
    "data that are no array": (("some_nets.py",), 1, "some_nets.py"),
    "an unknown method": (("--method", "magic"), 2, "unknown method"),
    "nearly a method": (("--method", "pick"), 2, "Did you mean 'picks'?"),
    "an unknown effort": (("--run", "effort=heroic"), 2, "unknown effort"),
    "delta of zero": (("--delta", "0"), 2, "delta"),
    "delta as a word": (("--delta", "small"), 2, "delta"),
    "delta above one": (("--delta", "1.5"), 2, "delta"),
    "a share of all": (("--known", "share=1"), 2, "between 0 and 1"),
    "a range upside down": (("--claim", "input-range=4:-2"), 1, "must hold every stored value"),
    "a range that the data leave": (("--claim", "input-range=0:1"), 1, "must hold every stored value"),
    "a range of no numbers": (("--claim", "input-range=nan:1"), 1, "must hold every stored value"),
    "two statements at once": (("--claim", "input-range=0:1", "--unlabelled", "fresh.npz"), 2, "one of both"),
    "test inputs of another shape": (("--test", "other.npz"), 1, "shape"),
    "test labels of other classes": (("--test", "more.npz"), 1, "classes"),
    "unlabelled inputs of another shape": (("--unlabelled", "other.npz"), 1, "shape"),
    "a test set and a hold-out": (("--test", "test.npz", "--holdout", "0.2"), 2, "not both"),
    "a hold-out of everything": (("--holdout", "1"), 2, "holdout must be"),
    "an unknown format": (("--format", "yaml"), 2, "yaml"),
    "an unknown option": (("--speed", "9"), 2, "--speed"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message_and_an_exit_code(name, workspace, codebound):
    arguments, code, message = BAD[name]
    out = workspace / "out"
    sample = () if arguments[0].endswith((".npz", ".py")) else ("sample.npz",)
    defaults = ("--model", "linear", *sample, "--run", "effort=quick", "--out", out)
    refused(codebound("certify", *defaults, *arguments), code, message)
    assert not out.exists()


EXPORT = ("--to", "safetensors", "--out")
BAD_FILES = {
    "show: absent": (("show", "absent.cbound"), 2, "does not exist"),
    "show: no certificate": (("show", "sample.npz"), 1, "no certificate"),
    "export: absent": (("export", "absent.cbound", *EXPORT, "g.safetensors"), 2, "does not exist"),
    "export: a folder": (("export", ".", *EXPORT, "g.safetensors"), 1, "cannot be read"),
    "export: no folder for it": (("export", "CERT", *EXPORT, "nowhere/g.safetensors"), 2, "nowhere"),
    "export: exists": (("export", "CERT", *EXPORT, "w/model.safetensors"), 2, "exists already"),
    "export: another format": (("export", "CERT", "--to", "npz"), 2, "npz"),
    "demo: unknown data": (("demo", "--data", "imagenet"), 2, "the demo knows"),
    "verify: absent": (("verify", "absent.cbound", "--data", "sample.npz"), 2, "absent.cbound"),
    "verify: unknown data": (("verify", "CERT", "--data", "nowhere"), 2, "is unknown"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_cannot_be_used(name, certified, codebound):
    _, record = certified()
    arguments, code, message = BAD_FILES[name]
    filled = [record["certificate"] if each == "CERT" else each for each in arguments]
    found, _, err = codebound(*filled)
    assert found == code
    assert message in err
    assert "Traceback" not in err


def test_a_damaged_certificate_is_one_message(certified, codebound):
    out, record = certified()
    content = bytearray(Path(record["certificate"]).read_bytes())
    content[60] ^= 1
    (out / "damaged.cbound").write_bytes(content)
    for command in (("show",), ("export", "--to", "safetensors", "--out", out / "damaged.safetensors")):
        refused(codebound(*command, out / "damaged.cbound"), 1, "damaged or was changed")
    code, text, _ = codebound("verify", out / "damaged.cbound", "--data", "sample.npz")
    assert code == 1
    assert text.startswith("REFUSE")


def test_the_report_shows_verdict_ledger_and_command_and_needs_nothing_else(certified):
    out, record = certified("--test", "test.npz")
    source = (out / "report.html").read_text()
    page = Page(source)
    assert "ACCEPT" in page.text
    assert record["verify_here"] in page.text
    for part in ("form", "setting", "options", "architecture", "0.weight", "end"):
        assert part in page.text
    assert f"{record['code_bits']} bits" in page.text
    assert "errs on at most" in page.text
    assert "hold-out bound" in page.text
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert not {"link", "iframe"} & set(page.tags)
    assert not re.search(r"https?://|@import|url\(", source)


def test_the_report_escapes_what_a_user_named(certified):
    hostile = Path("<script>alert(1)</script>&.npz")
    folder = hostile.parent
    folder.mkdir(parents=True, exist_ok=True)
    hostile.write_bytes(Path("sample.npz").read_bytes())
    out, _ = certified(str(hostile))
    source = (out / "report.html").read_text()
    assert "<script>alert" not in source
    assert "&lt;script&gt;alert" in source
    assert Page(source).tags.count("script") == 1


@pytest.mark.slow
def test_the_demo_is_not_vacuous(workspace, codebound, capsys):
    code, text, _ = codebound("demo", "--out", workspace / "demo", "--format", "json", "-q")
    record = json.loads(text)
    assert code == 0
    assert (record["statement"], record["method"]) == ("C-10", "split")
    bounds = {each["by"]: each["bound"] for each in record["guarantees"]}
    assert list(bounds) == ["split", "message", "hold-out"]
    assert bounds["split"] == record["bound"] < bounds["message"] < 0.5
    assert bounds["hold-out"] == record["holdout"]
    assert verdict(capsys, *printed_command(record))[0] == 0
    for folder in (workspace / "demo", workspace / "demo" / "message"):
        assert "ACCEPT" in (folder / "report.html").read_text()


def test_an_interrupted_command_says_so(monkeypatch, codebound):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("codebound.certificate.file.Certificate.load", interrupted)
    code, _, err = codebound("show", ".")
    assert code == 130
    assert err.endswith("Interrupted.\n")
