"""Blocks of few lanes are those of many; how long a block is at least is known without making it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.plain_code import Bits
from codebound_networks.codes import static


@st.composite
def blocks(draw):
    """Symbols, all of one kind or of very unlike frequencies, and a number of lanes."""
    kinds, count = draw(st.integers(1, 9)), draw(st.integers(1, 700))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    symbols = random.choice(kinds, count, p=random.dirichlet(np.full(kinds, draw(st.floats(0.05, 5.0)))))
    return symbols.astype(np.int64), kinds, draw(st.integers(0, 7))


@given(blocks())
def test_a_block_gives_its_symbols_back_and_ends_where_it_ends(made):
    symbols, kinds, lanes_log2 = made
    table = static.frequency_table(np.bincount(symbols, minlength=kinds))
    block = static.encode_block(symbols, table, lanes_log2)
    behind = Bits(block.data + b"\xff\xff", block.length + 16)
    read, end = static.decode_block(behind, 0, table=table, lanes_log2=lanes_log2, count=len(symbols))
    assert read.tolist() == symbols.tolist()
    assert end == block.length


@pytest.mark.parametrize("lanes_log2", [0, 2, 6])
def test_a_block_is_about_as_long_as_its_table_says(lanes_log2):
    random = np.random.default_rng(lanes_log2)
    symbols = random.choice(5, 50_000, p=[0.02, 0.08, 0.8, 0.08, 0.02])
    counts = np.bincount(symbols, minlength=5)
    table = static.frequency_table(counts)
    ideal = float(counts @ (16.0 - np.log2(table)))
    found = static.encode_block(symbols, table, lanes_log2).length
    assert 0.99 * ideal < found < 1.01 * ideal + 40 * 2**lanes_log2
