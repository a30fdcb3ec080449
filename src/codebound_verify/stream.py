"""The streams of random words (docs/format.md, section 8.5)."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]


class Stream:
    """stream(seed, name), read from any place: a block of four outputs depends on its number alone.

    Example:
        >>> bool(Stream(0, "split").words(2, 1)[0] == Stream(0, "split").words(0, 3)[2])
        True
    """

    def __init__(self, seed: int, name: str) -> None:
        digest = hashlib.sha256(f"codebound/{seed}/{name}".encode("ascii")).digest()
        self._key = np.frombuffer(digest[:16], "<u8").astype(np.uint64)

    def words(self, start: int, count: int) -> Words:
        """The outputs ``start`` .. ``start + count - 1``."""
        block, skipped = divmod(start, 4)
        generator = np.random.Philox(key=self._key, counter=block)  # it counts up before the first block
        return generator.random_raw(skipped + count)[skipped:]
