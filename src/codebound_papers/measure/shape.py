"""Distance of a layer's weights from a Gaussian and a Laplace law."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from codebound.run.errors import UsageError

_BEYOND = 3.0  # deviations


@dataclass(frozen=True, slots=True)
class WeightShape:
    """The shape of a sample, whatever its mean and size."""

    weights: int  # how many there are
    # fourth moment over the squared variance, less 3; 0 for a Gaussian law, 3 for that of Laplace
    excess_kurtosis: float
    distance: float  # Kolmogorov-Smirnov distance from the Gaussian law of the same mean and variance
    beyond: float  # share more than three deviations away from the mean; 0.0027 of a Gaussian law
    laplace_gain: float  # by how much the best Laplace law exceeds the best Gaussian in mean log-likelihood

    @property
    def usual_distance(self) -> float:
        """Distance that Gaussian weights exceed in one of a hundred samples (Lilliefors)."""
        return 1.035 / math.sqrt(self.weights)


def weight_shape(weights: Tensor) -> WeightShape:
    """The shape of all entries of a tensor, in double precision.

    >>> found = weight_shape(torch.linspace(-1.0, 1.0, 1001))
    >>> round(found.excess_kurtosis, 2), found.beyond
    (-1.2, 0.0)
    """
    values = weights.detach().double().flatten().sort().values
    n, deviation = len(values), float(values.std(correction=0)) if len(values) else 0.0
    if not deviation > 0.0:
        raise UsageError(f"a shape needs two different weights. Got {n} without any difference.")
    standard = (values - values.mean()) / deviation
    law = torch.special.ndtr(standard)
    steps = torch.arange(n + 1, dtype=torch.float64, device=values.device) / n
    distance = torch.maximum((law - steps[:-1]).max(), (steps[1:] - law).max())
    spread = float((standard - standard.median()).abs().mean())
    return WeightShape(
        weights=n,
        excess_kurtosis=float((standard**4).mean()) - 3.0,
        distance=float(distance),
        beyond=float((standard.abs() > _BEYOND).double().mean()),
        laplace_gain=0.5 * math.log(2.0 * math.pi * math.e) - math.log(2.0 * spread) - 1.0,
    )
