"""What a base is worth when labels are random: nothing, unless its declaration is a lie."""

import copy
from functools import cache

import pytest
import torch
from torch import nn
from worlds.samples import random_labels

from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.provenance import Pretrained
from codebound.request import Known, Run
from codebound_networks.methods import subspace_networks as subspace
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit

RISK = 0.75  # of every classifier, when four labels are drawn at random


@cache
def trained(seed):
    """A network that knows the random labels of a seed by heart."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 4))
    config = TrainConfig(epochs=120, batch_size=50, learning_rate=0.01)
    return fit(model, random_labels(150, seed=seed), config).model


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(subspace, "_RUNS", {"standard": 1})
    monkeypatch.setattr(subspace, "_STEPS", {"standard": 400})


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["subspace", "prune"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_base_that_never_saw_the_labels_promises_no_better_than_guessing(method, seed):
    base = Pretrained(trained(100 + seed), "trained on other random labels")
    sample = random_labels(150, seed=seed)
    found = certify(sample, network=trained(seed), method=method, known=Known(base=base))
    assert found.original_errors < 15  # f knows them by heart
    assert found.certificate.claim.bound >= RISK
    assert found.certificate.claim.vacuous


def test_a_base_that_saw_them_breaks_the_promise_and_only_the_declaration_shows_it():
    """Bits and errors are right and the verifier accepts, so it has to say what it could not check."""
    sample = random_labels(150, seed=0)
    hidden = copy.deepcopy(trained(0))  # of the one that fit returned it is known what it saw
    knowing = Pretrained(hidden, "said to be made without the sample")
    found = certify(sample, network=hidden, known=Known(base=knowing), run=Run(effort="quick"))
    assert found.certificate.claim.bound < 0.4 < RISK
    verdict = verify(
        found.certificate, sample, base=found.base, tables=[table.arrays for table in found.tables]
    )
    assert verdict.is_accepted
    assert "neither trained nor selected on" in verdict.assumptions[0]
    assert any("said to be made without the sample" in line for line in verdict.declarations)
