"""Order, known share and copies of a sample (docs/format.md, 3.3, 3.4, 4.1 and 5.4)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError, UsageError
from codebound.run.references import implements
from codebound.sample.dataset import (
    arrays_sha256,
    digest_rows,
    integers,
    number_rows,
    require_printable,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.sample.dataset import Sample

ORDERS = ("rows", "clusters", "file")
COPIES = ("any", "independent", "repeated")
SHARES = (100, 300, 1000, 3000, 10000, 30000)
"""Known shares that a message names as they are, after tenths."""
_MOST_NUMBER = 1 << 32
_USUAL = ((2_000, 10, 0), (10_000, 12, 1_000), (50_000, 14, 4_000), (1 << 40, 16, 15_000))
_MOST_FOR_RULES = 10_000
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Sampling design: a declaration that fixes the order of rows."""

    order: str = "rows"
    copies: str = "any"  # equal rows are independent draws, repeated records, or any mixture
    salt: str = ""  # 64 hexadecimal digits that were drawn after the sample was sealed
    seal: str = ""  # of the sample before
    clusters: NDArray[np.int64] | None = None  # number of each row's cluster, where clusters are the draws
    groups: NDArray[np.int64] | None = None  # number of each row's group

    def __post_init__(self) -> None:
        if self.order not in ORDERS or self.copies not in COPIES:
            raise UsageError(
                f"the order is one of {', '.join(ORDERS)}, and copies are one of {', '.join(COPIES)}. Got "
                f"{self.order!r}, {self.copies!r}."
            )
        if (self.clusters is not None) != (self.order == "clusters"):
            raise UsageError("give the cluster of each row with the order 'clusters', and with no other.")
        if self.clusters is not None and self.copies != "independent":
            raise UsageError(
                "clusters are the draws, so that copies are independent: say that, or give none."
            )
        if bool(self.salt) != bool(self.seal) or not re.fullmatch("([0-9a-f]{64})?", str(self.salt)):
            raise UsageError("a salt has 64 hexadecimal digits, and needs what sealed the sample before it.")
        require_printable("the seal", self.seal)
        for name in ("clusters", "groups"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, integers(name, getattr(self, name)))

    def check(self, n: int) -> None:
        """Refuse clusters or groups without a number for each row."""
        for name, numbers in (("clusters", self.clusters), ("groups", self.groups)):
            if numbers is not None and numbers.shape != (n,):
                raise DataError(f"{name} must be {n} integers, one for each row. Got {len(numbers)}.")
            if numbers is not None and (numbers.min() < 0 or numbers.max() >= _MOST_NUMBER):
                raise DataError(f"{name} are numbered from 0 to 2^32 - 1.")

    def as_record(self) -> dict[str, Any]:
        """Keys of ``sample`` in the header that say it."""
        given = {"clusters": self.clusters, "groups": self.groups}
        hashes = {key: None if each is None else arrays_sha256(each) for key, each in given.items()}
        return {"order": self.order, "copies": self.copies, "salt": self.salt, "seal": self.seal, **hashes}


@dataclass(frozen=True, slots=True, eq=False)
class Arranged:
    """A sample with its order."""

    sample: Sample
    design: Design
    places: NDArray[np.int64]  # stored indices, in the order
    inputs: NDArray[np.int64]  # number of the distinct input of each stored row
    keys: NDArray[np.uint8]  # 32 bytes for each stored row; empty in the order file
    clusters: NDArray[np.int64] | None  # place of each stored row's cluster in the order of clusters
    cluster_keys: NDArray[np.uint8]  # in the order of clusters

    @property
    def units(self) -> int:
        """Number of rows, or of clusters: what shares are taken of."""
        return self.sample.n if self.clusters is None else len(self.cluster_keys)

    def cut(self, t: int) -> int:
        """Count the rows of a known share of t units, grown by copies."""
        if not 0 <= t <= self.units:
            raise UsageError(f"a known share of {t} of {self.units} cannot be.")
        if self.clusters is not None:
            return int(np.searchsorted(self.clusters[self.places], t))
        if t and (self.design.order, self.design.copies) == ("rows", "repeated"):
            following = self.inputs[self.places[t:]]
            others = np.flatnonzero(following != self.inputs[self.places[t - 1]])
            return t + (int(others[0]) if others.size else len(following))
        return t

    @implements("I-06", kind="algorithm")
    def split(self, t: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Known rows of a share of t units, in order, and the counted ones."""
        cut = self.cut(t)
        return self.places[:cut], np.sort(self.places[cut:])

    def one_row(self, counted: NDArray[np.int64]) -> NDArray[np.int64]:
        """One row of each cluster, by keys of cluster and row."""
        if self.clusters is None:
            raise UsageError("one row a cluster can be counted only with clusters.")
        own = self.clusters[counted]
        content = np.concatenate((self.cluster_keys[own], self.keys[counted]), axis=1)
        digests = digest_rows(content)
        order = np.lexsort((*_words(digests), own))
        is_first = np.diff(own[order], prepend=-1) > 0
        return np.sort(counted[order[is_first]])


def arrange(sample: Sample, design: Design) -> Arranged:
    """Put the rows of a sample in their order.

    Example:
        >>> from codebound.sample.arrays import from_arrays
        >>> sample = from_arrays([[0.5], [1.5], [0.5]], [0, 1, 0], name="three")
        >>> found = arrange(sample, Design())
        >>> found.places.tolist(), [rows.tolist() for rows in found.split(1)]
        ([2, 1, 0], [[2], [0, 1]])
    """
    design.check(sample.n)
    salt, none = bytes.fromhex(design.salt), np.zeros((0, _KEY_BYTES), np.uint8)
    digests = digest_rows(sample.x, salt=salt)
    inputs = number_rows(digests)
    if design.order == "file":
        return Arranged(sample, design, np.arange(sample.n), inputs, none, None, none)
    named = [sample.y] if design.groups is None else [sample.y, design.groups]
    within = [] if design.clusters is None else [design.clusters]
    tails = np.stack([*named, count_before(inputs, *named, *within)], axis=1).astype("<i8")
    keys = digest_rows(sample.x, salt=salt, tails=tails)
    if design.clusters is None:
        first = _words(digests) if design.copies == "repeated" else ()
        places = np.lexsort((*_words(keys), *first)).astype(np.int64)
        return Arranged(sample, design, places, inputs, keys, None, none)
    clusters, cluster_keys = _arrange_clusters(design.clusters, keys, salt)
    places = np.lexsort((*_words(keys), clusters)).astype(np.int64)
    return Arranged(sample, design, places, inputs, keys, clusters, cluster_keys)


def _arrange_clusters(
    numbers: NDArray[np.int64], keys: NDArray[np.uint8], salt: bytes
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Place of each row's cluster, and the keys of clusters."""
    _, firsts, own = np.unique(numbers, return_index=True, return_inverse=True)
    own = np.argsort(np.argsort(firsts))[own]  # numbered by their first rows
    rows = np.lexsort((*_words(keys), own))
    ends = np.cumsum(np.bincount(own))
    seen: dict[bytes, int] = {}
    found = []
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        digest = hashlib.sha256(salt + keys[rows[start:end]].tobytes())
        same = digest.digest()
        digest.update(seen.get(same, 0).to_bytes(8, "little"))
        seen[same] = seen.get(same, 0) + 1
        found.append(digest.digest())
    cluster_keys = np.frombuffer(b"".join(found), np.uint8).reshape(-1, _KEY_BYTES)
    order = np.lexsort(_words(cluster_keys))
    return np.argsort(order)[own].astype(np.int64), cluster_keys[order]


def _words(keys: NDArray[np.uint8]) -> tuple[NDArray[Any], ...]:
    """Keys as numbers for ``lexsort``, whose last key comes first."""
    words = np.ascontiguousarray(keys).view(">u8")
    return tuple(words[:, i] for i in reversed(range(words.shape[1])))


def count_before(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of equal rows before each row."""
    order = np.lexsort(columns)  # stable
    n = len(order)
    is_new = np.ones(n, dtype=bool)
    is_new[1:] = np.any([each[order][1:] != each[order][:-1] for each in columns], axis=0)
    starts = np.maximum.accumulate(np.where(is_new, np.arange(n), 0))
    before = np.empty(n, np.int64)
    before[order] = np.arange(n) - starts
    return before


def usual_share(n: int, *, is_rule: bool) -> int:
    """Known share of n units where no message names another (4.1); a rule learns from at most 10,000.

    Example:
        >>> [usual_share(n, is_rule=True) for n in (1797, 2000, 9999, 10000, 60000)]
        [898, 1000, 5999, 6000, 10000]
    """
    twentieths, rest = next((a, rest) for below, a, rest in _USUAL if n < below)
    t = twentieths * n // 20
    t = min(t, n - rest) if rest else t
    return min(t, _MOST_FOR_RULES) if is_rule else t


def coded_share(i: int, n: int) -> int:
    """Known share of n units by its number in a message (5.4)."""
    if i == 0:
        return usual_share(n, is_rule=True)
    return i * n // 10 if i < 10 else SHARES[i - 10]
