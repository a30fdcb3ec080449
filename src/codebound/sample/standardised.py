"""Inputs that were standardised on the very sample: by constants that depend on it. Loads no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOLERANCE = 1e-3
_CHUNK_VALUES = 1 << 22

STANDARDISED = (
    "the inputs look standardised on this very sample (mean 0 and standard deviation 1): those constants "
    "depend on the sample, so a certificate would have to pay for them. Store unscaled values, or scale by "
    "constants fixed in advance"
)


def looks_standardised(x: NDArray[np.generic]) -> bool:
    """Return True if all features, or all channels, look standardised.

    They have mean 0 and deviation 1 on this sample.

    Constant features are ignored; whole bytes are never standardised.
    """
    if x.dtype.kind != "f" or len(x) < 2:
        return False
    total = np.zeros(x.shape[1:])
    squares = np.zeros(x.shape[1:])
    rows = max(1, _CHUNK_VALUES // max(1, total.size))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(x), rows):
            chunk = x[start : start + rows].astype(np.float64)
            total += chunk.sum(axis=0)
            squares += np.square(chunk).sum(axis=0)
        pixels = tuple(range(1, x.ndim - 1))
        by_channel = (total.mean(axis=pixels), squares.mean(axis=pixels))
        return any(
            _is_standard(sums / len(x), powers / len(x), slack=_TOLERANCE + 1.0 / len(x))
            for sums, powers in ((total, squares), by_channel)
        )


def _is_standard(mean: NDArray[np.float64], power: NDArray[np.float64], *, slack: float) -> bool:
    # slack covers the two conventions for a deviation, over n and over n - 1.
    variance = power - np.square(mean)
    varying = variance > 1e-12
    return bool(
        varying.any()
        and (np.abs(mean[varying]) < _TOLERANCE).all()
        and (np.abs(np.sqrt(variance[varying]) - 1.0) < slack).all()
    )
