"""Beginning of a network's message, read from docs/format.md, section 8, alone."""

import math

import numpy as np
from certificate_reader import Bits, listed, must, rows_of

TOP = 1 << 48
STEPS = [int(number) for number in listed("2^(floor(j / 8) - 23), T =", 8)]
BELLS = [int(number) for number in listed("r the i-th of:", 64)]
FIELDS = {1: "ob", 2: "oksPb", 3: "k", 4: "k", 5: "", 6: "ob", 7: "oksPb", 8: "ok"}


def bell(i: int) -> list[int]:
    up, ratio = [1 << 30], BELLS[i]
    for _ in range(255):
        up.append(up[-1] * ratio >> 16)
    freqs = [1 + (u << 48) // ((1 << 30) + u) ** 2 for u in up]
    return freqs[:0:-1] + freqs


def read_block(plain: Bits, freqs: list[int], lanes: int, count: int) -> list[int]:
    cumulative, symbols = np.cumsum([0, *freqs]).tolist(), []
    states = [plain.bits(40) for _ in range(lanes)]
    must(min(states) >= 1 << 24, "state of a block")
    while len(symbols) < count:
        group = range(min(lanes, count - len(symbols)))
        for lane in group:
            slot = states[lane] % (1 << 16)
            symbol = int(np.searchsorted(cumulative, slot, "right")) - 1
            states[lane] = freqs[symbol] * (states[lane] >> 16) + slot - cumulative[symbol]
            symbols.append(symbol - len(freqs) // 2)
        for lane in group:
            if states[lane] < 1 << 24:
                states[lane] = states[lane] << 16 | plain.bits(16)
    must(set(states) == {1 << 24}, "state of a block")
    return symbols


class Decoder(Bits):
    """Arithmetic code word that begins at the place of some plain bits (8.2).

    Of the target only what it is above `low` is kept, and of `low` the last 48 bits: no more is needed.
    """

    def __init__(self, plain: Bits):
        self.plain, self.start, self.ledger = plain, plain.place, plain.ledger
        self.low, self.range, self.place, self.above = 0, TOP, 0, 0  # a shift is a place
        for place in range(48):
            self.above = 2 * self.above + plain.peek(plain.place + place)

    def slot(self, total: int) -> int:
        must(self.place <= self.plain.count, "code word is too short")
        return min(self.above // (self.range // total), total - 1)

    def take(self, cum: int, freq: int, total: int) -> None:
        r = self.range // total
        self.low, self.above = self.low + r * cum, self.above - r * cum
        self.range = r * freq if cum + freq < total else self.range - r * cum
        while self.range < TOP // 2:
            self.low, self.range = 2 * self.low, 2 * self.range
            self.above = 2 * self.above + self.plain.peek(self.start + 48 + self.place)
            self.place += 1
        self.low %= TOP

    def uniform(self, total: int) -> int:
        if total > 1 << 24:
            high, most = self.uniform((total - 1 >> 16) + 1), total - 1 >> 16
            return high << 16 | self.uniform(((total - 1) % (1 << 16)) + 1 if high == most else 1 << 16)
        value = self.slot(total)
        self.take(value, 1, total)
        return value

    def one(self) -> int:
        return self.uniform(2)

    def signed(self, most: int) -> int:
        value = self.gamma()
        must(value // 2 <= most, "number is too large")
        return value // 2 if value % 2 else -(value // 2)

    def step(self) -> float:
        j = self.signed(1000)
        return STEPS[j % 8] * 2.0 ** (j // 8 - 23)

    def float32(self) -> float:
        value = np.uint32(self.uniform(1 << 16) << 16 | self.uniform(1 << 16)).view(np.float32)
        must(np.isfinite(value), "number is not finite")
        return float(value)

    def by_law(self, freqs: list[int]) -> int:
        total, cum, symbol = sum(freqs), 0, 0
        slot = self.slot(total)
        while slot >= cum + freqs[symbol]:
            cum, symbol = cum + freqs[symbol], symbol + 1
        self.take(cum, freqs[symbol], total)
        return symbol

    def within(self, counts: list[int]) -> int:
        symbol = self.by_law([2 * count + 1 for count in counts])
        counts[symbol] += 1
        if sum(counts) >= 1 << 20:
            counts[:] = [(count + 1) // 2 for count in counts]
        return symbol

    def end(self) -> None:
        """Compute the shortest word inside the interval, and compare it with the bits that are there."""
        for more in range(3):
            size = 1 << (48 - more)
            gap = -self.low % size
            if gap + size <= self.range:
                break
        must(0 <= self.above - gap < size, "code word ends otherwise")
        self.place += more
        self.plain.place = self.start + self.place
        must(self.plain.place <= self.plain.count, "message is too short")

    def mask(self, count: int) -> list[int]:
        must(count <= 1 << 24, "mask is too large")
        left, places = self.uniform(count + 1), []
        for place in range(count):  # a symbol of all frequencies changes nothing
            if self.by_law([count - place - left, left]):
                places.append(place)
                left -= 1
        return places

    def adaptive(self, q: np.ndarray, most: int) -> None:
        flagged, flags, (rows, columns) = (self.one(), self.one()), [0, 0], q.shape
        open_ = [[self.within(flags) if flagged[i] else 1 for _ in range(q.shape[i])] for i in (0, 1)]
        kind = self.uniform(4)
        stride = self.gamma() if kind == 3 else 0
        nonzero = [[0, 0] for _ in range((1, columns, rows, 8)[kind])]
        signs, sizes = [0, 0], [0] * most
        for row, column in np.argwhere(np.outer(*open_)).tolist():
            near = [column and q[row, column - 1], column >= stride and q[row, column - stride]]
            near.append(row and q[row - 1, column])
            place = (0, column, row, sum((value != 0) << j for j, value in enumerate(near)))[kind]
            if self.within(nonzero[place]):
                sign = -1 if self.within(signs) else 1
                q[row, column] = sign * (1 + (self.within(sizes) if most > 1 else 0))

    def tensor(self, shape: tuple[int, ...]):
        """Give a function that, behind the code word, gives the elements."""
        mode, count = self.gamma(), math.prod(shape)
        must(count <= 1 << 25 and mode <= 14, "tensor")
        if 8 <= mode <= 13:
            raise NotImplementedError("tensor of a mode of its own")
        values = np.zeros((shape[0] if len(shape) > 1 else 1, count // shape[0] if len(shape) > 1 else count))
        step = self.step() if mode in (1, 3, 4, 7, 14) else 1.0
        most = self.gamma() if mode in (1, 3, 4, 7) else 0
        must(most <= (1 << 12 if mode in (1, 7) else 1 << 20), "largest element")
        if mode == 1:
            self.adaptive(values, most)
        elif mode in (3, 6, 14):
            law = bell(self.uniform(64)) if mode == 14 else []
            one = {3: lambda: self.uniform(2 * most + 1) - most, 14: lambda: self.by_law(law) - 255}
            values.flat[:] = [one.get(mode, self.float32)() for _ in range(count)]
        elif mode == 4:
            for place in self.mask(count):
                q = self.uniform(2 * most) - most
                values.flat[place] = q if q < 0 else q + 1
        elif mode == 5:
            size = self.gamma()
            must(size <= 256, "codebook")
            book = [self.float32() for _ in range(size)]
            for place in self.mask(count):
                values.flat[place] = book[self.uniform(size)]
        elif mode == 7:
            freqs = [self.gamma() - 1 for _ in range(2 * most + 1)]
            must(sum(freqs) == 1 << 16, "frequencies of a block")
            lanes = 1 << self.uniform(13)
            return lambda plain: np.reshape(read_block(plain, freqs, lanes, count), shape) * step
        return values.reshape(shape) * step

    def scaling(self, channels: int) -> list[float]:
        choice = self.uniform(4)
        c = self.uniform(4) + 1 if choice == 3 else 1
        must(c in (1, channels), "channels of the scaling")
        told = [self.float32() for _ in range(1 + 2 * c)] if choice == 3 else [(1, 255, 16)[choice], 0.0, 1.0]
        must(min(told[0], *told[1 + c :]) > 0, "scaling")
        return told

    def chain(self, classes: int) -> list[tuple]:
        length, chain = self.gamma(), []
        must(length <= 256, "chain is too long")
        for place in range(length):
            kind, last = self.gamma(), place == length - 1
            if kind in (9, 10):
                raise NotImplementedError("dictionary or views")
            must(kind in FIELDS and (kind == 1 or not last), "operation")
            read = [self.one() if f == "b" else self.gamma() - (f == "P") for f in FIELDS[kind][last:]]
            sizes = [classes, *read] if last else read
            must(max(sizes, default=0) <= 1 << 16 and (kind != 8 or sizes[1] % 2), "size")
            chain.append((kind, *sizes))
        return chain

    def stack(self) -> dict:
        stack = {"views": self.uniform(16), "dictionary": self.uniform(8)}
        stack["pool"] = self.uniform(4) + 1 if stack["dictionary"] else 0
        width, stages = 0, []
        for place in range(self.uniform(4) + 1):
            if place == 0:
                width = (8, 16, 24, 32, 48, 64, 96, 128)[self.uniform(8)]
            else:
                width = (width // 2, width, 2 * width)[self.uniform(3)]
            convs, window = self.uniform(3) + 1, 1 + 2 * self.uniform(3)
            stages.append((width, convs, window, self.uniform(3)))
        return stack | {"stages": stages, "end": self.uniform(4)}


def shapes_of(chain: list[tuple], shape: list[int]) -> list[tuple[str, tuple[int, ...]]]:
    channels, height, width = [*shape, 1, 1][:3]
    found = []
    for place, (kind, *sizes) in enumerate(chain):
        bias = 0
        if kind == 1:
            out, bias = sizes
            found.append((f"{place}.weight", (out, channels * height * width)))
            channels, height, width = out, 1, 1
        elif kind in (2, 8):
            out, kernel, stride, padding, bias = sizes if kind == 2 else (*sizes, 1, sizes[1] // 2, 0)
            found.append((f"{place}.weight", (out, channels, kernel, kernel)))
            height, width = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
            channels = out
        elif kind in (3, 4, 5):
            height, width = (height // sizes[0], width // sizes[0]) if sizes else (1, 1)
        else:
            raise NotImplementedError("shapes of residual and local convolutions")
        must(min(height, width) >= 1, "shapes do not fit")
        found += [(f"{place}.bias", (out,))] if bias else []
    return found


def read(bits: Bits, message, header: dict) -> None:
    """Read the code word and the blocks behind it into `message.network`."""
    shape, decoder, tensors = header["sample"]["input_shape"], Decoder(bits), {}
    message.rows, decoder.noted = max(rows_of(header["known"][key]) for key in ("base", "features")), 0
    message.classes = decoder.gamma() + 1
    network = {"scaling": decoder.scaling(shape[0])}
    decoder.note("setting")
    if decoder.one():
        raise NotImplementedError("subspace")
    network["theta"] = decoder.signed(8000) if decoder.one() else None
    must(decoder.one() == (header["known"]["base"] is not None), "base")
    decoder.note("options")
    if decoder.one():
        raise NotImplementedError("tensors of a stack", decoder.stack())
    network["chain"] = decoder.chain(message.classes)
    decoder.note("architecture")
    for name, sizes in shapes_of(network["chain"], shape):
        tensors[name] = decoder.tensor(sizes)
        decoder.note(name)
    decoder.end()
    decoder.note("end")
    bits.noted = bits.place
    for name, told in tensors.items():
        if callable(told):
            tensors[name] = told(bits)
            bits.note(f"block {name}")
    message.network = network | {"tensors": tensors}
