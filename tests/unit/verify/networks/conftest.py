"""Messages of networks, written by hand, with the header that belongs to them."""

from types import SimpleNamespace

import numpy as np
import pytest
from code_writer import encoded, packed

from codebound_verify.header import Code, Header, Known, Made, Sample
from codebound_verify.message import Bits
from codebound_verify.networks.network import read_network

MADE = {"by": "somebody", "of": "other data"}


def header_of(shape, n, *, classes=3, base=None, features=None, known=None, original=None) -> Header:
    """A header of which networks ask nothing but this; ``base`` and ``features`` are rows and a hash."""
    base, features = (each and Made(rows=each[0], sha256=each[1], **MADE) for each in (base, features))
    rows = known if known is not None else max((each.rows for each in (base, features) if each), default=0)
    sample = Sample(n, "0" * 64, shape, classes, "rows", "", "", "any", None, None)
    return Header(
        sample=sample,
        known=Known(rows, (), features, base),
        message=Code(1, "0" * 64, ()),
        claim=None,
        original=original,
        declarations=(),
        made_by={},
        format={},
    )


def read_by_hand(*steps, x, block="", base=None, witness=b"", header=None, is_cells=False, **about):
    """The network and the bits of a message: its word, a code word of these steps, and blocks."""
    header = header or header_of(x.shape[1:], len(x), **about)
    bits = Bits(*packed("111110" + encoded(*steps) + block))
    assert bits.bits(6) == 0b111110
    bits.note("form")
    container = SimpleNamespace(header=header, witness=witness)
    data = SimpleNamespace(x=x, y=np.zeros(len(x), np.int64), is_cells=is_cells)
    network = read_network(bits, container, data, base)
    bits.finish()
    assert sum(count for _, count in bits.ledger) == bits.count
    return network, bits


@pytest.fixture
def read():
    """Read a message that was written by hand."""
    return read_by_hand


@pytest.fixture
def header():
    """Make a header."""
    return header_of
