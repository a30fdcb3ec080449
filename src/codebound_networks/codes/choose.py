"""The shortest of the codes that a tensor of levels can have, found without running them.

Their lengths in closed form agree with the arithmetic coder within two bits. The length that counts is always
the coder's.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.codes.bell import MAX_BELL_LEVEL, best_bell
from codebound_networks.codes.quantization import MAX_LEVEL
from codebound_networks.codes.static import (
    LANE_OVERHEAD_BITS,
    MAX_LANES_LOG2,
    SCALE_BITS,
    choose_lanes_log2,
    frequency_table,
)
from codebound_networks.codes.tensors import (
    MAX_MODEL_LEVEL,
    AbstractTensorCode,
    Adaptive,
    Dense,
    Enumerative,
    Levels,
    Static,
    Zero,
    matrix_shape,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from codebound_networks.codes.static import Integers

MAX_SLOW_ELEMENTS = 1 << 16
"""Elements that one tensor may send through the coder that works symbol by symbol: 0.2 s at most."""

Candidate = tuple[float, AbstractTensorCode]


@implements("K-MIN", kind="algorithm")
def best_tensor_code(levels: NDArray[Any], *, step: int, strides: Iterable[int] = ()) -> AbstractTensorCode:
    """The shortest code of integer levels: the choice is part of the code, so it is paid.

    All context kinds, with and without flags of rows and columns, the dense, enumerative, bell-shaped and
    static codes are compared by their lengths in closed form. A tensor with more than ``MAX_SLOW_ELEMENTS``,
    even without its empty rows and columns, takes the static code.

    Args:
        levels: Integers in the shape of the tensor.
        step: Index of the step.
        strides: Distances in a row at which elements may be alike, such as the width of an image; those of a
            convolution's filters are tried anyway.

    >>> code = best_tensor_code(np.eye(8, dtype=np.int32), step=0)
    >>> type(code).__name__
    'Adaptive'
    """
    if levels.size == 0:
        raise UsageError(f"a tensor without elements has no code. Got shape {levels.shape}.")
    if not np.issubdtype(levels.dtype, np.integer):
        raise UsageError(f"levels are integers; quantise the weights first. Got {levels.dtype}.")
    limit = max(int(levels.max()), -int(levels.min()))
    if limit == 0:
        return Zero(levels.shape)
    if limit > MAX_LEVEL:
        raise UsageError(f"levels lie within {MAX_LEVEL:,} of zero. Got {limit:,}: choose a larger step.")
    levels = levels.astype(np.int32)
    candidates = list(_plain(levels, step, limit)) if levels.size <= MAX_SLOW_ELEMENTS else []
    if limit <= MAX_MODEL_LEVEL:
        candidates += _static(levels, step, limit), *_adaptive(levels, step, limit, strides)
    if not candidates:
        raise UsageError(
            f"no code takes {levels.size:,} levels up to {limit:,}: those of long tensors lie within "
            f"{MAX_MODEL_LEVEL:,} of zero. Choose a larger step."
        )
    return min(candidates, key=lambda candidate: gamma_bits(candidate[1].mode) + candidate[0])[1]


def _plain(levels: Levels, step: int, limit: int) -> Iterator[Candidate]:
    nonzeros, limit_bits = int(np.count_nonzero(levels)), gamma_bits(limit)
    yield limit_bits + levels.size * math.log2(2 * limit + 1), Dense(levels, step, limit)
    value_bits = nonzeros * math.log2(2 * limit)
    yield limit_bits + mask_bits(levels.size, nonzeros) + value_bits, Enumerative(levels, step, limit)
    if limit <= MAX_BELL_LEVEL:
        yield best_bell(levels, step)


def _static(levels: Levels, step: int, limit: int) -> Candidate:
    counts = np.bincount(levels.ravel() + limit, minlength=2 * limit + 1)
    table = frequency_table(counts)
    lanes_log2 = choose_lanes_log2(block_bits(counts, table, 0), levels.size)
    code = Static(levels, step, limit, table=table, lanes_log2=lanes_log2)
    return gamma_bits(limit) + table_bits(table) + block_bits(counts, table, lanes_log2), code


def _adaptive(levels: Levels, step: int, limit: int, strides: Iterable[int]) -> Iterator[Candidate]:
    matrix = levels.reshape(matrix_shape(levels.shape))
    nonzero = matrix != 0
    by_row, by_column = nonzero.sum(axis=1), nonzero.sum(axis=0)
    value_bits = context_bits(_pair(np.count_nonzero(matrix < 0), int(np.count_nonzero(nonzero))))
    if limit > 1:
        value_bits += context_bits(np.bincount(np.abs(matrix[nonzero]) - 1, minlength=limit)[None, :])
    own = {1, *levels.shape[-1:], math.prod(levels.shape[-2:])} if levels.ndim > 2 else {1}
    for row_flags, column_flags in itertools.product((0, 1), repeat=2):
        rows = by_row > 0 if row_flags else by_row >= 0
        columns = by_column > 0 if column_flags else by_column >= 0
        height, width = int(rows.sum()), int(columns.sum())
        if height * width + row_flags * len(rows) + column_flags * len(columns) > MAX_SLOW_ELEMENTS:
            continue
        bits = gamma_bits(limit) + value_bits + 4.0
        flagged = np.concatenate([rows] * row_flags + [columns] * column_flags + [rows[:0]])
        bits += context_bits(_pair(flagged.sum(), len(flagged)))
        zero_bits = {
            (0, 1): context_bits(_pair(np.count_nonzero(nonzero), height * width)),
            (1, 1): context_bits(_pair(by_column[columns], height)),
            (2, 1): context_bits(_pair(by_row[rows], width)),
        }
        for stride in sorted(own.union(strides)):
            numbers = _neighbours(nonzero, stride)[rows][:, columns]
            counts = np.bincount((2 * numbers + nonzero[rows][:, columns]).ravel(), minlength=16)
            zero_bits[3, stride] = gamma_bits(stride) + context_bits(counts.reshape(8, 2))
        for (kind, stride), more in zero_bits.items():
            flags = {"row_flags": row_flags, "column_flags": column_flags}
            yield bits + more, Adaptive(levels, step, limit, **flags, kind=kind, stride=stride)


def _pair(ones: Any, total: int) -> NDArray[np.int64]:
    """Counts of zeros and ones of contexts that saw ``total`` flags each."""
    ones = np.atleast_1d(np.asarray(ones, dtype=np.int64))
    return np.stack([total - ones, ones], axis=1)


def _neighbours(nonzero: NDArray[np.bool_], stride: int) -> NDArray[np.int64]:
    """The context number of kind 3 of every element."""
    numbers = np.zeros(nonzero.shape, dtype=np.int64)
    numbers[:, 1:] += nonzero[:, :-1]
    numbers[:, stride:] += 2 * nonzero[:, : max(nonzero.shape[1] - stride, 0)]
    numbers[1:] += 4 * nonzero[:-1]
    return numbers


def gamma_bits(value: int) -> int:
    """Length of the gamma code."""
    return 2 * value.bit_length() - 1


def signed_bits(value: int) -> int:
    """Length of the gamma code of an integer of either sign."""
    return gamma_bits(2 * value + 1 if value >= 0 else -2 * value)


def context_bits(counts: Integers) -> float:
    """Krichevsky-Trofimov code length of contexts: one row of symbol counts for each, below 2^20 in sum.

    >>> round(2 ** -context_bits(np.array([[1, 1]])), 6)  # 1/2 for the first flag, 1/4 for the other one
    0.125
    """
    symbols = counts.shape[1]
    sums = counts.sum(axis=1)
    odd = _cumulative_log2(int(counts.max(initial=0)), first=1)
    total = _cumulative_log2(int(sums.max(initial=0)), first=symbols)
    return float(total[sums].sum() - odd[counts].sum())


def mask_bits(elements: int, nonzeros: int) -> float:
    """Length of an enumerative mask: log2 of N + 1 and of the binomial coefficient.

    >>> round(mask_bits(3, 1), 6) == round(math.log2(4 * 3), 6)
    True
    """
    ways = math.lgamma(elements + 1) - math.lgamma(nonzeros + 1) - math.lgamma(elements - nonzeros + 1)
    return math.log2(elements + 1) + ways / math.log(2.0)


def table_bits(table: Integers) -> float:
    """Length of the frequencies of a static code and of its number of lanes."""
    bits = sum(gamma_bits(int(frequency) + 1) for frequency in table)
    return bits + math.log2(MAX_LANES_LOG2 + 1)


def block_bits(counts: Integers, table: Integers, lanes_log2: int) -> float:
    """Expected length of a static block."""
    used = counts > 0
    content = float((counts[used] * (SCALE_BITS - np.log2(table[used]))).sum())
    return content + LANE_OVERHEAD_BITS * (1 << lanes_log2)


def _cumulative_log2(count: int, *, first: int) -> Integers:
    """``log2`` of the products first (first + 2) (first + 4) ... of 0 .. ``count`` factors."""
    return np.concatenate([[0.0], np.cumsum(np.log2(first + 2.0 * np.arange(count)))])
