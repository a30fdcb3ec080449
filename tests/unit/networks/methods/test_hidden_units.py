"""Hidden units: removing dead ones never changes the function, narrowing keeps the strongest ones."""

from itertools import pairwise

import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import AveragePool, Conv, Linear, MaxPool, Residual
from codebound_networks.methods.hidden_units import narrowed, without_biases, without_dead_units


@st.composite
def chains(draw) -> Chain:
    """A chain without biases: convolutions and pools, then linear layers."""
    shape = draw(st.sampled_from([(3,), (1, 4, 4), (2, 5, 4)]))
    operations = []
    if len(shape) == 3:
        if draw(st.booleans()):
            operations.append(Conv(draw(st.integers(1, 3)), 3, draw(st.integers(1, 2)), 1, False))
        if draw(st.booleans()):
            operations.append(draw(st.sampled_from([MaxPool(2), AveragePool(2)])))
        if operations and draw(st.booleans()):
            operations.append(Conv(draw(st.integers(1, 4)), 1, 1, draw(st.integers(0, 1)), False))
    widths = draw(st.lists(st.integers(1, 5), max_size=3))
    return Chain(shape, (*operations, *(Linear(width, False) for width in widths), Linear(2, False)))


@st.composite
def sparse_nets(draw):
    chain = draw(chains())
    stream = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    density = draw(st.sampled_from([0.1, 0.3, 0.6]))
    tensors = {}
    for name, shape in chain.tensor_shapes().items():
        present = torch.rand(shape, generator=stream) < density
        tensors[name] = torch.randint(-2, 3, shape, generator=stream).double() * present
    return chain, tensors, torch.randint(-3, 4, (6, *chain.input_shape), generator=stream).double()


def size(tensors: dict[str, torch.Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


@given(sparse_nets())
@examples(150)
def test_without_dead_units_the_function_is_the_same_bit_for_bit(net):
    """Small integers in float64: every sum is exact, so there is no rounding to hide behind."""
    chain, tensors, x = net
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    small, alive = without_dead_units(chain, tensors)
    assert torch.equal(small.build(alive)(x), chain.build(tensors)(x))
    assert all(torch.equal(tensors[name], before[name]) for name in before)
    assert {name: tuple(tensor.shape) for name, tensor in alive.items()} == small.tensor_shapes()
    assert small.input_shape == chain.input_shape
    assert small.classes == chain.classes


@given(sparse_nets())
def test_no_dead_unit_is_left_unless_a_whole_layer_is_dead(net):
    chain, tensors, _ = net
    small, alive = without_dead_units(chain, tensors)
    layers = [i for i, operation in enumerate(small.operations) if isinstance(operation, Linear | Conv)]
    for first, second in pairwise(layers):
        rows, columns = alive[f"{first}.weight"], alive[f"{second}.weight"]
        enters = rows.flatten(1).any(dim=1)
        leaves = columns.reshape(len(columns), len(rows), -1).any(dim=2).any(dim=0)
        lives = enters & leaves
        assert lives.all() or not lives.any()
    again, same = without_dead_units(small, alive)
    assert again == small
    assert size(same) == size(alive)


def test_a_chain_of_dead_units_goes_in_one_call():
    chain = Chain((2,), (Linear(2, False), Linear(2, False), Linear(2, False)))
    tensors = {
        "0.weight": torch.tensor([[1, 0], [0, 1]]),
        "1.weight": torch.tensor([[1, 0], [0, 1]]),
        "2.weight": torch.tensor(
            [[1, 0], [1, 0]]
        ),  # nothing reads unit 1 of layer 1, so nothing reads 1 of 0
    }
    small, alive = without_dead_units(chain, tensors)
    assert [operation.out for operation in small.operations] == [1, 1, 2]
    assert alive["0.weight"].tolist() == [[1, 0]]


def test_residual_blocks_are_left_alone():
    chain = Chain((2, 4, 4), (Residual(2, False), Linear(3, False)))
    tensors = {name: torch.zeros(shape) for name, shape in chain.tensor_shapes().items()}
    assert without_dead_units(chain, tensors)[0] == chain
    assert narrowed(chain, tensors, 1)[0] == chain


def test_removing_a_unit_that_has_a_bias_would_change_the_function():
    """The equality above has teeth: with a bias a unit that nothing enters is not zero."""
    chain = Chain((1,), (Linear(1, True), Linear(2, False)))
    tensors = {
        "0.weight": torch.zeros(1, 1),
        "0.bias": torch.ones(1),
        "1.weight": torch.tensor([[1.0], [2.0]]),
    }
    with_bias = chain.build({name: tensor.clone() for name, tensor in tensors.items()})
    del tensors["0.bias"]
    without = without_biases(chain).build(tensors)
    x = torch.zeros(1, 1)
    assert not torch.equal(with_bias(x), without(x))


def test_without_biases_drops_nothing_else():
    chain = Chain((1, 4, 4), (Conv(2, 3, 1, 1, True), MaxPool(2), Residual(2, True), Linear(3, True)))
    assert without_biases(chain).operations == (
        Conv(2, 3, 1, 1, False),
        MaxPool(2),
        Residual(2, False),
        Linear(3, False),
    )


def test_narrowing_keeps_the_strongest_units_in_their_order():
    chain = Chain((1, 2, 2), (Conv(3, 1, 1, 0, True), Linear(2, True), Linear(2, False)))
    tensors = {
        "0.weight": torch.tensor([5.0, 1.0, 3.0]).reshape(3, 1, 1, 1),
        "0.bias": torch.tensor([10.0, 11.0, 12.0]),
        "1.weight": torch.arange(24.0).reshape(2, 12),
        "1.bias": torch.tensor([1.0, 2.0]),
        "2.weight": torch.ones(2, 2),
    }
    narrow, kept = narrowed(chain, tensors, 2)
    assert narrow.operations == (Conv(2, 1, 1, 0, True), Linear(2, True), Linear(2, False))
    assert kept["0.weight"].flatten().tolist() == [5.0, 3.0]
    assert kept["0.bias"].tolist() == [10.0, 12.0]
    assert kept["1.weight"].tolist() == [[0, 1, 2, 3, 8, 9, 10, 11], [12, 13, 14, 15, 20, 21, 22, 23]]
    assert kept["1.bias"] is tensors["1.bias"]


@given(sparse_nets(), st.integers(1, 6))
def test_narrowing_to_the_full_width_changes_nothing_and_to_less_fits(net, width):
    chain, tensors, x = net
    narrow, kept = narrowed(chain, tensors, width)
    assert {name: tuple(tensor.shape) for name, tensor in kept.items()} == narrow.tensor_shapes()
    hidden = [operation.out for operation in narrow.operations[:-1] if isinstance(operation, Linear | Conv)]
    assert all(out <= width for out in hidden)
    if width >= 5:
        assert narrow == chain
        assert torch.equal(narrow.build(kept)(x), chain.build(tensors)(x))
