"""The scaling of inputs, (x / divisor - mean) / std (docs/format.md, section 8.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..refusal import Refused
from ..sample import parts, rows_at_a_time
from .arithmetic import Decoder
from .tensors import Doubles, Shape

DIVISORS = (1.0, 255.0, 16.0)  # with mean 0 and std 1; the word behind them announces constants
CONSTANTS_LIMIT = 4  # means, and stds
CLOSE = 1e-3  # deviations: nearer constants are statistics


@dataclass(frozen=True)
class Scaling:
    """Constants. ``mean`` and ``std`` have one number, or one for each channel."""

    divisor: float
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @property
    def has_means(self) -> bool:
        """Return True if something is subtracted."""
        return any(self.mean)

    def constants(self, shape: Shape) -> tuple[Doubles, Doubles]:
        """Means and stds, to be combined with inputs of a shape."""
        ones = (1,) * (len(shape) - 1)
        return np.array(self.mean).reshape(-1, *ones), np.array(self.std).reshape(-1, *ones)


def read_scaling(decoder: Decoder, shape: Shape) -> Scaling:
    """The scaling of a message about inputs of a shape."""
    word = decoder.uniform(len(DIVISORS) + 1)
    if word < len(DIVISORS):
        return Scaling(DIVISORS[word])
    count = decoder.uniform(CONSTANTS_LIMIT) + 1
    channels = shape[0] if len(shape) == 3 else 1
    if count not in (1, channels):
        raise Refused(f"Message: its scaling has {count} means; an input has {channels} channels.")
    divisor, *rest = (decoder.float32() for _ in range(2 * count + 1))
    scaling = Scaling(divisor, tuple(rest[:count]), tuple(rest[count:]))
    if min(divisor, *scaling.std) <= 0:
        raise Refused("Message: a divisor or std of its scaling is not positive.")
    return scaling


def check_constants(scaling: Scaling, x: NDArray[Any]) -> None:
    """Refuse constants that are statistics of the sample, and inputs that were standardised with some."""
    if reasons := _statistics_in(scaling, x):
        raise Refused(*reasons)
    if _is_standardised(x):
        raise Refused(
            "Scaling: every stored number that varies has mean 0 and deviation 1 on this very sample: it was "
            "standardised with statistics of the sample, which the message does not pay for."
        )


def _statistics_in(scaling: Scaling, x: NDArray[Any]) -> list[str]:
    if {*scaling.mean} == {0.0} and {*scaling.std} == {1.0}:
        return []
    axes = tuple(range(x.ndim)) if len(scaling.mean) == 1 else (0, *range(2, x.ndim))
    mean, deviation = _moments(x, axes, scaling.divisor)
    found = []
    for name, trivial, constants, own in (
        ("mean", 0.0, scaling.mean, mean),
        ("std", 1.0, scaling.std, deviation),
    ):
        for constant, exact, spread in zip(constants, own.flat, deviation.flat, strict=True):
            if constant != trivial and abs(constant - exact) <= CLOSE * spread:
                found.append(
                    f"Scaling: {name} {constant!r} is a statistic of this very sample ({exact:.6g}), so it "
                    "was not fixed without looking at it."
                )
    return found


def _is_standardised(x: NDArray[Any]) -> bool:
    if x.dtype.kind != "f":
        return False
    varies = x.max(axis=0) != x.min(axis=0)
    mean, deviation = (statistic[0][varies] for statistic in _moments(x, (0,), 1.0))
    return bool(
        varies.any() and (np.abs(mean) <= CLOSE).all() and (np.abs(deviation - 1) <= CLOSE + 1 / len(x)).all()
    )


def _moments(x: NDArray[Any], axes: tuple[int, ...], divisor: float) -> tuple[Doubles, Doubles]:
    """Means and deviations over some axes, the first among them, which are kept with the size 1."""
    shape = tuple(1 if axis in axes else side for axis, side in enumerate(x.shape))
    count = x.size // math.prod(shape)
    total, squares = np.zeros(shape), np.zeros(shape)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is near nothing
        some = parts(len(x), rows_at_a_time(x[0].size))
        for part in some:
            total += (x[part].astype(np.float64) / divisor).sum(axis=axes, keepdims=True)
        mean = total / count
        for part in some:
            squares += np.square(x[part].astype(np.float64) / divisor - mean).sum(axis=axes, keepdims=True)
        return mean, np.sqrt(squares / count)
