"""How far rounding its non-zero entries to multiples of a step moves a matrix, in spectral norm."""

import math

from codebound.refs import implements


@implements("G-Lem4.4:corrected", "G-E9", kind="numerics")
def rounding_bound(size: float, *, nonzeros: int) -> float:
    r"""Most that rounding to multiples of ``size`` moves a matrix, in Frobenius norm: :math:`\rho\sqrt J/2`.

    Example:
        >>> rounding_bound(0.5, nonzeros=100)
        2.5
    """
    return size * math.sqrt(nonzeros) / 2.0


@implements("G-Lem4.4", kind="published-form")
def published_rounding_bound(size: float, *, nonzeros: int) -> float:
    r"""The published :math:`\rho J`: true, and :math:`2 \sqrt J` times too large (G-E9)."""
    return size * nonzeros
