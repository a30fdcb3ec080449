"""Writer of plain bits and of the arithmetic code word of format 1.0, from docs/format.md alone."""

import numpy as np

TOP = 1 << 48


def packed(bits: str) -> tuple[bytes, int]:
    bits = bits.replace(" ", "")
    size = -(-len(bits) // 8)
    return int(bits.ljust(8 * size, "0"), 2).to_bytes(size, "big"), len(bits)


def within(counts: list[int], symbol: int) -> tuple[int, int, int]:
    freqs = [2 * n + 1 for n in counts]
    counts[symbol] += 1
    return sum(freqs[:symbol]), freqs[symbol], sum(freqs)


def symbols_of(step) -> list[tuple[int, int, int]]:
    """Give the symbols of plain bits, a gamma, a float32, (value, total) or (cum, freq, total)."""
    if isinstance(step, tuple):
        return [step if len(step) == 3 else (step[0], 1, step[1])]
    if isinstance(step, float):
        pattern = int(np.float32(step).view(np.uint32))
        return [(pattern >> 16, 1, 1 << 16), (pattern % (1 << 16), 1, 1 << 16)]
    bits = "0" * (step.bit_length() - 1) + f"{step:b}" if isinstance(step, int) else step.replace(" ", "")
    return [(int(bit), 1, 2) for bit in bits]


def encoded(*steps) -> str:
    """Narrow the interval as the page does, and give the shortest word inside it."""
    low, wide, shifts = 0, TOP, 0
    for cum, freq, total in (symbol for step in steps for symbol in symbols_of(step)):
        r = wide // total
        low, wide = low + r * cum, r * freq if cum + freq < total else wide - r * cum
        while wide < TOP // 2:
            low, wide, shifts = 2 * low, 2 * wide, shifts + 1
    more = next(more for more in range(3) if -low % (TOP >> more) + (TOP >> more) <= wide)
    return f"{-(-low // (TOP >> more)):0{shifts + more}b}"
