"""The steps of a plain network, one after the other, compute what it computes; what are none is named."""

import pytest
import torch
from torch import nn
from worlds.graphs import module_of
from worlds.networks import inputs

from codebound.run.errors import UnsupportedLayerError
from codebound_networks.chains.blocks import plain_steps
from codebound_networks.chains.modules import FoldedBlock

aten = torch.ops.aten
X = inputs(2, 3, 8, 8)


def conv(channels, out, *, stride=1, bias=True, kernel=3):
    return nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=bias, dtype=torch.float64)


def called(graph, node, *names):
    """Layers by name and operations, one after the other."""
    for each in names:
        node = graph.call_module(each, (node,)) if isinstance(each, str) else graph.call_function(*each(node))
    return node


def relu(node):
    return aten.relu.default, (node,)


def added(graph, one, other):
    return called(graph, graph.call_function(aten.add.Tensor, (one, other)), relu)


def steps_of(write, **layers):
    module = module_of(write, X, **layers)
    steps = list(plain_steps(module))
    with torch.no_grad():
        composed = nn.Sequential(*(step for _, step in steps))(X)
        torch.testing.assert_close(composed, module(X), rtol=1e-12, atol=1e-12)
    return [(name, type(step)) for name, step in steps]


def test_operations_become_the_modules_that_do_the_same():
    def write(graph, x):
        return called(
            graph, x, "first", relu,
            lambda node: (aten.max_pool2d.default, (node, [2, 2])),
            lambda node: (aten.avg_pool2d.default, (node, [2, 2], [2, 2], [0, 0], False, False)),
            lambda node: (aten.mean.dim, (node, [-1, -2], True)),
            lambda node: (aten.reshape.default, (node, [2, 5])),
            "head",
        )  # fmt: skip

    found = steps_of(write, first=conv(3, 5), head=nn.Linear(5, 4, dtype=torch.float64))
    assert [kind for _, kind in found] == [
        nn.Conv2d, nn.ReLU, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear,
    ]  # fmt: skip
    assert (found[0][0], found[-1][0]) == ("first", "head")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("swapped", [True, False])
def test_a_residual_block_is_known_by_what_it_computes(bias, swapped):
    def write(graph, x):
        inside = called(graph, x, "a", relu, "b")
        return added(graph, *((x, inside) if swapped else (inside, x)))

    assert [kind for _, kind in steps_of(write, a=conv(3, 3), b=conv(3, 3, bias=bias))] == [FoldedBlock]


def test_a_block_that_shrinks_has_the_shortcut_without_parameters():
    def write(graph, x):
        inside = called(graph, x, "a", relu, "b")
        short = called(
            graph, x,
            lambda node: (aten.slice.Tensor, (node, 2, 0, 8, 2)),
            lambda node: (aten.slice.Tensor, (node, 3, 0, 8, 2)),
            lambda node: (aten.pad.default, (node, [0, 0, 0, 0, 1, 2])),
        )  # fmt: skip
        return added(graph, inside, short)

    layers = {"a": conv(3, 6, stride=2), "b": conv(6, 6)}
    module = module_of(write, X, **layers)
    ((_, block),) = plain_steps(module)
    assert isinstance(block, FoldedBlock)
    assert block.a.weight is layers["a"].weight


def without_last_relu(graph, x):
    inside = called(graph, x, "a", relu, "b")
    return called(graph, graph.call_function(aten.add.Tensor, (inside, x)), "a")


def three_layers(graph, x):
    return added(graph, called(graph, x, "a", relu, "b", relu, "a"), x)


def another_shortcut(graph, x):
    first = called(graph, x, relu)
    return added(graph, called(graph, first, "a", relu, "b"), called(graph, first, "b"))


@pytest.mark.parametrize("write", [without_last_relu, three_layers, another_shortcut])
def test_other_uses_of_an_earlier_result_are_refused(write):
    with pytest.raises(UnsupportedLayerError, match="read more than once"):
        list(plain_steps(module_of(write, X, a=conv(3, 3), b=conv(3, 3))))


def test_wide_filters_in_a_block_are_refused():
    def write(graph, x):
        return added(graph, called(graph, x, "a", relu, "b"), x)

    with pytest.raises(UnsupportedLayerError, match="two convolutions of 3 x 3"):
        list(plain_steps(module_of(write, X, a=conv(3, 3, kernel=5), b=conv(3, 3))))


def test_a_step_that_no_chain_has_is_named():
    def write(graph, x):
        return called(graph, x, lambda node: (aten.tanh.default, (node,)))

    with pytest.raises(UnsupportedLayerError, match=r"tanh.*a chain has linear layers"):
        list(plain_steps(module_of(write, X)))
