"""The order of a sample: keys, share, copies and clusters (docs/format.md, sections 3.3, 3.4 and 4.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .header import Header
from .refusal import Refused
from .sample import Data, Inputs, check_numbers

Places: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = NDArray[np.uint64]  # SHA-256, as four words each, the most significant first

CHUNK = 1 << 24  # bytes of rows that are hashed from one copy
SHARES = (100, 300, 1000, 3000, 10000, 30000)
LARGEST_OF_RULE = 10_000  # rows of a usual share that a rule learns from
USUAL = (  # below so many rows, so many twentieths, and so many at least are left
    (2_000, 10, 0),
    (10_000, 12, 1_000),
    (50_000, 14, 4_000),
    (None, 16, 15_000),
)


@dataclass(frozen=True)
class Arranged:
    """The rows of a sample in their order, and what is known of them.

    ``units`` is n, the number of rows or of clusters. The others are about rows: ``places`` are their stored
    places in the order, ``known`` those of the known rows, in order and after growth, ``counted`` the others
    as stored. ``inputs`` and ``clusters`` are numbers, from 0 on, of the different inputs and clusters;
    ``groups`` are those that were given. ``one_row`` has the row that counts of each counted cluster (section
    6.1), as stored.
    """

    places: Places
    known: Places
    counted: Places
    inputs: Places
    clusters: Places | None
    groups: Places | None
    one_row: Places | None
    units: int


def usual_share(n: int, *, is_rule: bool) -> int:
    """The usual known share of n rows or clusters (section 4.1).

    Example:
        >>> [usual_share(n, is_rule=True) for n in (1_797, 2_100, 60_000)]
        [898, 1100, 10000]
    """
    part, left = next((part, left) for below, part, left in USUAL if below is None or n < below)
    share = min(part * n // 20, n - left)
    return min(share, LARGEST_OF_RULE) if is_rule else share


def coded_share(i: int, n: int) -> int:
    """The known share of a split, by its number in the message (section 5.4)."""
    if i == 0:
        return usual_share(n, is_rule=True)
    return i * n // 10 if i < 10 else SHARES[i - 10]


def arrange(data: Data, header: Header, clusters: Inputs | None, groups: Inputs | None) -> Arranged:
    """Put the rows into their order. The known share is that of the header, and grows for repeated copies."""
    sample, rows = header.sample, len(data.y)
    numbers = check_numbers(clusters, sample.clusters, rows, "clusters")
    parts = check_numbers(groups, sample.groups, rows, "groups")
    first = by_input(data.x, salt := bytes.fromhex(sample.salt))
    inputs = number_of(first)
    if numbers is not None:
        return _arrange_clusters(data, header, inputs, by_first_row(numbers), parts)
    if sample.order == "file":
        places = np.arange(rows)
    else:
        keys = by_row(data, inputs, salt, groups=parts)
        places = sort_keys(first, keys) if sample.copies == "repeated" else sort_keys(keys)
    t = known = _check_share(header, rows)
    if sample.order == "rows" and sample.copies == "repeated" and t:
        is_other = inputs[places[t:]] != inputs[places[t - 1]]
        known = t + int(is_other.argmax()) if is_other.any() else rows
    return _arranged(places, known, inputs, None, parts, None, rows)


def _arrange_clusters(
    data: Data, header: Header, inputs: Places, clusters: Places, groups: Places | None
) -> Arranged:
    """The same in the order ``clusters``: one cluster after the other, the rows of each by key."""
    salt = bytes.fromhex(header.sample.salt)
    keys = by_row(data, inputs, salt, groups=groups, clusters=clusters)
    rows = sort_keys(clusters[:, None].astype(np.uint64), keys)
    ends = [0, *(32 * np.cumsum(np.bincount(clusters))).tolist()]
    content = memoryview(_bytes(keys[rows]))
    lists = [content[start:end] for start, end in pairwise(ends)]
    before = _occurrences(_hash_all((salt, each) for each in lists))
    own = _hash_all((salt, each, o) for each, o in zip(lists, _integers(before), strict=True))

    order = sort_keys(own)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    places = rows[np.argsort(rank[clusters[rows]], kind="stable")]
    t = _check_share(header, len(order))
    known = int((rank[clusters] < t).sum())
    counted = places[known:]
    pairs = _bytes(np.concatenate([own[clusters[counted]], keys[counted]], axis=1))
    draws = _hash_all((pair,) for pair in _slices(pairs, 64))
    drawn = counted[sort_keys(clusters[counted, None].astype(np.uint64), draws)]
    is_first = np.diff(clusters[drawn], prepend=-1) != 0
    return _arranged(places, known, inputs, clusters, groups, np.sort(drawn[is_first]), len(order))


def _arranged(places: Places, known: int, *others: Any) -> Arranged:
    if known >= len(places):
        raise Refused("Sample: the known share is all of it; nothing is left to count.")
    return Arranged(places, places[:known], np.sort(places[known:]), *others)


def _check_share(header: Header, units: int) -> int:
    if (t := header.known.rows) >= units:
        raise Refused(f"Sample: known.rows is {t} of {units}; nothing is left to count.")
    return t


def by_input(x: Inputs, salt: bytes = b"") -> Keys:
    """SHA-256(salt, x_i) of every row, minus zero as zero."""
    return _hash_all((salt, row) for row in _rows(x))


def by_row(
    data: Data, inputs: Places, salt: bytes, *, groups: Places | None = None, clusters: Places | None = None
) -> Keys:
    """The keys of all rows (section 3.3). ``inputs`` are numbers of the different inputs."""
    fields = [data.y] if groups is None else [data.y, groups]
    within = [] if clusters is None else [clusters]
    words = np.stack([inputs, *fields, *within], axis=1).astype(np.uint64)
    tails = _integers(*fields, _occurrences(words))
    return _hash_all((salt, row, tail) for row, tail in zip(_rows(data.x), tails, strict=True))


def number_of(keys: Keys) -> Places:
    """Numbers from 0 on that are equal where keys are."""
    order = sort_keys(keys)
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.cumsum(_is_new(keys[order])) - 1
    return numbers


def by_first_row(numbers: Places) -> Places:
    """The same parts numbered from 0 on, by their first rows."""
    _, first, part = np.unique(numbers, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[part.reshape(-1)]


def count_shared(x: Inputs, other: Inputs) -> int:
    """Number of inputs of ``other`` that occur in ``x``, by value, whatever their types."""
    if x.dtype != other.dtype:
        x, other = x.astype(np.float64), other.astype(np.float64)
    known = {*_slices(_bytes(by_input(x)), 32)}
    return sum(key in known for key in _slices(_bytes(by_input(other)), 32))


def sort_keys(*keys: Keys) -> Places:
    """The stable order of rows by the first keys, where they are equal by the second, and so on."""
    words = np.concatenate(keys, axis=1)
    return np.lexsort(words.T[::-1]).astype(np.int64)


def _is_new(words: Keys) -> NDArray[np.bool_]:
    """Of sorted rows of words: which differ from the row before."""
    is_new = np.ones(len(words), bool)
    is_new[1:] = (words[1:] != words[:-1]).any(axis=1)
    return is_new


def _occurrences(words: Keys) -> Places:
    """For each row of words, how many equal ones are stored before it."""
    order = sort_keys(words)
    is_new = _is_new(words[order])
    starts = np.flatnonzero(is_new)
    before = np.empty(len(words), np.int64)
    before[order] = np.arange(len(words)) - starts[np.cumsum(is_new) - 1]
    return before


def _rows(x: Inputs) -> Iterator[memoryview]:
    """The bytes of every row, little-endian and minus zero as zero. Many rows are copied at a time."""
    size = x[:1].nbytes
    count = max(1, CHUNK // size)
    for start in range(0, len(x), count):
        part = np.array(x[start : start + count], dtype=x.dtype.newbyteorder("<"), order="C")
        if part.dtype.kind == "f":
            patterns = part.view(f"<u{part.itemsize}")
            patterns[patterns == 1 << (8 * part.itemsize - 1)] = 0  # a sum could change what is no number
        content = memoryview(part.tobytes())
        yield from (content[at : at + size] for at in range(0, len(content), size))


def _hash_all(rows: Iterable[Sequence[bytes | memoryview]]) -> Keys:
    """SHA-256 of the parts of each row."""
    found = bytearray()
    for parts in rows:
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        found += digest.digest()
    return np.frombuffer(found, ">u8").astype(np.uint64).reshape(-1, 4)


def _bytes(keys: Keys) -> bytes:
    return keys.astype(">u8").tobytes()


def _slices(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def _integers(*columns: Places) -> Iterator[bytes]:
    """The numbers of each row as int64, little-endian, one after the other."""
    return _slices(np.stack(columns, axis=1).astype("<i8").tobytes(), 8 * len(columns))
