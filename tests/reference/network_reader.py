"""Beginning of a network's message, read from docs/format-1.0.md, section 8, alone."""

from __future__ import annotations

import struct

import numpy as np
from certificate_reader import Unread, must

TOP = 1 << 48
STEPS = (8388608, 9147842, 9975792, 10878679, 11863283, 12937002, 14107901, 15384775)
BELLS = (
    "1200 1673 2268 2999 3874 4898 6075 7401 8869 10471 12192 14019 15933 17917 19953 22023 24109 26196 "
    "28267 30311 32314 34267 36162 37991 39750 41434 43041 44569 46019 47389 48681 49898 51039 52110 "
    "53111 54045 54917 55729 56484 57185 57835 58438 58997 59514 59992 60434 60842 61218 61565 61886 "
    "62181 62452 62703 62933 63145 63340 63520 63685 63836 63976 64104 64221 64329 64429"
)


class Context:
    """Counts of the symbols that a context has seen."""

    def __init__(self, symbols: int):
        self.counts = [0] * symbols

    def see(self, symbol: int) -> None:
        self.counts[symbol] += 1
        if sum(self.counts) >= 1 << 20:
            self.counts = [(count + 1) // 2 for count in self.counts]


class Decoder:
    """Arithmetic code word that begins at the place of some plain bits (8.2).

    Of `target` only what it is above `low` is kept, and of `low` the last 48 bits: no more is needed.
    """

    def __init__(self, bits):
        self.bits, self.start = bits, bits.place
        self.low, self.range, self.shifts, self.above = 0, TOP, 0, 0
        for place in range(48):
            self.above = 2 * self.above + self.peek(place)

    def peek(self, place: int) -> int:
        place += self.start
        if place >= self.bits.count:
            return 0
        return self.bits.data[place >> 3] >> (~place & 7) & 1

    def slot(self, total: int) -> int:
        must(self.shifts <= self.bits.count, "code word is too short")
        return min(self.above // (self.range // total), total - 1)

    def take(self, cum: int, freq: int, total: int) -> None:
        r = self.range // total
        self.low += r * cum
        self.above -= r * cum
        self.range = r * freq if cum + freq < total else self.range - r * cum
        while self.range < TOP // 2:
            self.low, self.range = 2 * self.low % TOP, 2 * self.range
            self.above = 2 * self.above + self.peek(48 + self.shifts)
            self.shifts += 1
        self.low %= TOP

    def uniform(self, total: int) -> int:
        if total <= 1:
            return 0
        if total > 1 << 24:
            high = self.uniform((total - 1 >> 16) + 1)
            last = high == total - 1 >> 16
            return high << 16 | self.uniform(((total - 1) % (1 << 16)) + 1 if last else 1 << 16)
        value = self.slot(total)
        self.take(value, 1, total)
        return value

    def bit(self) -> int:
        return self.uniform(2)

    def gamma(self) -> int:
        zeros, value = 0, 1
        while not self.bit():
            zeros += 1
            must(zeros <= 40, "number is too large")
        for _ in range(zeros):
            value = 2 * value + self.bit()
        return value

    def signed(self) -> int:
        value = self.gamma()
        return value // 2 if value % 2 else -(value // 2)

    def float32(self) -> float:
        pattern = self.uniform(1 << 16) << 16 | self.uniform(1 << 16)
        value = struct.unpack("<f", struct.pack("<I", pattern))[0]
        must(np.isfinite(value), "number is not finite")
        return value

    def by_law(self, freqs: list[int]) -> int:
        slot, cum, symbol = self.slot(sum(freqs)), 0, 0
        while slot >= cum + freqs[symbol]:
            cum += freqs[symbol]
            symbol += 1
        self.take(cum, freqs[symbol], sum(freqs))
        return symbol

    def within(self, context: Context) -> int:
        symbol = self.by_law([2 * count + 1 for count in context.counts])
        context.see(symbol)
        return symbol

    def end(self) -> None:
        """Compute the shortest word inside the interval, and compare it with the bits that are there."""
        for more in range(3):
            size = 1 << (48 - more)
            gap = -self.low % size
            if gap + size <= self.range:
                break
        must(0 <= self.above - gap < size, "code word ends otherwise")
        self.bits.place = self.start + self.shifts + more
        must(self.bits.place <= self.bits.count, "message is too short")


def step_of(decoder: Decoder) -> float:
    j = decoder.signed()
    must(abs(j) <= 1000, "step")
    return STEPS[j % 8] * 2.0 ** (j // 8 - 23)


def bell(i: int) -> list[int]:
    up, ratio = [1 << 30], int(BELLS.split()[i])
    for _ in range(255):
        up.append(up[-1] * ratio >> 16)
    freqs = [1 + (u << 48) // ((1 << 30) + u) ** 2 for u in up]
    return freqs[:0:-1] + freqs


def read_mask(decoder: Decoder, count: int) -> list[int]:
    must(count <= 1 << 24, "mask is too large")
    left = decoder.uniform(count + 1)
    places = []
    for place in range(count):
        togo = count - place
        if left in (0, togo):
            places += range(place, count) if left else ()
            break
        if decoder.slot(togo) >= togo - left:
            decoder.take(togo - left, left, togo)
            places.append(place)
            left -= 1
        else:
            decoder.take(0, togo - left, togo)
    return places


def read_adaptive(decoder: Decoder, shape: tuple[int, ...]) -> np.ndarray:
    step, most = step_of(decoder), decoder.gamma()
    must(most <= 1 << 12, "largest element")
    flagged, rows = (decoder.bit(), decoder.bit()), shape[0] if len(shape) > 1 else 1
    q = np.zeros((rows, int(np.prod(shape)) // rows), int)
    columns = q.shape[1]
    flags, open_ = Context(2), []  # one context for both: the page has one
    for asked, size in zip(flagged, q.shape, strict=True):
        open_.append([decoder.within(flags) if asked else 1 for _ in range(size)])
    kind = decoder.uniform(4)
    stride = decoder.gamma() if kind == 3 else 0
    nonzero = [Context(2) for _ in range((1, columns, rows, 8)[kind])]
    signs, sizes = Context(2), Context(most)
    for row in range(rows):
        for column in range(columns):
            if not (open_[0][row] and open_[1][column]):
                continue
            near = [column and q[row, column - 1], column >= stride and q[row, column - stride]]
            near.append(row and q[row - 1, column])
            place = (0, column, row, sum((value != 0) << j for j, value in enumerate(near)))[kind]
            if decoder.within(nonzero[place]):
                sign = -1 if decoder.within(signs) else 1  # the page does not say which is which
                q[row, column] = sign * (1 + (decoder.within(sizes) if most > 1 else 0))
    return q.reshape(shape) * step


def read_block(message_bits, law: tuple[list[int], int, int], count: int) -> list[int]:
    freqs, most, lanes = law
    cumulative = np.cumsum([0, *freqs])
    states = [message_bits.bits(40) for _ in range(lanes)]
    must(all(state >= 1 << 24 for state in states), "state of a block")
    symbols: list[int] = []
    while len(symbols) < count:
        group = range(min(lanes, count - len(symbols)))
        for lane in group:
            slot = states[lane] % (1 << 16)
            symbol = int(np.searchsorted(cumulative, slot, "right")) - 1
            states[lane] = freqs[symbol] * (states[lane] >> 16) + slot - int(cumulative[symbol])
            symbols.append(symbol - most)
        for lane in group:
            if states[lane] < 1 << 24:
                states[lane] = states[lane] << 16 | message_bits.bits(16)
    must(all(state == 1 << 24 for state in states), "state of a block")
    return symbols


def read_tensor(decoder: Decoder, shape: tuple[int, ...]):
    """Give the elements, or what stands in a block behind the code word."""
    mode, count = decoder.gamma(), int(np.prod(shape))
    must(count <= 1 << 25 and mode <= 14, "tensor")
    if mode in (8, 9, 10, 11, 12, 13):
        raise Unread("tensor of a mode of its own")
    if mode == 1:
        return read_adaptive(decoder, shape)
    values = np.zeros(count)
    if mode == 5:
        size = decoder.gamma()
        must(size <= 256, "codebook")
        book = [decoder.float32() for _ in range(size)]
        for place in read_mask(decoder, count):
            values[place] = book[decoder.uniform(len(book))]
    elif mode == 6:
        values[:] = [decoder.float32() for _ in range(count)]
    elif mode == 14:
        step, law = step_of(decoder), bell(decoder.uniform(64))
        values[:] = [step * (decoder.by_law(law) - 255) for _ in range(count)]
    elif mode != 2:
        step, most = step_of(decoder), decoder.gamma()
        must(most <= (1 << 12 if mode == 7 else 1 << 20), "largest element")
        if mode == 3:
            values[:] = [step * (decoder.uniform(2 * most + 1) - most) for _ in range(count)]
        elif mode == 4:
            for place in read_mask(decoder, count):
                q = decoder.uniform(2 * most) - most
                values[place] = step * (q if q < 0 else q + 1)
        else:
            freqs = [decoder.gamma() - 1 for _ in range(2 * most + 1)]
            must(sum(freqs) == 1 << 16, "frequencies of a block")
            return {"law": (freqs, most, 1 << decoder.uniform(13)), "step": step, "shape": shape}
    return values.reshape(shape)


def read_setting(decoder: Decoder, message, channels: int) -> dict:
    message.classes = decoder.gamma() + 1
    choice = decoder.uniform(4)
    if choice < 3:
        return {"divisor": (1.0, 255.0, 16.0)[choice], "mean": [0.0], "std": [1.0]}
    c = decoder.uniform(4) + 1
    must(c in (1, channels), "channels of the scaling")
    told = {"divisor": decoder.float32(), "mean": [decoder.float32() for _ in range(c)]}
    told["std"] = [decoder.float32() for _ in range(c)]
    must(min(told["divisor"], *told["std"]) > 0, "scaling")
    return told


FIELDS = {1: "ob", 2: "oksPb", 3: "k", 4: "k", 5: "", 6: "ob", 7: "oksPb", 8: "ok"}


def read_chain(decoder: Decoder, classes: int) -> list[tuple]:
    length = decoder.gamma()
    must(length <= 256, "chain is too long")
    chain = []
    for place in range(length):
        kind = decoder.gamma()
        if kind in (9, 10):
            raise Unread("dictionary or views")
        must(kind in FIELDS, "operation")
        last = place == length - 1
        must(not last or kind == 1, "last operation is linear")
        letters = FIELDS[kind][last:]
        read = [decoder.bit() if letter == "b" else decoder.gamma() - (letter == "P") for letter in letters]
        sizes = [classes, *read] if last else read
        must(all(size <= 1 << 16 for size in sizes), "size")
        must(kind != 8 or sizes[1] % 2, "window of a normalised convolution")
        chain.append((kind, *sizes))
    return chain


def read_stack(decoder: Decoder) -> dict:
    stack = {"views": decoder.uniform(16), "dictionary": decoder.uniform(8)}
    stack["pool"] = decoder.uniform(4) + 1 if stack["dictionary"] else 0
    width, stages = 0, []
    for place in range(decoder.uniform(4) + 1):
        if place == 0:
            width = (8, 16, 24, 32, 48, 64, 96, 128)[decoder.uniform(8)]
        else:
            width = (width // 2, width, 2 * width)[decoder.uniform(3)]
        convs, window = decoder.uniform(3) + 1, 1 + 2 * decoder.uniform(3)
        stages.append((width, convs, window, decoder.uniform(3)))
    return stack | {"stages": stages, "end": decoder.uniform(4)}


def shapes_of(chain: list[tuple], shape: list[int]) -> list[tuple[str, tuple[int, ...]]]:
    """Name the tensors of a chain; places count from 0 here, which the page leaves open."""
    channels, height, width = [*shape, 1, 1][:3]
    found = []
    for place, (kind, *sizes) in enumerate(chain):
        if kind == 1:
            out, bias = sizes
            found.append((f"{place}.weight", (out, channels * height * width)))
            channels, height, width = out, 1, 1
        elif kind in (2, 8):
            out, kernel, stride, padding, bias = sizes if kind == 2 else (*sizes, 1, sizes[1] // 2, 0)
            found.append((f"{place}.weight", (out, channels, kernel, kernel)))
            height, width = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
            channels = out
        elif kind in (3, 4):
            height, width, bias = height // sizes[0], width // sizes[0], 0
        elif kind == 5:
            height, width, bias = 1, 1, 0
        else:
            raise Unread("shapes of residual and local convolutions")
        must(min(height, width) >= 1, "shapes do not fit")
        if bias:
            found.append((f"{place}.bias", (out,)))
    return found


def read(bits, message, header: dict) -> None:
    """Read the code word and the blocks behind it into `message.network`."""
    shape = header["sample"]["input_shape"]
    decoder, spent = Decoder(bits), [0]

    def note(name: str) -> None:
        message.ledger.append([name, decoder.shifts - spent[0]])
        spent[0] = decoder.shifts

    network = {"scaling": read_setting(decoder, message, shape[0])}
    note("setting")
    if decoder.bit():
        raise Unread("subspace")
    theta = decoder.signed() if decoder.bit() else None
    must(theta is None or abs(theta) <= 8000, "theta")
    base = decoder.bit()
    must(bool(base) == (header["known"]["base"] is not None), "base")
    note("options")
    if decoder.bit():
        raise Unread(f"tensors of the stack {read_stack(decoder)}")
    network |= {"theta": theta, "chain": read_chain(decoder, message.classes), "tensors": {}}
    note("architecture")
    for name, sizes in shapes_of(network["chain"], shape):
        network["tensors"][name] = read_tensor(decoder, sizes)
        note(name)
    decoder.end()
    message.ledger.append(["end", bits.place - decoder.start - decoder.shifts])
    for name, told in network["tensors"].items():
        if isinstance(told, dict):
            start = bits.place
            symbols = read_block(bits, told["law"], int(np.prod(told["shape"])))
            network["tensors"][name] = np.array(symbols).reshape(told["shape"]) * told["step"]
            message.ledger.append([f"block {name}", bits.place - start])
    message.network = network
