"""Small networks and inputs that several tests look at."""

from itertools import pairwise

import torch
from torch import nn


def mlp(*sizes, bias, seed=0):
    torch.manual_seed(seed)
    layers = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


def convnet(*, bias):
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
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
