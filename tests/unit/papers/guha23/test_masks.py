"""Tickets and iterative pruning: exact counts, only what is coded, learning, determinism."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from worlds.networks import mlp
from worlds.samples import decided_by_three

from codebound.run.errors import ModelError, UsageError
from codebound_networks.codes.choose import mask_bits
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.reading.walk import wrap
from codebound_papers.compress.codes import Ticket
from codebound_papers.compress.compressors import Job
from codebound_papers.compress.methods import imp, lottery
from codebound_papers.guha23.lottery import (
    active_weights,
    least_sketch_side,
    published_active_weights,
    published_sketch_side,
)
from codebound_papers.guha23.magnitude import kept_count
from codebound_papers.guha23.masks import IterativePruning, LotteryTicket, Training, descend, ticket_bits

SAMPLE = decided_by_three().on("cpu")


def model(width: int = 40) -> nn.Module:
    return mlp(10, width, 3).eval()


def accuracy_of(module: nn.Module) -> float:
    fresh = decided_by_three(1000, seed=1).on("cpu")
    with torch.no_grad():
        return float((module(fresh.x).argmax(1) == fresh.y).float().mean())


def accuracy(compressed) -> float:
    return accuracy_of(compressed.module())


def ticket(seed: int = 0, **options):
    chosen = {"density": 0.3, "epochs": 10, "batch_size": 50, **options}
    return lottery(wrap(model()), SAMPLE, seed=seed, **chosen)


@pytest.mark.parametrize("kind", ["signs", "gaussian", "uniform"])
def test_a_mask_of_random_weights_learns_a_toy_problem(kind):
    found = ticket(kind=kind)
    assert accuracy(found) > 0.9
    for layer, view in zip(found.layers, wrap(model()).layers, strict=True):
        assert isinstance(layer.code, Ticket)
        mask = layer.code.inner.levels
        assert set(np.unique(mask)) == {0, 1}
        assert mask.sum() == round(0.3 * view.weight.numel())
        ratio = float(layer.weight.norm() / view.weight.norm())
        assert 0.65 < ratio < 1.5  # a mask may prefer small random weights


@pytest.mark.parametrize(("function", "algorithm"), [(lottery, LotteryTicket), (imp, IterativePruning)])
def test_the_function_is_the_class(function, algorithm):
    by_name = function(wrap(model()), SAMPLE, epochs=1, seed=3)
    by_class = algorithm(epochs=1).run(Job(network=wrap(model()), sample=SAMPLE, seed=3))
    for a, b in zip(by_name.layers, by_class.layers, strict=True):
        assert torch.equal(a.weight, b.weight)


def test_training_finds_better_masks_than_closeness_alone():
    start = ticket(epochs=1, learning_rate=1e-9)
    assert accuracy(start) < accuracy(ticket())


def test_only_the_mask_is_paid_for():
    found = ticket(seed=7)
    bits = encode_tensors([layer.code for layer in found.layers]).length
    expected = sum(
        ticket_bits(layer.weight.numel(), kept=int(layer.weight.count_nonzero())) for layer in found.layers
    )
    assert bits < expected + 2 * 45  # kind, seed, mode, step and the contexts' learning
    assert ticket_bits(400, kept=120) == pytest.approx(mask_bits(400, 120), rel=1e-9)


def same(first, second) -> bool:
    return all(torch.equal(a.weight, b.weight) for a, b in zip(first.layers, second.layers, strict=True))


@pytest.mark.parametrize("search", [lottery, imp])
def test_the_seed_decides_and_the_network_is_left_alone(search):
    original = model()
    before = copy.deepcopy(original.state_dict())
    generator = torch.get_rng_state()
    net = wrap(original)
    steps = []
    options = {"density": 0.3, "epochs": 2, "batch_size": 50}
    first = search(net, SAMPLE, **options, progress=lambda done, total, note="": steps.append((done, total)))
    assert same(first, search(net, SAMPLE, **options))
    assert not same(first, search(net, SAMPLE, **options, seed=1))
    assert all(torch.equal(value, before[name]) for name, value in original.state_dict().items())
    assert all(parameter.grad is None for parameter in original.parameters())
    assert torch.equal(torch.get_rng_state(), generator)
    assert steps[-1][0] == steps[-1][1]


def pruned(**options):
    chosen = {"density": 0.1, "rounds": 3, "epochs": 10, "batch_size": 50, "learning_rate": 0.01, **options}
    return imp(wrap(model()), SAMPLE, **chosen)


def test_iterative_pruning_learns_with_few_weights():
    found = pruned()
    assert accuracy(found) > 0.9
    counts = [int(layer.weight.count_nonzero()) for layer in found.layers]
    assert counts[0] <= 40
    assert counts[1] <= 12
    assert sum(counts) >= 45


def trained_with_random_masks(density: float, seed: int) -> float:
    """Accuracy of as many weights, trained from the same start just as long, but chosen at random."""
    module, stream = model(), torch.Generator().manual_seed(seed)
    start = {name: value.detach() for name, value in module.state_dict().items()}
    masks = {}
    for name in ("0.weight", "2.weight"):
        order = torch.randperm(start[name].numel(), generator=stream).view(start[name].shape)
        masks[name] = order < kept_count(order.numel(), density)
    weights = {name: start[name].clone().requires_grad_() for name in masks}

    def used():
        return {name: weights[name] * masks[name] for name in masks}

    training = Training(epochs=10, learning_rate=0.01, batch_size=50, order=stream)
    descend(module, list(weights.values()), used, SAMPLE, training)
    module.load_state_dict({**start, **{name: value.detach() for name, value in used().items()}})
    return accuracy_of(module)


@pytest.mark.thorough
def test_iterative_pruning_finds_better_weights_than_chance():
    found = accuracy(pruned(density=0.05))
    chance = [trained_with_random_masks(0.05, seed) for seed in range(10)]
    assert found > np.mean(chance) + 0.1


def test_a_convolutional_network_with_batch_norm():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = wrap(
            nn.Sequential(
                nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)
            ).eval()
        )
    data = decided_by_three(shape=(1, 4, 4)).on("cpu")
    for found in (
        lottery(net, data, density=0.3, epochs=5, batch_size=50),
        imp(net, data, density=0.3, epochs=3, rounds=2, batch_size=50, learning_rate=0.01),
    ):
        with torch.no_grad():
            assert float((found.module()(data.x).argmax(1) == data.y).float().mean()) > 0.8


def test_layers_that_cannot_be_taken_are_carried():
    module = model()
    with torch.no_grad():
        module[2].weight.zero_()
    found = lottery(wrap(module), SAMPLE, epochs=1)
    assert [layer.name for layer in found.layers] == ["0"]
    assert "all its weights are zero" in found.carried["2"]
    found = lottery(wrap(nn.Sequential(nn.Linear(10, 3)).double()), SAMPLE, epochs=1)
    assert not found.layers
    assert "float64" in found.carried["0"]


@pytest.mark.parametrize(
    "wrong", [{"kind": "cauchy"}, {"density": 0.0}, {"epochs": 0}, {"batch_size": 0}, {"seed": -1}]
)
def test_options_outside_their_range_are_refused(wrong):
    with pytest.raises(UsageError):
        ticket(**wrong)


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"density": 2.0}, {"epochs": 0}, {"levels": 2}])
def test_options_of_iterative_pruning_outside_their_range_are_refused(wrong):
    with pytest.raises(UsageError):
        pruned(**{"epochs": 1, **wrong})


def test_a_training_that_diverges_is_an_error_in_words():
    with pytest.raises(ModelError, match="loss became"):
        pruned(learning_rate=1e30)


def test_counts_of_section_six():
    assert active_weights(inputs=784, width=30, depth=3) == 784 * 30 + 3 * 900
    assert published_active_weights(inputs=784, random_width=10_000, depth=3) == 784 * 10_000 + 3 * 10**8
    assert published_sketch_side(width=30, random_width=10_000) == pytest.approx(276.3, abs=0.05)
    assert least_sketch_side(random_width=10_000) == pytest.approx(921.0, abs=0.05)
    with pytest.raises(UsageError):
        ticket_bits(3, kept=4)
