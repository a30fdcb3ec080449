"""The large entries of a heavy-tailed matrix as a random projection, the "spiked JL" of S-5.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from codebound.refs import implements

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from codebound_papers.shin21.laws import PowerLaw


@implements("I-29", "S-E10", kind="measure")
def spiked_second_moment(
    x: ArrayLike, law: PowerLaw, *, threshold: float, signs: Literal["symmetric", "positive"] = "symmetric"
) -> float:
    r"""``E[(B x)_i^2]`` for a row of B with independent entries W 1[|W| > threshold], \|W\| from a power law.

    Statement.  :math:`E[B^2] \|x\|^2 + E[B]^2 ((\sum_j x_j)^2 - \|x\|^2)`, where
                :math:`E[B^k] = a w^a \tau^{k-a} / (a - k)` is finite for a tail exponent a above 2, and
                E[B] is 0 if signs are symmetric.
    Differs.    The published Eq. (10) drops the cross terms of a mean that is not zero, and prints
                :math:`N_2 x_i^2` for :math:`\|x\|^2`.

    Args:
        x: The vector, of length N2.
        law: Of the absolute values.
        threshold: At least ``law.xmin``.
        signs: Whether W is symmetric or positive.

    Returns:
        The moment of one row; N1 rows have N1 times it, ``E ||B x||^2``.

    Example:
        >>> from codebound_papers.shin21.laws import PowerLaw
        >>> round(spiked_second_moment([1.0, -1.0], PowerLaw(5.0, 1.0), threshold=1.0), 6)
        3.333333
    """
    vector = np.asarray(x, dtype=np.float64)
    square, mean = law.moment_above(2, threshold), 0.0
    if signs == "positive":
        mean = law.moment_above(1, threshold)
    length = float(vector @ vector)
    return square * length + mean**2 * (float(vector.sum()) ** 2 - length)


@implements("S-5.1", kind="published-form")
def published_spiked_second_moment(x: ArrayLike, law: PowerLaw, *, threshold: float, row: int = 0) -> float:
    """Eq. (10) as printed, ``N2 E[B^2] x_i^2``: right only where all ``x_j^2`` are equal and B has mean 0.

    Example:
        >>> from codebound_papers.shin21.laws import PowerLaw
        >>> round(published_spiked_second_moment([1.0, -1.0], PowerLaw(5.0, 1.0), threshold=1.0), 6)
        3.333333
    """
    vector = np.asarray(x, dtype=np.float64)
    return vector.size * law.moment_above(2, threshold) * float(vector[row]) ** 2
