"""The static block code, docs/format.md, section 8.4: many independent states advance at once.

Every element is coded with a frequency of 16 bits from a table that the code word holds. The elements are
dealt to the lanes in turn; numpy advances many lanes together, few lanes run in plain Python.
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
_BATCH = 1 << 20  # elements whose frequencies are looked up at a time
_MOST_GROUPS = 1 << 17  # of one block: a decoder takes about 10 microseconds for each
_FEW_LANES_LOG2 = 5  # with fewer than 2^5 lanes numpy is no faster than plain Python
_LOST_BITS = math.log2(1.0 / (1.0 - 2.0 ** (SCALE_BITS - LOWEST_BITS)))  # of an element at most, by rounding
_GAINED_BITS = math.log2(1.0 + 2.0 ** (SCALE_BITS - LOWEST_BITS))  # the same


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
    """As many lanes as cost 0.05 % of ``bits``; more where a long tensor would have too many groups."""
    cheap = int(math.log2(max(0.0005 * bits / LANE_OVERHEAD_BITS, 1.0)))
    needed = math.ceil(math.log2(max(elements / _MOST_GROUPS, 1.0)))
    return min(max(cheap if cheap >= _FEW_LANES_LOG2 else 0, needed), MAX_LANES_LOG2)


def encode_block(symbols: Integers, table: Integers, lanes_log2: int) -> Bits:
    """The block of ``symbols``: indices of ``table``, all with frequencies of at least 1."""
    if bool((table[np.bincount(symbols).nonzero()] == 0).any()):
        raise UsageError("a symbol of frequency zero cannot be coded.")
    states = np.full(1 << lanes_log2, LOWEST, dtype=np.int64)
    encode = _encode_few if lanes_log2 < _FEW_LANES_LOG2 else _encode_lanes
    words = encode(symbols, table, states)
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
    decode = _decode_few if lanes_log2 < _FEW_LANES_LOG2 else _decode_lanes
    symbols, taken = decode(words, table, states, count)
    if bool((states != LOWEST).any()):
        raise FormatError("a block does not end in the state it must end in.")
    return symbols, start + 8 * head + 16 * taken


def block_limits(counts: Integers, table: Integers, lanes_log2: int) -> tuple[int, int]:
    """Bits that a block of symbols with these counts has at least and at most, whatever their order.

    An element of frequency f multiplies its state by 2^16 / f, and by rounding once more, by a number between
    1 - 2^-8 and 1 + 2^-8: without the word that goes, the state is 2^8 f or more. A state begins at 2^24 and
    ends in [2^24, 2^40), so words take up what is more.
    """
    used = counts > 0
    ideal = float(counts[used] @ (SCALE_BITS - np.log2(table[used])))
    lanes, elements = 1 << lanes_log2, int(counts.sum())
    least = ideal * (1.0 - 1e-9) - _LOST_BITS * elements - WORD_BITS * lanes
    most = ideal * (1.0 + 1e-9) + _GAINED_BITS * elements
    states = 8 * STATE_BYTES * lanes
    return states + WORD_BITS * max(0, math.floor(least / WORD_BITS)), states + WORD_BITS * math.ceil(
        most / WORD_BITS
    )


def _encode_few(symbols: Integers, table: Integers, states: Integers) -> Integers:
    """The same as ``_encode_lanes``, element by element."""
    frequency, before = table.tolist(), (np.cumsum(table) - table).tolist()
    ceiling = (table << LOWEST_BITS).tolist()
    state, words, lanes = states.tolist(), [], len(states)
    lane = len(symbols) % lanes
    for symbol in reversed(symbols.tolist()):
        lane = (lane or lanes) - 1
        own, f = state[lane], frequency[symbol]
        if own >= ceiling[symbol]:
            words.append(own & _WORD)
            own >>= WORD_BITS
        state[lane] = (own // f << SCALE_BITS) + own % f + before[symbol]
    states[:] = state
    return np.array(words[::-1], dtype=np.int64)


def _decode_few(words: Integers, table: Integers, states: Integers, count: int) -> tuple[Integers, int]:
    """The same as ``_decode_lanes``, element by element."""
    frequency, before = table.tolist(), (np.cumsum(table) - table).tolist()
    symbol_at = _symbol_of_slot(table).tolist()
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
    _check_supply(taken, words)
    states[:] = state
    return np.frombuffer(symbols, dtype=np.int32), taken


def _encode_lanes(symbols: Integers, table: Integers, states: Integers) -> Integers:
    """The words that remain when ``states`` take up the symbols, last group first; changes ``states``."""
    lanes = len(states)
    before, ceiling = np.cumsum(table) - table, (table << LOWEST_BITS) - 1
    own, work = np.empty_like(states), np.empty_like(states)
    whole = len(symbols) - len(symbols) % lanes
    parts = (
        [_encode_lanes(symbols[whole:], table, states[: len(symbols) - whole])]
        if whole < len(symbols)
        else []
    )
    # a group takes some microseconds, most of which goes into calls: numpy is twice as fast with arrays of
    # constants as with scalars, and with outputs by their place
    word_bits, sign_bit = np.full(lanes, WORD_BITS), np.full(lanes, 63)
    subtract, shift, divide, times, plus = np.subtract, np.right_shift, np.floor_divide, np.multiply, np.add
    size = max(_BATCH // lanes, 1) * lanes
    for start in reversed(range(0, whole, size)):
        batch = symbols[start : min(start + size, whole)].reshape(-1, lanes)
        most, freq, cum = ceiling[batch], table[batch], before[batch]
        seen = np.empty((len(batch) + 1, lanes), dtype=np.int64)  # the states before a group are behind it
        seen[-1] = states
        rows = list(seen[::-1])
        for state, following, top, divisor, growth, offset in zip(
            rows, rows[1:], most[::-1], freq[::-1], (SCALE - freq)[::-1], cum[::-1], strict=False
        ):
            subtract(top, state, work)  # negative where a word has to go
            shift(work, sign_bit, work)
            np.bitwise_and(work, word_bits, work)
            shift(state, work, own)
            divide(own, divisor, work)
            times(work, growth, work)
            plus(work, offset, work)
            plus(own, work, following)
        states[:] = seen[0]
        parts.append((seen[1:] & _WORD)[seen[1:] > most])
    return np.concatenate([np.empty(0, dtype=np.int64), *reversed(parts)])


def _decode_lanes(words: Integers, table: Integers, states: Integers, count: int) -> tuple[Integers, int]:
    """The symbols that ``states`` give up, and how many words they took; changes ``states``."""
    lanes = len(states)
    symbol_at = _symbol_of_slot(table)
    frequency = table[symbol_at]
    place = np.arange(SCALE) - (np.cumsum(table) - table)[symbol_at]
    low_word, scale_bits, word_bits = (
        np.full(lanes, _WORD),
        np.full(lanes, SCALE_BITS),
        np.full(lanes, WORD_BITS),
    )
    lowest = np.full(lanes, LOWEST)
    symbols = np.empty(count, dtype=np.int32)
    whole = count - count % lanes
    taken, size = 0, max(_BATCH // lanes, 1) * lanes
    for start in range(0, whole, size):
        target = symbols[start : min(start + size, whole)].reshape(-1, lanes)
        slots = np.empty(target.shape, dtype=np.int64)
        for slot in slots:
            np.bitwise_and(states, low_word, out=slot)
            np.right_shift(states, scale_bits, out=states)
            np.multiply(states, frequency[slot], out=states)
            np.add(states, place[slot], out=states)
            hungry = np.less(states, lowest).nonzero()[0]
            need = len(hungry)
            if need:
                fresh = words[taken : taken + need]
                taken += need
                if len(fresh) < need:
                    _check_supply(taken, words)
                states[hungry] = np.left_shift(states[hungry], word_bits[:need]) | fresh
        target[:] = symbol_at[slots]
    if whole < count:
        symbols[whole:], more = _decode_lanes(words[taken:], table, states[: count - whole], count - whole)
        taken += more
    return symbols, taken


def _symbol_of_slot(table: Integers) -> Integers:
    return np.repeat(np.arange(len(table)), table)


def _check_supply(taken: int, words: Integers) -> None:
    if taken > len(words):
        raise FormatError("a block ends before its last element.")
