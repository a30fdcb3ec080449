"""Answers of networks: one evaluation counts errors, and agreements with another network."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import fx, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from worlds.networks import mlp

from codebound.certificate.evaluate import collect_answers, count_differences, count_errors, find_agreements
from codebound.certification import certify
from codebound.request import Run
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound_networks.views.rebuild import with_weights

DIGITS = load_sample("digits")
SAMPLE = DIGITS.select(range(400), role="train")


def untrained(seed=0):
    return mlp(64, 10, flat=True, seed=seed).eval()


TESTED = DIGITS.select(range(900, 1400), role="test")


class Rough(nn.Module):
    """A network of others, whose answers are ties, not finite, or lost in float32 now and then."""

    def __init__(self, seed=0, *, offset=0.0):
        super().__init__()
        self.inside, self.offset = untrained(seed), offset

    def forward(self, x):
        outputs, kind = self.inside(x), (x.flatten(1).sum(1) * 16).round().long() % 12
        outputs = torch.where(kind[:, None] == 0, outputs.round(), outputs)
        outputs = torch.where(kind[:, None] == 1, outputs / 0.0, outputs)
        return outputs + self.offset


def trained_chain():
    """A chain that is right now and then: rows of weights are the means of the classes."""
    means = np.stack([SAMPLE.x[SAMPLE.y == label].reshape(-1, 64).mean(0) for label in range(10)])
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with torch.no_grad():
        network[1].weight.copy_(torch.from_numpy(means / 16.0))
        network[1].bias.copy_(-8.0 * (network[1].weight ** 2).sum(1) / 16.0)
    return network.eval()


NETWORKS = {
    "a chain": trained_chain,
    "another chain": untrained,
    "of others": Rough,
    "lost in float32": lambda: Rough(offset=2.0**18),
    "nothing is certain": lambda: Rough(offset=2.0**30),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_one_evaluation_counts_what_two_count(name):
    f, g = NETWORKS[name](), untrained(1)
    said = collect_answers(f, TESTED.on("cpu"))
    assert said.errors == count_errors(with_weights(f, f.state_dict()), TESTED.on("cpu"))
    agree = find_agreements(f, g, TESTED.on("cpu"))
    assert count_differences(said, g, TESTED, takes_stored=False) == int((~agree).sum())
    assert 0 < said.errors <= TESTED.n
    assert count_differences(said, f, TESTED, takes_stored=False) == int((~said.is_clear).sum())


class Cancelling(nn.Module):
    """Loses its digits in float32, where the second column is not zero."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        large = x[:, 1:2] * 1e6
        found = ((x[:, :1] + large) - large) * self.weight
        return torch.cat([found, -found, 0.0 * found], dim=1)


def test_what_float32_denies_is_an_error_and_not_clear_however_late_it_comes():
    x = np.zeros((6000, 2))
    x[:, 0], x[4196:] = 1.0, (1.03, 1.0)  # behind the examples that a screening looks at
    late = Sample("late", "test", x, np.zeros(6000, dtype=np.int64), 3).on("cpu")
    said = collect_answers(Cancelling(), late)
    assert said.errors == 6000 - 4196 > count_errors(Cancelling(), late)
    assert said.is_clear.tolist() == [True] * 4196 + [False] * (6000 - 4196)


def test_f_is_evaluated_once_on_a_test_sample():
    class Smooth(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = untrained()

        def forward(self, x):
            return self.inside(x.sin())  # no operation of a message: f stays a network of torch

    marked = TESTED.x.copy()
    marked[..., 0, 0] = 5  # always 0 elsewhere: they are told apart by that
    marked = dataclasses.replace(TESTED, x=marked)
    seen = {torch.float32: 0, torch.float64: 0}

    def note(module, given):
        if isinstance(module, fx.GraphModule) and len(given[0]):
            seen[given[0].dtype] += int((given[0][..., 0, 0] == 5.0 / 16.0).sum())

    hook = register_module_forward_pre_hook(note)
    try:
        found = certify(SAMPLE, network=Smooth(), test=marked, method="picks", run=Run(effort="quick"))
    finally:
        hook.remove()
    assert found.holdout_f is not None
    assert found.disagreement is not None
    assert set(seen.values()) == {marked.n}  # in both precisions, by which it is judged
