"""Tensors that are made of coded integers and random numbers (docs/format.md, sections 8.4 and 8.9).

All sums are sums of integers. They are computed by matrix products of floating-point numbers, in float32
where no partial sum can reach 2^24, else in float64, where none can exceed 2^53: exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...refusal import Refused
from ...sample import parts
from ...stream import Stream, Words
from ..arithmetic import Decoder, grid
from ..draws import quarters, signs, uniforms
from ..tensors import TILE, Content, Doubles, Recipe, Shape, as_matrix, read_inner
from .sketch import Sketch, draw, proven

EXACT32 = 1 << 24  # integers below are exact in float32
EXACT64 = 1 << 53  # integers up to here are exact in float64
BLOCK = 1 << 20  # numbers of a factor that are expanded at a time
GAUSSIAN_LIMIT = 32  # of the absolute value of a popcount less 32
MEAN_LIMIT = 1 << 20  # of the absolute value of the mean of a filling
ONES_LIMIT = 16  # in a column of a matrix that sketches
SKETCHED_LIMIT = 1 << 13  # rows, and columns, of a tensor that is sketched, and of its sketch


@dataclass(frozen=True)
class RightFactor:
    """The right factor of a product: a matrix of integers, none above ``limit`` in absolute value.

    ``block(first, stop, columns)`` computes some columns of the rows ``first`` .. ``stop - 1``.
    """

    limit: int
    block: Callable[[int, int, slice], NDArray[Any]]


def _stream_rows(stream: Stream, first: int, stop: int, *, width: int, part: slice) -> Words:
    """Columns ``part`` of the rows ``first`` .. ``stop - 1``, where every row is ``width`` outputs."""
    if part == slice(0, width):
        return stream.words(first * width, (stop - first) * width).reshape(-1, width)
    size = part.stop - part.start
    return np.stack([stream.words(row * width + part.start, size) for row in range(first, stop)])


def sign_rows(stream: Stream, width: int) -> RightFactor:
    """Rows of ``width`` signs, each starting with a new output."""

    def block(first: int, stop: int, columns: slice) -> NDArray[np.float32]:
        part = slice(columns.start // 64, -(-columns.stop // 64))
        words = _stream_rows(stream, first, stop, width=-(-width // 64), part=part)
        return signs(words)[:, : columns.stop - columns.start]

    return RightFactor(1, block)


def gaussian_rows(stream: Stream, width: int) -> RightFactor:
    """Rows of ``width`` popcounts less 32."""
    return RightFactor(
        GAUSSIAN_LIMIT,
        lambda first, stop, columns: quarters(_stream_rows(stream, first, stop, width=width, part=columns)),
    )


def coded_rows(content: Content, width: int) -> RightFactor:
    """Rows of ``width`` coded integers."""
    matrix = content.data.reshape(-1, width)
    return RightFactor(content.limit, lambda first, stop, columns: matrix[first:stop, columns])


def product(left: NDArray[Any], right: RightFactor, width: int) -> Doubles:
    """The exact product of two matrices of integers. The right one has so many columns, some taken at a time.

    The absolute sum of a row of ``left`` times the limit of ``right`` is at most 2^53.
    """
    result = np.zeros((len(left), width))
    for columns in parts(width, max(64, TILE // len(left) // 64 * 64)):  # never inside an output of a stream
        step = max(1, BLOCK // max(len(left), columns.stop - columns.start))
        for first in range(0, left.shape[1], step):
            some = left[:, first : first + step]
            largest = right.limit * np.abs(some).sum(axis=1, dtype=np.float64).max()
            kind = np.float32 if largest < EXACT32 else np.float64
            block = right.block(first, first + some.shape[1], columns)
            result[:, columns] += some.astype(kind) @ block.astype(kind, copy=False)
    return result


def read_projected(decoder: Decoder, shape: Shape) -> Recipe:
    """Mode 8."""
    count = math.prod(shape)
    vectors, width = as_matrix(shape) if decoder.bit() else (1, count)
    gaussian = decoder.bit()
    random_rows = gaussian_rows if gaussian else sign_rows
    k = decoder.size("the number k of random vectors", 1 << 16)
    decoder.work.spend(k * count + (16 * k * width if gaussian else 0))
    helper = random_rows(Stream(decoder.seed(), "project"), width)

    def make(z: Content) -> Doubles:
        return product(z.data.reshape(vectors, k), helper, width) * grid(z.exponent)

    return Recipe((read_inner(decoder, (vectors, k)),), make)


def read_low_rank(decoder: Decoder, shape: Shape) -> Recipe:
    """Mode 9."""
    height, width = as_matrix(shape)
    r = decoder.size("the rank r", min(height, width, 1 << 12))
    decoder.work.spend(r * height * width)
    factors = read_inner(decoder, (height, r)), read_inner(decoder, (r, width))
    exponent = factors[0].exponent + factors[1].exponent
    if abs(exponent) > 1000:
        raise Refused(f"Message: a product has a step of index {exponent}; -1000 to 1000 is allowed.")

    def make(u: Content, v: Content) -> Doubles:
        return product(u.data.reshape(height, r), coded_rows(v, width), width) * grid(exponent)

    return Recipe(factors, make)


def read_filled(decoder: Decoder, shape: Shape) -> Recipe:
    """Mode 10."""
    decoder.work.spend(math.prod(shape))
    inner = read_inner(decoder, shape)
    if not decoder.bit():
        return Recipe((inner,), Content.values)
    everywhere = decoder.bit()
    step = grid(decoder.exponent())
    mean = decoder.signed("the mean of a filling", MEAN_LIMIT)
    stream = Stream(decoder.seed(), "fill")

    def make(q: Content) -> Doubles:
        filling = (16 * quarters(stream.words(0, q.data.size)).astype(np.float64) + mean) * step
        if not everywhere:
            filling[q.data != 0] = 0.0
        return q.values() + filling

    return Recipe((inner,), make)


def read_ticket(decoder: Decoder, shape: Shape) -> Recipe:
    """Mode 11."""
    decoder.work.spend(math.prod(shape))
    expand, per_word = ((signs, 64), (quarters, 1), (uniforms, 4))[decoder.uniform(3)]
    stream = Stream(decoder.seed(), "ticket")

    def make(q: Content) -> Doubles:
        random = expand(stream.words(0, -(-q.data.size // per_word)))[: q.data.size]
        return (q.data.astype(np.int64) * random.astype(np.int64)).astype(np.float64) * grid(q.exponent)

    return Recipe((read_inner(decoder, shape),), make)


def read_mixed(decoder: Decoder, shape: Shape) -> Recipe:
    """Mode 12."""
    if len(shape) < 2:
        raise Refused(f"Message: a mixed tensor must have two sizes or more; its shape is {shape}.")
    locations, width = as_matrix(shape)
    b = decoder.size("the number b of basis rows", 1 << 12)
    k = decoder.size("the number k of rows of C", 1 << 12)
    decoder.work.spend(b * locations * width + 16 * k * b * locations)
    seed = decoder.seed()
    inner = read_inner(decoder, (b,))
    if (largest := GAUSSIAN_LIMIT**2 * k * b**2 * inner.limit) > EXACT64:
        raise Refused(f"Message: the sums of a mixed tensor can reach {largest}; at most 2^53 is allowed.")
    basis, mix = sign_rows(Stream(seed, "basis"), width), Stream(seed, "mix")

    def make(z: Content) -> Doubles:
        result = np.empty((locations, width))
        for rows in parts(locations, max(1, TILE // max(b, width))):
            result[rows] = product(_mixtures(mix, z.data, k, rows), basis, width)
        return result * grid(z.exponent)

    return Recipe((inner,), make)


def _mixtures(mix: Stream, z: NDArray[Any], k: int, locations: slice) -> Doubles:
    """w = C^T (C z) for each location. C has ``k`` rows."""
    b, z = z.size, z.astype(np.float64)
    together = max(1, BLOCK // (k * b))  # whole locations, or else some rows of C of one location
    step = k if together > 1 else max(1, min(k, BLOCK // b))
    result = np.zeros((locations.stop - locations.start, b))
    for t in range(locations.start, locations.stop, together):
        w = result[t - locations.start :][:together]
        for first in range(0, k, step):
            size = min(step, k - first)
            words = mix.words((t * k + first) * b, len(w) * size * b)
            c = quarters(words).astype(np.float64).reshape(len(w), size, b)
            w += np.einsum("tl,tli->ti", c @ z, c)
    return result


def read_sketched(decoder: Decoder, shape: Shape) -> Recipe:
    """Mode 13."""
    height, width = as_matrix(shape)
    if max(height, width) > SKETCHED_LIMIT:
        raise Refused(
            f"Message: a sketched tensor is {height} x {width}; at most {SKETCHED_LIMIT} is allowed."
        )
    m1 = decoder.size("the number m1 of rows of a sketch", SKETCHED_LIMIT)
    m2 = decoder.size("the number m2 of columns of a sketch", SKETCHED_LIMIT)
    ones = decoder.size("the number t of ones", ONES_LIMIT)
    for m, p in ((m1, height), (m2, width)):
        if math.comb(m, ones) < p:  # also where ones > m
            raise Refused(
                f"Message: there are not {p} columns of {m} numbers with {ones} ones, all different."
            )
    decoder.work.spend((height * width << 13) + (m1 * height + m2 * width << 11))
    seed, witness = decoder.seed(), decoder.witness

    def make(y: Content) -> Doubles:
        left = draw(Stream(seed, "sketch/left"), rows=m1, columns=height, ones=ones)
        right = draw(Stream(seed, "sketch/right"), rows=m2, columns=width, ones=ones)
        x = proven(witness, Sketch(left, right, (m1, m2)), y.data.astype(np.int64))
        return x.astype(np.float64) * grid(y.exponent)

    return Recipe((read_inner(decoder, (m1, m2)),), make)


READERS: dict[int, Callable[[Decoder, Shape], Recipe]] = {
    8: read_projected,
    9: read_low_rank,
    10: read_filled,
    11: read_ticket,
    12: read_mixed,
    13: read_sketched,
}
