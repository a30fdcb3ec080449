"""Networks whose tensors are one fixed function of a few coded integers (docs/format.md, section 8.8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..refusal import Refused
from ..stream import Stream, Words
from .arithmetic import grid
from .draws import quarters
from .tensors import Content, Doubles, Shape, Static, Values, as_matrix, read_inner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .arithmetic import Decoder
    from .chain import Layout

SIZE_LIMIT = 1 << 20
START_WORK = 16  # what drawing the start of an element counts as


@dataclass(frozen=True)
class Subspace:
    """The fields before the integers: d, E, the step, whether the head starts at zero, and the seed."""

    size: int
    entries: int
    step: float
    has_zero_head: bool
    seed: int

    def values(self, q: Content, layout: Layout, *, has_base: bool) -> Iterator[Values]:
        """The numbers of each tensor in turn; with a base nothing but the integers' part."""
        matrices = [name for name, shape in layout if len(shape) > 1]
        head = matrices[-1] if matrices and self.has_zero_head else None
        first = 0
        for name, shape in layout:
            has_start = len(shape) > 1 and name != head and not has_base
            yield self._tensor(q, shape, first, has_start=has_start)
            first += math.prod(shape)

    def _tensor(self, q: Content, shape: Shape, first: int, *, has_start: bool) -> Values:
        """The tensor whose elements have the numbers from ``first`` on."""
        hashes, starts = Stream(self.seed, "hash"), Stream(self.seed, "start")
        scale = 0.5 ** ((as_matrix(shape)[1].bit_length() - 1) // 2) if len(shape) > 1 else 1.0

        def tile(rows: slice, columns: slice) -> Doubles:
            begin, count = first + columns.start, columns.stop - columns.start
            words = hashes.words(begin * self.entries, count * self.entries)
            terms = q.data[self._places(words)] * np.where(words & np.uint64(1), -1, 1)
            numbers: Doubles = terms.reshape(1, count, self.entries).sum(axis=2) * self.step
            if has_start:
                numbers += quarters(starts.words(begin, count)) / 4
            return numbers * scale

        return Values(1, math.prod(shape), self.entries, tile)

    def _places(self, words: Words) -> Words:
        """Indices of the integers that the outputs take."""
        half = np.uint64(32)
        return (words >> half) * np.uint64(self.size) >> half


def read_subspace(decoder: Decoder, elements: int) -> Subspace:
    """Everything before the integers, for a network of ``elements`` elements."""
    size = decoder.size("the size d of a subspace", SIZE_LIMIT)
    entries = 1 << decoder.uniform(3)
    decoder.work.spend((START_WORK + entries) * elements)
    step = grid(decoder.exponent())
    has_zero_head = bool(decoder.bit())
    return Subspace(size, entries, step, has_zero_head, decoder.seed())


def read_integers(decoder: Decoder, subspace: Subspace) -> Content | Static:
    """The integers, or the table of the block in which they are."""
    inner = read_inner(decoder, (subspace.size,))
    if inner.exponent != 0:
        raise Refused(
            f"Message: the integers of a subspace have a step of exponent {inner.exponent}; it must be 0."
        )
    return inner
