"""The random stream of helpers, docs/format.md, section 8: the same integers on every machine, for ever."""

import hashlib

import numpy as np
from numpy.typing import NDArray


class Stream:
    """A named stream of 64-bit words: numpy's Philox, keyed by the hash of seed and name."""

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
        quarters = np.empty(count, dtype=np.int8)
        for start in range(0, count, _CHUNK):
            part = quarters[start : start + _CHUNK]
            part[:] = popcounts(self.words(part.size))
        return np.subtract(quarters, 32, out=quarters)

    def odd_integers(self, count: int) -> NDArray[np.int32]:
        """``count`` numbers 2 u - 65535: u are the outputs' 16-bit parts, least significant first."""
        parts = self.words(-(-count // 4)).astype("<u8").view("<u2")[:count]
        return 2 * parts.astype(np.int32) - 65535


_CHUNK = 1 << 16  # words whose ones are counted at a time: they stay in the cache
_SHIFTS = tuple(np.uint64(shift) for shift in (1, 2, 4, 56))
_PAIRS, _FOURS, _EIGHTS, _SUM = (
    np.uint64(pattern * 0x0101010101010101) for pattern in (0x55, 0x33, 0x0F, 0x01)
)


def popcounts(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Number of ones of each word: sums of neighbouring pairs, fours and eights, then of the eight bytes.

    Example:
        >>> popcounts(np.array([0, 7, 2**64 - 1], dtype=np.uint64)).tolist()
        [0, 3, 64]
    """
    one, two, four, top = _SHIFTS
    pairs = words - (words >> one & _PAIRS)
    fours = (pairs & _FOURS) + (pairs >> two & _FOURS)
    eights = fours + (fours >> four) & _EIGHTS
    counts: NDArray[np.uint64] = eights * _SUM >> top
    return counts
