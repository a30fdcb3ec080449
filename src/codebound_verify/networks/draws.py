"""Random numbers of helpers, made of the outputs of a stream (docs/format.md, section 8.5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..stream import Words

BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
SIGNS = 1 - 2 * BITS.astype(np.float32)  # of every byte, least significant bit first; 1 = minus
HALVES = np.add.outer(BITS.sum(axis=1), BITS.sum(axis=1)).astype(np.uint8).ravel()  # popcounts of 16 bits


def signs(words: Words) -> NDArray[np.float32]:
    """The signs of outputs: 64 for each one along the last axis.

    Example:
        >>> signs(np.array([1 + 4], np.uint64))[:4].tolist()
        [-1.0, 1.0, -1.0, 1.0]
    """
    single = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.take(SIGNS, single, axis=0).reshape(*words.shape[:-1], 64 * words.shape[-1])


def quarters(words: Words) -> NDArray[np.int8]:
    """The popcounts of outputs less 32: coded Gaussians in quarters.

    Example:
        >>> quarters(np.array([0, 2**64 - 1, 7], np.uint64)).tolist()
        [-32, 32, -29]
    """
    if hasattr(np, "bitwise_count"):  # NumPy 2
        counts = np.bitwise_count(words)
    else:
        counts = HALVES[words[..., None].view(np.uint16)].sum(axis=-1, dtype=np.uint8)
    return counts.astype(np.int8) - np.int8(32)


def uniforms(words: Words) -> NDArray[np.int64]:
    """2 u - 65535 for the 16-bit parts u of outputs, least significant part first.

    Example:
        >>> uniforms(np.array([2**16 * 3], np.uint64)).tolist()
        [-65535, -65529, -65535, -65535]
    """
    return 2 * np.ascontiguousarray(words, "<u8").view("<u2").astype(np.int64) - 65535
