"""The arithmetic decoder and the codes of numbers (docs/format.md, sections 8.2 and 8.3)."""

from __future__ import annotations

import math
import struct
from array import array

from ..message import Bits
from ..refusal import Refused

FULL = 48  # bits of the first interval
HALF = 1 << 47  # a range below this is doubled
ROOTS = (8388608, 9147842, 9975792, 10878679, 11863283, 12937002, 14107901, 15384775)  # 8.3
COUNT_LIMIT = 1 << 20  # counts of a context are halved when their sum gets here


class Budget:
    """Limit on the sum of one message's demands. Each is noted before it is met."""

    def __init__(self, limit: int, what: str) -> None:
        self._left = self._limit = limit
        self._what = what

    def spend(self, amount: int) -> None:
        """Note a demand; refuse it if too little is left."""
        self._left -= amount
        if self._left < 0:
            raise Refused(f"Message: {self._what} are more than {self._limit}.")


class Witness:
    """The proofs of a file, one after the other (8.9)."""

    def __init__(self, data: bytes) -> None:
        self._data, self._next = data, 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self._next += size
        if self._next > len(self._data):
            raise Refused(f"Witness: it has {len(self._data)} bytes, and the message needs more.")
        return self._data[self._next - size : self._next]

    def finish(self) -> None:
        """Refuse what nobody took."""
        if self._next < len(self._data):
            raise Refused(f"Witness: it has {len(self._data)} bytes, and the message needs {self._next}.")


class Decoder:
    """Decoder of symbols from a message, from the place of its plain bits on.

    The page describes an interval [low, low + range) and the target inside it, both growing without limit.
    Only ``offset = target - low`` is kept here; ``low`` is rebuilt once, at the end.
    """

    def __init__(self, bits: Bits, witness: Witness) -> None:
        self.witness = witness
        self._bits, self._start = bits, bits.place
        self._data = bits.data + bytes(32)  # zeros beyond the end
        self._code_bits = bits.count - bits.place
        self._range = 1 << FULL
        self._offset = self._target(FULL)
        self._noted = self.shifts = 0
        self.coded = Budget(1 << 24, "the elements that are coded inside its code word")  # 8.2
        self.inner = Budget(1 << 26, "the elements of inner tensors")  # 8.4
        self.work = Budget(1 << 36, "the multiplications that make its tensors")  # 8.9

    def note(self, part: str) -> None:
        """Note the shifts since the part before as those of a part."""
        self._bits.ledger.append((part, self.shifts - self._noted))
        self._noted = self.shifts

    def slot(self, total: int) -> int:
        """Index of the target among ``total`` equal parts of the interval."""
        return min(self._offset // (self._range // total), total - 1)

    def take(self, cum: int, freq: int, total: int) -> None:
        """Go on with the symbol (cum, freq, total)."""
        unit = self._range // total
        self._offset -= unit * cum
        self._range = unit * freq if cum + freq < total else self._range - unit * cum
        if self._range < HALF:
            self._double()

    def choose(self, zeros: int, total: int) -> int:
        """One of the two symbols (0, zeros, total) and (zeros, total - zeros, total)."""
        border = self._range // total * zeros
        if self._offset < border:
            self._range = border
            symbol = 0
        else:
            self._offset -= border
            self._range -= border
            symbol = 1
        if self._range < HALF:
            self._double()
        return symbol

    def _double(self) -> None:
        """Double the interval until it is at least ``HALF`` long, reading a bit of the target each time."""
        bits = FULL - self._range.bit_length()
        start = self._start + FULL + self.shifts
        window = int.from_bytes(self._data[start >> 3 : (start >> 3) + 8], "big")
        fresh = window >> (64 - (start & 7) - bits) & ((1 << bits) - 1)
        self._range <<= bits
        self._offset = self._offset << bits | fresh
        self.shifts += bits
        if self.shifts > self._code_bits:  # the code word is at least as long as the shifts
            raise Refused("Message: it ends inside its code word.")

    def _target(self, width: int) -> int:
        """The first bits of the code word, so many of them, with zeros beyond the end of the message."""
        end = self._start + width
        value = int.from_bytes(self._data[self._start >> 3 : (end + 7) // 8], "big")
        return value >> (-end % 8) & ((1 << width) - 1)

    def finish(self) -> None:
        """Note the end, and go on behind the code word: the shortest one inside the final interval."""
        width = FULL + self.shifts
        target = self._target(width)
        low = target - self._offset
        # The interval is between 2^47 and 2^48 long: 46 free bits always fit inside, 49 never do.
        for free in (48, 47, 46):
            value = -(-low >> free)
            if (value + 1) << free <= low + self._range:
                break
        length = width - free
        if target >> free != value:
            raise Refused("Message: the code word is not the shortest and smallest one for what it says.")
        if length > self._code_bits:
            raise Refused(f"Message: the code word needs {length} bits; {self._code_bits} are there.")
        self._bits.ledger.append(("end", length - self.shifts))
        self._bits.place = self._start + length

    def bit(self) -> int:
        """bit(b)."""
        return self.choose(1, 2)

    def uniform(self, total: int) -> int:
        """uniform(v, total)."""
        if total == 1:
            return 0
        if total <= 1 << 24:
            value = self.slot(total)
            self.take(value, 1, total)
            return value
        largest = (total - 1) >> 16
        high = self.uniform(largest + 1)
        low = self.uniform(((total - 1) & 0xFFFF) + 1 if high == largest else 1 << 16)
        return high << 16 | low

    def gamma(self) -> int:
        """gamma(k)."""
        lower = 0
        while not self.bit():
            lower += 1
            if lower > 40:
                raise Refused("Message: a number has more than 41 binary digits.")
        value = 1
        for _ in range(lower):
            value = value << 1 | self.bit()
        return value

    def size(self, name: str, limit: int) -> int:
        """gamma(k) for something that may be at most ``limit``."""
        if (value := self.gamma()) > limit:
            raise Refused(f"Message: {name} is {value}; at most {limit} is allowed.")
        return value

    def signed(self, name: str, limit: int) -> int:
        """signed(j) for something whose absolute value may be at most ``limit``."""
        value = self.gamma()
        if value >> 1 > limit:
            raise Refused(f"Message: {name} is {value >> 1} without its sign; at most {limit} is allowed.")
        return value >> 1 if value & 1 else -(value >> 1)

    def exponent(self) -> int:
        """The index j of a step (8.3)."""
        return self.signed("the index of a step", 1000)

    def seed(self) -> int:
        """The seed of a stream (8.4)."""
        return self.gamma() - 1

    def float32(self) -> float:
        """A finite IEEE 754 number of single precision."""
        pattern = self.uniform(1 << 16) << 16 | self.uniform(1 << 16)
        if pattern >> 23 & 0xFF == 0xFF:
            raise Refused("Message: a stored number is not finite.")
        value: float = struct.unpack(">f", pattern.to_bytes(4, "big"))[0]
        return value


class Flags:
    """Adaptive contexts of two symbols; ``count`` of them, each new."""

    def __init__(self, count: int = 1) -> None:
        self._zeros = array("l", [1]) * count  # 2 n + 1
        self._ones = array("l", [1]) * count

    def read(self, decoder: Decoder, context: int = 0) -> int:
        """The next symbol of one context."""
        zeros, ones = self._zeros[context], self._ones[context]
        symbol = decoder.choose(zeros, zeros + ones)
        if symbol:
            ones += 2
        else:
            zeros += 2
        if zeros + ones == 2 * COUNT_LIMIT + 2:
            zeros, ones = _halve(zeros), _halve(ones)
        self._zeros[context], self._ones[context] = zeros, ones
        return symbol


class Context:
    """An adaptive context of ``size`` symbols, with its cumulative sums in a Fenwick tree."""

    def __init__(self, size: int) -> None:
        self._top = 1 << size.bit_length() - 1
        self._build([1] * size)

    def _build(self, freqs: list[int]) -> None:
        self._freqs = freqs
        self._total = sum(freqs)
        self._tree = tree = [0, *freqs]
        for node in range(1, len(tree)):
            if (parent := node + (node & -node)) < len(tree):
                tree[parent] += tree[node]

    def read(self, decoder: Decoder) -> int:
        """The next symbol."""
        slot = decoder.slot(self._total)
        tree, symbol, cum, step = self._tree, 0, 0, self._top
        while step:  # the last node whose sum is at most slot
            node = symbol + step
            if node < len(tree) and cum + tree[node] <= slot:
                symbol = node
                cum += tree[node]
            step >>= 1
        decoder.take(cum, self._freqs[symbol], self._total)
        self._freqs[symbol] += 2
        self._total += 2
        if self._total == 2 * COUNT_LIMIT + len(self._freqs):
            self._build([_halve(freq) for freq in self._freqs])
            return symbol
        node = symbol + 1
        while node < len(tree):
            tree[node] += 2
            node += node & -node
        return symbol


def _halve(freq: int) -> int:
    """2 n + 1 after n became (n + 1) // 2."""
    count = freq >> 1
    return 2 * ((count + 1) // 2) + 1


def grid(j: int) -> float:
    """The step 2^(j/8) of 8.3, exact in float64 for abs(j) <= 8000."""
    return math.ldexp(ROOTS[j % 8], j // 8 - 23)
