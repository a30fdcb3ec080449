"""Setting of a message: classes and scaling (docs/format.md, 8.1).

All of it could be chosen after a look at the sample: so it is paid for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codebound.run.errors import DataError
from codebound.sample.dataset import Scaling

CATALOGUE = (Scaling(1.0), Scaling(255.0), Scaling(16.0))
"""Scalings that cost two bits; all others are literal, at 32 bits a constant."""
MAX_CONSTANTS = 4
"""Means, and deviations, of a literal scaling."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The number of classes, and how stored values become inputs."""

    classes: int
    scaling: Scaling = CATALOGUE[0]


def round_scaling(scaling: Scaling, input_shape: tuple[int, ...]) -> Scaling:
    """The scaling as a message can say it: its constants are rounded to float32.

    Raises:
        DataError: It has more constants than a message may have.
    """
    if not any(scaling.mean) and all(value == 1.0 for value in scaling.std):
        scaling = Scaling(scaling.divisor)
    count = max(len(scaling.mean), len(scaling.std))
    if scaling in CATALOGUE:
        return scaling
    if count > MAX_CONSTANTS or count not in (1, count_channels(input_shape)):
        raise DataError(
            f"a certificate pays for the constants of a scaling: at most {MAX_CONSTANTS} means and stds, one "
            f"for all or one for each channel of an image. Got {count} for inputs of shape {input_shape}. "
            "Let the first layer of the network scale its inputs, or store them scaled by constants that "
            "were fixed before the sample was seen."
        )
    means, deviations = (values * (count // len(values)) for values in (scaling.mean, scaling.std))
    return Scaling(_round(scaling.divisor), tuple(map(_round, means)), tuple(map(_round, deviations)))


def count_channels(input_shape: tuple[int, ...]) -> int:
    """Constants that a scaling may have beside one for all."""
    return input_shape[0] if len(input_shape) == 3 else 1


def _round(value: float) -> float:
    with np.errstate(over="ignore"):  # an infinite constant is refused
        return float(np.float32(value))
