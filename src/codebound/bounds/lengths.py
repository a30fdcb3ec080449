"""Code lengths of choices: what a class, a grid, a search or a mixture of codes costs in bits.

All lengths are rounded up, so that they may be added to a message and given to any Occam bound.
"""

import math
from collections.abc import Sequence

from codebound.run.errors import UsageError
from codebound.run.references import implements


def log2_up(value: int) -> float:
    """``log2`` of a positive integer, rounded up; exact for powers of two."""
    if value & (value - 1) == 0:
        return float(value.bit_length() - 1)
    return min(math.log2(value) * (1.0 + 1e-15), float(value.bit_length()))


@implements("C-4:class-size", "C-9", kind="certificate")
def choice_bits(alternatives: int) -> float:
    """Bits that name one of so many alternatives, such as the networks of a class: ``log2``, rounded up.

    They are to be added when the code, seed, level or step was picked among these after seeing S.

    Needs.  The alternatives were listed before S was seen. What the message encodes explicitly is paid
            already and may be tuned freely.

    Example:
        >>> choice_bits(64)
        6.0
    """
    if alternatives < 1:
        raise UsageError(f"`alternatives` counts what was listed, at least 1. Got {alternatives}.")
    return log2_up(alternatives)


@implements("C-4:parameters", kind="certificate")
def parameter_bits(parameters: int, *, levels: int) -> float:
    """Bits of ``q`` parameters with ``r`` levels each, ``q log2 r``: the explicit form of A-Thm2.1.

    Example:
        >>> parameter_bits(1000, levels=16)
        4000.0
    """
    if parameters < 0 or levels < 1:
        raise UsageError(f"need parameters >= 0 and levels >= 1. Got {parameters=}, {levels=}.")
    return parameters * log2_up(levels)


@implements("C-12c", kind="certificate")
def raw_weight_bits(parameters: int) -> float:
    """Bits of the original network f as a code word of its own: 32 per parameter; a sanity line.

    Example:
        >>> raw_weight_bits(10)
        320.0
    """
    return parameter_bits(parameters, levels=2**32)


@implements("C-9:weights", kind="certificate")
def weighted_choice_bits(weight: float) -> float:
    """Bits of an alternative that had prior weight ``weight``; the weights of all of them sum to at most 1.

    Example:
        >>> weighted_choice_bits(0.25)
        2.0
    """
    if not 0.0 < weight <= 1.0:
        raise UsageError(f"`weight` is a prior weight in (0, 1]. Got weight={weight}.")
    mantissa, exponent = math.frexp(weight)
    return float(1 - exponent) if mantissa == 0.5 else -math.log2(weight) * (1.0 + 1e-15)


@implements("C-9:unbounded", kind="certificate")
def elias_gamma_bits(index: int) -> int:
    """Bits of an integer ``>= 1`` in the Elias gamma code, for grids without an end.

    Example:
        >>> [elias_gamma_bits(k) for k in (1, 2, 3, 4, 1000)]
        [1, 3, 3, 5, 19]
    """
    if index < 1:
        raise UsageError(f"the Elias gamma code starts at 1. Got index={index}.")
    return 2 * index.bit_length() - 1


@implements("C-9:mixture", kind="certificate")
def mixture_bits(lengths: Sequence[float], weights: Sequence[float]) -> float:
    r"""Length under a mixture of codes: ``-log2 sum_k w_k 2^-L_k``, never worse than picking one of them.

    Args:
        lengths: Length of the same g under each code; ``inf`` where a code has no word for it.
        weights: Prior weights of the codes, positive, of sum at most 1.

    Example:
        >>> round(mixture_bits([10.0, 10.0], [0.5, 0.5]), 9)
        10.0
    """
    if len(lengths) != len(weights) or not lengths:
        raise UsageError(f"need one weight per length. Got {len(lengths)} lengths, {len(weights)} weights.")
    if any(not 0.0 < w <= 1.0 for w in weights) or math.fsum(weights) > 1.0:
        raise UsageError(f"weights must be positive with a sum of at most 1. Got {tuple(weights)}.")
    if any(not length >= 0.0 for length in lengths):
        raise UsageError(f"lengths cannot be negative or NaN. Got {tuple(lengths)}.")
    exponents = [math.log2(w) - length for w, length in zip(weights, lengths, strict=True)]
    best = max(exponents)
    if best == -math.inf:
        return math.inf
    rest = math.fsum(2.0 ** (e - best) for e in exponents)
    bits = max(0.0, -(best + math.log2(rest)))
    return bits * (1.0 + 1e-14) + 1e-14  # the sum may cancel: its error is absolute too
