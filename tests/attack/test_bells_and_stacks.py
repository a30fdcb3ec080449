"""Attacks through the bell-shaped code (mode 14) and through stacks (architecture 3)."""

import copy

import cbound_writer as writer
import numpy as np
import pytest
from attack.crafting import (
    LINEAR,
    WIDE,
    N,
    X,
    Y,
    accepted_by_both,
    agree_on_every_flipped_bit,
    behind,
    both,
    drawn,
    numbers,
    refused_at_once,
    refused_by_both,
    sealed,
)
from cbound_writer import Stack, Stage

from codebound.bits.messages import Options
from codebound.certificate.assessment import assess, issue
from codebound.certificate.task import Task
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Dictionary, Linear, NormalisedConv, Shifts
from codebound_networks.codes.bell import Bell
from codebound_networks.codes.random_subspace import Subspace
from codebound_verify import verify

SMALL = Stack(v=2, t=1, stages=(Stage(c=2), Stage(g=0, k=0, q=2)))


def bell(*shape, j=-3, width=12) -> writer.Tensor:
    return writer.bell(drawn(*shape), j, width=width)


def subspace(q: writer.Tensor) -> writer.Subspace:
    return writer.Subspace(q, 1, -9, True, 3)


def weight(tensor: writer.Tensor) -> writer.Message:
    """A linear classifier with this weight, 3 x 4."""
    return writer.Message(LINEAR, {"0.weight": tensor})


TRUE = {
    "bell": weight(bell(3, 4)),
    "the largest integers": weight(writer.bell(drawn(3, 4, limit=255), 8, width=63)),
    "projected": weight(writer.projected((3, 4), bell(3, 5), rows=True)),
    "low rank": weight(writer.low_rank((3, 4), bell(3, 2), bell(2, 4, j=8, width=40))),
    "filled": weight(writer.filled(bell(3, 4), writer.Fill(False, -9, 3, 1))),
    "ticket": weight(writer.ticket(bell(3, 4), kind=1)),
    "mixed": weight(writer.mixed((3, 4), bell(6, j=-70), mixes=5)),
    "sketched": weight(
        writer.sketched(
            (3, 4),
            writer.bell(writer.sketch_of(drawn(3, 4), (3, 4), t=1), width=20),
            t=1,
            x=drawn(3, 4),
        )
    ),
    "subspace": writer.Message([["normalised conv", 2, 3], *LINEAR], subspace(bell(9, j=0))),
    "stack": writer.Message(
        Stack(),
        {"0.weight": writer.dense(drawn(8, 1, 3, 3), -9), "1.weight": writer.dense(drawn(3, 32))},
    ),
    "stack of everything": writer.Message(SMALL, subspace(bell(20, j=0))),
    "stack of the straightened": writer.Message(Stack(v=3), subspace(bell(20, j=0))),
    "stack of the straightened and moved": writer.Message(Stack(v=4, t=3), subspace(bell(20, j=0))),
    "stack of wide stages": writer.Message(
        Stack(t=3, i=7, stages=(Stage(), Stage(g=2, k=0)), e=3), subspace(writer.zero((4,)))
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", TRUE)
def test_the_messages_that_are_attacked_are_true(name):
    accepted_by_both(TRUE[name])


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TRUE)
def test_any_flipped_bit_is_the_same_to_both_programs(name):
    start = 1 + behind(TRUE[name], 2)  # options have to agree with the header
    agree_on_every_flipped_bit(TRUE[name], range(start, min(len(TRUE[name].bits), 120)))


@pytest.mark.few(13)
@pytest.mark.parametrize("name", TRUE)
@pytest.mark.parametrize("cut", [1, 2, 9, 20])
def test_a_message_that_ends_too_soon(name, cut):
    other = copy.copy(TRUE[name])
    other.bits = other.bits[:-cut]
    other.ledger = [["method", len(other.bits)]]
    refused_by_both(sealed(other), "Message: ")


@pytest.mark.few(1)
@pytest.mark.parametrize("views", [1, 2, 3, 4])
def test_codebound_writes_what_the_page_says_and_fewer_errors_are_refused(views):
    """A stack with bell-shaped integers, bit for bit; the count of codebound is accepted, one less is not."""
    sample = from_arrays(X, Y, name="clusters", classes=3, scaling=Scaling(16.0))
    operations = (Shifts(views), Dictionary(1, 1), NormalisedConv(16, 3), Linear(3, False))
    codes = Subspace(Bell(drawn(20).astype(np.int32), 0, width=12), 1, -9, zero_head=False, seed=3)
    task = Task(sample=sample, delta=0.05)
    certificate = issue(assess(Message(Options(), Chain((1, 2, 2), operations), codes), task), task)
    literal = writer.Message(Stack(v=views, t=1, i=1), writer.Subspace(bell(20, j=0), 1, -9, False, 3))
    assert str(certificate.message) == literal.bits
    errors = certificate.facts.errors
    assert 0 < errors < N
    for stated in (errors, errors - 1):
        assert verify(sealed(literal, errors=stated), X, Y).is_accepted == (stated == errors)


@pytest.mark.parametrize("width", [0, 20, 63])
@pytest.mark.parametrize("outside", [-256, 256, 700])
def test_an_integer_outside_is_none(width, outside):
    """Written with a wider table it is read as something else, the same by both, or not at all."""
    q = np.array([[outside, 1, 0, 0]] * 3)
    tensor = writer.bell(q, 0, width=width, largest=abs(outside))
    ours, theirs = both(sealed(weight(tensor)))
    assert ours == theirs
    if ours is not None:
        assert np.abs(np.frombuffer(ours["0.weight"], np.float32)).max() <= 255


FORBIDDEN = {
    "a mode that is not there": (weight(numbers(15)), "no tensor mode 15"),
    "a step": (weight(writer.bell(drawn(3, 4), 1001)), "exponent 1001"),
    "a negative step": (weight(writer.bell(drawn(3, 4), -1001)), "exponent -1001"),
    "weights beyond float32": (weight(writer.bell(np.full((3, 4), 255), 1000, width=63)), "too large"),
    "no width": (weight(numbers(14, 1)), "Message: "),
    "a step of the integers of a subspace": (
        writer.Message(LINEAR, subspace(bell(4, j=1))),
        "step of exponent 1; it must be 0",
    ),
    **{
        f"dictionary {t}": (writer.Message(Stack(t=t), subspace(bell(4, j=0))), "no such dictionary")
        for t in (2, 4, 5, 6, 7)
    },
    **{
        f"views {v}": (writer.Message(Stack(v=v), subspace(bell(4, j=0))), f"has kind {v}; kinds are")
        for v in (5, 10, 15)
    },
    "dictionary 2 of views": (writer.Message(Stack(v=1, t=2), subspace(bell(4, j=0))), "no such dictionary"),
    "a window above the image": (writer.Message(Stack(t=1, p=3), subspace(bell(4, j=0))), "window of 3"),
    "a pool too many": (
        writer.Message(Stack(stages=(Stage(q=1), Stage(q=2))), subspace(bell(4, j=0))),
        "window of 2, larger than its image",
    ),
    "a pool at the end": (writer.Message(Stack(e=2), subspace(bell(4, j=0))), "window of 4"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_the_page_forbids(name):
    message, because = FORBIDDEN[name]
    refused_by_both(sealed(message), because)


@pytest.mark.parametrize("stack", [Stack(), Stack(v=1), Stack(t=1), SMALL])
def test_vectors_are_no_images(stack):
    x = X.reshape(N, 4)
    refused_by_both(sealed(writer.Message(stack, subspace(bell(4, j=0))), x), "needs an image", x)


HUGE = {  # a few bytes that ask for more than there may be
    "integers": (
        (1, 2, 2),
        writer.Message(WIDE, {"0.weight": writer.zero(0), "1.weight": numbers(14, 1, (0, 64))}),
        "inside its code word",
    ),
    "patches": ((1, 480, 480), writer.Message(Stack(stages=(Stage(c=2, k=2),)), {}), "patches"),
    "results": ((1, 200, 200), writer.Message(Stack(i=7), {}), "numbers out of one example"),
    "multiplications": (
        (1, 32, 32),
        writer.Message(Stack(i=7, stages=(Stage(c=3), *[Stage(g=2, c=3)] * 3)), {}),
        "multiplications",
    ),
    "views": ((1, 32, 32), writer.Message(Stack(v=2, i=7, stages=(Stage(c=3),)), {}), "multiplications"),
    "weights": (
        (1, 2, 2),
        writer.Message(Stack(i=7, stages=(Stage(c=3, k=2), *[Stage(g=2, c=3, k=2)] * 3)), {}),
        "the network has",
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_work_in_a_tiny_file_is_refused_at_once(name):
    shape, message, because = HUGE[name]
    x, y = np.zeros((2, *shape), np.uint8), np.zeros(2, np.int64)
    refused_at_once(sealed(message, x, y), because, x, y)
