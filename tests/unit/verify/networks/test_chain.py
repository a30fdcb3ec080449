"""Stacks: each point of the grid is the chain that the page names."""

import cbound_writer as writer
import pytest
from cbound_writer import Stack, Stage
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.arithmetic import Decoder
from codebound_verify.networks.chain import Chain, read_chain, read_stack
from codebound_verify.refusal import Refused

STAGES = st.builds(Stage, st.integers(0, 2), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))
STACKS = st.builds(
    Stack,
    v=st.integers(0, 15),
    t=st.integers(0, 7),
    p=st.integers(1, 4),
    i=st.integers(0, 7),
    stages=st.lists(STAGES, min_size=1, max_size=4).map(tuple),
    e=st.integers(0, 3),
)
SHAPES = st.sampled_from([(1, 8, 8), (3, 16, 9), (1, 2, 2), (12,)])


def decoder_of(coder: writer.Coder) -> tuple[Decoder, int]:
    word = coder.end()
    decoder = Decoder(writer.pack_bits(word), len(word))
    decoder.gamma()  # which kind of architecture
    return decoder, len(word)


def outcome(read, coder: writer.Coder, shape) -> Chain | str:
    """A chain, or why there is none; what was written is read to its end."""
    decoder, length = decoder_of(coder)
    try:
        chain = read(decoder, shape, 10)
    except Refused as refused:
        return str(refused)
    assert decoder.finish() == length
    return chain


@given(STACKS, SHAPES)
def test_a_stack_is_the_chain_with_its_operations(stack, shape):
    """Also where that chain is refused: for the same reason."""
    named, spelled = writer.Coder(), writer.Coder()
    stack.write(named)
    writer.write_chain(spelled, stack.chain(10))
    assert outcome(read_stack, named, shape) == outcome(read_chain, spelled, shape)


# One stage without a dictionary is one of 16 8 4 8 3 3 3 4 = 442368 points, each with an interval of
# 1/442368, between 2^-19 and 2^-18. The first is [0, 1/442368). The other one is the last of those whose
# first three fields are 0: [863/442368, 864/442368), and 1023/2^19 = 863.16/442368 starts the first dyadic
# interval inside, which ends with it.
@pytest.mark.parametrize(
    ("word", "operations"),
    [
        ("0" * 19, [("normalised conv", 8, 1), ("linear", 10, 0)]),
        (
            "0000000001111111111",
            [
                *[("normalised conv", 128, 5)] * 3,
                ("average pool", 0, 2),
                ("global average pool", 0, 0),
                ("linear", 10, 0),
            ],
        ),
    ],
)
def test_code_words_computed_by_hand(word, operations):
    decoder = Decoder(writer.pack_bits(word), len(word))
    chain = read_stack(decoder, (1, 4, 4), 10)
    assert [(each.kind, each.out, each.kernel) for each in chain.operations] == operations
    assert not any(each.bias for each in chain.operations)
    assert decoder.finish() == len(word)


@pytest.mark.parametrize("v", range(5, 16))
def test_reserved_views_are_refused(v):
    coder = writer.Coder()
    Stack(v=v).write(coder)
    assert f"(views) has kind {v}; kinds are 1, 2, 3, 4" in outcome(read_stack, coder, (1, 4, 4))


def test_widths_are_halved_kept_and_doubled():
    stack = Stack(i=2, stages=(Stage(g=0), Stage(g=0), Stage(g=1), Stage(g=2)))
    coder = writer.Coder()
    stack.write(coder)
    chain = outcome(read_stack, coder, (1, 4, 4))
    assert [each.out for each in chain.operations] == [24, 12, 12, 24, 10]
    assert [name for name, _ in chain.layout()] == [f"{i}.weight" for i in range(5)]
