"""Tensors of any shapes in place of those of a chain: codes of tensors are compared on all of them.

A message describes its chain; here it has the word of a factory in that place, as the literal writer writes
it, and both programs are told the shapes.
"""

from contextlib import contextmanager
from unittest.mock import patch

from codebound.bits.numbers import gamma
from codebound_networks.chains.message import FACTORY, Message


class AnyTensors:
    """Has the shapes of tensors, as a chain of either program has them."""

    operations = ()

    def __init__(self, shapes):
        self.shapes = dict(shapes)

    def tensor_shapes(self):
        return self.shapes

    def layout(self):
        return tuple(self.shapes.items())


@contextmanager
def any_tensors(shapes):
    """Yield what stands for a chain in both programs while it lasts."""
    chain = AnyTensors(shapes)

    def read_by_codebound(reader, *_):
        assert gamma(reader, 0) == FACTORY
        return chain

    def read_by_verifier(decoder, _):
        assert decoder.gamma() == FACTORY
        return chain

    with (
        patch.object(Message, "_write_architecture", lambda message, writer: gamma(writer, FACTORY)),
        patch("codebound_networks.chains.message._read_architecture", read_by_codebound),
        patch("codebound_verify.networks.network.read_architecture", read_by_verifier),
    ):
        yield chain
