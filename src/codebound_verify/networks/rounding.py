"""Bounds on the rounding errors of computed numbers (docs/format.md, sections 8.10 and 9.2).

Every result of a chain carries a bound of its error: of the Euclidean distance, for each example, between
what was computed in float64 and what real numbers would give. The bound holds for sums in any order, with
fused operations or without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .tensors import Doubles, Floats

UNIT = 2.0**-53
FLOOR = 2.0**-500  # tau: more than what underflow can take away
SPECTRAL_LIMIT = 1 << 31  # out x in x min(out, in) x frequencies: what a spectral norm may cost
SPECTRAL_ROUNDING = 1e-9  # covers the rounding of singular values in float64
NUMBERS = 1 << 22  # complex numbers in the transforms that are held at once
NO_NORM = (np.linalg.LinAlgError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
PART = 1 << 20  # numbers of a weight that are held in another form at once


@dataclass(frozen=True)
class Rounded:
    """Numbers of a batch in float64, with a bound of the error of each example."""

    values: Tensor
    error: Tensor  # (batch,)
    is_relative: bool = False  # whether every number by itself is off by the share gamma(4) at most

    def move(self, function: Callable[[Tensor], Tensor]) -> Rounded:
        """Apply a function that moves numbers and leaves some out."""
        return Rounded(function(self.values), self.error)


def lengths(values: Tensor) -> Tensor:
    """The Euclidean norm of each example."""
    found: Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return found


def gamma(terms: int) -> float:
    """The relative error of so many roundings, one on top of the other, and a hundredth more."""
    return 1.01 * terms * UNIT


def local(factor: float, lengths: Tensor) -> Tensor:
    """r(f, v): the error of one operation on something of a length, and what underflow takes away."""
    return factor * lengths + FLOOR * (1 + factor / UNIT) * (1 + lengths)


@dataclass(frozen=True)
class Layer:
    """A weight with its bias as decoded, and how much its linear map stretches."""

    weight: Tensor
    bias: Tensor | None
    gain: float  # A: at least the spectral norm of the map
    size: float  # B: at least that of the map with the absolute values of the weight

    def sums(
        self, x: Rounded, summed: Callable[[Tensor, Tensor], Tensor], *, terms: int, pixels: int = 1
    ) -> Rounded:
        """Outputs of the layer for x, of so many pixels. ``summed`` has sums of so many products (terms)."""
        found = [summed(x.values, part.double()) for part in _parts(self.weight)]
        values = found[0] if len(found) == 1 else torch.cat(found, 1)
        return self.finish(x, values, terms=terms, pixels=pixels)

    def finish(self, x: Rounded, values: Tensor, *, terms: int, pixels: int = 1) -> Rounded:
        """Add the bias to sums of products; they become the outputs."""
        if self.bias is not None:
            values += self.bias.double().reshape(-1, *(1,) * (values.dim() - 2))
        return Rounded(values, self.error(x, terms=terms, pixels=pixels))

    def error(self, x: Rounded, *, terms: int, pixels: int = 1) -> Tensor:
        """The error of what the layer makes of x, every number a sum of so many products."""
        rounding = gamma(terms + 1)
        bias = 0.0 if self.bias is None else math.sqrt(pixels) * float(self.bias.double().norm())
        return self.gain * x.error + local(rounding * self.size, lengths(x.values)) + rounding * bias


def _parts(weight: Tensor) -> Iterator[Tensor]:
    """A weight for so many outputs at a time that a copy of a part is small."""
    return iter(torch.split(weight, max(1, PART // max(1, weight[0].numel()))))


def _norm(weight: Tensor) -> float:
    """The Euclidean norm of all numbers."""
    return math.hypot(*(float(part.double().norm()) for part in _parts(weight)))


def matrix_layer(weight: Tensor, bias: Tensor | None) -> Layer:
    """A linear map."""
    size = _norm(weight)
    return Layer(weight, bias, _gain(size, weight.shape, 1, lambda: matrix_norm(weight.numpy())), size)


def filter_layer(weight: Tensor, bias: Tensor | None, *, grid: tuple[int, int]) -> Layer:
    """A convolution on an image that has these sides with its padding."""
    size = weight.shape[2] * _norm(weight)
    gain = _gain(size, weight.shape[:2], math.prod(grid), lambda: filter_norm(weight.numpy(), grid))
    return Layer(weight, bias, gain, size)


def local_layer(weight: Tensor, bias: Tensor | None) -> Layer:
    """A convolution with filters of its own at every pixel: the largest of them stands for all."""
    largest = max(float(part.flatten(1).double().norm(dim=1).max()) for part in _parts(weight))
    size = weight.shape[3] * largest
    return Layer(weight, bias, size, size)


def spectral_cost(shape: Sequence[int], frequencies: int) -> int:
    """Cost of the spectral norm of a map: of a matrix, or of one for each frequency."""
    return math.prod(shape) * min(shape) * frequencies


def _gain(size: float, shape: Sequence[int], frequencies: int, norm: Callable[[], float]) -> float:
    """The spectral norm where it is cheap, else the size, which is never smaller."""
    if spectral_cost(shape, frequencies) > SPECTRAL_LIMIT:
        return size
    try:
        return min(size, norm())
    except NO_NORM:
        return size


def matrix_norm(weight: Floats | Doubles) -> float:
    """An upper bound of the spectral norm of a linear map (9.2).

    It is the root of that of W^T W, a matrix of the shorter side, which is summed over parts of W. The sums
    of a part have PART products in each row of it, so what they are off is a share of PART 2^-53: 2^-33.
    """
    long = torch.from_numpy(weight if weight.shape[0] >= weight.shape[1] else weight.T)
    width = long.shape[1]
    gram = torch.zeros(width, width, dtype=torch.float64)
    for part in torch.split(long, max(1, PART // width)):
        gram.addmm_(part.T.double(), part.double())
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh(gram)[-1]))) * (1 + SPECTRAL_ROUNDING)


def filter_norm(weight: Floats | Doubles, grid: tuple[int, int]) -> float:
    """An upper bound of the spectral norm of a zero-padded convolution (9.2)."""
    height, width = grid
    # A real filter has the same norm at the frequencies (u, v) and (-u, -v): half of the v suffice.
    taps = np.arange(weight.shape[2])
    frequencies = np.arange(width // 2 + 1)
    at_once = max(1, NUMBERS // (weight.shape[0] * weight.shape[1]))
    largest = 0.0
    for u in range(height):
        rows = np.einsum("oiab,a->oib", weight.astype(np.float64), np.exp(-2j * np.pi / height * u * taps))
        for start in range(0, frequencies.size, at_once):
            v = frequencies[start : start + at_once]
            symbols = np.moveaxis(rows @ np.exp(-2j * np.pi / width * np.outer(taps, v)), 2, 0)
            largest = max(largest, float(np.linalg.svd(symbols, compute_uv=False)[:, 0].max()))
    return largest * (1 + SPECTRAL_ROUNDING)
