"""The codes of tensors (docs/format.md, section 8.4), but for those of ``papers``."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..message import Bits
from ..refusal import Refused
from ..rooms import room
from .arithmetic import Context, Decoder, Flags, grid

Floats: TypeAlias = NDArray[np.float32]
Shape: TypeAlias = tuple[int, ...]
Integers: TypeAlias = NDArray[np.signedinteger[Any]]
Doubles: TypeAlias = NDArray[np.float64]

SLOTS = 1 << 16  # sum of the frequencies of a static table
STATE_BYTES = 5  # of a lane at the start of a block
LOWEST = 1 << 24  # a lane with a lower state takes a word
TENSOR_LIMIT = 1 << 25  # elements of a tensor, inner ones included
TILE = 1 << 18  # elements computed at a time
ELSEWHERE = (2, 7)  # modes whose elements are not inside the code word
INNER_MODES = (1, 2, 3, 4, 7, 14)
MODES_OF_PAPERS = range(8, 14)
BELL_LIMIT = 255  # absolute value of an integer under a bell
BELL_TOP = 1 << 30  # U_0
DECAYS = (  # r of a bell, one per width
    *(1200, 1673, 2268, 2999, 3874, 4898, 6075, 7401, 8869, 10471, 12192, 14019, 15933, 17917, 19953, 22023),
    *(24109, 26196, 28267, 30311, 32314, 34267, 36162, 37991, 39750, 41434, 43041, 44569, 46019, 47389),
    *(48681, 49898, 51039, 52110, 53111, 54045, 54917, 55729, 56484, 57185, 57835, 58438, 58997, 59514),
    *(59992, 60434, 60842, 61218, 61565, 61886, 62181, 62452, 62703, 62933, 63145, 63340, 63520, 63685),
    *(63836, 63976, 64104, 64221, 64329, 64429),
)


@dataclass(frozen=True)
class Content:
    """Coded elements in C order: each stands for ``data`` times a step, exact in float64.

    ``limit`` is L, which no absolute value of an integer is above.
    """

    data: Integers | Floats
    exponent: int = 0
    limit: int = 1

    def values(self) -> Doubles:
        """The numbers that the elements stand for."""
        return self.data.astype(np.float64) * grid(self.exponent)


@dataclass(frozen=True)
class Static:
    """A tensor whose ``count`` elements are in a block behind the code word (mode 7)."""

    count: int
    limit: int
    frequencies: NDArray[np.uint32]
    lanes: int
    exponent: int


@dataclass(frozen=True)
class Recipe:
    """Coded parts of a tensor, in message order, and the function that makes its numbers of them."""

    parts: tuple[Content | Static, ...]
    make: Callable[..., Doubles]


def as_matrix(shape: Shape) -> tuple[int, int]:
    """The rows and columns of a tensor."""
    rows = shape[0] if len(shape) > 1 else 1
    return rows, math.prod(shape) // rows


def read_coded(decoder: Decoder, mode: int, shape: Shape) -> Content | Static:
    """The rest of a tensor of mode 1 to 7 or 14."""
    rows, columns = as_matrix(shape)
    if mode not in ELSEWHERE:
        decoder.coded.spend(rows * columns)
    return CODES[mode](decoder, rows, columns)


def read_inner(decoder: Decoder, shape: Shape) -> Content | Static:
    """An inner tensor: coded integers of which something else is made."""
    if (count := math.prod(shape)) > TENSOR_LIMIT:
        raise Refused(f"Message: an inner tensor has {count} elements; at most {TENSOR_LIMIT} are allowed.")
    decoder.inner.spend(count)
    if (mode := decoder.gamma()) not in INNER_MODES:
        raise Refused(f"Message: an inner tensor has mode {mode}; it must be one of {INNER_MODES}.")
    return read_coded(decoder, mode, shape)


def to_float32(numbers: Doubles, shape: Shape, base: Floats | None) -> Floats:
    """Numbers rounded once to float32, as differences to ``base`` where there is one (8.3)."""
    numbers = numbers.reshape(shape)
    with np.errstate(over="ignore"):
        result = (numbers if base is None else numbers + base).astype(np.float32)
    if not np.isfinite(result).all():
        raise Refused("Message: an element is too large for float32.")
    return result


def _adaptive(decoder: Decoder, rows: int, columns: int) -> Content:
    """Mode 1."""
    exponent = decoder.exponent()
    limit = decoder.size("the largest element L", 1 << 12)
    rows_flagged, columns_flagged = decoder.bit(), decoder.bit()
    flags = Flags()  # one context for both
    live_rows = _live(decoder, flags, rows) if rows_flagged else range(rows)
    live_columns = _live(decoder, flags, columns) if columns_flagged else range(columns)
    kind = decoder.uniform(4)
    stride = decoder.gamma() if kind == 3 else 0

    non_zero = Flags((1, columns, rows, 8)[kind])
    negative = Flags()
    magnitude = Context(limit)
    result = np.zeros((rows, columns), np.int32)
    nothing = [0] * columns
    above, above_at = nothing, -1
    for row in live_rows:
        if above_at != row - 1:
            above = nothing
        current = [0] * columns
        for column in live_columns:
            if kind == 0:
                context = 0
            elif kind == 1:
                context = column
            elif kind == 2:
                context = row
            else:
                context = (
                    (column >= 1 and current[column - 1] != 0)
                    + 2 * (column >= stride and current[column - stride] != 0)
                    + 4 * (above[column] != 0)
                )
            if non_zero.read(decoder, context):
                sign = -1 if negative.read(decoder) else 1
                current[column] = sign * (1 + (magnitude.read(decoder) if limit > 1 else 0))
        result[row] = current
        above, above_at = current, row
    return Content(result.ravel(), exponent, limit)


def _live(decoder: Decoder, flags: Flags, count: int) -> Sequence[int]:
    """The rows or columns whose flag is 1."""
    return array("q", (place for place in range(count) if flags.read(decoder)))


def _zeros(decoder: Decoder, rows: int, columns: int) -> Content:
    """Mode 2."""
    return Content(np.zeros(rows * columns, np.int8))


def _dense(decoder: Decoder, rows: int, columns: int) -> Content:
    """Mode 3."""
    exponent = decoder.exponent()
    limit = decoder.size("the largest element L", 1 << 20)
    values = (decoder.uniform(2 * limit + 1) - limit for _ in range(rows * columns))
    return Content(np.fromiter(values, np.int32, rows * columns), exponent, limit)


def _enumerative(decoder: Decoder, rows: int, columns: int) -> Content:
    """Mode 4."""
    exponent = decoder.exponent()
    limit = decoder.size("the largest element L", 1 << 20)
    result = np.zeros(rows * columns, np.int32)
    where, count = _mask(decoder, rows * columns)
    indices = (decoder.uniform(2 * limit) for _ in range(count))
    result[where] = np.fromiter((i - limit + (i >= limit) for i in indices), result.dtype, count)
    return Content(result, exponent, limit)


def _codebook(decoder: Decoder, rows: int, columns: int) -> Content:
    """Mode 5."""
    size = decoder.size("the size K of a codebook", 256)
    book = np.array([decoder.float32() for _ in range(size)], np.float32)
    where, count = _mask(decoder, rows * columns)
    result = np.zeros(rows * columns, np.float32)
    result[where] = book[np.fromiter((decoder.uniform(size) for _ in range(count)), np.uint8, count)]
    return Content(result)


def _raw(decoder: Decoder, rows: int, columns: int) -> Content:
    """Mode 6."""
    values = (decoder.float32() for _ in range(rows * columns))
    return Content(np.fromiter(values, np.float32, rows * columns))


def frequencies(width: int) -> list[int]:
    """W_0 .. W_255.

    Example:
        >>> frequencies(0)[:6]
        [65537, 4629, 88, 2, 1, 1]
    """
    found, u = [], BELL_TOP
    for _ in range(BELL_LIMIT + 1):
        found.append(1 + (u << 48) // (BELL_TOP + u) ** 2)
        u = u * DECAYS[width] >> 16
    return found


@lru_cache(maxsize=len(DECAYS))
def borders(width: int) -> tuple[int, ...]:
    """Starts of the intervals of -255 .. 255, followed by the total."""
    right = frequencies(width)
    return tuple(accumulate([*right[:0:-1], *right], initial=0))


def _bell(decoder: Decoder, rows: int, columns: int) -> Content:
    """Mode 14: integers under a bell-shaped law, that of a logistic density."""
    exponent = decoder.exponent()
    starts = borders(decoder.uniform(len(DECAYS)))
    total = starts[-1]

    def element() -> int:
        place = bisect_right(starts, decoder.slot(total)) - 1
        decoder.take(starts[place], starts[place + 1] - starts[place], total)
        return place - BELL_LIMIT

    elements = (element() for _ in range(rows * columns))
    return Content(np.fromiter(elements, np.int16, rows * columns), exponent, BELL_LIMIT)


def _mask(decoder: Decoder, count: int) -> tuple[NDArray[np.bool_], int]:
    """Mask of the non-zero elements, and their number."""
    left = non_zeros = decoder.uniform(count + 1)
    where = bytearray(count)
    for place in range(count):
        to_go = count - place
        if left in (0, to_go):
            break
        if decoder.choose(to_go - left, to_go):
            where[place] = 1
            left -= 1
    where[count - left :] = b"\1" * left
    return np.frombuffer(where, np.bool_), non_zeros


def _static(decoder: Decoder, rows: int, columns: int) -> Static:
    """Mode 7: the frequencies of a block."""
    exponent = decoder.exponent()
    limit = decoder.size("the largest element L", 1 << 12)
    frequencies = [decoder.gamma() - 1 for _ in range(2 * limit + 1)]
    if sum(frequencies) != SLOTS:
        raise Refused(f"Message: the frequencies of a table add up to {sum(frequencies)} instead of {SLOTS}.")
    lanes = 1 << decoder.uniform(13)
    decoder.work.spend(-(-rows * columns // lanes) << 13)
    return Static(rows * columns, limit, np.array(frequencies, np.uint32), lanes, exponent)


CODES: dict[int, Callable[[Decoder, int, int], Content | Static]] = {
    1: _adaptive,
    2: _zeros,
    3: _dense,
    4: _enumerative,
    5: _codebook,
    6: _raw,
    7: _static,
    14: _bell,
}


def read_tensor(decoder: Decoder, shape: Shape) -> Recipe:
    """The next tensor."""
    mode = decoder.gamma()
    if mode in MODES_OF_PAPERS:
        made: Recipe = room("codes of the papers").READERS[mode](decoder, shape)
        return made
    if mode not in CODES:
        raise Refused(f"Message: there is no tensor mode {mode}; modes are 1 to {max(CODES)}.")
    return Recipe((read_coded(decoder, mode, shape),), Content.values)


class Blocks:
    """The blocks behind the code word, each a whole number of bytes from the next bit on."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        shift = bits.place & 7
        span = np.frombuffer(bits.data + b"\0", np.uint8)[bits.place >> 3 :]
        if shift:
            span = (span[:-1] << np.uint8(shift)) | (span[1:] >> np.uint8(8 - shift))
        self._bytes = span[: (bits.count - bits.place) // 8]

    def read(self, table: Static, name: str) -> Content:
        """The elements of the next block. The ledger notes its bits for the tensor of a name."""
        head, tail = np.split(self._bytes, [STATE_BYTES * table.lanes])
        if head.size < STATE_BYTES * table.lanes:
            raise Refused("Message: it ends inside a block.")
        padded = np.zeros((table.lanes, 8), np.uint8)
        padded[:, 8 - STATE_BYTES :] = head.reshape(table.lanes, STATE_BYTES)
        state = padded.view(">i8")[:, 0].astype(np.int64)
        if (state < LOWEST).any():
            raise Refused("Message: a block starts with a state below 2^24.")
        words = tail[: tail.size // 2 * 2].view(">u2")
        result, used = _side_by_side(table, state, words)
        if (state != LOWEST).any():
            raise Refused("Message: a block does not end in the state 2^24.")
        self._bytes = tail[2 * used :]
        size = 8 * (head.size + 2 * used)
        self._bits.place += size
        self._bits.ledger.append((f"block {name}", size))
        return Content(result, table.exponent, table.limit)


def _slots(table: Static) -> tuple[Integers, NDArray[np.int64], NDArray[np.int64]]:
    """For each slot: the element, its frequency, and the place of the slot among its own."""
    values = np.arange(-table.limit, table.limit + 1, dtype=np.int32)
    frequencies = np.asarray(table.frequencies, np.int64)
    below = np.repeat(np.cumsum(frequencies) - frequencies, frequencies)
    return np.repeat(values, frequencies), np.repeat(frequencies, frequencies), np.arange(SLOTS) - below


def _side_by_side(table: Static, state: NDArray[np.int64], words: NDArray[np.uint16]) -> tuple[Integers, int]:
    """The elements of a block, a group of all lanes at a time, and the words that they take."""
    value_at, frequency_at, rest_at = _slots(table)
    result, used = np.empty(table.count, np.int32), 0
    whole, some = table.count - table.count % table.lanes, max(TILE // table.lanes, 1) * table.lanes
    ends = [*range(0, whole, some), whole, *([table.count] if whole < table.count else [])]
    for first, end in pairwise(ends):
        active = state[: end - first]  # all lanes, but for the last elements
        slots = np.empty(((end - first) // active.size, active.size), np.int64)
        # arrays and places of outputs, because a call with a number or a name takes numpy twice as long
        low, half, lowest = (np.full(active.size, each) for each in (SLOTS - 1, 16, LOWEST))
        for slot in slots:
            np.bitwise_and(active, low, slot)
            np.right_shift(active, half, active)
            np.multiply(active, frequency_at[slot], active)
            np.add(active, rest_at[slot], active)  # below 2^40
            hungry = np.less(active, lowest).nonzero()[0]
            if hungry.size:
                fresh = words[used : used + hungry.size]
                if fresh.size < hungry.size:
                    raise Refused("Message: it ends inside a block.")
                active[hungry] = active[hungry] << 16 | fresh
                used += hungry.size
        result[first:end] = value_at[slots].ravel()
    return result, used
