"""The induction of lemma 3 is measured on the sample, layer by layer."""

import itertools
import math

import pytest
import torch

from codebound.nets.walk import wrap
from codebound_papers.arora18.projection import MatrixProject, induction
from codebound_papers.compress.compressors import compress
from codebound_papers.compress.functions import project


def mlp(*sizes: int, seed: int = 0) -> torch.nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    steps: list[torch.nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = torch.nn.Linear(inputs, outputs, bias=False)
        with torch.no_grad():
            layer.weight.copy_(torch.randn(outputs, inputs, generator=generator) / math.sqrt(inputs))
        steps += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*steps[:-1])


def test_induction_measures_the_largest_relative_deviation_of_all_later_layers():
    model = mlp(8, 12, 10, 4)
    inputs = torch.randn(20, 8, generator=torch.Generator().manual_seed(1))
    compressed = project(wrap(model), count=60, seed=0)
    originals = [model[0].weight, model[2].weight, model[4].weight]
    replacements = [layer.weight for layer in compressed.layers]

    def pre_activations(weights: list[torch.Tensor]) -> list[torch.Tensor]:
        found, x = [], inputs
        for weight in weights:
            found.append(x @ weight.detach().T)
            x = found[-1].relu()
        return found

    x = pre_activations(originals)
    for i, step in enumerate(induction(compressed, inputs, epsilon=0.6, batch=7)):
        moved = pre_activations(replacements[: i + 1] + originals[i + 1 :])
        ratios = [float(((b - a).norm(dim=1) / a.norm(dim=1)).max()) for a, b in zip(x, moved, strict=True)]
        assert step.deviation == pytest.approx(max(ratios[i:]), rel=1e-4)
        assert step.worst == ("0", "2", "4")[i:][ratios[i:].index(max(ratios[i:]))]
        assert step.allowed == pytest.approx(0.6 * (i + 1) / 3)
        assert step.holds == (step.deviation <= step.allowed)


def test_the_induction_holds_for_fine_rounding_and_fails_for_few_numbers():
    """The second is the teeth of the first."""
    network, inputs = wrap(mlp(8, 12, 10, 4)), torch.randn(30, 8, generator=torch.Generator().manual_seed(1))
    fine = compress(network, MatrixProject(count=10**4, levels=4001))
    assert all(step.holds for step in induction(fine, inputs, epsilon=0.1))
    assert not any(step.holds for step in induction(project(network, count=5), inputs, epsilon=0.1))


def test_layers_that_are_carried_change_nothing():
    network, inputs = wrap(mlp(8, 12, 4)), torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    compressed = compress(network, MatrixProject(count=20), layers=["2"])
    first, second = induction(compressed, inputs, epsilon=0.1)
    assert first.deviation == 0.0 < second.deviation
    assert first.holds


def test_a_dead_layer_that_wakes_up_is_infinitely_far_off():
    model = mlp(4, 5, 3)
    with torch.no_grad():
        model[0].weight.copy_(-model[0].weight.abs())
    compressed = project(wrap(model), count=2)
    steps = induction(compressed, torch.rand(6, 4, generator=torch.Generator().manual_seed(0)), epsilon=1.0)
    assert steps[0].deviation == math.inf
    assert not steps[0].holds
