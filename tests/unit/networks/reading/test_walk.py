"""The order of layers is the order of execution."""

import threading

import pytest
import torch
from torch import nn

from codebound.run.errors import ModelError, UsageError
from codebound_networks.reading.walk import wrap


class Backwards(nn.Module):
    """Declares its layers in the opposite order of their use."""

    def __init__(self, *, traceable=True):
        super().__init__()
        self.last, self.middle, self.first = nn.Linear(2, 3), nn.Linear(4, 2), nn.Linear(5, 4)
        self.traceable = traceable

    def forward(self, x):
        if not self.traceable and x.sum() > 1e9:
            return x
        return self.last(torch.relu(self.middle(torch.relu(self.first(input=x)))))


@pytest.mark.parametrize("traceable", [True, False])
def test_layers_come_in_execution_order(traceable):
    network = wrap(Backwards(traceable=traceable), example=torch.zeros(1, 5))
    assert [view.name for view in network.layers] == ["first", "middle", "last"]
    assert (network.graph is not None) == traceable


def test_an_untraceable_network_needs_an_example():
    with pytest.raises(ModelError, match=r"Backwards.*control flow.*Pass example="):
        wrap(Backwards(traceable=False))


def test_a_network_that_fails_on_the_example_is_an_error_with_the_shape():
    with pytest.raises(ModelError, match=r"Backwards fails on inputs of shape \(1, 9\)"):
        wrap(Backwards(traceable=False), example=torch.zeros(1, 9))


def test_a_layer_called_twice_is_listed_once_with_both_calls():
    layer = nn.Linear(3, 3)
    network = wrap(nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(3, 2)))
    assert [view.name for view in network.layers] == ["0", "3"]
    assert network.calls == ("0", "0", "3")
    assert network.shared == ("0",)


def test_the_predictor_follows_later_training_of_the_model():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    network = wrap(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(8, 3)).pow(2).sum().backward()
    optimiser.step()
    x = torch.randn(4, 3)
    assert torch.equal(network.predictor(x), model.eval()(x))
    assert torch.equal(network.layers[0].weight, model[0].weight)


def test_a_single_layer_is_a_network():
    network = wrap(nn.Linear(3, 2), strict=True)
    assert [view.name for view in network.layers] == [""]
    assert network.coverage.totals == {"seen": 8, "carried": 0, "unread": 0, "unsupported": 0}


def test_a_network_whose_own_hooks_change_the_output_is_read_with_them():
    model = nn.Sequential(nn.Linear(3, 2))
    model.register_forward_hook(lambda module, args, output: 2 * output)
    with pytest.raises(ModelError, match="0 has forward hooks, which a trace does not contain"):
        wrap(nn.Sequential(model))
    x = torch.randn(4, 3)
    for outer in (model, nn.Sequential(model)):
        network = wrap(outer, example=x)
        assert "hooks" in network.notes[0]
        assert torch.allclose(network.predictor(x), 2 * model[0](x))


def test_what_cannot_be_wrapped_says_why():
    with pytest.raises(UsageError, match=r"takes an nn\.Module\. Got dict"):
        wrap({})
    with pytest.warns(DeprecationWarning, match="deprecated"):
        script = torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2))
    with pytest.raises(ModelError, match="TorchScript"):
        wrap(script)
    with pytest.raises(ModelError, match="1 is a TorchScript program"):
        wrap(nn.Sequential(nn.Linear(2, 2), script))
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model[1].lock = threading.Lock()
    with pytest.raises(ModelError, match=r"attribute 'lock' of 1 \(ReLU\)"):
        wrap(model)
