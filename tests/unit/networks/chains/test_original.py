"""The network f: read as a chain or as operations, built again, and taken as it is by a message."""

import numpy as np
import pytest
import torch
from torch import nn

from codebound.known.messages import Options, Setting
from codebound.run.errors import ModelError
from codebound_networks.chains.message import Message
from codebound_networks.chains.original import Original
from codebound_networks.codes.tensors import Zero

X = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))


class Twice(nn.Module):
    """A network that is no chain of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(self.linear(x).sin())[:, :3]


@pytest.fixture
def plain():
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def test_a_chain_and_a_network_that_is_none_are_built_again(plain):
    for model in (plain, Twice().eval()):
        original = Original.read(model, (4,), classes=3)
        assert (original.chain is not None) == (model is plain)
        assert bool(original.unchained) == (original.chain is None)
        torch.testing.assert_close(original.build()(X), model(X))
        zeros = {name: torch.zeros_like(tensor) for name, tensor in original.tensors.items()}
        assert not original.build(zeros)(X).any()


def test_a_reason_against_a_chain_makes_it_none(plain):
    original = Original.read(plain, (4,), classes=3, unchained="too deep")
    assert (original.chain, original.unchained) == (None, "too deep")
    with pytest.raises(ModelError):
        Original.read(plain, (4,), classes=2)


def test_an_unchanged_base_is_the_base_to_the_last_bit(plain):
    original = Original.read(plain, (4,), classes=3)
    zeros = {name: Zero(array.shape) for name, array in original.arrays.items()}
    message = Message(Options(has_base=True, setting=Setting(3)), original.chain, zeros)
    decoded = message.weights(original.arrays)
    assert decoded.keys() == original.arrays.keys()
    assert all(np.array_equal(decoded[name], array) for name, array in original.arrays.items())
    assert torch.equal(message.build(original.arrays)(X), original.build()(X))
