"""Kraft for whole messages: in a tiny world all are listed; none begins another, none is too cheap."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from codebound.bits.bitstring import Bits
from codebound.bits.messages import Options
from codebound.run.errors import FormatError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message, decode
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.tensors import Adaptive, Dense, Static, Zero
from codebound_papers.compress.codes import Filled, Projected, Ticket

pytestmark = pytest.mark.thorough
OPTIONS = [
    Options(),
    Options(has_base=True),
    *(Options(tenths=tenths) for tenths in range(1, 10)),
    *(Options(theta_index=index) for index in (-1, 0, 1)),
]
TABLE = np.array([1, 2**16 - 2, 1])


def levels(shape):
    """All tensors of elements in -1, 0, 1."""
    for values in itertools.product((-1, 0, 1), repeat=int(np.prod(shape))):
        yield np.array(values, dtype=np.int32).reshape(shape)


def codes(shape, *, is_rich: bool):
    """Codes of a tensor with L = 1 and step 0: zero, dense and adaptive; the rich list has more of them."""
    yield Zero(shape)
    for q in levels(shape):
        yield Dense(q, 0, 1)
        yield Adaptive(q, 0, 1)
        if is_rich:
            yield Adaptive(q, 0, 1, row_flags=1, column_flags=1, kind=3, stride=2)
            yield Static(q, 0, 1, table=TABLE, lanes_log2=0)
            yield Filled(Static(q, 0, 1, table=TABLE, lanes_log2=0), None)
            yield Ticket(Dense(q, 0, 1), kind=1, seed=1)
    if is_rich:
        for z in levels((1, 3)):
            yield Projected(shape, Dense(z, 0, 1), by_rows=False, gaussian=False, seed=0)


def subspaces():
    """Subspaces of at most two dimensions, with integers in -1, 0, 1."""
    for size in (1, 2):
        for q in levels((size,)):
            integers = (Dense(q, 0, 1), Adaptive(q, 0, 1), Static(q, 0, 1, table=TABLE, lanes_log2=0))
            choices = itertools.product(integers, (0, 1, 2), (-1, 0, 1), (False, True), (0, 1, 2))
            for inner, entries, step, zero_head, seed in choices:
                yield Subspace(inner, entries, step, zero_head, seed)
        yield Subspace(Zero((size,)), 0, 0, zero_head=False, seed=0)


def world():
    """Messages for two inputs and two classes: chains of one or two operations of width at most two."""
    single = Chain((2,), (Linear(2, False),))
    for options in OPTIONS:
        for weight in codes((2, 2), is_rich=True):
            yield Message(options, single, {"0.weight": weight})
    for operations in ((Linear(2, True),), (Linear(1, False), Linear(2, True))):
        chain = Chain((2,), operations)
        kinds = [codes(shape, is_rich=False) for shape in chain.tensor_shapes().values()]
        for tensors in itertools.product(*kinds):
            yield Message(Options(), chain, dict(zip(chain.tensor_shapes(), tensors, strict=True)))
    for subspace in subspaces():
        for operations in ((Linear(2, False),), (Linear(1, False), Linear(2, True))):
            yield Message(Options(), Chain((2,), operations), subspace)
        yield Message(Options(has_base=True), single, subspace)


@pytest.fixture(scope="module")
def strings() -> list[str]:
    return [str(message.encode()[0]) for message in world()]


def is_prefix_free(strings: list[str]) -> bool:
    """In sorted order a string stands directly before what it begins."""
    ordered = sorted(strings)
    return not any(later.startswith(first) for first, later in itertools.pairwise(ordered))


def kraft_sum(strings: list[str]) -> Fraction:
    longest = max(map(len, strings))
    return Fraction(sum(1 << longest - len(string) for string in strings), 1 << longest)


def test_no_message_begins_another_and_their_lengths_are_those_of_a_code(strings):
    assert len(strings) > 10_000
    assert is_prefix_free(strings)
    assert kraft_sum(strings) < 1


def test_the_enumeration_has_teeth(strings):
    """A message whose last bit is not charged breaks the prefix property; free options break Kraft."""
    assert not is_prefix_free([strings[0][:-1], *strings])
    assert not is_prefix_free([*strings, strings[-1]])
    free = [string[: len(string) // 4] for string in strings]
    assert kraft_sum(free) > 1


def test_every_message_is_read_back_as_it_was_written():
    for message in itertools.islice(world(), 0, None, 7):
        bits, _ = message.encode()
        again = decode(bits, input_shape=(2,))
        assert again.options == replace(message.options, setting=message.setting)
        assert again.chain == message.chain
        zeros = {name: np.zeros(shape, np.float32) for name, shape in message.shapes.items()}
        base = zeros if message.options.has_base else None
        decoded = again.weights(base)
        for name, weights in message.weights(base).items():
            assert decoded[name].tobytes() == weights.tobytes()


def test_what_follows_a_message_never_makes_it_another_one(strings):
    """Refused as a whole: the length of a file carries no information."""
    for string in strings[:: len(strings) // 50]:
        for tail in ("0", "1", "00000000"):
            longer = string + tail
            data = int(longer.ljust(-(-len(longer) // 8) * 8, "0"), 2).to_bytes(-(-len(longer) // 8), "big")
            with pytest.raises(FormatError, match="ends"):
                decode(Bits(data, len(longer)), input_shape=(2,))
