"""Networks that look at more than their example are told what to do, before anything is searched."""

import numpy as np
import pytest
import torch
from attack.networks import SAMPLE, Attention, CountsCalls, EachByItself, Noise, Random, Residual
from torch import nn

from codebound.run.errors import DependenceError, ModelError
from codebound.sample.arrays import from_arrays
from codebound_networks.about_f.batch_independence import require_one_example


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


class Brightest(nn.Module):
    """Divides by the largest number of the batch, which nearly all examples have."""

    def forward(self, x):
        return x.flatten(1)[:, :3] / x.amax() + 1.0


def test_company_that_seldom_matters():
    x = np.full((160, 1, 8, 8), 8, dtype=np.uint8)
    x[:5] = 4
    sample = from_arrays(x, np.arange(160) % 3, name="alike")
    with pytest.raises(ModelError, match="rest of the batch"):
        require_one_example(Brightest(), sample)


def test_code_that_fails_is_told_in_a_sentence():
    class Fails(nn.Module):
        def forward(self, x):
            return nn.functional.batch_norm(x, None, None, training=True) if len(x) > 200 else x[:, 9]

    with pytest.raises(ModelError, match="fails on some batches"):
        require_one_example(Fails(), SAMPLE)


def test_the_generator_of_the_caller_is_left_alone():
    network = Residual()
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    require_one_example(network, SAMPLE)
    assert torch.equal(torch.rand(3), expected)


class Rarely(nn.Module):
    """Looks at the batch for numbers that no example of the sample has."""

    def forward(self, x):
        scores = x.flatten(1)[:, :3]
        return torch.where(scores > 1e6, scores - scores.mean(0), scores)


def test_company_that_no_example_shows():
    with pytest.raises(DependenceError, match="operation mean looks at the rest of the batch"):
        require_one_example(Rarely(), SAMPLE)
