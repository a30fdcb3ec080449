"""The random stream of helpers, docs/format.md, section 8: the same integers on every machine, for ever."""

import hashlib

import numpy as np
from numpy.typing import NDArray


class Stream:
    """A named stream of 64-bit words: numpy's Philox, keyed by the hash of seed and name.

    Example:
        >>> Stream(0, "split").words(2).dtype
        dtype('uint64')
        >>> sorted(set(Stream(0, "signs").signs(100).tolist()))
        [-1, 1]
    """

    def __init__(self, seed: int, name: str) -> None:
        digest = hashlib.sha256(f"codebound/{seed}/{name}".encode("ascii")).digest()
        self._philox = np.random.Philox(
            counter=0, key=np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)
        )

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` outputs."""
        return np.asarray(self._philox.random_raw(count), dtype=np.uint64)

    def signs(self, count: int) -> NDArray[np.int8]:
        """``count`` signs, +1 or -1: the bits of the next outputs, least significant first, 1 = minus."""
        octets = self.words(-(-count // 64)).astype("<u8").view(np.uint8)
        return 1 - 2 * np.unpackbits(octets, count=count, bitorder="little").astype(np.int8)

    def gaussian_quarters(self, count: int) -> NDArray[np.int8]:
        """``count`` coded Gaussians times 4: the popcounts of the next outputs less 32."""
        octets = self.words(count).astype("<u8").view(np.uint8).reshape(count, 8)
        return np.asarray(_POPCOUNT[octets].sum(axis=1, dtype=np.int8) - 32, dtype=np.int8)


_POPCOUNT = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.int8)
