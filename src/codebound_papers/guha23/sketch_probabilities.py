"""The probabilities and costs around sketching: as published, and as they are. Numbers only, no tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from codebound.errors import UsageError
from codebound.numerics import log2_choose, log_binomial_cdf
from codebound.refs import implements

if TYPE_CHECKING:
    from collections.abc import Sequence


@implements("G-LemE.1", kind="published-form")
def published_max_load_probability(bins: int) -> float:
    """The probability claimed for "no bin gets more than three times the mean": 1 - bins^(-1/3).

    False for few balls per bin: 784 balls in 784 bins practically always leave some bin with 4.

    Example:
        >>> round(published_max_load_probability(784), 2)
        0.89
    """
    return 1.0 - _inverse_cube_root(bins)


@implements("G-E15", kind="numerics")
def max_load_probability(balls: int, bins: int) -> float:
    """A true lower bound for the same event: 1 - bins (e^2/27)^(balls/bins), at least 0.

    Chernoff for each bin and a union over bins, with or without replacement. It reaches the published value
    from about 1.029 ln(bins) balls per bin on.
    """
    if balls < 0 or bins < 1:
        raise UsageError(f"balls are at least 0 and bins at least 1. Got {balls} and {bins}.")
    return max(0.0, 1.0 - bins * math.exp(-_CHERNOFF_RATE * balls / bins))


def least_mean_load(bins: int) -> float:
    """Balls per bin from which the published probability is proven."""
    return 4.0 / 3.0 * math.log(bins) / _CHERNOFF_RATE


@implements("G-Lem5.1", kind="published-form")
def published_sparsity_probability(slack: float, *, d1: int, d2: int) -> float:
    """The probability claimed for ``max(j_r, j_c) <= 3 slack max(d1, d2) chi``; 0 or less says nothing."""
    return 1.0 - 1.0 / slack - _inverse_cube_root(d1) - _inverse_cube_root(d2)


@implements("I-15", "G-E15:exact", kind="numerics")
def sparsity_probability(j_r: int, j_c: int, *, d1: int, d2: int, chi: float) -> float:
    """A true lower bound for "no column has more than j_r non-zeros and no row more than j_c".

    Diagonal entries are kept and the others independently with probability chi, so a line that meets the
    diagonal has 1 + Binomial of them: exact for each line, a union over lines, no Markov inequality.

    Example:
        >>> round(sparsity_probability(20, 20, d1=784, d2=784, chi=0.01), 2)
        0.72
    """
    if not 0.0 <= chi <= 1.0 or min(d1, d2) < 1:
        raise UsageError(f"chi is a probability and sides are at least 1. Got chi {chi}, {d1} x {d2}.")
    failure = _any_line_exceeds(j_c, lines=d1, length=d2, chi=chi)
    failure += _any_line_exceeds(j_r, lines=d2, length=d1, chi=chi)
    return max(0.0, 1.0 - failure)


@implements("G-E16", kind="numerics")
def dropped_failure_probability(sides: Sequence[int]) -> float:
    """What the main theorem leaves out of its failure probability: d1^(-1/3) + d2^(-1/3) over all layers.

    Args:
        sides: Widths from input to output; layer l is sides[l] x sides[l + 1].

    Example:
        >>> round(dropped_failure_probability([784, 784, 784, 784, 784, 10]), 2)
        1.44
    """
    return sum(_inverse_cube_root(d1) + _inverse_cube_root(d2) for d1, d2 in pairwise(sides))


@implements("G-E17", kind="numerics")
def sketch_numbers(d1: int, d2: int, *, chi: float, slack: float) -> tuple[float, float]:
    """Numbers in a sketch by the published proof, and by the theorem with rows and columns kept apart.

    The proof bounds max(j_r, j_c) max(d1, d2); the theorem needs max(j_c d1, j_r d2) only, which gives the
    printed formula. They differ by max/min of the sides.
    """
    log_square = math.log(max(d1, d2)) ** 2
    return 3 * slack * chi * max(d1, d2) ** 2 * log_square, 3 * slack * chi * d1 * d2 * log_square


@dataclass(frozen=True, slots=True)
class CodeCosts:
    """Nats to describe one sparse layer in three ways."""

    sketch: float
    naive: float
    dense: float


@implements("G-E18", kind="numerics")
def code_costs(nonzeros: int, *, d1: int, d2: int, levels: int, constant: float = 1.0) -> CodeCosts:
    """Costs of a layer with values of some levels: sketched, position by position, and dense.

    ``sketch`` is a lower bound of the theorem's count: m^2 >= constant x nonzeros x ln^2 max(d1, d2)
    numbers, because max(j_c d1, j_r d2) is at least the number of non-zeros, of at least as many levels.
    ``naive`` is ln C(d1 d2, nonzeros) + nonzeros ln(levels).
    """
    if not 0 <= nonzeros <= d1 * d2 or levels < 2:
        raise UsageError(f"{nonzeros} non-zeros of {levels} levels do not fit a {d1} x {d2} matrix.")
    value = math.log(levels)
    return CodeCosts(
        sketch=constant * nonzeros * math.log(max(d1, d2)) ** 2 * value,
        naive=log2_choose(d1 * d2, nonzeros) * math.log(2.0) + nonzeros * value,
        dense=d1 * d2 * value,
    )


def _inverse_cube_root(side: int) -> float:
    return math.exp(-math.log(side) / 3.0)


def _any_line_exceeds(limit: int, *, lines: int, length: int, chi: float) -> float:
    on_diagonal = min(lines, length)
    return on_diagonal * _exceeds(limit - 1, length - 1, chi) + (lines - on_diagonal) * _exceeds(
        limit, length, chi
    )


def _exceeds(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) > k), from the upper tail: the lower one would lose its digits."""
    return math.exp(log_binomial_cdf(n - k - 1, n, 1.0 - p))


_CHERNOFF_RATE = math.log(27.0) - 2.0
