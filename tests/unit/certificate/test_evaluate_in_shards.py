"""Counting on an engine: the same count as in one pass, whatever the shards are."""

import numpy as np
import pytest
import torch
from torch import nn
from worlds.commands import Here

from codebound.certificate import evaluate
from codebound.certificate.evaluate import TOLERANCE, count_errors
from codebound.run.errors import CodeboundError
from codebound.run.job import Finished, LocalEngine
from codebound.sample.dataset import Sample

N, FEATURES, CLASSES = 250, 6, 4


@pytest.fixture(scope="module")
def case():
    random = np.random.default_rng(0)
    x = random.normal(size=(N, FEATURES)).astype(np.float32)
    y = random.integers(0, CLASSES, size=N)
    network = nn.Linear(FEATURES, CLASSES)
    with torch.no_grad():
        network.weight.copy_(torch.from_numpy(random.normal(size=(CLASSES, FEATURES)).astype(np.float32)))
    return network, Sample("random", "train", x, y, CLASSES)


@pytest.fixture
def chunk_size(request, monkeypatch):
    """Examples at a time; 0 for as many as usual."""
    if size := getattr(request, "param", 64):
        monkeypatch.setattr(evaluate, "chunk_size_of", lambda sample: size)


def counted_by_hand(network, sample):
    weight, bias = (each.detach().double().numpy() for each in (network.weight, network.bias))
    logits = sample.x.astype(np.float64) @ weight.T + bias
    own = logits[np.arange(N), sample.y]
    others = np.where(np.eye(CLASSES, dtype=bool)[sample.y], -np.inf, logits).max(axis=1)
    return int((~(own - others > TOLERANCE * np.abs(logits).max(axis=1))).sum())


@pytest.mark.few(10)
@pytest.mark.parametrize("slots", [1, 2, 3, 7, 2000])
@pytest.mark.parametrize("chunk_size", [0, 1, 64, 249, 5000], indirect=True)
def test_any_number_of_shards_gives_the_count_of_one_pass(case, slots, chunk_size, monkeypatch):
    network, sample = case
    monkeypatch.setattr("codebound.run.job.use_threads", lambda count: None)  # this is no worker
    engine = Here(slots)
    whole = count_errors(network, sample.on("cpu"))
    shards = count_errors(network, sample.on("cpu"), engine=engine)
    assert shards == whole
    assert whole == counted_by_hand(network, sample)
    assert 1 <= len(engine.functions) <= slots


@pytest.mark.thorough
def test_real_processes_count_the_same_and_the_network_comes_back_narrow(case, chunk_size):
    network, sample = case
    with LocalEngine(2) as engine:
        found = count_errors(network, sample.on("cpu"), engine=engine)
    assert found == counted_by_hand(network, sample)
    assert network.weight.dtype == torch.float32


def test_a_lost_shard_is_an_error_and_never_a_smaller_count(case, chunk_size):
    from codebound.run.job import Failure

    class Losing(Here):
        def as_finished(self, jobs):
            for index, job in enumerate(jobs):
                yield Finished(job, 0, Failure("lost") if index else None)

    network, sample = case
    with pytest.raises(CodeboundError, match="lost"):
        count_errors(network, sample.on("cpu"), engine=Losing(3))
