"""One function, written in different ways, has one chain, the same tensors and so the same bound."""

import copy

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from worlds.requests import request

from codebound.certification import certify
from codebound.known.provenance import Pretrained
from codebound.sample.dataset import Sample
from codebound_networks.chains.from_module import chain_of
from codebound_networks.views.zoo import ResidualBlock

SHAPE, CLASSES = (2, 8, 8), 3


class Pooled(nn.Module):
    """A convolution, a maximum, an average and a linear layer, by functions or by modules."""

    def __init__(self, width, ways):
        super().__init__()
        self.ways = ways
        self.conv, self.norm = nn.Conv2d(2, width, 3, padding=1), nn.BatchNorm2d(width)
        self.head = nn.Linear(4 * width, CLASSES)
        self.relu, self.most, self.mean = nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2)

    def forward(self, x):
        x = self.norm(self.conv(x))
        x = {"module": self.relu, "function": functional.relu, "method": Tensor_relu}[self.ways[0]](x)
        x = self.most(x) if self.ways[1] == "module" else functional.max_pool2d(x, 2)
        x = self.mean(x) if self.ways[2] == "module" else functional.avg_pool2d(x, kernel_size=2, stride=2)
        flat = {
            "flatten": lambda: torch.flatten(x, 1),
            "view": lambda: x.view(x.size(0), -1),
            "reshape": lambda: x.reshape(len(x), -1),
            "method": lambda: x.flatten(start_dim=1),
        }
        return self.head(flat[self.ways[3]]())


def Tensor_relu(x):
    return x.relu()


def sequential(network):
    return nn.Sequential(
        network.conv, network.norm, nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten(), network.head
    )


def with_statistics(network, seed):
    """All numbers drawn anew, those of batch norms too."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=random) + (0.5 if "var" in name else -0.5))
    return network.eval()


def same(one, other, shape=SHAPE):
    (chain, tensors), (its, theirs) = chain_of(one, shape), chain_of(other, shape)
    return chain == its and all(torch.equal(tensors[name], theirs[name]) for name in tensors)


WAYS = st.tuples(
    st.sampled_from(["module", "function", "method"]),
    st.sampled_from(["module", "function"]),
    st.sampled_from(["module", "function"]),
    st.sampled_from(["flatten", "view", "reshape", "method"]),
)


@examples(6)
@given(ways=WAYS, width=st.integers(1, 5), seed=st.integers(0, 99))
def test_pools_and_flattenings_have_no_spelling(ways, width, seed):
    network = with_statistics(Pooled(width, ways), seed)
    assert same(network, sequential(network).eval())


class TheirBlock(nn.Module):
    """What the zoo's residual block computes, as somebody else wrote it."""

    def __init__(self, ours, *, in_place):
        super().__init__()
        self.first, self.norm1 = ours.conv1, ours.bn1
        self.second, self.norm2 = ours.conv2, ours.bn2
        self.in_place = in_place

    def forward(self, x):
        y = torch.relu(self.norm1(self.first(x)))
        y = self.norm2(self.second(y))
        if self.in_place:
            y += x
            return functional.relu_(y)
        return (x + y).relu()


@pytest.mark.thorough
@examples(3)
@given(in_place=st.booleans(), width=st.integers(1, 4), seed=st.integers(0, 99))
def test_residual_blocks_have_no_class(in_place, width, seed):
    block = ResidualBlock(width, width)
    ends = nn.Conv2d(2, width, 3, padding=1), nn.Linear(width, CLASSES)
    pool = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ours = with_statistics(nn.Sequential(ends[0], nn.ReLU(), block, *pool, ends[1]), seed)
    theirs = nn.Sequential(ends[0], nn.ReLU(), TheirBlock(block, in_place=in_place), *pool, ends[1]).eval()
    assert same(ours, theirs)


def test_the_comparison_has_teeth():
    network = with_statistics(Pooled(3, ("module", "module", "module", "flatten")), 1)
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.head.weight[0, 0] += 0.25
    assert same(network, copy.deepcopy(network))
    assert not same(network, other)


class Gated(nn.Module):
    """No chain: a message codes its tensors alone."""

    def __init__(self, *, by_functions):
        super().__init__()
        self.body, self.head = nn.Linear(12, 6), nn.Linear(6, CLASSES)
        self.act, self.by_functions = nn.GELU(), by_functions

    def forward(self, x):
        if self.by_functions:
            hidden = functional.gelu(
                functional.linear(x.reshape(x.shape[0], -1), self.body.weight, self.body.bias)
            )
            return functional.linear(hidden, self.head.weight, self.head.bias)
        return self.head(self.act(self.body(torch.flatten(x, 1))))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["chain", "module"])
def test_the_bound_is_the_same(kind):
    random = np.random.default_rng(3)
    shape = SHAPE if kind == "chain" else (3, 2, 2)
    x = random.integers(0, 255, (90, *shape)).astype("uint8")
    sample = Sample(name="noise", role="train", x=x, y=random.integers(0, CLASSES, 90), classes=CLASSES)
    if kind == "chain":
        one = with_statistics(Pooled(3, ("function", "function", "function", "view")), 5)
        other = sequential(one).eval()
    else:
        one = with_statistics(Gated(by_functions=True), 5)
        other = Gated(by_functions=False).eval()
        other.load_state_dict(one.state_dict())
    options = [
        {"method": "prune"} if kind == "chain" else {"method": "scores", "base": Pretrained(each, "by hand")}
        for each in (one, other)
    ]
    networks = zip((one, other), options, strict=True)
    found = [certify(sample, network=each, **request(effort="quick", **option)) for each, option in networks]
    assert found[0].bound == found[1].bound
    assert found[0].certificate.message == found[1].certificate.message
