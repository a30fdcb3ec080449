"""How the second program is asked: a command for people, and the same as data for programs."""

import json
from pathlib import Path

import numpy as np
import pytest
from worlds.outcomes import issued

from codebound.bits.plain_code import FIRST_TABLE
from codebound.certificate.verification import list_commands, options_of, verify, verify_folder
from codebound.run.errors import CertificateError, FormatError, UsageError
from codebound_verify.__main__ import main


@pytest.fixture
def folder(tmp_path):
    """A certificate of declared scores, its sample and its tables."""
    certificate, task, _ = issued(FIRST_TABLE)
    place = tmp_path / "a folder"
    certificate.save(place / "certificate.cbound")
    np.savez(place / "sample.npz", x=task.sample.x, y=task.sample.y)
    for name, table in zip(("scores", "scores-2"), task.tables, strict=True):
        table.save(place / f"{name}.safetensors")
    return place


def test_the_answer_is_what_the_program_prints(folder, capsys):
    file, sample = str(folder / "certificate.cbound"), str(folder / "sample.npz")
    assert main([file, "--data", sample, "--format", "json"]) == 0
    found = verify_folder(folder, {"data": "sample.npz"})
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found))
    assert found["verdict"] == "ACCEPT"


def test_a_large_sample_is_a_folder_beside_the_certificate(folder, monkeypatch, tmp_path):
    with np.load(folder / "sample.npz") as arrays:
        (folder / "sample").mkdir()
        for name in ("x", "y"):
            np.save(folder / "sample" / f"{name}.npy", arrays[name])
    monkeypatch.chdir(tmp_path)
    assert verify_folder(folder, {"data": "sample"})["verdict"] == "ACCEPT"


def test_what_cannot_be_read_says_nothing_about_the_certificate(folder):
    with pytest.raises(UsageError, match=r"codebound-verify: cannot read .*none\.npz: no such file"):
        verify_folder(folder, {"data": "none.npz"})
    (folder / "sample.npz").unlink()
    with pytest.raises(UsageError, match="the sample is needed"):
        verify_folder(folder, {})


def test_the_sample_of_a_folder_needs_no_name(folder):
    assert verify_folder(folder, {})["verdict"] == "ACCEPT"


def test_files_are_named_from_here_and_from_the_folder():
    asked = {"data": Path("runs/c/sample.npz"), "by_class": True, "base": Path("runs/c/b.safetensors")}
    told = list_commands(Path("runs/c"), asked)
    assert told["verify"] == (
        "codebound-verify runs/c/certificate.cbound --data runs/c/sample.npz --by-class "
        "--base runs/c/b.safetensors"
    )
    assert told["verify_with"] == {"data": "sample.npz", "by_class": True, "base": "b.safetensors"}
    assert told["verify_here"] == (
        "codebound-verify certificate.cbound --data sample.npz --by-class --base b.safetensors"
    )


def test_what_lies_in_a_folder_is_not_taken_for_a_dataset(folder):
    (folder / "mnist").mkdir()
    with pytest.raises(FormatError, match="called like a dataset"):
        verify_folder(folder, {"data": "mnist"})


def test_what_else_is_given_is_compared_with_what_the_file_names():
    certificate, task, _ = issued(FIRST_TABLE)
    arrays = [table.arrays for table in task.tables]
    assert verify(certificate, task.sample, tables=arrays).is_accepted
    for sample, tables, words in (
        (task.sample, arrays[::-1], "SHA-256"),
        (task.sample.select(range(239), role="train"), arrays, "239"),
    ):
        verdict = verify(certificate, sample, tables=tables)
        assert not verdict.is_accepted
        assert words in " ".join(verdict.reasons)
    with pytest.raises(CertificateError, match="table 1 of its scores"):
        verify(certificate, task.sample)


def test_names_that_no_file_can_have_are_refused_in_words(folder):
    with pytest.raises(FormatError, match="as certify writes it"):
        options_of(folder, {"verify_with": {"data": "sample.npz", "base": "a\0b"}})
    with pytest.raises(FormatError, match="as certify writes it"):
        options_of(folder, {"verify_with": {"scores": "sample.npz"}})
    with pytest.raises((FormatError, UsageError), match=r"names no file|cannot read"):
        verify_folder(folder, {"data": "x" * 5000 + ".npz"})
