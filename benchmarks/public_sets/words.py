"""Texts as vectors, by a rule that uses nothing of the sample.

A text is put into lower case and cut into words: runs of the letters a to z, at least three of them, without
the commonest words of English. A word that occurs c times weighs as much as c has binary digits: 1, 2, 2, 3
for c = 1, 2, 3, 4. The first eight bytes of its SHA-256 choose a position of the vector and a sign; weights
add up there, and the vector is divided by its length. Only integers, one square root and one division are
involved, all exactly rounded: every machine finds the same bytes.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_WORD = re.compile("[a-z]{3,}")
_COMMONEST = """
about all also and any are because been being but can could did does for from had has have her him his how
into its just may more most not one only other our out she should some such than that the their them then
there these they this those very was were what when where which who will with would you your
"""
_LEFT_OUT = frozenset(_COMMONEST.split())


def hashed_words(texts: Iterable[str], dimension: int) -> NDArray[np.float32]:
    """A row of ``dimension`` numbers and length 1 for each text; zero for a text without words.

    Example:
        >>> row = hashed_words(["Compression, compression and bounds."], 64)[0]
        >>> sorted(round(abs(float(each)), 3) for each in row if each)  # twice is 2 binary digits, once is 1
        [0.447, 0.894]
    """
    rows = []
    for text in texts:
        sums = np.zeros(dimension, dtype=np.int64)
        for word, count in Counter(_WORD.findall(text.lower())).items():
            if word not in _LEFT_OUT:
                number = _number(word)
                sums[(number >> 1) % dimension] += (1 if number & 1 else -1) * count.bit_length()
        length = math.sqrt(int(sums @ sums)) or 1.0
        rows.append((sums / length).astype(np.float32))
    return np.array(rows, dtype=np.float32).reshape(-1, dimension)


@lru_cache(maxsize=1 << 16)
def _number(word: str) -> int:
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
