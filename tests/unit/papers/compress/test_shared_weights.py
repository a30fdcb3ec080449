"""Layers that share a weight: it is compressed once, and counts as changed wherever it is read."""

import numpy as np
import pytest
import torch
from torch import nn

from codebound.sample.arrays import from_arrays
from codebound_networks.reading.walk import wrap
from codebound_papers.compress.compression_summary import summarise
from codebound_papers.compress.compressors import Job
from codebound_papers.compress.methods import naive
from codebound_papers.guha23.masks import IterativePruning, LotteryTicket


def tied(*, bias: bool = False) -> nn.Module:
    torch.manual_seed(0)
    first, second = nn.Linear(12, 12, bias=bias), nn.Linear(12, 12, bias=bias)
    second.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(12, 3, bias=bias))


def noise():
    x = np.random.default_rng(0).random((40, 12), dtype=np.float32)
    return from_arrays(x, np.arange(40) % 3, name="noise").on("cpu")


def test_it_has_one_code_and_goes_to_both_layers():
    compressed = naive(wrap(tied()), density=0.3)
    assert list(compressed.codes) == ["0.weight", "4.weight"]
    assert [layer.name for layer in compressed.layers] == ["0", "4"]
    assert compressed.carried == {"2": "its weight is that of 0, and goes with it"}
    g = compressed.module()
    assert g[2].weight is g[0].weight
    assert torch.equal(g[0].weight, compressed.layers[0].weight)


def test_both_changes_count_in_the_bound_of_the_deviation():
    sample = noise()
    compressed = naive(wrap(tied()), density=0.3)
    found = summarise(compressed, sample).deviation
    change = np.linalg.norm(
        (compressed.layers[0].weight - compressed.network.layers[0].weight).numpy(force=True), 2
    )
    assert [layer.name for layer in found.layers] == ["0", "2", "4"]
    for layer in found.layers[:2]:
        assert layer.change == pytest.approx(change, rel=1e-5)
    f, g = compressed.network.model, compressed.module()
    with torch.no_grad():
        moved = torch.linalg.vector_norm(f(sample.x) - g(sample.x), dim=1)
    assert found.largest == pytest.approx(float(moved.max()), rel=1e-5)
    assert found.largest <= found.recursion


@pytest.mark.parametrize(
    "algorithm", [LotteryTicket(density=0.5, epochs=1), IterativePruning(rounds=1, epochs=1)]
)
def test_it_is_trained_once(algorithm):
    compressed = algorithm.train(Job(network=wrap(tied(bias=True))), noise())
    assert [layer.name for layer in compressed.layers] == ["0", "4"]
    g = compressed.module()
    assert g[2].weight is g[0].weight


def test_a_layer_may_share_with_what_is_no_layer():
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.back = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
            self.back.weight = self.words.weight
            self.head = nn.Linear(20, 3)

        def forward(self, x):
            return self.head(torch.relu(self.back(self.words(x).mean(1))))

    net = Words()
    compressed = naive(wrap(net, example=torch.zeros(2, 5, dtype=torch.int64)), density=0.5)
    assert list(compressed.codes) == ["words.weight", "head.weight", "head.bias"]
    x, table = torch.arange(40).reshape(8, 5) % 20, compressed.layers[0].weight
    assert int(table.count_nonzero()) == 80
    hidden = torch.relu(table[x].mean(1) @ table.T)
    expected = hidden @ compressed.layers[1].weight.T + net.head.bias
    assert torch.allclose(compressed.module()(x), expected, atol=1e-6)
