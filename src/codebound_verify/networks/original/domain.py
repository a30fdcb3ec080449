"""Bound on the distance of f and g on a bounded domain (docs/format.md, section 7.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...refusal import Refused
from ..operations import KINDS
from ..rounding import SPECTRAL_ROUNDING, filter_norm, matrix_norm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...header import Domain, Scaling
    from ...weights import Floats
    from ..chain import Chain
    from ..operations import Operation
    from ..tensors import Doubles, Shape

POOLS = ("max pool", "average pool", "global average pool")  # of norm at most 1


def deviation(
    chain: Chain, f: Mapping[str, Floats], g: Mapping[str, Floats], *, scaling: Scaling, domain: Domain
) -> float:
    """An upper bound of the Euclidean distance of the outputs of f and g over all inputs of the domain."""
    e, m = 0.0, _input_norm(chain.inputs[0], scaling, domain)
    for position, (operation, seen) in enumerate(zip(chain.operations, chain.inputs, strict=True)):
        if operation.kind in POOLS:
            continue
        if operation.kind not in NORMS:
            raise Refused(
                f"C-12a: the chain has a {operation.kind} operation, which this statement does not allow."
            )
        norm, weight = NORMS[operation.kind], f"{position}.weight"
        a = norm(operation, seen, f[weight].astype(np.float64))
        u = norm(operation, seen, g[weight].astype(np.float64) - f[weight].astype(np.float64))
        bias = change = 0.0
        if operation.bias:
            name = f"{position}.bias"
            repeats = math.sqrt(math.prod(KINDS[operation.kind].output(operation, seen)[1:]))  # pixels
            bias = repeats * _length(f[name].astype(np.float64))
            change = repeats * _length(g[name].astype(np.float64) - f[name].astype(np.float64))
        e, m = (a + u) * e + u * m + change, a * m + bias
    return e


def _input_norm(shape: Shape, scaling: Scaling, domain: Domain) -> float:
    channels = shape[0] if len(shape) == 3 else 1
    mean, std = (np.broadcast_to(np.array(values), channels) for values in (scaling.mean, scaling.std))
    per_channel = math.prod(shape) // channels
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite norm is more than any theta covers
        low, high = (
            np.abs((value / scaling.divisor - mean) / std) for value in (domain.input_low, domain.input_high)
        )
        return math.sqrt(per_channel * float((np.maximum(low, high) ** 2).sum()))


def _length(vector: Doubles) -> float:
    return float(np.linalg.norm(vector)) * (1 + SPECTRAL_ROUNDING)


def _matrix_norm(operation: Operation, seen: Shape, weight: Doubles) -> float:
    return matrix_norm(weight)


def _filter_norm(operation: Operation, seen: Shape, weight: Doubles) -> float:
    height, width = (side + 2 * operation.padding for side in seen[1:])
    return filter_norm(weight, (height, width))


NORMS = {"linear": _matrix_norm, "conv": _filter_norm}
