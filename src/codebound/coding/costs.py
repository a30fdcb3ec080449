"""Lengths of the codes of a tensor in closed form, to compare them without running them.

They agree with the arithmetic coder within two bits. The length that counts is always the coder's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from codebound.coding.static import LANE_OVERHEAD_BITS, MAX_LANES_LOG2, SCALE_BITS

if TYPE_CHECKING:
    from codebound.coding.static import Integers


def gamma_bits(value: int) -> int:
    """Length of the gamma code."""
    return 2 * value.bit_length() - 1


def signed_bits(value: int) -> int:
    """Length of the gamma code of an integer of either sign."""
    return gamma_bits(2 * value + 1 if value >= 0 else -2 * value)


def context_bits(counts: Integers) -> float:
    """Krichevsky-Trofimov code length of contexts: one row of symbol counts for each, below 2^20 in sum.

    Example:
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

    Example:
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
