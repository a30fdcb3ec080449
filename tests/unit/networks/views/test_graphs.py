"""A trace serves every network that takes the same steps, and no other."""

import pytest
import torch
from torch import nn
from worlds.networks import inputs, mlp

from codebound_networks.reading.walk import wrap
from codebound_networks.views.fold import fold_batch_norms
from codebound_networks.views.graphs import Traced, trace
from codebound_papers.measure.steps import steps_of


class Shifted(nn.Module):
    """Adds a constant that only the forward pass knows: the trace keeps it in what was traced."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.layer(x)) + torch.tensor([1.0, 2.0, 3.0])


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_it_is_traced_when_somebody_asks_and_once():
    traced = Traced(mlp(4, 3, 2))
    assert "_trace" not in vars(traced)
    assert traced.graph is traced.graph is not None
    assert traced.untraceable == ""
    assert "control flow" in Traced(Branching()).untraceable


def test_a_network_with_other_weights_has_the_same_trace():
    one, other = mlp(4, 3, 2, seed=0), mlp(4, 3, 2, seed=1)
    traced = Traced(one)
    again = traced.with_model(other)
    assert again.graph is traced.graph
    assert again.predictor[0].weight is other[0].weight
    assert str(again.graph) == str(trace(other)[0])


def test_constants_of_a_trace_are_not_left_behind():
    network = wrap(Shifted().eval())
    folded = network.with_model(fold_batch_norms(network.traced).model)
    assert folded.graph is not network.graph
    steps, x = steps_of(folded), inputs(5, 4).float()
    torch.testing.assert_close(steps.segment(0, len(steps.cuts) - 1)(x), network.model(x))


@pytest.mark.parametrize("width", [3, 5])
def test_a_view_of_folded_batch_norms_is_that_of_wrapping_them(width):
    network = wrap(nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU()).eval())
    model = fold_batch_norms(network.traced).model
    found, expected = network.with_model(model), wrap(model)
    assert (found.calls, found.coverage, found.notes) == (expected.calls, expected.coverage, expected.notes)
    assert [view.weight.data_ptr() for view in found.layers] == [model[0].weight.data_ptr()]
    assert str(found.graph) == str(expected.graph)


def test_a_network_with_hooks_has_a_trace_of_its_own():
    traced, hooked = Traced(mlp(4, 3)), mlp(4, 3)
    assert traced.with_model(hooked).graph is traced.graph is not None
    next(hooked.children()).register_forward_hook(lambda _, inputs, outputs: 2.0 * outputs)
    assert traced.with_model(hooked).graph is None
    assert "hooks" in traced.with_model(hooked).untraceable
