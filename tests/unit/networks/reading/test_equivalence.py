"""What is read in a module is what the module computes, again and again."""

import pytest
import torch
from torch import nn

from codebound.run.errors import ModelError
from codebound_networks.reading.export import plain_network

X = torch.zeros(1, 4)


class Counting(nn.Module):
    """Does something else from the hundredth call on, or could."""

    def __init__(self, state):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.calls = state

    def forward(self, x):
        is_late = self.count() > 100
        return self.layer(x) + is_late * torch.ones(2)

    def count(self):
        self.calls += 1
        return self.calls


class Listing(Counting):
    def count(self):
        self.calls.append(0)
        return len(self.calls)


class Settling(Counting):
    """What is kept from the first call on is no memory of the others."""

    def count(self):
        self.calls = 7
        return self.calls


@pytest.mark.parametrize("model", [Counting(0), Counting(0.5), Listing([])])
def test_a_network_that_counts_its_calls_is_refused(model):
    with pytest.raises(ModelError, match="counts its calls: calls of it"):
        plain_network(model.eval(), X)


def test_a_number_that_settles_is_not_counted_with():
    assert plain_network(Settling(0).eval(), X).tensors.keys() == {"layer.weight", "layer.bias"}


class Looping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return torch.stack([self.layer(x[i]) for i in range(x.shape[0])])


def test_a_loop_over_the_examples_is_told():
    with pytest.raises(ModelError, match="may not loop over the examples"):
        plain_network(Looping().eval(), X)
