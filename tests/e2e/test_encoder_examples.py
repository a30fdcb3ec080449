"""The examples behind encoders, on small stand-ins for the data and weights that other packages carry."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import codebound as cb
from codebound.known.encoder import Encoder
from codebound.sample.dataset import Dataset

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
    monkeypatch.setitem(cb.__dict__, "load_dataset", lambda name, role="train": whole[role == "test"])
    ran = run("voices", monkeypatch)
    out = capsys.readouterr().out
    assert out.endswith("ACCEPT\n")
    assert "(C-15;" in out
    rows = ran["Summary"]()(torch.from_numpy(whole[0].x[:5])).numpy()
    sound = whole[0].x[:5].reshape(5, 12, 29).astype(float)[:, :, :24]
    steps = np.abs(np.diff(sound, axis=2)).sum(2) / 24
    assert np.allclose(rows, np.concatenate([sound.mean(2), sound.std(2), steps], 1))


@pytest.fixture
def news(monkeypatch, empty_folder):
    """A few lines in place of those of R8."""

    def lines(role, n):
        rng = np.random.default_rng(n)
        labels = rng.integers(0, 3, n)
        kinds = list(WORDS.values())
        return [f"{kinds[label]} number {at} of the {role} part" for at, label in enumerate(labels)], labels

    sets = SimpleNamespace(r8_texts=lambda: lines("train", 240), r8_test_texts=lambda: lines("test", 60))
    monkeypatch.setitem(sys.modules, "public_sets", sets)
    monkeypatch.setenv("CODEBOUND_CACHE", str(empty_folder))


def letters(batch):
    return torch.tensor([[text.count(chr(97 + at)) for at in range(26)] for text in batch]).double()


def test_texts_are_certified_behind_an_encoder(news, monkeypatch, capsys):
    encoder = Encoder("letters", letters, "0" * 64, takes_texts=True)
    monkeypatch.setitem(cb.__dict__, "load_encoder", lambda name: encoder)
    run("texts", monkeypatch)
    out = capsys.readouterr().out
    assert out.endswith("ACCEPT\n")
    assert "encoder letters" in out
