"""The folder of a certificate, written by the library: whole, checkable, never over another one."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file
from worlds.bright_rows import images, solved
from worlds.requests import request

from codebound.certificate.file import Certificate
from codebound.certificate.verification import options_of, verify_folder
from codebound.certification import certify
from codebound.request import Claim, Run
from codebound.run.errors import UsageError
from codebound.sample.load import load_sample
from codebound_verify.__main__ import main as verify

SAMPLE = images()
FILES = {"certificate.cbound", "g.safetensors", "sample.npz", "config.json", "result.json", "report.html"}
FILES |= {"README.md"}


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)


def certified(**asked):
    return certify(SAMPLE, network=solved().build(), method="prune", **request(effort="quick", **asked))


CASES = {
    "about g": ({}, set()),
    "after a split": ({"share": 0.3}, {"base.safetensors"}),
    "on a domain": ({"input_range": (0, 255)}, {"f.safetensors"}),
    "by disagreement": ({"unlabelled": images(80, 1, "unlabelled")}, {"f.safetensors", "unlabelled.npz"}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_folder_has_all_that_the_verifier_needs(name, tmp_path, capsys):
    asked, files = CASES[name]
    found = certified(**asked)
    saved = found.save_to(tmp_path / "new" / "folder")
    assert {path.name for path in saved.folder.iterdir()} == FILES | files
    assert Certificate.load(saved.folder / "certificate.cbound") == found.certificate
    command, *arguments = shlex.split(saved.result["verify"])
    assert command == "codebound-verify"
    assert verify(arguments) == 0
    assert "ACCEPT" in capsys.readouterr().out
    from_there = {"certificate": "certificate.cbound", "verify": saved.result["verify_here"]}
    assert json.loads((saved.folder / "result.json").read_text()) == saved.result | from_there


def test_settings_and_result_say_what_was_asked_and_found(tmp_path):
    found = certified(test=images(60, 2, "test"), delta=0.1, seed=3)
    saved = found.save_to(tmp_path / "one")
    settings = json.loads((tmp_path / "one" / "config.json").read_text())
    assert settings["data"] == "rows"
    assert (settings["method"], settings["effort"], settings["delta"]) == ("prune", "quick", 0.1)
    assert (settings["loss"], settings["on"], settings["seed"]) == ("wrong", "all", 3)
    assert saved.result["holdout"] == found.holdout.value
    assert saved.result["test_errors"] == found.confrontation.test.errors
    assert saved.sentence == found.certificate.sentence
    page = (tmp_path / "one" / "report.html").read_text()
    assert "for rows" in page
    assert f"{found.confrontation.test.errors} errors on 60 test examples" in page
    weights = load_file(tmp_path / "one" / "g.safetensors")
    for name, tensor in found.network.state_dict().items():
        assert np.array_equal(weights[name], tensor.numpy())


def test_the_sample_is_in_the_folder_unless_the_verifier_knows_its_name(tmp_path):
    unknown = certified().save_to(tmp_path / "a", data="some.module:factory", weights="model.safetensors")
    assert (tmp_path / "a" / "sample.npz").exists()
    assert (tmp_path / "a" / "model.safetensors").exists()
    assert "some.module:factory" not in unknown.result["verify"]
    assert "--data digits" in certified().save_to(tmp_path / "b", data="digits").result["verify"]
    assert not (tmp_path / "b" / "sample.npz").exists()


def places_in(folder, *places):
    """Files of a folder that name a place outside it."""
    return [
        (path.name, place)
        for path in sorted(folder.rglob("*"))
        for place in places
        if path.is_file() and str(place).encode() in path.read_bytes()
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_here", [True, False])
def test_no_file_of_a_folder_says_where_it_was_made(name, is_here, tmp_path, monkeypatch):
    home, work = tmp_path / "elfriede", tmp_path / "elfriede" / "work"
    (work / "data").mkdir(parents=True)
    monkeypatch.chdir(work if is_here else tmp_path)
    np.savez(work / "data" / "rows.npz", x=SAMPLE.x, y=SAMPLE.y)
    if not is_here:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
    data = str(work / "data" / "rows.npz")
    settings = {"model": "linear", "data": data, "weights": [str(home / "f.safetensors")]}
    found = certified(**CASES[name][0])
    saved = found.save_to(work / "out", settings=settings, data=data)
    assert places_in(saved.folder, tmp_path, "elfriede") == []
    assert (work / "out" / "sample.npz").exists()
    monkeypatch.chdir(saved.folder)
    _, *asked = shlex.split(saved.result["verify_here"])
    assert verify(asked) == 0


def test_results_are_never_overwritten(tmp_path):
    found = certified()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    with pytest.raises(UsageError, match="never overwritten"):
        found.save_to(tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="never overwritten"):
        found.save_to(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    found.save_to(tmp_path / "empty")


def test_what_ran_out_of_time_asks_for_more():
    found = replace(certified(), is_out_of_time=True)
    vacuous = replace(found.certificate, claim=replace(found.certificate.claim, vacuous=True))
    assert "give more minutes" in replace(found, certificate=vacuous).result["advice"]


@pytest.mark.parametrize("method", ["split", "picks", "scores"])
def test_a_folder_is_verified_from_elsewhere_and_needs_nothing_besides(method, tmp_path, monkeypatch):
    """Clusters, groups and tables of scores lie in the folder too."""
    numbers = np.arange(SAMPLE.n, dtype=np.int64)
    claim = Claim(clusters=numbers // 2)
    if method == "picks":
        claim = Claim(groups=numbers % 3, copies="independent")
    saved = certify(SAMPLE, method=method, claim=claim, run=Run(effort="quick")).save_to(tmp_path / "here")
    moved = saved.folder.rename(tmp_path / "there")
    monkeypatch.chdir("/")
    assert verify([str(moved)]) == 0
    asked = json.loads((moved / "result.json").read_text())
    assert verify_folder(moved, options_of(moved, asked))["verdict"] == "ACCEPT"
    assert (moved / "scores.safetensors").exists() is (method == "scores")
    assert (moved / "picks.csv").exists() is (method == "picks")


def test_a_sample_that_is_large_is_written_as_arrays_that_stay_on_the_disk(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("codebound.report.folder._IN_MEMORY", SAMPLE.x.nbytes - 1)
    saved = certify(SAMPLE, method="constant").save_to(tmp_path / "large")
    assert sorted(each.name for each in (saved.folder / "sample").iterdir()) == ["x.npy", "y.npy"]
    assert load_sample(str(saved.folder / "sample")).sha256 == SAMPLE.sha256
    _, *arguments = shlex.split(saved.result["verify"])
    assert (verify(arguments), capsys.readouterr().out.splitlines()[0]) == (0, "ACCEPT, replayed")
    assert "[sample](sample)" in (saved.folder / "README.md").read_text()
