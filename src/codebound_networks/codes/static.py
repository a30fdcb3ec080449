"""The static block code, docs/format.md, section 8.4: lanes of independent states.

Every element is coded with a frequency of 16 bits from a table that the code word holds. The elements are
dealt to the lanes in turn; here one after the other, a quarter of a microsecond each.
"""

from __future__ import annotations

import heapq
import math
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codebound.bits.plain_code import Bits
from codebound.run.errors import FormatError, UsageError

Integers = NDArray[Any]

SCALE_BITS = 16
SCALE = 1 << SCALE_BITS
WORD_BITS = 16
LOWEST_BITS = 24
LOWEST = 1 << LOWEST_BITS
STATE_BYTES = 5
MAX_LANES_LOG2 = 12
LANE_OVERHEAD_BITS = 32.0  # a lane starts with a state that is worth 24 bits and leaves half a word unused
_WORD = (1 << WORD_BITS) - 1
_MOST_GROUPS = 1 << 17  # of one block: a decoder takes about 10 microseconds for each
_FEW_LANES_LOG2 = 5  # fewer than 2^5 lanes are no faster for any decoder


def frequency_table(counts: Integers) -> Integers:
    """Frequencies of sum 2^16, at least 1 where the count is: the best ones, unit by unit.

    >>> frequency_table(np.array([1, 3, 0])).tolist()
    [16384, 49152, 0]
    """
    used = np.flatnonzero(counts)
    if not 1 <= len(used) <= SCALE:
        raise UsageError(f"a static code has 1 to {SCALE:,} different symbols. Got {len(used):,}.")
    weights = counts[used].astype(np.float64)
    table = np.maximum(1, np.floor(weights * (SCALE / weights.sum()))).astype(np.int64)
    missing = SCALE - int(table.sum())
    sign = 1 if missing > 0 else -1
    heap = [
        (_step_cost(w, f, sign), i)
        for i, (w, f) in enumerate(zip(weights.tolist(), table.tolist(), strict=True))
    ]
    heapq.heapify(heap)
    for _ in range(abs(missing)):
        _, i = heap[0]
        table[i] += sign
        heapq.heapreplace(heap, (_step_cost(float(weights[i]), int(table[i]), sign), i))
    full = np.zeros(len(counts), dtype=np.int64)
    full[used] = table
    return full


def _step_cost(weight: float, frequency: int, sign: int) -> float:
    """Change of the code length when a frequency moves by one unit."""
    if frequency + sign < 1:
        return math.inf
    return weight * math.log(frequency / (frequency + sign))


def choose_lanes_log2(bits: float, elements: int) -> int:
    """As many lanes as cost 0.05 % of ``bits``, and more where a long tensor would have too many groups."""
    cheap = int(math.log2(max(0.0005 * bits / LANE_OVERHEAD_BITS, 1.0)))
    needed = math.ceil(math.log2(max(elements / _MOST_GROUPS, 1.0)))
    return min(max(cheap if cheap >= _FEW_LANES_LOG2 else 0, needed), MAX_LANES_LOG2)


def encode_block(symbols: Integers, table: Integers, lanes_log2: int) -> Bits:
    """The block of ``symbols``: indices of ``table``, all with frequencies of at least 1."""
    if bool((table[np.bincount(symbols).nonzero()] == 0).any()):
        raise UsageError("a symbol of frequency zero cannot be coded.")
    states = np.full(1 << lanes_log2, LOWEST, dtype=np.int64)
    words = _encode(symbols, table, states)
    octets = states.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - STATE_BYTES :]
    data = octets.tobytes() + words.astype(">u2").tobytes()
    return Bits(data, 8 * len(data))


def decode_block(
    bits: Bits, start: int, *, table: Integers, lanes_log2: int, count: int
) -> tuple[Integers, int]:
    """The ``count`` symbols of the block that begins at bit ``start``, and the bit where it ends."""
    lanes = 1 << lanes_log2
    head = STATE_BYTES * lanes
    data = bits.whole_bytes(start, head + 2 * count)
    if len(data) < head:
        raise FormatError(f"a block begins with {head} bytes of states, {len(data)} are left.")
    octets = np.zeros((lanes, 8), dtype=np.uint8)
    octets[:, 8 - STATE_BYTES :] = np.frombuffer(data, dtype=np.uint8, count=head).reshape(lanes, STATE_BYTES)
    states = octets.view(">i8").ravel().astype(np.int64)
    if int(states.min()) < LOWEST:
        raise FormatError("a block starts with a state below 2^24.")
    words = np.frombuffer(data, dtype=">u2", offset=head, count=(len(data) - head) // 2).astype(np.int64)
    symbols, taken = _decode(words, table, states, count)
    if bool((states != LOWEST).any()):
        raise FormatError("a block does not end in the state it must end in.")
    return symbols, start + 8 * head + 16 * taken


def _encode(symbols: Integers, table: Integers, states: Integers) -> Integers:
    """The words that remain when ``states`` take up the symbols, last one first. Changes ``states``."""
    frequency, before = table.tolist(), (np.cumsum(table) - table).tolist()
    ceiling = (table << LOWEST_BITS).tolist()
    state, words, lanes = states.tolist(), array("H"), len(states)
    lane = len(symbols) % lanes
    for symbol in reversed(symbols.tolist()):
        lane = (lane or lanes) - 1
        own, f = state[lane], frequency[symbol]
        if own >= ceiling[symbol]:
            words.append(own & _WORD)
            own >>= WORD_BITS
        state[lane] = (own // f << SCALE_BITS) + own % f + before[symbol]
    states[:] = state
    return np.frombuffer(words, dtype=np.uint16)[::-1]


def _decode(words: Integers, table: Integers, states: Integers, count: int) -> tuple[Integers, int]:
    """The symbols that ``states`` give up, and how many words they took. Changes ``states``."""
    frequency, before = table.tolist(), (np.cumsum(table) - table).tolist()
    symbol_at = np.repeat(np.arange(len(table)), table).tolist()
    state, supply, lanes = states.tolist(), iter(words.tolist()), len(states)
    symbols, taken = array("i"), 0  # four bytes each: the count may be a stranger's
    for place in range(count):
        lane = place % lanes
        own = state[lane]
        slot = own & _WORD
        symbol = symbol_at[slot]
        symbols.append(symbol)
        own = frequency[symbol] * (own >> SCALE_BITS) + slot - before[symbol]
        if own < LOWEST:
            taken += 1
            own = own << WORD_BITS | next(supply, 0)
        state[lane] = own
    if taken > len(words):
        raise FormatError("a block ends before its last element.")
    states[:] = state
    return np.frombuffer(symbols, dtype=np.int32), taken
