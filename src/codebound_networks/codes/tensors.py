"""The codes of a tensor that say every element: docs/format.md, section 8.4.

Each code is a final class that holds the content of one tensor. Its ``code`` method lists the symbols once,
for both directions: a writer codes the content; a reader starts from a blank one and returns what it read.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from codebound.run.errors import FormatError, UsageError
from codebound.run.references import implements
from codebound_networks.codes.numbers import FlagContexts, SymbolContext, bit, float32, gamma, signed, uniform
from codebound_networks.codes.quantization import MAX_LEVEL, MAX_STEP, round_to_float32, step_size
from codebound_networks.codes.static import MAX_LANES_LOG2, SCALE, decode_block, encode_block

if TYPE_CHECKING:
    from codebound.bits.plain_code import Bits
    from codebound_networks.codes.arithmetic import AbstractCoder
    from codebound_networks.codes.static import Integers


Shape = tuple[int, ...]
Levels = NDArray[np.int32]

MAX_SIZE = 1 << 25
MAX_CODEBOOK = 256
GROUP_WORK = 1 << 13  # of decoding one group of a block, in multiplications
MAX_MODEL_LEVEL = 1 << 12  # of the codes that learn or transmit a frequency for every level


def matrix_shape(shape: Shape) -> tuple[int, int]:
    """Rows and columns of a tensor: its first size and the rest. Vectors and scalars have one row."""
    return (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))


def require_size(coder: AbstractCoder, shape: Shape) -> None:
    """Refuses shapes without elements, or with too many, before anything is allocated."""
    coder.require(
        min(shape, default=1) >= 1 and math.prod(shape) <= MAX_SIZE,
        f"a tensor has 1 to 2^25 elements. Got shape {shape}.",
    )


class Witness:
    """The proofs behind a message, read one after the other (docs/format.md, 8.9)."""

    def __init__(self, data: bytes) -> None:
        self._left = memoryview(data)

    def read(self, kind: str, count: int) -> NDArray[np.int64]:
        """So many numbers of a type of NumPy."""
        size = np.dtype(kind).itemsize * count
        if size > len(self._left):
            raise FormatError("the witness of the file ends before its last proof.")
        found, self._left = self._left[:size], self._left[size:]
        return np.frombuffer(found, kind).astype(np.int64)

    def require_end(self) -> None:
        """Refuses what no tensor has read."""
        if self._left:
            raise FormatError(f"the witness of the file has {len(self._left)} bytes that prove nothing.")


class AbstractTensorCode(ABC):
    """The content of one tensor, in one of the modes of the format."""

    mode: ClassVar[int]

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Shape of the tensor."""

    @classmethod
    @abstractmethod
    def blank(cls, shape: Shape) -> AbstractTensorCode:
        """Something of this shape for a reader to replace."""

    @abstractmethod
    def code(self, coder: AbstractCoder) -> AbstractTensorCode:
        """Codes everything after the mode and returns what was coded."""

    @abstractmethod
    def values(self) -> NDArray[np.float64]:
        """The real numbers that the code stands for, before their rounding to float32."""

    def blocks(self) -> list[Bits]:
        """The bits behind the code word, if any."""
        return []

    def with_blocks(self, bits: Bits, start: int) -> tuple[AbstractTensorCode, int]:
        """The tensor whose blocks begin at bit ``start``, and the bit where they end."""
        return self, start

    def weights(self, *, base: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """The decoded tensor: the values, plus those of a base, rounded once to float32."""
        return round_to_float32(self.values(), base=base)

    def solve(self, witness: Witness | None = None) -> AbstractTensorCode:
        """The code with everything that has to be computed before its values are known. Most have nothing.

        Args:
            witness: Has the proof of what is computed; without it that is searched for.
        """
        return self

    def witness(self) -> bytes:
        """The proof of what was computed, for whoever reads the code. Most have none."""
        return b""


@dataclass(frozen=True, slots=True, eq=False)
class Zero(AbstractTensorCode):
    """Mode 2: all elements are zero, which are levels of step 0 and limit 1."""

    mode = 2
    step: ClassVar[int] = 0
    limit: ClassVar[int] = 1
    sizes: Shape

    @property
    def shape(self) -> Shape:  # noqa: D102
        return self.sizes

    @property
    def levels(self) -> Levels:
        """All zero."""
        return np.zeros(self.sizes, dtype=np.int32)

    @classmethod
    def blank(cls, shape: Shape) -> Zero:  # noqa: D102
        return cls(shape)

    def code(self, coder: AbstractCoder) -> Zero:  # noqa: D102
        return self

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        return np.zeros(self.sizes)


@implements("K-B", kind="algorithm")
@dataclass(frozen=True, slots=True, eq=False)
class Raw(AbstractTensorCode):
    """Mode 6: float32 values as they are, 32 bits each, for biases and other short tensors."""

    mode = 6
    elements: NDArray[np.float32]

    @property
    def shape(self) -> Shape:  # noqa: D102
        return self.elements.shape

    @classmethod
    def blank(cls, shape: Shape) -> Raw:  # noqa: D102
        return cls(np.zeros(shape, dtype=np.float32))

    def code(self, coder: AbstractCoder) -> Raw:  # noqa: D102
        coder.charge(self.elements.size)
        return Raw(_code_floats(coder, self.elements).reshape(self.shape))

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        return self.elements.astype(np.float64)


@implements("K-CB", kind="algorithm")
@dataclass(frozen=True, slots=True, eq=False)
class Codebook(AbstractTensorCode):
    """Mode 5: each element is zero or one of K float32 values."""

    mode = 5
    indices: Levels  # 0 for a zero, 1 + the index of the value otherwise
    table: NDArray[np.float32]  # the K values

    def __post_init__(self) -> None:
        if self.indices.min(initial=0) < 0 or self.indices.max(initial=0) > len(self.table):
            raise UsageError(f"an index is outside 0 .. {len(self.table)}, the size of the codebook.")

    @property
    def shape(self) -> Shape:  # noqa: D102
        return self.indices.shape

    @classmethod
    def blank(cls, shape: Shape) -> Codebook:  # noqa: D102
        return cls(np.zeros(shape, dtype=np.int32), np.zeros(0, dtype=np.float32))

    def code(self, coder: AbstractCoder) -> Codebook:  # noqa: D102
        coder.charge(self.indices.size)
        size = gamma(coder, len(self.table))
        coder.require(size <= MAX_CODEBOOK, f"a codebook has at most {MAX_CODEBOOK} values. Got {size}.")
        table = _code_floats(coder, self.table if len(self.table) else np.zeros(size, dtype=np.float32))
        indices = self.indices.ravel().tolist()
        for i, flag in enumerate(code_mask(coder, [int(index > 0) for index in indices])):
            if flag:
                indices[i] = 1 + uniform(coder, indices[i] - 1, size)
        return Codebook(np.array(indices, dtype=np.int32).reshape(self.shape), table)

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        return np.concatenate([[0.0], self.table.astype(np.float64)])[self.indices]


@dataclass(frozen=True, eq=False)
class AbstractGridCode(AbstractTensorCode):
    """Integer levels times a step."""

    levels: Levels  # the integers, in the shape of the tensor
    step: int  # index j of the step (see ``step_size``)
    limit: int  # L; the levels lie in -L .. L

    def __post_init__(self) -> None:
        largest = max(int(self.levels.max(initial=0)), -int(self.levels.min(initial=0)))
        if largest > self.limit:
            raise UsageError(f"a level of size {largest} is outside -{self.limit} .. {self.limit}.")

    @property
    def shape(self) -> Shape:  # noqa: D102
        return self.levels.shape

    @classmethod
    def blank(cls, shape: Shape) -> AbstractGridCode:  # noqa: D102
        return cls(np.zeros(shape, dtype=np.int32), 0, 1)

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        return self.levels.astype(np.float64) * step_size(self.step)

    def _code_grid(self, coder: AbstractCoder, most: int) -> tuple[int, int]:
        """Step and limit."""
        step = signed(coder, self.step)
        coder.require(abs(step) <= MAX_STEP, f"a step lies between -{MAX_STEP} and {MAX_STEP}. Got {step}.")
        limit = gamma(coder, self.limit)
        coder.require(limit <= most, f"levels are at most {most:,} in this code. Got {limit:,}.")
        return step, limit

    def _shape_levels(self, levels: list[int]) -> Levels:
        return np.array(levels, dtype=np.int32).reshape(self.shape)


@implements("K-DN", kind="algorithm")
class Dense(AbstractGridCode):
    """Mode 3: every level costs log2(2 L + 1) bits."""

    mode = 3

    def code(self, coder: AbstractCoder) -> Dense:  # noqa: D102
        coder.charge(self.levels.size)
        step, limit = self._code_grid(coder, MAX_LEVEL)
        levels = [uniform(coder, q + limit, 2 * limit + 1) - limit for q in self.levels.ravel().tolist()]
        return Dense(self._shape_levels(levels), step, limit)


@implements("K-NV", "K-V1", kind="algorithm")
class Enumerative(AbstractGridCode):
    """Mode 4: the number of non-zeros, which subset they are, and log2(2 L) bits for each."""

    mode = 4

    def code(self, coder: AbstractCoder) -> Enumerative:  # noqa: D102
        coder.charge(self.levels.size)
        step, limit = self._code_grid(coder, MAX_LEVEL)
        levels = self.levels.ravel().tolist()
        for i, flag in enumerate(code_mask(coder, [int(q != 0) for q in levels])):
            if flag:  # -L .. -1, 1 .. L are the ranks 0 .. 2L - 1
                rank = uniform(coder, levels[i] + limit - (levels[i] >= 0), 2 * limit)
                levels[i] = rank - limit + (rank >= limit)
        return Enumerative(self._shape_levels(levels), step, limit)


@implements("K-NVa", kind="algorithm")
@dataclass(frozen=True, eq=False)
class Adaptive(AbstractGridCode):
    """Mode 1: zero flags, signs, sizes in contexts that learn. Whole rows and columns can be switched off."""

    mode = 1
    row_flags: int = 0  # 1 if rows without non-zeros are marked, else 0
    column_flags: int = 0  # the same for columns
    kind: int = 0  # context of a zero flag: 0 one for all, 1 by column, 2 by row, 3 by three neighbours
    stride: int = 1  # distance of the second neighbour of kind 3

    def code(self, coder: AbstractCoder) -> Adaptive:  # noqa: D102
        coder.charge(self.levels.size)
        step, limit = self._code_grid(coder, MAX_MODEL_LEVEL)
        rows, columns = matrix_shape(self.shape)
        given = self.levels.reshape(rows, columns)
        row_flags, column_flags = bit(coder, self.row_flags), bit(coder, self.column_flags)
        flags = FlagContexts()  # one context for rows and columns
        live_rows, live_columns = (
            [i for i, live in enumerate(np.any(given, axis=axis).tolist()) if flags.code(coder, live)]
            if is_flagged
            else range(count)
            for axis, is_flagged, count in ((1, row_flags, rows), (0, column_flags, columns))
        )
        kind = uniform(coder, self.kind, 4)
        stride = gamma(coder, self.stride) if kind == 3 else 1

        nonzero = FlagContexts((1, columns, rows, 8)[kind])
        negative, size = FlagContexts(), SymbolContext(limit)
        found = np.zeros((rows, columns), dtype=np.int32)
        nothing = [0] * columns
        previous, above = -1, nothing
        for i in live_rows:
            row = given[i].tolist()
            if previous != i - 1:
                above = nothing
            context = i if kind == 2 else 0
            for j in live_columns:
                q = row[j]
                if kind == 1:
                    context = j
                elif kind == 3:
                    context = (
                        (j > 0 and row[j - 1] != 0)
                        + 2 * (j >= stride and row[j - stride] != 0)
                        + 4 * (above[j] != 0)
                    )
                if nonzero.code(coder, q != 0, context):
                    minus = negative.code(coder, q < 0)
                    magnitude = 1 + size.code(coder, max(abs(q) - 1, 0)) if limit > 1 else 1
                    row[j] = -magnitude if minus else magnitude
            found[i] = row
            previous, above = i, row
        return Adaptive(
            found.reshape(self.shape),
            step,
            limit,
            row_flags=row_flags,
            column_flags=column_flags,
            kind=kind,
            stride=stride,
        )


@dataclass(frozen=True, eq=False)
class Static(AbstractGridCode):
    """Mode 7: fixed frequencies in the code word, the elements in a block behind it, for long tensors."""

    mode = 7
    # frequencies of -L .. L, of sum 2^16
    table: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lanes_log2: int = 0  # log2 of the number of independent states of the block

    def code(self, coder: AbstractCoder) -> Static:  # noqa: D102
        step, limit = self._code_grid(coder, MAX_MODEL_LEVEL)
        given = self.table.tolist() or [0] * (2 * limit + 1)
        coder.require(len(given) == 2 * limit + 1, "a static code has a frequency for every level.")
        table = np.array([gamma(coder, frequency + 1) - 1 for frequency in given], dtype=np.int64)
        coder.require(int(table.sum()) == SCALE, f"the frequencies of a static code add up to {SCALE}.")
        lanes_log2 = uniform(coder, self.lanes_log2, MAX_LANES_LOG2 + 1)
        coder.charge_work(-(-self.levels.size >> lanes_log2) * GROUP_WORK)
        return Static(self.levels, step, limit, table=table, lanes_log2=lanes_log2)

    def blocks(self) -> list[Bits]:  # noqa: D102
        return [encode_block(self.levels.ravel() + self.limit, self.table, self.lanes_log2)]

    def with_blocks(self, bits: Bits, start: int) -> tuple[Static, int]:  # noqa: D102
        symbols, end = decode_block(
            bits, start, table=self.table, lanes_log2=self.lanes_log2, count=self.levels.size
        )
        return replace(self, levels=(symbols - self.limit).astype(np.int32).reshape(self.shape)), end


def _code_floats(coder: AbstractCoder, values: NDArray[np.float32]) -> NDArray[np.float32]:
    patterns = [float32(coder, pattern) for pattern in values.ravel().view(np.uint32).tolist()]
    return np.array(patterns, dtype=np.uint32).view(np.float32)


def code_mask(coder: AbstractCoder, mask: list[int]) -> list[int]:
    """A 0/1 list of known length: the number of ones, then which of the subsets of that size."""
    length = len(mask)
    ones = uniform(coder, sum(mask), length + 1)
    result: list[int] = []
    for left in range(length, 0, -1):
        if ones in (0, left):
            return result + [int(ones > 0)] * left
        flag = coder.split(mask[length - left], left - ones, left)
        result.append(flag)
        ones -= flag
    return result
