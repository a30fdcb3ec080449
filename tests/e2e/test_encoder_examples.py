"""The examples behind encoders, on small stand-ins for the data and weights that other packages carry."""

import hashlib
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import codebound as cb
from codebound.known.encoder import Encoder
from codebound.run.errors import DataError
from codebound.sample.dataset import Dataset
from codebound.sample.formats import texts
from codebound.sample.formats.catalogue import KNOWN

EXAMPLES = Path(__file__).parents[2] / "examples"
WORDS = {"acq": "shares stake", "earn": "profit quarter", "grain": "wheat harvest"}


def run(name, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def recordings(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 9, n)
    series = rng.normal(size=(n, 12, 29)) * 0.2 + np.eye(9, 12)[y][:, :, None]
    series[:, :, 24:] = 0.0  # a short one ends in zeros
    return Dataset("voices", "train", series.reshape(n, -1).astype(np.float32), y, 9)


def test_voices_are_certified_behind_a_summary(monkeypatch, capsys, empty_folder):
    monkeypatch.setenv("CODEBOUND_CACHE", str(empty_folder))
    whole = recordings(300, 0), recordings(60, 1).select(range(60), role="test")
    monkeypatch.setitem(cb.__dict__, "load_dataset", lambda name, role: whole[role == "test"])
    ran = run("voices", monkeypatch)
    out = capsys.readouterr().out
    assert out.endswith("ACCEPT\n")
    assert "(C-15;" in out
    rows = ran["Summary"]()(torch.from_numpy(whole[0].x[:5])).numpy()
    sound = whole[0].x[:5].reshape(5, 12, 29).astype(float)[:, :, :24]
    steps = np.abs(np.diff(sound, axis=2)).sum(2) / 24
    assert np.allclose(rows, np.concatenate([sound.mean(2), sound.std(2), steps], 1))


@pytest.fixture
def news(monkeypatch, tmp_path):
    """A few lines in the form of R8, in a cache, with their own checksums."""
    rng, files, digests = np.random.default_rng(0), {"train": 240, "test": 60}, {}
    folder = tmp_path / "data" / "r8"
    folder.mkdir(parents=True)
    for role, n in files.items():
        lines = ["Category\tText", "d\tstring", "class\t"]
        for number in range(n):
            kind = list(WORDS)[rng.integers(0, 3)]
            lines.append(f"{kind}\t{WORDS[kind]} number {number} of the {role} part")
        content = "\n".join(lines).encode()
        (folder / f"reuters-r8-{role}.tab").write_bytes(content)
        digests[f"reuters-r8-{role}.tab"] = hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(KNOWN, "r8", replace(KNOWN["r8"], digests=digests))
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path))
    return folder


def letters(batch):
    return torch.tensor([[text.count(chr(97 + at)) for at in range(26)] for text in batch]).double()


def test_texts_of_a_known_name_are_certified_behind_an_encoder(news, monkeypatch, capsys):
    encoder = Encoder("letters", letters, "0" * 64, takes_texts=True)
    monkeypatch.setitem(cb.__dict__, "load_encoder", lambda name: encoder)
    run("texts", monkeypatch)
    out = capsys.readouterr().out
    assert out.endswith("ACCEPT\n")
    assert "encoder letters" in out


def test_known_texts_are_those_of_the_file_and_checked(news):
    found = texts.load_texts("r8")
    lines = (news / "reuters-r8-train.tab").read_text().splitlines()[3:]
    assert list(found.texts) == [line.split("\t")[1] for line in lines]
    assert [found.levels[label] for label in found.y] == [line.split("\t")[0] for line in lines]
    (news / "reuters-r8-train.tab").write_text("Category\tText\nd\tstring\nclass\t\nearn\tother words")
    with pytest.raises(DataError, match="checksum"):
        texts.load_texts("r8")
    with pytest.raises(DataError, match="codebound data get newsgroups"):
        texts.load_texts("newsgroups")
