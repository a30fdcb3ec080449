"""Line-balanced pruning: the caps hold, training stays under the mask, and every layer can be sketched."""

import copy
import math

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from worlds.networks import mlp
from worlds.samples import decided_by_three

from codebound.run.errors import UsageError
from codebound_networks.codes.modes import integers
from codebound_networks.reading.walk import wrap
from codebound_papers.compress.compression_summary import summarise
from codebound_papers.compress.compressors import Job, compress
from codebound_papers.compress.methods import balanced
from codebound_papers.guha23 import balanced as home
from codebound_papers.guha23.balanced import BalancedPruning, balanced_mask, on_grid, prune_balanced
from codebound_papers.guha23.magnitude import largest_mask
from codebound_papers.guha23.sketch.codec import smallest_sketch

SAMPLE = decided_by_three().on("cpu")
FRESH = decided_by_three(1000, seed=1).on("cpu")
SMALL = {"density": 0.1, "steps": 3, "epochs": 12}


def model(width: int = 40) -> nn.Module:
    """A trained network."""
    net = mlp(10, width, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(SAMPLE.x), SAMPLE.y).backward()
        optimizer.step()
    return net.eval()


def accuracy(module: nn.Module) -> float:
    with torch.no_grad():
        return float((module(FRESH.x).argmax(1) == FRESH.y).float().mean())


def greedy(matrix, count, row_cap, column_cap):
    """The definition, entry by entry."""
    kept = np.zeros(matrix.shape, bool)
    for entry in sorted(np.ndindex(matrix.shape), key=lambda entry: -abs(matrix[entry])):
        row, column = entry
        fits = kept[row].sum() < row_cap and kept[:, column].sum() < column_cap
        kept[entry] = fits and kept.sum() < count and matrix[entry] != 0
    return kept


@given(
    st.lists(st.lists(st.integers(-4, 4), min_size=5, max_size=5), min_size=1, max_size=6),
    *(st.integers(1, limit) for limit in (30, 6, 7)),
)
@examples(60)
def test_the_mask_is_the_greedy_one(rows, count, row_cap, column_cap):
    matrix = torch.tensor(rows, dtype=torch.float32)
    mask = balanced_mask(matrix, count, row_cap=row_cap, column_cap=column_cap)
    assert np.array_equal(mask.numpy(), greedy(matrix.numpy(), count, row_cap, column_cap))


def test_magnitude_alone_breaks_the_caps():
    matrix = torch.randn(60, 60, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.1, 3.0, 60)
    mask = balanced_mask(matrix, 180, row_cap=6, column_cap=6)
    assert int(mask.sum()) == 180
    assert max(int(mask.sum(0).max()), int(mask.sum(1).max())) <= 6
    assert int(largest_mask(matrix.abs(), 180).sum(0).max()) > 12


def test_masks_of_a_layer_and_of_the_last_one():
    options = BalancedPruning(row_cap=2.0, column_cap=3.0)
    weight = torch.randn(100, 80, generator=torch.Generator().manual_seed(0)).exp()
    mask = options.mask(weight, 0.1)
    assert int(mask.sum()) == 800
    assert int(mask.sum(1).max()) <= 16
    assert int(mask.sum(0).max()) <= 30
    assert options.mask(weight[:10], 0.2, is_last=True).sum(1).tolist() == [16] * 10
    assert options.mask(weight[:10], 0.001, is_last=True).sum(1).tolist() == [8] * 10


def test_gradients_choose_the_share_of_a_mask_that_grows_again():
    rng = torch.Generator().manual_seed(0)
    weight, gradient = torch.randn(30, 50, generator=rng), 100.0 * torch.randn(30, 50, generator=rng)
    options = BalancedPruning(row_cap=100.0, column_cap=100.0)
    mask = options.mask(weight, 0.1, growth=(gradient, 0.4))
    largest = largest_mask(weight.abs(), 90)
    assert int(mask.sum()) == 150
    assert bool(mask[largest].all())
    others = gradient.abs().masked_fill(largest, 0.0)
    assert torch.equal(mask & ~largest, largest_mask(others, 60))
    narrow = BalancedPruning(row_cap=1.0, column_cap=1.0).mask(weight, 0.2, growth=(gradient, 0.4))
    assert int(narrow.sum(1).max()) <= 10
    assert int(narrow.sum(0).max()) <= 8


def test_there_are_no_more_steps_than_passes():
    many, few = (BalancedPruning(**SMALL | {"steps": steps, "epochs": 2}) for steps in (50, 2))
    found, expected = (prune_balanced(wrap(model()), SAMPLE, each).module for each in (many, few))
    assert all(map(torch.equal, found.parameters(), expected.parameters()))


def test_trained_under_the_mask_it_learns_what_pruning_alone_forgets():
    net = model()
    before = copy.deepcopy(net.state_dict())
    options = BalancedPruning(**SMALL)
    found = prune_balanced(wrap(net), SAMPLE, options)
    assert accuracy(found.module) > accuracy(prune_balanced(wrap(net), None, options).module)
    for view in wrap(found.module).layers:
        mask = found.masks[view.name]
        assert not bool(view.weight[~mask].any())
        assert int(mask.sum()) < 0.4 * mask.numel()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_method_rounds_the_pruned_network_and_carries_what_was_trained_along():
    net = wrap(model())
    found = balanced(net, SAMPLE, levels=7, **SMALL)
    again = BalancedPruning(levels=7, **SMALL).run(Job(network=net, sample=SAMPLE))
    for one, other in zip(found.layers, again.layers, strict=True):
        assert torch.equal(one.weight, other.weight)
        assert int(np.abs(integers(one.code).levels).max()) <= 3
    g = found.module()
    assert accuracy(g) > 0.8
    biases = {name: value for name, value in g.state_dict().items() if name.endswith("bias")}
    assert all(not torch.equal(value, net.model.state_dict()[name]) for name, value in biases.items())
    assert all(np.array_equal(found.codes[name].values(), value.numpy()) for name, value in biases.items())
    moved = summarise(found, FRESH).deviation
    assert moved.recursion is None  # it would know nothing of the biases
    assert "were trained too" in moved.reason


def test_without_a_sample_nothing_is_trained():
    net = wrap(model())
    found = compress(net, BalancedPruning(density=0.2))
    assert not found.trained
    options = BalancedPruning(density=0.2)
    first = net.layers[0].weight.detach()
    mask = options.mask(first, options.shares([view.name for view in net.layers])[net.layers[0].name])
    assert not bool(found.layers[0].weight[~mask].any())


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_sparse_layer_is_the_dense_one(has_bias):
    torch.manual_seed(0)
    layer, x = nn.Linear(30, 20, bias=has_bias), torch.randn(2, 5, 30, requires_grad=True)
    mask = torch.rand(20, 30) < 0.1
    with torch.no_grad():
        layer.weight.mul_(mask)
    sparse = home._SparseLinear(layer, mask)
    assert torch.equal(sparse.dense().weight, layer.weight)
    change = torch.randn(2, 5, 20)
    gradients = []
    for each, weight in ((layer, layer.weight), (sparse, sparse.values)):
        x.grad = None
        out = each(x)
        out.backward(change)
        gradients.append((out.detach(), x.grad.clone(), weight.grad))
    (out, by_x, by_weight), (sparse_out, sparse_by_x, by_values) = gradients
    assert torch.allclose(out, sparse_out, atol=1e-5)
    assert torch.allclose(by_x, sparse_by_x, atol=1e-5)
    assert torch.allclose(by_weight[mask], by_values, atol=1e-4)


def test_training_is_the_same_with_and_without_sparse_products(monkeypatch):
    options = BalancedPruning(**SMALL | {"density": 0.05})
    found = prune_balanced(wrap(model()), SAMPLE, options)
    monkeypatch.setattr(home, "_SPARSE", 0.0)
    dense = prune_balanced(wrap(model()), SAMPLE, options)
    for name, value in dense.module.state_dict().items():
        assert torch.allclose(value, found.module.state_dict()[name], atol=2e-2)


def test_a_grid_has_the_least_squared_error():
    weight = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
    for levels in (3, 7, 63):
        code = on_grid(weight, levels)
        error = float((torch.from_numpy(code.values()) - weight).square().sum())
        for size in np.geomspace(0.01, 4.0, 200):
            limit = levels // 2
            other = (weight / size).round().clamp(-limit, limit) * size
            assert error <= 1.1 * float((other - weight).square().sum())  # steps are 9 % apart
    with pytest.raises(UsageError, match="odd number of levels"):
        on_grid(weight, 4)


def test_every_layer_comes_back_from_its_sketch():
    torch.manual_seed(0)
    net = wrap(nn.Sequential(nn.Linear(150, 120), nn.ReLU(), nn.Linear(120, 10)))
    for layer in compress(net, BalancedPruning(density=0.02, output_density=0.05)).layers:
        grid = integers(layer.code)
        assert smallest_sketch(grid.levels, step=grid.step).code is not None


def test_tied_layers_stay_tied():
    first = nn.Linear(10, 10)
    net = nn.Sequential(first, nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 3))
    net[2].weight = first.weight
    found = prune_balanced(wrap(net), SAMPLE, BalancedPruning(**SMALL | {"density": 0.05}))
    assert found.module[0].weight is found.module[2].weight
    assert "2" in found.carried
    assert not bool(found.module[2].weight[~found.masks["0"]].any())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"row_cap": 0.0}, "positive"), ({"steps": 0}, "at least 1"), ({"regrowth": 1.0}, "grows again")],
)
def test_options_that_make_no_sense(wrong, message):
    with pytest.raises(UsageError, match=message):
        BalancedPruning(**wrong)


def test_all_layers_or_none():
    with pytest.raises(UsageError, match="all layers together"):
        BalancedPruning().run(Job(network=wrap(model()), layers=("0",)))
    with pytest.raises(UsageError, match="at least 1"):
        balanced_mask(torch.ones(2, 2), 0, row_cap=1, column_cap=1)


@pytest.mark.parametrize("name", ["density", "output_density"])
@pytest.mark.parametrize("share", [0.0, 7.0, math.nan])
def test_a_share_that_is_none_is_refused(name, share):
    with pytest.raises(UsageError, match="a share to keep"):
        BalancedPruning(**{name: share})
