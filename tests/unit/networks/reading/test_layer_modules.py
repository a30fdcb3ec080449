"""A plain network with layers computes the same; each layer has the name that its weight had."""

import pytest
import torch
from torch import nn
from worlds.graphs import computed, graph_of
from worlds.networks import inputs

from codebound_networks.reading.export import Plain
from codebound_networks.reading.layer_modules import with_layers

aten = torch.ops.aten


def layered(write, x, **tensors):
    """The module with layers: it computes what the graph does, with the very tensors."""
    tensors = {
        name.replace("__", "."): nn.Parameter(value, requires_grad=False) for name, value in tensors.items()
    }
    graph = graph_of(write, x, tensors)
    module = with_layers(Plain(graph, tensors))
    with torch.no_grad():
        torch.testing.assert_close(module(x), computed(graph, x, tensors), rtol=0.0, atol=0.0)
    assert not module.training
    return module


CASES = {
    "linear": (
        lambda g, x, read: g.call_function(aten.linear.default, (x, read("fc.weight"), read("fc.bias"))),
        inputs(2, 4),
        {"fc__weight": inputs(3, 4), "fc__bias": inputs(3)},
        nn.Linear,
    ),
    "no bias": (
        lambda g, x, read: g.call_function(aten.linear.default, (x, read("fc.weight"))),
        inputs(2, 4),
        {"fc__weight": inputs(3, 4)},
        nn.Linear,
    ),
    "convolution": (
        lambda g, x, read: g.call_function(
            aten.conv2d.default, (x, read("fc.weight"), None, [2, 1], [1, 0], [1, 1], 2)
        ),
        inputs(2, 4, 6, 6),
        {"fc__weight": inputs(6, 2, 3, 3)},
        nn.Conv2d,
    ),
    "convolution as wide as before": (
        lambda g, x, read: g.call_function(
            aten.conv1d.padding, (x, read("fc.weight"), read("fc.bias"), [1], "same")
        ),
        inputs(2, 4, 6),
        {"fc__weight": inputs(3, 4, 3), "fc__bias": inputs(3)},
        nn.Conv1d,
    ),
    "transposed convolution": (
        lambda g, x, read: g.call_function(
            aten.conv_transpose2d.input, (x, read("fc.weight"), None, [2, 2], [1, 1], [1, 1])
        ),
        inputs(2, 4, 3, 3),
        {"fc__weight": inputs(4, 5, 3, 3)},
        nn.ConvTranspose2d,
    ),
    "batch norm": (
        lambda g, x, read: g.call_function(
            aten.batch_norm.default,
            (x, *(read(f"fc.{part}") for part in ("weight", "bias", "mean", "var")), False, 0.1, 1e-3, False),
        ),
        inputs(2, 4),
        {"fc__weight": inputs(4), "fc__bias": inputs(4), "fc__mean": inputs(4), "fc__var": inputs(4) ** 2},
        nn.BatchNorm1d,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operation_with_stored_tensors_is_a_layer(name):
    write, x, tensors, kind = CASES[name]
    module = layered(write, x, **tensors)
    ((called, layer),) = module.named_children()
    assert (called, type(layer)) == ("fc", kind)
    assert not [node for node in module.graph.nodes if node.op == "get_attr"]


def test_a_layer_that_is_called_twice_is_one():
    def write(graph, x, read):
        for _ in range(2):
            x = graph.call_function(aten.linear.default, (x, read("fc.weight")))
        return x

    module = layered(write, inputs(2, 4), fc__weight=inputs(4, 4))
    assert [name for name, _ in module.named_children()] == ["fc"]
    assert sum(node.op == "call_module" for node in module.graph.nodes) == 2


def test_a_weight_that_another_layer_has_is_read_by_its_first_name():
    def write(graph, x, read):
        first = graph.call_function(aten.linear.default, (x, read("fc.weight"), read("fc.bias")))
        return graph.call_function(aten.linear.default, (first, read("fc.weight")))

    module = layered(write, inputs(2, 4), fc__weight=inputs(4, 4), fc__bias=inputs(4))
    assert sorted(module.state_dict()) == ["fc.bias", "fc.weight"]
    assert [node.target for node in module.graph.nodes if node.op == "get_attr"] == ["fc.weight"]


def test_two_layers_of_one_module_get_two_names():
    def write(graph, x, read):
        first = graph.call_function(aten.linear.default, (x, read("cell.weight_ih")))
        return graph.call_function(aten.linear.default, (first, read("cell.weight_hh")))

    module = layered(write, inputs(2, 4), cell__weight_ih=inputs(4, 4), cell__weight_hh=inputs(3, 4))
    assert sorted(module.state_dict()) == ["cell.hh.weight", "cell.ih.weight"]


def test_what_is_computed_is_no_layer():
    def write(graph, x, read):
        weight = graph.call_function(aten.relu.default, (read("fc.weight"),))
        return graph.call_function(aten.linear.default, (x, weight))

    module = layered(write, inputs(2, 4), fc__weight=inputs(3, 4))
    assert not [node for node in module.graph.nodes if node.op == "call_module"]
    assert list(module.state_dict()) == ["fc.weight"]


def scaled_layer(graph, x, read):
    made = graph.call_function(aten.linear.default, (x, read("fc.weight"), read("fc.bias")))
    return graph.call_function(aten.mul.Tensor, (made, read("fc.gain")))


def test_a_layer_may_have_tensors_that_no_layer_of_torch_has():
    tensors = {"fc__weight": inputs(3, 4), "fc__bias": inputs(3), "fc__gain": inputs(3)}
    module = layered(scaled_layer, inputs(2, 4), **tensors)
    assert list(module.state_dict()) == ["fc.weight", "fc.bias", "fc.gain"]


def biased_twice(graph, x, read):
    made = graph.call_function(aten.linear.default, (x, read("fc.weight")))
    made = graph.call_function(aten.relu.default, (made,))
    return graph.call_function(aten.add.Tensor, (made, read("fc.bias")))


def test_a_bias_that_comes_later_is_not_that_of_the_layer():
    module = layered(biased_twice, inputs(2, 4), fc__weight=inputs(3, 4), fc__bias=inputs(3))
    assert module.fc.bias is None
    assert list(module.state_dict()) == ["fc.weight", "fc.bias_"]
