"""What follows from tensors alone is folded, and no result of the graph changes."""

import pytest
import torch
from worlds.graphs import computed, graph_of, operations
from worlds.networks import inputs

from codebound_networks.reading.constants import fold_constants

aten = torch.ops.aten
X = inputs(5, 4)


def folded(write, **tensors):
    """Names of the tensors that the graph reads after it, those that there are, and the sentences."""
    tensors = {name.replace("__", "."): value for name, value in tensors.items()}
    graph = graph_of(write, X, tensors)
    before = computed(graph, X, tensors)
    notes = fold_constants(graph, tensors)
    graph.eliminate_dead_code()
    torch.testing.assert_close(computed(graph, X, tensors), before, rtol=1e-12, atol=0.0)
    read = [node.target for node in graph.nodes if node.op == "get_attr"]
    return read, tensors, notes, operations(graph)


def weight_norm(graph, x, read):
    weight = graph.call_function(aten.mul.Tensor, (read("layer.weight_g"), read("layer.weight_v")))
    return graph.call_function(aten.linear.default, (x, weight))


def test_a_weight_that_is_computed_from_others_is_one_tensor():
    g, v = inputs(3, 1, seed=1), inputs(3, 4, seed=2)
    read, tensors, notes, left = folded(weight_norm, layer__weight_g=g, layer__weight_v=v)
    assert read == ["layer.weight"]
    assert left == ["linear"]
    assert torch.equal(tensors["layer.weight"], g * v)
    (note,) = notes
    assert note.startswith("layer.weight follows from layer.weight_g and layer.weight_v: it is computed once")


def test_what_is_larger_than_its_sources_stays_a_computation():
    """A message would have to code twelve numbers in place of seven."""
    column, row = inputs(3, 1, seed=1), inputs(1, 4, seed=2)
    read, _, notes, left = folded(weight_norm, layer__weight_g=column, layer__weight_v=row)
    assert read == ["layer.weight_g", "layer.weight_v"]
    assert left == ["mul", "linear"]
    assert not notes


def test_views_are_no_tensors_of_their_own():
    def write(graph, x, read):
        turned = graph.call_function(aten.t.default, (read("weight"),))
        return graph.call_function(aten.mm.default, (x, turned))

    read, _, notes, _ = folded(write, weight=inputs(3, 4, seed=1))
    assert read == ["weight"]
    assert not notes


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_chance_is_not_computed_once(p):
    def write(graph, x, read):
        mask = graph.call_function(aten.bernoulli.p, (read("weight"), p))
        weight = graph.call_function(aten.mul.Tensor, (read("weight"), mask))
        return graph.call_function(aten.linear.default, (x, weight))

    _, _, notes, left = folded(write, weight=inputs(3, 4, seed=1))
    assert left == ["bernoulli", "mul", "linear"]
    assert not notes


def test_a_name_that_is_taken_is_left_alone():
    def write(graph, x, read):
        both = graph.call_function(aten.add.Tensor, (weight_norm(graph, x, read), read("layer.weight")))
        return graph.call_function(aten.relu.default, (both,))

    taken = inputs(3, seed=3)
    given = {"layer__weight_g": inputs(3, 1, seed=1), "layer__weight_v": inputs(3, 4, seed=2)}
    read, tensors, _, _ = folded(write, **given, layer__weight=taken)
    assert sorted(read) == ["layer.weight", "layer.weight_"]
    assert torch.equal(tensors["layer.weight"], taken)


def test_a_mask_of_minus_infinity_is_no_tensor_that_a_message_could_say():
    def write(graph, x, read):
        hidden = graph.call_function(aten.gt.Scalar, (read("mask"), 0.5))
        made = graph.call_function(aten.masked_fill.Scalar, (read("mask"), hidden, -torch.inf))
        return graph.call_function(aten.add.Tensor, (x, made))

    read, tensors, notes, _ = folded(write, mask=torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64))
    assert set(read) == {"mask"}
    assert list(tensors) == ["mask"]
    assert not notes
