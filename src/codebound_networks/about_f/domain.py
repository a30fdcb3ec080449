"""Deviation of g from f on a declared input range, as margin (C-12a)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.bounds.original import LayerBounds, output_deviation, theta_on_grid
from codebound.run.errors import CertificateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from codebound.sample.dataset import Sample
    from codebound_networks.chains.message import Message
    from codebound_networks.chains.operations import AbstractOperation

_ABOVE = 1.0 + 2e-9  # covers the rounding of a norm in float64, twice: the verifier adds half as much


def covering_theta(
    message: Message,
    original: Mapping[str, NDArray[np.float32]],
    sample: Sample,
    low: float,
    high: float,
    *,
    base: Mapping[str, NDArray[np.float32]] | None = None,
) -> int:
    """Index of the smallest margin on the grid that covers the deviation of g from f (docs/format.md, 9.2).

    Of the sample only the input shape and the scaling are used; the domain is as declared.
    """
    chain = message.chain
    if not all(operation.is_bounded for operation in chain.operations):
        raise CertificateError(
            "a certificate on a bounded domain needs a chain of linear, convolution and pooling operations; "
            "the deviation of other operations is not bounded here."
        )
    weights = message.weights(base)
    if {n: v.shape for n, v in weights.items()} != {n: v.shape for n, v in original.items()}:
        raise CertificateError("a certificate on a bounded domain needs f and g of the same shapes.")
    shapes = (*chain.input_shapes(), (chain.classes,))
    change = {name: np.subtract(weights[name], original[name], dtype=np.float64) for name in original}
    layers = []
    for position, operation in enumerate(chain.operations):
        name, constant = f"{position}.weight", f"{position}.bias"
        if name in original:
            pixels = math.prod(shapes[position + 1][1:])  # a constant is added at every pixel
            weight, bias, bias_change = original[name], original.get(constant), change.get(constant)
            layers.append(
                LayerBounds(
                    weight=_norm(operation, weight.astype(np.float64), shapes[position]),
                    weight_change=_norm(operation, change[name], shapes[position]),
                    bias=_length(bias) * math.sqrt(pixels) * _ABOVE,
                    bias_change=_length(bias_change) * math.sqrt(pixels) * _ABOVE,
                )
            )
    deviation = output_deviation(layers, input_norm=_input_norm(sample, low, high))
    if deviation == 0.0:
        return -8000
    return theta_on_grid(deviation).index


def _input_norm(sample: Sample, low: float, high: float) -> float:
    scaling, shape = sample.scaling, sample.input_shape
    means, stds = (
        np.broadcast_to(np.array(values, dtype=np.float64), shape[0])
        for values in (scaling.mean, scaling.std)
    )
    ends = [(value / scaling.divisor - means) / stds for value in (low, high)]
    largest = np.maximum(np.abs(ends[0]), np.abs(ends[1]))
    return math.sqrt(float((largest**2).sum()) * math.prod(shape[1:])) * (1.0 + 1e-12)


def _length(vector: NDArray[np.floating[Any]] | None) -> float:
    return 0.0 if vector is None else float(np.linalg.norm(vector.astype(np.float64)))


def _norm(operation: AbstractOperation, weight: NDArray[np.float64], shape: tuple[int, ...]) -> float:
    return operation.norm(torch.from_numpy(weight), shape) * _ABOVE
