"""Speed and length of the codes of tensors, beside entropy, zlib and lzma (and constriction if it is there).

Run: python benchmarks/coding.py [--full]

Sizes end at a million symbols; --full goes on to ten millions.
"""

from __future__ import annotations

import lzma
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from ratios import beside, is_installed

from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import decode_tensors, encode_tensors
from codebound_networks.codes.tensors import AbstractTensorCode, Adaptive, Enumerative, Static

T = TypeVar("T")
NET = [(1000, 784), (1000, 1000), (714, 1000), (10, 714)]


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result and its wall time in seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def pruned(shape: tuple[int, ...], *, density: float, levels: int) -> NDArray[np.int32]:
    """Independent levels of a triangular distribution, a fraction ``density`` of them not zero."""
    rng = np.random.default_rng(0)
    limit = levels // 2
    size = np.minimum(rng.integers(1, limit + 1, shape), rng.integers(1, limit + 1, shape))
    values = size * rng.choice(np.array([-1, 1]), shape)
    return np.where(rng.random(shape) < density, values, 0).astype(np.int32)


def entropy_bits(levels: NDArray[np.int32]) -> float:
    """Empirical entropy of the elements, without any model to transmit."""
    counts = np.unique(levels, return_counts=True)[1]
    return float(-(counts * np.log2(counts / levels.size)).sum())


def code_line(name: str, code: AbstractTensorCode, levels: NDArray[np.int32]) -> int:
    """Prints speed and length of one code, and returns its bits."""
    message, encode_s = timed(lambda: encode_tensors([code]))
    (decoded,), decode_s = timed(lambda: decode_tensors(message, [levels.shape]))
    assert (decoded.values() == code.values()).all()
    over = 100 * (message.length / entropy_bits(levels) - 1)
    speed = [levels.size / 1e6 / s for s in (encode_s, decode_s)]
    print(f"  {name:<22} {message.length:>12,} bits {over:>+9.3f} %  {speed[0]:7.2f} {speed[1]:7.2f} M/s")
    return message.length


def peer_lines(levels: NDArray[np.int32], ours: int) -> None:
    """Prints what general compressors make of the same symbols, one byte each, beside our bits."""
    data = levels.astype(np.int8).tobytes()
    peers: dict[str, Callable[[], int]] = {
        "zlib -9": lambda: 8 * len(zlib.compress(data, 9)),
        "lzma": lambda: 8 * len(lzma.compress(data)),
    }
    if is_installed("constriction"):
        peers["constriction ANS"] = lambda: constriction_bits(levels)
    what = f"{levels.size:,} weights of {len(np.unique(levels))} levels, {(levels != 0).mean():.0%} not zero"
    for name, work in peers.items():
        bits, seconds = timed(work)
        over = 100 * (bits / entropy_bits(levels) - 1)
        print(f"  {name:<22} {bits:>12,} bits {over:>+9.3f} %  {levels.size / 1e6 / seconds:7.2f}")
        beside(what, ours=ours, theirs=bits, peer=name, unit="bits")


def constriction_bits(levels: NDArray[np.int32]) -> int:
    """Length of a stack coder's output with the true frequencies, which are not counted."""
    import constriction  # type: ignore[import-not-found,unused-ignore]

    symbols, counts = np.unique(levels, return_inverse=True, return_counts=True)[1:]
    model: Any = constriction.stream.model.Categorical(counts / counts.sum(), perfect=False)
    coder: Any = constriction.stream.stack.AnsCoder()
    coder.encode_reverse(symbols.ravel().astype(np.int32), model)
    return 32 * len(coder.get_compressed())


def main() -> None:
    """Prints one table per size, then a whole network."""
    large = 10_000_000 if "--full" in sys.argv else 1_000_000
    for count, density, levels in [(50_000, 0.1, 7), (large, 0.1, 7), (large, 1.0, 31)]:
        tensor = pruned((count,), density=density, levels=levels)
        ideal = entropy_bits(tensor)
        print(f"{count:,} symbols, {density:.0%} not zero, {levels} levels: {ideal:,.0f} bits ideal")
        print(f"  {'':<22} {'length':>17} {'over ideal':>11}   encode  decode")
        limit = levels // 2
        if count <= 1 << 16:
            code_line("adaptive", Adaptive(tensor, -30, limit), tensor)
            code_line("enumerative", Enumerative(tensor, -30, limit), tensor)
        best = best_tensor_code(tensor, step=-30)
        bits = code_line("static" if isinstance(best, Static) else "best", best, tensor)
        if count <= 1 << 20:
            peer_lines(tensor, bits)

    print(f"network {NET}: {sum(a * b for a, b in NET):,} weights; seconds")
    for density in (0.01, 0.1, 1.0) if "--full" in sys.argv else (0.1,):
        for levels in (3, 31):
            net = [pruned(shape, density=density, levels=levels) for shape in NET]
            codes, choose_s = timed(lambda net=net: [best_tensor_code(q, step=-30) for q in net])  # type: ignore[misc]
            message, encode_s = timed(lambda codes=codes: encode_tensors(codes))  # type: ignore[misc]
            _, decode_s = timed(lambda message=message: decode_tensors(message, NET))  # type: ignore[misc]
            total = choose_s + encode_s + decode_s
            print(
                f"  {density:>4.0%} {levels:>3} levels {message.length:>11,} bits  choose {choose_s:.2f} "
                f"encode {encode_s:.2f} decode {decode_s:.2f} total {total:.2f}"
            )


if __name__ == "__main__":
    main()
