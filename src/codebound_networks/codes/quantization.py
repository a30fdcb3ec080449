"""From real weights to integers and back: uniform grids with coded steps (docs/format.md, 8.3).

A step is named by an integer j, and step j is about 2^(j/8). Levels times step is exact in float64; the one
rounding, to float32, comes last.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import FormatError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_STEP = 1000
MAX_LEVEL = 1 << 20
_MANTISSAS = (8388608, 9147842, 9975792, 10878679, 11863283, 12937002, 14107901, 15384775)


def step_size(step: int) -> float:
    """The size of step ``j``: exact in float32.

    >>> step_size(0), step_size(-8), step_size(4)
    (1.0, 0.5, 1.4142135381698608)
    """
    if abs(step) > MAX_STEP:
        raise UsageError(f"a step lies between -{MAX_STEP} and {MAX_STEP}. Got {step}.")
    return math.ldexp(_MANTISSAS[step % 8], step // 8 - 23)


def nearest_step(size: float) -> int:
    """The step whose size is nearest to ``size``, on a logarithmic scale.

    >>> nearest_step(0.01), round(step_size(-53), 5)
    (-53, 0.01013)
    """
    if not (math.isfinite(size) and size > 0.0):
        raise UsageError(f"the size of a step is a positive number. Got {size}.")
    return max(-MAX_STEP, min(MAX_STEP, round(8 * math.log2(size))))


def step_for_levels(weights: NDArray[Any], levels: int) -> int:
    """The smallest step with which all weights lie on ``levels`` = 2L + 1 values, -L .. L times the step.

    >>> quantize(np.array([-1.0, 0.2, 0.9]), step_for_levels(np.array([-1.0, 0.2, 0.9]), 7)).tolist()
    [-3, 1, 3]
    """
    if levels < 3 or levels % 2 == 0:
        raise UsageError(f"a grid around zero has an odd number of levels, at least 3. Got {levels}.")
    limit = levels // 2
    largest = float(np.abs(_finite(weights)).max(initial=0.0))
    if largest == 0.0:
        return 0
    step = max(nearest_step(largest / (limit + 0.5)) - 2, -MAX_STEP)
    while step < MAX_STEP and np.rint(largest / step_size(step)) > limit:
        step += 1
    return step


def quantize(weights: NDArray[Any], step: int) -> NDArray[np.int32]:
    """The nearest levels of the grid, as integers. A weight half-way between two goes to the even one.

    Zeros stay zero.

    >>> quantize(np.array([0.5, 1.5, -0.7, 0.0]), 0).tolist()
    [0, 2, -1, 0]
    """
    levels = np.rint(_finite(weights) / step_size(step))
    if levels.size and float(np.abs(levels).max()) > MAX_LEVEL:
        raise UsageError(f"step {step} needs levels beyond 2^20: the step is too small for these weights.")
    return levels.astype(np.int32)


def round_to_float32(
    values: NDArray[np.float64], *, base: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """The one rounding of decoded weights (docs/format.md, 8.3): to nearest, ties to even."""
    if base is not None:
        values = values + base.astype(np.float64)
    with np.errstate(over="ignore"):
        weights = np.asarray(values).astype(np.float32)  # arithmetic on an array without axes leaves none
    if not bool(np.isfinite(weights).all()):
        raise FormatError("a decoded weight does not fit into float32.")
    return weights


def _finite(weights: NDArray[Any]) -> NDArray[np.float64]:
    values = np.asarray(weights, dtype=np.float64)
    if not bool(np.isfinite(values).all()):
        raise UsageError("weights to be quantised must be finite; some are NaN or infinite.")
    return values
