"""Pruning: as many weights as planned, as small integers, the same every time; nothing else is touched."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from worlds.networks import mlp
from worlds.samples import decided_by_three

from codebound.run.errors import ModelError, UsageError
from codebound_networks.train.pruning import PruneSettings, prune

SAMPLE = decided_by_three().on("cpu")


def small(width: int = 8) -> nn.Module:
    return mlp(10, width, 3).eval()


WEIGHTS = ["0.weight", "2.weight"]


def pruned(keep: int = 20, levels: int = 2, epochs: int = 20, seed: int = 0):
    plan = PruneSettings(
        keep=keep, levels=levels, epochs=epochs, batch_size=50, learning_rate=0.01, seed=seed
    )
    return prune(small(), WEIGHTS, SAMPLE, plan)


@pytest.mark.parametrize(("keep", "levels"), [(6, 1), (20, 2), (40, 7), (104, 3)])
def test_exactly_so_many_weights_are_left_as_small_integers(keep, levels):
    found = pruned(keep, levels)
    assert list(found) == WEIGHTS
    assert sum(int(each.integers.count_nonzero()) for each in found.values()) == keep
    for each in found.values():
        assert each.integers.dtype == torch.int32
        assert 1 <= int(each.integers.abs().max()) <= levels


def test_a_plan_for_more_weights_than_there_are_keeps_them_all():
    found = pruned(keep=1000)
    assert sum(int(each.integers.count_nonzero()) for each in found.values()) == 104


def test_levels_are_used():
    found = pruned(keep=60, levels=7)
    assert max(int(each.integers.abs().max()) for each in found.values()) > 2


def accuracy(found) -> float:
    weights = small().state_dict()
    for name, each in found.items():
        weights[name] = each.integers * 2.0 ** (each.step / 8)
    model = small()
    model.load_state_dict(weights)
    fresh = decided_by_three(1000, seed=1).on("cpu")
    with torch.no_grad():
        return float((model(fresh.x).argmax(1) == fresh.y).float().mean())


@pytest.mark.thorough
def test_a_toy_problem_is_learnt_with_few_weights_and_the_important_ones():
    found = pruned(keep=12, levels=1, epochs=40)
    assert accuracy(found) > 0.9
    used = found["0.weight"].integers.any(dim=0)
    assert used[:3].all()
    assert used.sum() <= 6


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_integers_and_another_one_others():
    first, again, other = pruned(), pruned(), pruned(seed=1)
    for name in WEIGHTS:
        assert torch.equal(first[name].integers, again[name].integers)
        assert first[name].step == again[name].step
    assert any(not torch.equal(first[name].integers, other[name].integers) for name in WEIGHTS)


def test_the_network_the_sample_and_the_global_generators_are_left_alone():
    model = small()
    before, inputs = copy.deepcopy(model.state_dict()), SAMPLE.x.clone()
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    steps = []
    plan = PruneSettings(keep=5, epochs=2, batch_size=50)
    prune(model, WEIGHTS, SAMPLE, plan, lambda done, total, note="": steps.append((done, total)))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(SAMPLE.x, inputs)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    assert steps == [(6, 12), (12, 12)]


def test_even_a_single_step_prunes():
    """However short the training: the message pays for what is left."""
    plan = PruneSettings(keep=7, epochs=1, batch_size=300)
    found = prune(small(), WEIGHTS, SAMPLE, plan)
    assert sum(int(each.integers.count_nonzero()) for each in found.values()) == 7


@pytest.mark.parametrize(
    "wrong", [{"keep": 0}, {"levels": 0}, {"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}]
)
def test_a_plan_outside_its_range_is_refused(wrong):
    with pytest.raises(UsageError):
        PruneSettings(**{"keep": 1, **wrong})


def test_a_training_that_diverges_is_an_error_in_words():
    with pytest.raises(ModelError, match="loss became"):
        prune(small(), WEIGHTS, SAMPLE, PruneSettings(keep=5, epochs=2, learning_rate=1e30))
