"""Certificates of the second kind: made, read, run again, and told apart from those of the first kind."""

import json
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import codebound as cb
from codebound.any_learner.rerun_file import RerunCertificate, load_examples, rerun, rerun_certificate
from codebound.run.errors import CertificateError, DataError, FormatError, UsageError
from codebound.run.extensions import import_named

SOURCE = """
from sklearn.neighbors import KNeighborsClassifier
import codebound

def make():
    choices = [{"first": 1}, {"first": 2}]
    return codebound.PickToLearn(KNeighborsClassifier(1), apart=0, batch=4, candidates=choices)

def other():
    return codebound.PickToLearn(KNeighborsClassifier(3), apart=0, first=3)

def none():
    return None
"""
LEARNER = "my_learner:make"
X, Y = (each[:150] for each in load_digits(n_class=3, return_X_y=True))


@pytest.fixture
def module(empty_folder):
    sys.modules.pop("my_learner", None)
    (empty_folder / "my_learner.py").write_text(SOURCE)
    return "my_learner"


@pytest.fixture
def certificate(module):
    return rerun_certificate(import_named(f"{module}:make")().fit(X, Y), f"{module}:make")


@pytest.fixture
def files(certificate, empty_folder):
    """The names of a certificate and its sample."""
    np.savez(empty_folder / "sample.npz", x=X, y=Y)
    return certificate.save(empty_folder / "learned.json"), empty_folder / "sample.npz"


def changed(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_the_learner_does_the_same_again(certificate):
    found = rerun(certificate, X, Y, learner=LEARNER)
    assert found.is_reproduced
    assert found.again == certificate
    assert not found.notes


def test_a_file_says_what_was_written(files, certificate):
    assert RerunCertificate.load(files[0]) == certificate


def test_it_is_told_apart_from_certificates_of_the_first_kind(certificate, files, empty_folder):
    assert "not by the independent program codebound-verify" in str(certificate)
    assert "ACCEPT" not in str(rerun(certificate, X, Y, learner=LEARNER))
    with pytest.raises(UsageError, match=r"\.cbound is for certificates that codebound-verify checks"):
        certificate.save(empty_folder / "learned.cbound")
    with pytest.raises(FormatError):
        cb.Certificate.load(files[0])


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bound", 0.001),
        ("bound", 0.999),
        ("errors", 77),
        ("picks", 1),
        ("n", 10**6),
        ("n_first", 5),
        ("delta", 1e-9),
        ("statement", "C-2"),
        ("candidate", 5),
        ("rounds", 1),
        ("sample_sha256", "0" * 64),
        ("picks_sha256", "0" * 64),
        ("learner_sha256", "0" * 64),
        ("learner", "my_learner:other"),
        ("learner", "os:getcwd"),
        ("claim", "It is never wrong."),
        ("says", "codebound-verify accepts."),
        ("assumptions", []),
    ],
)
def test_what_is_changed_is_not_reproduced(files, field, value, codebound):
    was = json.loads(files[0].read_text())[field]
    assert was != value
    changed(files[0], **{field: value})
    code, out, _ = codebound("verify", "--rerun", files[0], "--data", files[1], "--learner", LEARNER)
    assert code == 1
    assert out.startswith("NOT REPRODUCED\nReasons:\n")


def test_another_sample_is_not_reproduced(certificate):
    found = rerun(certificate, X[1:], Y[1:], learner=LEARNER)
    assert any(each.startswith("sample_sha256 is") for each in found.reasons)
    shuffled = np.random.default_rng(0).permutation(len(X))
    assert not rerun(certificate, X[shuffled], Y[shuffled], learner=LEARNER).is_reproduced


def test_another_source_is_not_run(certificate, empty_folder):
    (empty_folder / "my_learner.py").write_text(SOURCE + "raise SystemExit\n")
    sys.modules.pop("my_learner")
    found = rerun(certificate, X, Y, learner=LEARNER)
    assert not found.is_reproduced
    assert found.again is None
    assert "my_learner" not in sys.modules


def test_a_learner_that_does_not_do_it_again_is_not_reproduced(certificate, monkeypatch):
    made = sys.modules["my_learner"].make
    monkeypatch.setattr(
        sys.modules["my_learner"], "make", lambda: made().set_params(first=0, candidates=None)
    )
    (reason,) = rerun(certificate, X, Y, learner=LEARNER).reasons
    assert reason.startswith("the learner cannot be run")


def test_versions_that_differ_are_noted(certificate):
    certificate.versions["numpy"] = "0.1"
    found = rerun(certificate, X, Y, learner=LEARNER)
    assert found.is_reproduced
    assert "numpy is '0.1' there" in found.notes[0]


def test_the_command_says_so_in_words_of_its_own(files, codebound):
    code, out, err = codebound("verify", "--rerun", files[0], "--data", files[1], "--learner", LEARNER)
    assert (code, err) == (0, "")
    assert out.startswith("REPRODUCED by running the learner again\nWith probability at least 1 - 0.05")
    assert "Cannot be checked, and has to be true:" in out
    code, out, _ = codebound(
        "verify", f"--rerun={files[0]}", "--data", files[1], "--learner", LEARNER, "--format", "json"
    )
    assert code == 0
    assert json.loads(out)["is_reproduced"]


def test_the_command_tells_what_it_needs(files, codebound):
    assert codebound("verify", "--rerun", files[0])[0] == 2
    code, _, err = codebound("verify", "--rerun", files[0], "--data", files[1])
    assert code == 2
    assert "the file names my_learner:make" in err
    code, _, err = codebound("verify", "--rerun", files[1], "--data", files[1], "--learner", LEARNER)
    assert code == 1
    assert "cannot be read" in err


@pytest.mark.parametrize("broken", [{"kind": "codebound rerun 2"}, {"more": 1}, {"n": "many"}, {"n": True}])
def test_files_of_another_form_are_refused(files, broken):
    changed(files[0], **broken)
    with pytest.raises(FormatError):
        RerunCertificate.load(files[0])


def test_a_factory_with_other_settings_is_refused(module):
    model = cb.PickToLearn(KNeighborsClassifier(1), apart=0, batch=7).fit(X, Y)
    with pytest.raises(CertificateError, match=r"other settings: .*batch"):
        rerun_certificate(model, f"{module}:make")
    with pytest.raises(UsageError, match=r"must make a codebound\.PickToLearn"):
        rerun_certificate(model, f"{module}:none")
    with pytest.raises(UsageError, match="failed with"):
        rerun_certificate(model, f"{module}:nowhere")


def test_samples_come_from_names_files_and_factories(empty_folder):
    for found, known in zip(load_examples("digits"), load_digits(return_X_y=True), strict=True):
        np.testing.assert_array_equal(found, known)
    (empty_folder / "my_data.py").write_text("def pair(): return [[1.0]], [2.5]\ndef single(): return 1\n")
    assert load_examples("my_data:pair") == ([[1.0]], [2.5])
    with pytest.raises(DataError, match="pair"):
        load_examples("my_data:single")
    with pytest.raises(DataError, match="cannot be read"):
        load_examples("missing.npz")
