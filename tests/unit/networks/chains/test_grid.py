"""Networks of the common pattern: every point of the grid decodes to itself, and costs what the grid says."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound_networks.chains.grid import BLANK_POINT, GridPoint, _Group, grid_point_of
from codebound_networks.chains.operations import (
    AveragePool,
    Conv,
    Dictionary,
    GlobalAveragePool,
    Linear,
    MaxPool,
    NormalisedConv,
    Shifts,
)
from codebound_networks.codes.arithmetic import Reader, Writer

indices = st.integers(0, 2)
stages = st.builds(_Group, indices, st.integers(1, 3), indices, indices)
stacks = st.builds(
    lambda shifts, table, pool, width, parts, end: GridPoint(
        shifts,
        table,
        pool if table else 0,
        width,
        (_Group(1, parts[0].count, parts[0].kernel, parts[0].pool), *parts[1:]),
        end,
    ),
    st.integers(0, 4),
    st.integers(0, 7),
    st.integers(0, 3),
    st.integers(0, 7),
    st.lists(stages, min_size=1, max_size=4),
    st.integers(0, 3),
)


def written(stack):
    writer = Writer()
    stack.code(writer)
    return writer.finish()


@given(stacks)
def test_a_stack_is_read_as_it_was_written(stack):
    assert BLANK_POINT.code(Reader(written(stack))) == stack


@given(stacks)
def test_a_chain_of_the_grid_is_found_again(stack):
    operations = stack.operations(10)
    found = grid_point_of(operations)
    assert found is not None
    assert found.operations(10) == operations


@given(stacks)
def test_the_length_is_the_logarithm_of_the_number_of_choices(stack):
    choices = 16 * 8 * (4 if stack.table else 1) * 4 * 8 * 27 * 81 ** (len(stack.groups) - 1) * 4
    assert written(stack).length <= math.log2(choices) + 2.0


def test_the_network_on_mnist_costs_less_than_thirty_bits():
    operations = (
        Shifts(2),
        Dictionary(3, 2),
        NormalisedConv(32, 3),
        MaxPool(2),
        NormalisedConv(64, 3),
        MaxPool(2),
        Linear(10, False),
    )
    assert written(grid_point_of(operations)).length < 30


@pytest.mark.parametrize(
    "operations",
    [
        (Linear(10, False),),
        (NormalisedConv(32, 3), Linear(10, True)),
        (NormalisedConv(33, 3), Linear(10, False)),
        (NormalisedConv(32, 7), Linear(10, False)),
        (NormalisedConv(32, 3), NormalisedConv(48, 3), Linear(10, False)),
        (Dictionary(3, 5), NormalisedConv(32, 3), Linear(10, False)),
        (Dictionary(9, 2), NormalisedConv(32, 3), Linear(10, False)),
        (NormalisedConv(32, 3), MaxPool(3), Linear(10, False)),
        (NormalisedConv(32, 3), GlobalAveragePool(), AveragePool(1), Linear(10, False)),
        (Conv(32, 3, 1, 1, True), Linear(10, False)),
        ((NormalisedConv(32, 3), MaxPool(2)) * 5 + (Linear(10, False),)),
    ],
)
def test_other_networks_are_no_stack(operations):
    flat = tuple(operations)
    assert grid_point_of(flat) is None
