"""A plain graph without detours: every rule by itself, and where it must not be used."""

import pytest
import torch
from worlds.graphs import computed, graph_of, operations
from worlds.networks import inputs

from codebound_networks.reading.canonical import simplify

aten = torch.ops.aten
X = inputs(5, 4)


def simplified(write, x=X, **tensors):
    """The operations that are left, the tensors, and the sentences; what is computed stays the same."""
    graph = graph_of(write, x, tensors)
    before = computed(graph, x, tensors)
    notes = simplify(graph, tensors)
    graph.eliminate_dead_code()
    torch.testing.assert_close(computed(graph, x, tensors), before, rtol=1e-12, atol=1e-12)
    return operations(graph), tensors, notes


def test_a_product_from_the_left_is_a_linear_layer_with_the_matrix_turned():
    matrix, bias = inputs(4, 3, seed=1), inputs(3, seed=2)

    def write(graph, x, read):
        return graph.call_function(aten.addmm.default, (read("b"), x, read("w")))

    left, tensors, notes = simplified(write, w=matrix, b=bias)
    assert left == ["linear"]
    assert torch.equal(tensors["w"], matrix.t())
    assert notes == ["Matrices that inputs are multiplied with are those of linear layers, transposed (w)."]


def test_a_product_with_a_turned_matrix_is_one_with_the_matrix_as_it_is():
    matrix = inputs(3, 4, seed=1)

    def write(graph, x, read):
        turned = graph.call_function(aten.permute.default, (read("w"), [1, 0]))
        return graph.call_function(aten.mm.default, (x, turned))

    left, tensors, notes = simplified(write, w=matrix)
    assert left == ["linear"]
    assert tensors["w"] is matrix
    assert not notes


def test_a_matrix_that_something_else_reads_is_not_turned():
    matrix = inputs(4, 3, seed=1)

    def write(graph, x, read):
        product = graph.call_function(aten.mm.default, (x, read("w")))
        total = graph.call_function(aten.sum.default, (read("w"),))
        return graph.call_function(aten.mul.Tensor, (product, total))

    left, tensors, notes = simplified(write, w=matrix)
    assert left == ["mm", "sum", "mul"]
    assert tensors["w"] is matrix
    assert not notes


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (aten.add.Tensor, (0,)),
        (aten.mul.Tensor, (1,)),
        (aten.div.Tensor, (1,)),
        (aten.reshape.default, ([5, 4],)),
    ],
    ids=str,
)
def test_work_that_changes_nothing_goes(operation, arguments):
    def write(graph, x, read):
        same = graph.call_function(operation, (x, *arguments))
        return graph.call_function(aten.relu.default, (same,))

    assert simplified(write)[0] == ["relu"]


@pytest.mark.parametrize(
    ("operation", "number"), [(aten.add.Tensor, 1), (aten.mul.Tensor, 0), (aten.sub.Tensor, 0.5)], ids=str
)
def test_work_that_changes_something_stays(operation, number):
    def write(graph, x, read):
        return graph.call_function(operation, (x, number))

    assert len(simplified(write)[0]) == 1


def test_linear_layers_need_no_reshape():
    """Sequences that somebody flattens before a layer and restores behind it."""

    def write(graph, x, read):
        flat = graph.call_function(aten.reshape.default, (x, [10, 4]))
        made = graph.call_function(aten.linear.default, (flat, read("w")))
        return graph.call_function(aten.reshape.default, (made, [5, 2, 3]))

    assert simplified(write, x=inputs(5, 2, 4), w=inputs(3, 4, seed=1))[0] == ["linear"]


@pytest.mark.parametrize("is_first", [False, True])
def test_a_vector_that_is_added_to_a_linear_layer_is_its_bias(is_first):
    def write(graph, x, read):
        made = graph.call_function(aten.linear.default, (x, read("w")))
        both = (read("b"), made) if is_first else (made, read("b"))
        return graph.call_function(aten.add.Tensor, both)

    assert simplified(write, w=inputs(3, 4), b=inputs(3))[0] == ["linear"]


def test_what_is_read_without_the_vector_too_stays_as_it_is():
    def write(graph, x, read):
        made = graph.call_function(aten.linear.default, (x, read("w")))
        biased = graph.call_function(aten.add.Tensor, (made, read("b")))
        return graph.call_function(aten.mul.Tensor, (made, biased))

    assert simplified(write, w=inputs(3, 4), b=inputs(3))[0] == ["linear", "add", "mul"]
