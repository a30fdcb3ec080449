"""A network is trained once: killed and continued, found again, asked for by two processes at a time."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from codebound.errors import CodeboundError, UsageError
from codebound.reproduce import Settings, made_up_samples, trained
from codebound.train import TrainConfig, fit

SPEC = "mlp:depth=2,width=12"
CONFIG = TrainConfig(optimizer="sgd", learning_rate=0.1, epochs=6, batch_size=20, seed=3)
PROGRAM = """
import os, signal, sys
from codebound.reproduce import Settings, made_up_samples, trained
from codebound.train import TrainConfig

def progress(done, total, note=""):
    print(note, flush=True)
    if done >= int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

config = TrainConfig(optimizer="sgd", learning_rate=0.1, epochs=6, batch_size=20, seed=3)
found = trained("mlp:depth=2,width=12", made_up_samples(), config, Settings(progress=progress), keep_every=2)
print(found.record["weights_sha256"])
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "trained"


def start(fatal_step):
    arguments = [sys.executable, "-c", PROGRAM, str(fatal_step)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def weights(network):
    return [tensor.clone() for tensor in network.model.state_dict().values()]


def test_the_weights_are_those_of_a_plain_training(cache):
    data = made_up_samples()
    found = trained(SPEC, data, CONFIG, Settings())
    plain = fit(found.start, data.train, CONFIG, test_set=data.test)
    assert found.record["weights_sha256"] == plain.weights_sha256
    assert found.record["model"] == SPEC
    assert found.folder.parent == cache


def test_nothing_is_trained_twice(cache, monkeypatch):
    first = trained(SPEC, made_up_samples(), CONFIG, Settings())
    heard = []
    again = trained(
        SPEC, made_up_samples(), CONFIG, Settings(progress=lambda done, total, note="": heard.append(note))
    )
    assert heard == []
    assert again.record == first.record
    assert [path.name for path in cache.glob("[!.]*")] == [first.folder.name]


@pytest.mark.parametrize(
    ("spec", "data", "config", "keep_every"),
    [
        ("mlp:depth=2,width=13", made_up_samples(), CONFIG, 0),
        (SPEC, made_up_samples(seed=1), CONFIG, 0),
        (SPEC, made_up_samples(), replace(CONFIG, seed=4), 0),
        (SPEC, made_up_samples(), replace(CONFIG, learning_rate=0.2), 0),
        (SPEC, made_up_samples(), CONFIG, 2),
    ],
)
def test_what_determines_a_run_tells_it_apart(spec, data, config, keep_every):
    plain = trained(SPEC, made_up_samples(), CONFIG, Settings()).folder
    assert trained(spec, data, config, Settings(), keep_every=keep_every).folder != plain


def test_a_training_can_be_cut_short_but_not_made_longer():
    data = made_up_samples()
    assert trained(SPEC, data, CONFIG, Settings(epochs=2)).record["epochs"] == 2
    assert trained(SPEC, data, CONFIG, Settings(epochs=9)).record["epochs"] == 6


def test_states_on_the_way_are_those_of_shorter_trainings():
    data = made_up_samples()
    found = trained(SPEC, data, CONFIG, Settings(), keep_every=4)
    assert found.kept_epochs == (0, 4, 6)
    for epoch in (0, 4, 6):
        alone = fit(found.start, data.train, replace(CONFIG, epochs=epoch)).model
        for ours, theirs in zip(weights(found.at(epoch)), alone.state_dict().values(), strict=True):
            assert torch.equal(ours, theirs)
    assert not torch.equal(weights(found.at(0))[0], weights(found.network)[0])
    with pytest.raises(UsageError, match=r"after epoch 5 were not kept\. Kept: 0, 4, 6"):
        found.at(5)


def test_a_killed_training_goes_on_and_ends_the_same(cache, tmp_path, monkeypatch):
    assert start(35).wait() < 0  # in the fourth of six epochs, ten steps each
    (folder,) = cache.glob("[!.]*")
    assert (folder / "checkpoint.safetensors").exists()
    heard = []
    found = trained(
        SPEC,
        made_up_samples(),
        CONFIG,
        Settings(progress=lambda done, total, note="": heard.append(done)),
        keep_every=2,
    )
    assert min(heard) == 30
    assert found.folder == folder
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "other"))
    whole = trained(SPEC, made_up_samples(), CONFIG, Settings(), keep_every=2)
    assert found.record["weights_sha256"] == whole.record["weights_sha256"]
    for epoch in whole.kept_epochs:
        for ours, theirs in zip(weights(found.at(epoch)), weights(whole.at(epoch)), strict=True):
            assert torch.equal(ours, theirs)


def test_two_processes_that_ask_at_once_train_one_network(cache):
    outputs = [process.communicate() for process in [start(10**9), start(10**9)]]
    assert [error for _, error in outputs] == ["", ""]
    first, second = (out.split("\n") for out, _ in outputs)
    assert first[-2] == second[-2]
    assert sorted(any("epoch" in line for line in lines) for lines in (first, second)) == [False, True]
    assert len(list(cache.glob("[!.]*"))) == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    Path(tmp_path / "file").write_text("")
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "file"))
    with pytest.raises(CodeboundError, match=r"file/trained cannot be written.*CODEBOUND_CACHE"):
        trained(SPEC, made_up_samples(), CONFIG, Settings())
