"""Networks that look at more than their example are told what to do, before anything is searched."""

import pytest
import torch
from attack.networks import SAMPLE, Attention, CountsCalls, EachByItself, Noise, Random, Residual
from torch import nn

from codebound.certificate.one_example import require_one_example
from codebound.errors import ModelError


@pytest.mark.parametrize("factory", [Residual, EachByItself, lambda: nn.Sequential(nn.Flatten())])
def test_functions_of_one_example_pass(factory):
    require_one_example(factory(), SAMPLE)


@pytest.mark.parametrize("factory", [Random, Noise, CountsCalls])
def test_chance_and_memory(factory):
    with pytest.raises(ModelError, match=r"evaluated again: it draws random numbers(.|\n)*if self.training"):
        require_one_example(factory(), SAMPLE)


def test_company():
    with pytest.raises(ModelError, match=r"rest of the batch(.|\n)*running statistics"):
        require_one_example(Attention(), SAMPLE)


def test_the_generator_of_the_caller_is_left_alone():
    network = Residual()
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    require_one_example(network, SAMPLE)
    assert torch.equal(torch.rand(3), expected)
