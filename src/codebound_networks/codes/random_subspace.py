"""All tensors of a network from few integers: docs/format.md, section 8.8.

Every element of the network starts at a coded Gaussian and adds one, two or four of the integers, which a
hash chooses. Indices, signs and starts come from streams, in message order: the same bits on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from codebound.bits.stream import Stream
from codebound.run.errors import UsageError
from codebound_networks.codes.modes import check_inner, code_inner, code_seed, integers
from codebound_networks.codes.numbers import bit, gamma, signed, uniform
from codebound_networks.codes.quantization import MAX_STEP, round_to_float32, step_size
from codebound_networks.codes.tensors import Zero, matrix_shape, require_size

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from codebound.bits.plain_code import Bits
    from codebound_networks.codes.arithmetic import AbstractCoder
    from codebound_networks.codes.tensors import AbstractTensorCode, Shape

MAX_DIMENSION = 1 << 20
START_WORK = 16  # of drawing one start, in multiplications
_ENTRIES = 3  # an element takes 1, 2 or 4 integers
_CHUNK = 1 << 16  # elements that are made at a time: they stay in the cache


@dataclass(frozen=True, eq=False)
class Subspace:
    """A network as a point of a random subspace."""

    inner: AbstractTensorCode  # the integers q, shape (d,), with step 0
    entries_log2: int  # t: every element adds 2^t of the integers
    step: int  # index of the step of the sums
    zero_head: bool  # whether the last layer starts at zero
    seed: int  # seed of the hashes and of the starts

    def __post_init__(self) -> None:
        check_inner(self.inner, (None,))

    @classmethod
    def blank(cls) -> Subspace:
        """Something for a reader to replace."""
        return cls(Zero((1,)), entries_log2=0, step=0, zero_head=False, seed=0)

    def code_choices(self, coder: AbstractCoder, shapes: Iterable[Shape]) -> Subspace:
        """Codes everything but the integers. A reader's have the right number and are still to come."""
        size = gamma(coder, self.inner.shape[0])
        coder.require(
            size <= MAX_DIMENSION, f"a subspace has at most {MAX_DIMENSION:,} dimensions. Got {size:,}."
        )
        entries_log2 = uniform(coder, self.entries_log2, _ENTRIES)
        step = signed(coder, self.step)
        coder.require(abs(step) <= MAX_STEP, f"a step lies between -{MAX_STEP} and {MAX_STEP}. Got {step}.")
        zero_head, seed = bool(bit(coder, self.zero_head)), code_seed(coder, self.seed)
        elements = 0
        for shape in shapes:
            require_size(coder, shape)
            elements += math.prod(shape)
        coder.charge_work(elements * (START_WORK + (1 << entries_log2)))
        inner = self.inner if self.inner.shape == (size,) else Zero((size,))
        return Subspace(inner, entries_log2, step, zero_head, seed)

    def code_integers(self, coder: AbstractCoder) -> Subspace:
        """Codes the integers, except for a block."""
        inner = code_inner(coder, self.inner, self.inner.shape)
        coder.require(inner.step == 0, f"the integers of a subspace have step 0. Got {inner.step}.")
        return replace(self, inner=inner)

    def blocks(self) -> list[Bits]:
        """The bits behind the code word, if any."""
        return self.inner.blocks()

    def with_blocks(self, bits: Bits, start: int) -> tuple[Subspace, int]:
        """The subspace whose blocks begin at bit ``start``, and the bit where they end."""
        inner, end = self.inner.with_blocks(bits, start)
        return replace(self, inner=inner), end

    def weights(
        self,
        shapes: Mapping[str, Shape],
        head: Collection[str],
        *,
        base: Mapping[str, NDArray[np.float32]] | None = None,
    ) -> dict[str, NDArray[np.float32]]:
        """The decoded tensors, each element rounded once to float32.

        Args:
            shapes: Names and shapes of the tensors, in message order.
            head: Those that start at zero if ``zero_head`` says so.
            base: Tensors to add; they take the place of the starts.
        """
        q, step, entries = integers(self.inner).levels, step_size(self.step), 1 << self.entries_log2
        hash_stream, start_stream = Stream(self.seed, "hash"), Stream(self.seed, "start")
        found = {}
        for name, shape in shapes.items():
            is_started = base is None and len(shape) > 1 and not (self.zero_head and name in head)
            unit, scale = 0.25 if is_started else 0.0, math.ldexp(1.0, -scale_exponent(shape))
            origin = None if base is None else base[name].reshape(-1)
            weights = np.empty(math.prod(shape), dtype=np.float32)
            for first in range(0, weights.size, _CHUNK):
                chunk = slice(first, first + _CHUNK)
                count = weights[chunk].size
                index, sign = _split_words(hash_stream.words(count * entries), q.size)
                sums = (sign * q[index]).reshape(count, entries).sum(axis=1)
                values = (
                    unit * start_stream.gaussian_quarters(count).astype(np.float64) + sums * step
                ) * scale
                weights[chunk] = round_to_float32(values, base=None if origin is None else origin[chunk])
            found[name] = weights.reshape(shape)
        return found


def hashes(seed: int, dimension: int, entries: int, count: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the integers that the first ``count`` elements add, and the signs.

    Args:
        seed: Seed of the subspace.
        dimension: Number of integers.
        entries: Integers per element.
        count: Number of elements.

    Returns:
        Indices and signs, both of shape (count, entries).

    >>> index, sign = hashes(0, 10, 2, 1000)
    >>> index.shape, int(index.min()), int(index.max()), sorted(set(sign.ravel().tolist()))
    ((1000, 2), 0, 9, [-1, 1])
    """
    if not 1 <= dimension <= MAX_DIMENSION:
        raise UsageError(f"a subspace has 1 to {MAX_DIMENSION:,} dimensions. Got {dimension:,}.")
    index, sign = _split_words(Stream(seed, "hash").words(count * entries), dimension)
    return index.reshape(count, entries), sign.reshape(count, entries)


def start_values(seed: int, count: int) -> NDArray[np.int8]:
    """Return the starts of the first ``count`` elements, times 4 before their scale.

    >>> start_values(0, 4).dtype, round(float(start_values(0, 10_000).std()), 1)
    (dtype('int8'), 4.0)
    """
    return Stream(seed, "start").gaussian_quarters(count)


def scale_exponent(shape: Shape) -> int:
    """m: elements of this tensor are divided by 2^m, about the square root of the inputs of a unit.

    >>> scale_exponent((10, 784)), scale_exponent((32, 16, 3, 3)), scale_exponent((10,))
    (4, 3, 0)
    """
    _, columns = matrix_shape(shape)
    return (columns.bit_length() - 1) // 2 if len(shape) > 1 else 0


def _split_words(words: NDArray[np.uint64], dimension: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Indices from the high halves of the words, signs from their lowest bits."""
    half = np.uint64(32)
    index = (words >> half) * np.uint64(dimension) >> half
    return index.astype(np.int32), 1 - 2 * (words & np.uint64(1)).astype(np.int8)
