"""Small networks. Their weights are those of a seed or are given; nothing here is trained."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import nn


def mlp(*sizes, bias=True, activation=nn.ReLU, flat=False, seed=0):
    """Linear layers with activations between them; ``flat`` ones take inputs of any shape.

    Weights come from the global stream, which is set to the seed unless that is None.
    """
    if seed is not None:
        torch.manual_seed(seed)
    layers = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, bias=bias), activation()]
    return nn.Sequential(*[nn.Flatten()] * flat, *layers[:-1])


def double_mlp(*sizes, bias, seed=0):
    """In float64, as :func:`inputs` are."""
    return mlp(*sizes, bias=bias, seed=seed).double()


def gaussian_mlp(*sizes, gain=1.0, seed=0):
    """Without biases; an entry of a layer has the variance ``gain`` / inputs."""
    stream = torch.Generator().manual_seed(seed)
    layers = []
    for inputs, outputs in pairwise(sizes):
        entries = torch.randn(outputs, inputs, generator=stream)
        layers += [linear_of(entries / math.sqrt(inputs / gain)), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@torch.no_grad()
def linear_of(matrix, *, bias=False):
    """A linear layer with this matrix; a bias is drawn."""
    matrix = torch.as_tensor(matrix)
    layer = nn.Linear(*matrix.shape[::-1], bias=bias, dtype=matrix.dtype)
    layer.weight.copy_(matrix)
    return layer


def gaussian_linear(rows, columns, *, seed=0):
    """A linear layer with standard normal weights, and a bias."""
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    return linear_of(matrix, bias=True)


@torch.no_grad()
def with_normal_weights(network, *, seed):
    """The network, each of whose parameters is standard normal now."""
    stream = np.random.default_rng(seed)
    for weight in network.parameters():
        weight.copy_(torch.from_numpy(stream.normal(size=tuple(weight.shape)).astype(np.float32)))
    return network


def normed_and_dropped(width=16, *, dropout=0.5, seed=0):
    """From four inputs to three classes, with a batch norm and dropout; leaves the global stream alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 3)
        )


class Skipping(nn.Module):
    """A hidden layer of as many units as there are inputs, and a skip around it: no chain."""

    def __init__(self, inputs, classes):
        super().__init__()
        self.first, self.last = nn.Linear(inputs, inputs), nn.Linear(inputs, classes)

    def forward(self, x):
        x = x.flatten(1)
        return self.last(x + self.first(x).relu())


def convnet(*, bias):
    """Two convolutions of images of two channels with six by six pixels; for five classes."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1, bias=bias),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 3, padding=1, bias=bias),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 9, 5, bias=bias),
    ).double()


def inputs(*shape, seed=0):
    """Standard normal ones, in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit_vector(size, seed):
    """In a direction drawn uniformly."""
    vector = torch.randn(size, generator=torch.Generator().manual_seed(seed)).double()
    return vector / vector.norm()
