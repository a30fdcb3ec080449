"""All messages of versions 2 and 3 are one code (docs/format-3.md, 5.7): random bits begin with few of them.

The Kraft sum of a prefix-free code is the probability that a random stream begins with one of its words,
which the decoder of the second program finds out. Short messages are a code of their own, whose words may
begin those of others: the two sums are added.
"""

import contextlib
from types import SimpleNamespace

import numpy as np

from codebound_verify.arithmetic import Decoder
from codebound_verify.learn.rule import Columns, read_rule, read_rule_without_picks
from codebound_verify.losses import decode_loss, decode_new_loss
from codebound_verify.message import (
    HEAD_AFTER_SPLIT,
    LOSS,
    NEW_LOSS,
    RULE,
    read_flag_of_loss,
    read_form,
    read_loss,
    read_scaling,
)
from codebound_verify.networks.network import read_architecture, read_biases
from codebound_verify.refusal import Refused

BITS, STREAMS, CLASSES = 2048, 2000, 3
OFTEN = 6.0 * (0.25 / STREAMS) ** 0.5  # what chance adds to a share


class Whatever:
    """Equal to all that a message says: the header repeats it, and decides nothing."""

    __hash__ = None

    def __eq__(self, other) -> bool:
        return True


HEADER = SimpleNamespace(
    scaling=Whatever(), classes=CLASSES, architecture=None, input_shape=(1, 8, 8), statement="C-15", base=None
)


def is_short_word(decoder: Decoder) -> None:
    """A head on a base of three classes, or a rule that picks nothing; any loss."""
    form = read_form(decoder)
    if read_flag_of_loss(decoder):
        read_loss(decoder, CLASSES)
    if form == RULE:
        rule = read_rule_without_picks(decoder, HEADER.input_shape, 1)
        if not isinstance(rule.features, Columns):
            read_scaling(decoder, HEADER, literal=False)
    else:
        if form == HEAD_AFTER_SPLIT:
            decoder.uniform(9)
        read_scaling(decoder, HEADER)
        if not decoder.bit():
            read_architecture(decoder, HEADER)
        read_biases(decoder, (CLASSES,), CLASSES)
    decoder.finish()


def is_long_word(decoder: Decoder) -> None:
    """The others, up to where tensors begin, which are a code for whatever stands in front of them."""
    classes = decoder.gamma() + 1
    read_scaling(decoder, HEADER)
    scheme = decoder.gamma()
    if scheme in (LOSS, NEW_LOSS):
        (decode_loss if scheme == LOSS else decode_new_loss)(decoder, classes)
        scheme = decoder.gamma()
    if scheme > 3:
        raise Refused("unknown")
    split, theta, base = decoder.bit() and 1 + decoder.uniform(9), decoder.bit(), decoder.bit()
    if theta:
        decoder.signed()
    if (split and theta) or (scheme == 3 and (split or theta or base)):
        raise Refused("no statement has both")
    if scheme == 3:
        read_rule(decoder, HEADER.input_shape, has_layers=True)
        decoder.finish()
    elif decoder.gamma() > 3:
        raise Refused("no architecture")


class Forced(Decoder):
    """Takes its first bits from elsewhere: they cost nothing."""

    free: tuple[int, ...] = ()

    def bit(self) -> int:
        if not self.free:
            return super().bit()
        first, *rest = self.free
        self.free = tuple(rest)
        return first


def share(is_word, *free: int) -> float:
    """Of random streams, those that begin with a word."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(STREAMS):
        decoder = Forced(rng.bytes(BITS // 8), BITS)
        decoder.free = free
        with contextlib.suppress(Refused):
            is_word(decoder)
            found += 1
    return found / STREAMS


def test_the_sums_of_both_together_are_below_one():
    short, long = share(is_short_word), share(is_long_word)
    assert 0.05 < short < 0.5
    assert 0.1 < long < 0.36 + 1 / 64 + 1 / 32 + 1 / 16 + OFTEN  # what the page says
    assert short + long + OFTEN < 1.0


def test_a_form_that_costs_nothing_is_caught():
    """Each of the three in its own words, as if the header alone said which it is."""
    forms = sum(share(is_short_word, *free) for free in ((1, 1), (1, 0, 1), (1, 0, 0)))
    assert forms + share(is_long_word) > 1.0
