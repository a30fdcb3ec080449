"""Networks trained straight to few bits, on data whose risk is known: a certificate must not promise more."""

import numpy as np
import pytest
import torch

from codebound.certificate.offers import assess, network_outcome
from codebound.certification import certify
from codebound.request import Task
from codebound.sample.arrays import from_arrays
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.methods import subspace_networks as subspace
from codebound_networks.reading.loading import load_model
from codebound_networks.train.subspace import Features, Learner, SubspaceSettings, train_in_subspace

CHAIN = Chain((8,), (Linear(16, False), Linear(4, False)))
RISK = 0.75  # of every classifier, when four labels are drawn at random


def bound_on_random_labels(seed: int, *, paid: bool) -> float:
    """What a network that was fitted to random labels is certified for, or would be if bits were free."""
    rng = np.random.default_rng(seed)
    sample = from_arrays(
        rng.normal(size=(120, 8)).astype(np.float32), rng.integers(0, 4, 120), name="random labels"
    )
    learner = Learner(CHAIN)
    plan = SubspaceSettings(dimension=60, epochs=150, batch_size=30, rate=0.0, learning_rate=0.2)
    integers = train_in_subspace(Features.of(learner, sample.on("cpu")), plan)
    code = Subspace(best_tensor_code(integers, step=0), plan.entries_log2, plan.step, plan.zero_head, 0)
    task = Task(sample=sample, delta=0.05)
    found = assess(network_outcome(Message(task.options, CHAIN, code), task), task)
    return found.bound if paid else found.tally.errors / sample.n


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(5))
def test_random_labels_are_certified_no_better_than_guessing(seed):
    torch.manual_seed(seed)  # nothing may depend on it
    assert bound_on_random_labels(seed, paid=True) >= RISK


@pytest.mark.thorough
def test_without_its_bits_the_training_error_would_promise_too_much():
    assert max(bound_on_random_labels(seed, paid=False) for seed in range(3)) < 0.6


@pytest.mark.thorough
def test_local_search_on_random_labels_promises_nothing(monkeypatch):
    """It fits errors and bits directly, on straightened images: all of that is paid for."""
    monkeypatch.setattr(subspace, "_STEPS", {"standard": 200})
    monkeypatch.setattr(subspace, "_RUNS", {"standard": 2})
    monkeypatch.setattr(subspace, "_EVALUATIONS", {"standard": 300})
    rng = np.random.default_rng(0)
    sample = from_arrays(
        rng.integers(0, 256, (120, 1, 8, 8), dtype=np.uint8), rng.integers(0, 4, 120), name="random labels"
    )
    model = load_model("linear", input_shape=(1, 8, 8), classes=4)
    found = certify(sample, network=model, method="subspace")
    assert found.certificate.claim.bound >= RISK
    assert found.certificate.claim.vacuous
    # without its bits the same count would promise too much
    assert found.certificate.limit.errors / sample.n < RISK - 0.1
