"""``codebound audit report``: the page for an auditor, from a certificate that really was issued."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from codebound.audit.dossier import _QUESTIONS, PROFILES, _items, _test
from codebound.certificate.file import Certificate


@pytest.fixture(scope="module")
def cert(tmp_path_factory):
    """A folder as ``certify`` writes it, with its sample."""
    import codebound as cb
    from codebound.sample.arrays import from_arrays

    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype("f4")
    sample = from_arrays(x, (x[:, 0] > 0).astype(int), name="made", role="train")
    folder = tmp_path_factory.mktemp("made") / "cert"
    cb.certify(sample, claim=cb.Claim(by_class=True), run=cb.Run(effort="quick")).save_to(folder)
    return folder


@pytest.fixture
def filled(cert, codebound):
    """The author's words are filled in; the page is made anew."""
    words = cert / "dossier.toml"
    words.unlink(missing_ok=True)
    code, _, err = codebound("audit", "report", cert)
    assert code == 2
    assert "fill in" in err
    words.write_text(re.sub('= ""', '= "said <b>so</b>"', words.read_text()))
    return cert


@pytest.mark.few(2)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_page_has_everything_and_the_numbers_of_requirements(filled, codebound, profile):
    code, _, err = codebound("audit", "report", filled, "--profile", profile)
    assert code == 0, err
    page = (filled / "dossier.html").read_text()
    assert "said &lt;b&gt;so&lt;/b&gt;" in page
    assert "errs on at most" in page
    assert "codebound-verify" in page
    assert "class 1: " in page
    for name, requirement in PROFILES[profile].items():
        assert name == "surrogate" or requirement.split(":")[0] in page


def test_a_claim_about_the_network_that_was_given_names_its_surrogate(filled):
    certificate = Certificate.load(filled / "certificate.cbound")
    result = json.loads((filled / "result.json").read_text())
    said = dict.fromkeys([*_QUESTIONS, "looks", "verifier", "versions"], "said")
    for subject in "gf":
        about = replace(certificate, claim=replace(certificate.claim, subject=subject))
        told = [text for _, _, text in _items(about, result, said)]
        assert any("through the compressed network g" in text for text in told) is (subject == "f")


def test_the_command_that_signs_can_be_copied_whatever_the_folder_is_called(filled, codebound, tmp_path):
    folder = shutil.copytree(filled, tmp_path / "a (b); c")
    code, _, err = codebound("audit", "report", folder)
    assert code == 0, err
    assert shlex.split(err.partition("Sign it: ")[2])[:4] == [
        "codebound",
        "audit",
        "sign",
        f"{folder}/dossier.html",
    ]


def test_counts_of_the_author_are_marked_and_their_limit_is_computed_anew(filled, codebound, tmp_path):
    folder = shutil.copytree(filled, tmp_path / "told")
    told = json.loads((folder / "result.json").read_text())
    told |= {"test_errors": 0, "test_n": 360, "test_copies_in_sample": 0, "holdout": 0.0002, "alarm": ""}
    (folder / "result.json").write_text(json.dumps(told))
    code, _, err = codebound("audit", "report", folder)
    assert code == 0, err
    page = unescape((folder / "dossier.html").read_text())
    assert "by the author's count, which the second program was not asked about: 0 errors on 360" in page
    assert "hold-out bound 0.83 %" in page  # 1 - 0.05**(1/360)
    assert "0.02 %" not in page
    certificate = Certificate.load(folder / "certificate.cbound")
    certificate = replace(certificate, claim=replace(certificate.claim, bound=0.1))
    assert "not contradicted" in _test(certificate, told)
    assert "REFUTED BY TEST DATA" in _test(
        certificate, told | {"test_errors": 90}
    )  # of which he said nothing


def test_empty_words_are_asked_for(filled, codebound):
    words = filled / "dossier.toml"
    words.write_text(words.read_text().replace('intended_use = "said <b>so</b>"', 'intended_use = " "'))
    code, _, err = codebound("audit", "report", filled)
    assert code == 2
    assert "says nothing about intended_use" in err


def test_a_ledger_stands_beside_it_with_its_verdict(filled, codebound, tmp_path, monkeypatch):
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    np.savez("test.npz", x=np.arange(100.0).reshape(50, 2), y=np.arange(50) % 2)
    np.save("p.npy", np.arange(50) % 2)
    codebound("holdout", "seal", "test.npz")
    codebound("holdout", "look", "test.ledger.jsonl", "p.npy")
    codebound("audit", "report", filled, "--ledger", "test.ledger.jsonl")
    page = (filled / "dossier.html").read_text()
    assert (
        "1 statement, all paid for; smallest bound 7.12 %" in page
    )  # 1 - (0.05/2)**(1/50): a bit for the seal
    forged = tmp_path / "test.ledger.jsonl"
    forged.write_text(forged.read_text().replace('"delta":0.05', '"delta":0.01'))
    codebound("audit", "report", filled, "--ledger", "test.ledger.jsonl")
    assert "REFUSED: Ledger: line 2 does not follow" in (filled / "dossier.html").read_text()


def test_a_certificate_that_is_refused_today_shows_nothing(filled, codebound):
    kept = (filled / "sample.npz").read_bytes()
    try:
        np.savez(filled / "sample.npz", x=np.zeros((300, 4), "f4"), y=np.zeros(300, int))
        code, _, err = codebound("audit", "report", filled)
    finally:
        (filled / "sample.npz").write_bytes(kept)
    assert code == 1
    assert "REFUSES" in err
    assert "nothing was shown" in (filled / "dossier.html").read_text()


def test_what_is_no_folder_of_certify_says_so(codebound, tmp_path):
    assert codebound("audit", "report", tmp_path)[0] == 1
    assert "plain, easa, eu-ai-act" in codebound("audit", "report", tmp_path, "--profile", "faa")[2]
