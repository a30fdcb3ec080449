"""``codebound audit check`` and ``sign``: what a pipeline and an auditor ask of a file."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture
def ledger(own_cache, codebound):
    y = np.arange(500) % 2
    np.savez("test.npz", x=np.arange(1000.0).reshape(500, 2), y=y)
    np.save("p.npy", np.where(np.arange(500) < 10, 1 - y, y))
    codebound("holdout", "seal", "test.npz")
    codebound("holdout", "look", "test.ledger.jsonl", "p.npy")  # 10 of 500: at most 3.4 %
    return "test.ledger.jsonl"


@pytest.mark.parametrize(
    ("demands", "status", "says"),
    [
        (("--max-error", 0.04), 0, "ACCEPT"),
        (("--max-error", 0.03), 1, "at most 0.03 is not shown: the bound is 0.03"),
        (("--max-error", 0.04, "--delta", 0.01), 1, "at most 0.01 is not shown: delta is 0.05"),
    ],
)
def test_a_pipeline_stops_where_the_error_is_not_shown(ledger, codebound, demands, status, says):
    code, out, _ = codebound("audit", "check", ledger, *demands)
    assert code == status
    assert says in out
    assert out.splitlines()[0] == ("FAIL" if status else "PASS")


def test_the_first_lines_are_the_answer_and_its_reasons(ledger, codebound, tmp_path):
    """A file that is true, and shows less than was asked for, is no success."""
    _, out, _ = codebound("audit", "check", ledger, "--max-error", 0.03)
    first, second, third, *_ = out.splitlines()
    assert (first, third) == ("FAIL", "ACCEPT")
    assert second.startswith("  - an error of at most 0.03 is not shown")
    content = (tmp_path / ledger).read_text().replace('"errors":10', '"errors":9')
    (tmp_path / "forged.jsonl").write_text(content)
    said = codebound("audit", "check", "forged.jsonl", "--max-error", 0.99)[1].splitlines()
    assert said[0] == "FAIL"
    assert "  - the file is refused" in said[: said.index("REFUSE")]
    assert codebound("verify", ledger)[1].startswith("ACCEPT")  # nothing was asked for


def test_test_data_that_refute_a_certificate_are_a_reason(codebound):
    x, y = np.arange(600.0).reshape(300, 2), np.arange(300) % 2
    np.savez("sample.npz", x=np.where(y[:, None] > 0, x, -x), y=y)
    np.savez("test.npz", x=np.where(y[:, None] > 0, x, -x) + 0.5, y=1 - y)
    assert codebound("certify", "sample.npz", "--method", "split", "--out", "cert")[0] == 0
    code, out, _ = codebound(
        "audit", "check", "cert", "--data", "sample.npz", "--max-error", 0.5, "--test", "test.npz"
    )
    assert (code, out.splitlines()[:2]) == (3, ["FAIL", "  - the test data refute it"])


def test_another_loss_shows_nothing(codebound, ledger):
    np.savez("other.npz", x=np.arange(1000.0).reshape(500, 2) + 0.5, y=np.arange(500) % 2)
    codebound("holdout", "seal", "other.npz", "--loss", "class:1")
    codebound("holdout", "look", "other.ledger.jsonl", "p.npy")
    code, out, _ = codebound("audit", "check", "other.ledger.jsonl", "--max-error", 0.5)
    assert (code, "the bound is on the loss class:1" in out) == (1, True)
    assert codebound("audit", "check", "other.ledger.jsonl", "--max-error", 0.5, "--loss", "class:1")[0] == 0


def test_a_certificate_is_checked_with_its_sample(codebound):
    code, _, err = codebound("audit", "check", "c.cbound", "--max-error", 0.5)
    assert (code, "cannot read c.cbound" in err) == (2, True)
    Path("c.cbound").write_bytes(b"CBOUND")
    code, _, err = codebound("audit", "check", "c.cbound", "--max-error", 0.5)
    assert (code, "it is no certificate" in err) == (2, True)


@pytest.fixture
def keys(tmp_path):
    """Two pairs of keys, as PEM files."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for name in ("ours", "theirs"):
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pem").write_bytes(private)
        (tmp_path / f"{name}.pub").write_bytes(public)


def test_a_signature_names_who_answers_for_the_bytes(keys, ledger, codebound, tmp_path):
    code, out, _ = codebound("verify", ledger, "--signed-by", "ours.pub")
    assert (code, f"there is no signature {ledger}.sig" in out) == (1, True)
    assert codebound("audit", "sign", ledger, "--key", "ours.pem")[0] == 0
    assert len((tmp_path / f"{ledger}.sig").read_bytes()) == 64
    assert codebound("verify", ledger, "--signed-by", "ours.pub")[0] == 0
    code, out, _ = codebound("verify", ledger, "--signed-by", "theirs.pub")
    assert code == 1
    assert "was not made for these bytes by theirs.pub" in out


def test_a_signature_does_not_fit_other_bytes(keys, ledger, codebound, tmp_path):
    codebound("audit", "sign", ledger, "--key", "ours.pem")
    other = tmp_path / "other.jsonl"
    other.write_bytes((tmp_path / ledger).read_bytes() + b"\n")
    (tmp_path / "other.jsonl.sig").write_bytes((tmp_path / f"{ledger}.sig").read_bytes())
    assert codebound("verify", "other.jsonl", "--signed-by", "ours.pub")[0] == 1


def test_openssl_agrees(keys, ledger, codebound):
    codebound("audit", "sign", ledger, "--key", "ours.pem")
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "ours.pub", "-rawin", "-in", ledger]
    try:
        done = subprocess.run(
            [*command, "-sigfile", f"{ledger}.sig"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("no openssl here")
    assert "Successfully" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("audit", "sign", "none.cbound", "--key", "ours.pem"), "none.cbound cannot be read"),
        (("audit", "sign", "test.npz", "--key", "ours.pub"), "is no private key"),
        (("verify", "test.ledger.jsonl", "--signed-by", "ours.pem"), "no public key in PEM form"),
    ],
)
def test_keys_and_files_that_are_not_there_say_so(keys, ledger, codebound, arguments, says):
    code, _, err = codebound(*arguments)
    assert code == 2
    assert says in err
