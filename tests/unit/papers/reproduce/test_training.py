"""A network is trained once: killed and continued, found again, asked for by two processes at a time."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from codebound.run.errors import CodeboundError, UsageError
from codebound.run.files import BusyError, hold_lock
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_papers.journal import Journal, OutOfTimeError
from codebound_papers.reproduce.items import Settings
from codebound_papers.reproduce.training import make_samples, train

SPEC = "mlp:depth=2,width=12"
CONFIG = TrainConfig(optimizer="sgd", learning_rate=0.1, epochs=6, batch_size=20, seed=3)
PROGRAM = """
import os, signal, sys
from codebound_papers.reproduce.items import Settings
from codebound_papers.reproduce.training import make_samples
from codebound_papers.reproduce.training import train
from codebound_networks.train.config import TrainConfig

def progress(done, total, note=""):
    print(note, flush=True)
    if done >= int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

config = TrainConfig(optimizer="sgd", learning_rate=0.1, epochs=6, batch_size=20, seed=3)
settings = Settings(progress=progress)

def compute():
    found = train("mlp:depth=2,width=12", make_samples(), config, settings, keep_every=2)
    return {"weights": found.record["weights_sha256"]}

print(settings.cells.get("network", compute)["weights"])
"""
SHARED = """
import time
from functools import partial
from codebound_papers.reproduce.items import Settings
from codebound_papers.reproduce.training import make_samples
from codebound_papers.reproduce.training import train
from codebound_networks.train.config import TrainConfig

def progress(done, total, note=""):
    time.sleep(0.01)
    if done == 0 and total:
        print("trains", flush=True)

def compute(seed):
    config = TrainConfig(optimizer="sgd", learning_rate=0.1, epochs=6, batch_size=20, seed=seed)
    found = train("mlp:depth=2,width=12", make_samples(), config, settings)
    return found.measure("seconds", lambda: {"at": time.time(), "epochs": found.record["epochs"]})

settings = Settings(progress=progress)
for value in settings.cells.get_all({f"seed {seed}": partial(compute, seed) for seed in range(4)}):
    print(value["at"])
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "trained"


def start(fatal_step, program=PROGRAM):
    arguments = [sys.executable, "-c", program, str(fatal_step)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def weights(network):
    return [tensor.clone() for tensor in network.model.state_dict().values()]


def test_the_weights_are_those_of_a_plain_training(cache):
    data = make_samples()
    found = train(SPEC, data, CONFIG, Settings())
    plain = fit(found.start, data.train, CONFIG, test_set=data.test)
    assert found.record["weights_sha256"] == plain.weights_sha256
    assert found.record["model"] == SPEC
    assert found.folder.parent == cache


def test_nothing_is_trained_twice(cache, monkeypatch):
    first = train(SPEC, make_samples(), CONFIG, Settings())
    heard = []
    again = train(
        SPEC, make_samples(), CONFIG, Settings(progress=lambda done, total, note="": heard.append(note))
    )
    assert heard == []
    assert again.record == first.record
    assert [path.name for path in cache.glob("[!.]*")] == [first.folder.name]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("spec", "data", "config", "keep_every"),
    [
        ("mlp:depth=2,width=13", make_samples(), CONFIG, 0),
        (SPEC, make_samples(seed=1), CONFIG, 0),
        (SPEC, make_samples(), replace(CONFIG, seed=4), 0),
        (SPEC, make_samples(), replace(CONFIG, learning_rate=0.2), 0),
        (SPEC, make_samples(), CONFIG, 2),
    ],
)
def test_what_determines_a_run_tells_it_apart(spec, data, config, keep_every):
    plain = train(SPEC, make_samples(), CONFIG, Settings()).folder
    assert train(spec, data, config, Settings(), keep_every=keep_every).folder != plain


def test_a_training_can_be_cut_short_but_not_made_longer():
    data = make_samples()
    assert train(SPEC, data, CONFIG, Settings(epochs=2)).record["epochs"] == 2
    assert train(SPEC, data, CONFIG, Settings(epochs=9)).record["epochs"] == 6


def test_states_on_the_way_are_those_of_shorter_trainings():
    data = make_samples()
    found = train(SPEC, data, CONFIG, Settings(), keep_every=4)
    assert found.kept_epochs == (0, 4, 6)
    for epoch in (0, 4, 6):
        alone = fit(found.start, data.train, replace(CONFIG, epochs=epoch)).model
        for ours, theirs in zip(weights(found.at(epoch)), alone.state_dict().values(), strict=True):
            assert torch.equal(ours, theirs)
    assert not torch.equal(weights(found.at(0))[0], weights(found.network)[0])
    with pytest.raises(UsageError, match=r"after epoch 5 were not kept\. Kept: 0, 4, 6"):
        found.at(5)


@pytest.mark.thorough
def test_a_killed_training_goes_on_and_ends_the_same(cache, tmp_path, monkeypatch):
    assert start(35).wait() < 0  # in the fourth of six epochs, ten steps each
    (folder,) = cache.glob("[!.]*")
    assert (folder / "checkpoint.safetensors").exists()
    heard = []
    found = train(
        SPEC,
        make_samples(),
        CONFIG,
        Settings(progress=lambda done, total, note="": heard.append(done)),
        keep_every=2,
    )
    assert min(heard) == 30
    assert found.folder == folder
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "other"))
    whole = train(SPEC, make_samples(), CONFIG, Settings(), keep_every=2)
    assert found.record["weights_sha256"] == whole.record["weights_sha256"]
    for epoch in whole.kept_epochs:
        for ours, theirs in zip(weights(found.at(epoch)), weights(whole.at(epoch)), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.thorough
def test_processes_share_out_what_they_all_need_and_train_it_once(cache):
    processes = [start(0, SHARED) for _ in range(2)]
    outputs = [process.communicate() for process in processes]
    assert [error for _, error in outputs] == ["", ""]
    first, second = (out.split() for out, _ in outputs)
    assert first[-4:] == second[-4:]
    assert len(set(first[-4:])) == 4 == len(list(cache.glob("[!.]*")))
    assert first[:-4] + second[:-4] == ["trains"] * 4


def test_a_measurement_is_kept_beside_the_weights():
    found = train(SPEC, make_samples(), CONFIG, Settings())
    assert found.measure("norm, small", lambda: {"value": 1}) == {"value": 1}
    again = train(SPEC, make_samples(), CONFIG, Settings())
    assert again.measure("norm, small", lambda: {"value": 2}) == {"value": 1}
    assert again.measure("norm, large", lambda: {"value": 3}) == {"value": 3}


@pytest.mark.thorough
def test_work_of_another_process_is_waited_for_up_to_the_deadline(cache):
    program = """
import sys
from pathlib import Path
from codebound.run.files import hold_lock
with hold_lock(Path(sys.argv[1]), "work"):
    print("here", flush=True)
    sys.stdin.read()
"""
    arguments = [sys.executable, "-c", program, str(cache / "network")]
    other = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "here\n"

    def compute():
        with hold_lock(cache / "network", "work"):
            return {"value": 1}

    with pytest.raises(BusyError, match=r"work is being run by another process \(process \d+"):
        compute()
    late = Journal(deadline=time.monotonic() + 0.2)
    with pytest.raises(OutOfTimeError, match="'late'"):
        late.get_all({"late": compute, "other": lambda: {"value": 2}})
    assert "other" in late
    other.kill()
    assert Journal().get("free", compute) == {"value": 1}
    other.communicate()


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    Path(tmp_path / "file").write_text("")
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "file"))
    with pytest.raises(CodeboundError, match=r"file/trained cannot be written.*CODEBOUND_CACHE"):
        train(SPEC, make_samples(), CONFIG, Settings())
