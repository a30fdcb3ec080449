"""How far computed numbers are from those of exact arithmetic (docs/format.md, section 6).

Every result of a chain carries a bound of its error: of the Euclidean distance, for each example, between
what was computed and what real numbers would give. The bound holds for sums in any order, with fused
operations or without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from .tensors import Doubles

UNITS = {torch.float64: 2.0**-53, torch.float32: 2.0**-24}
FLOORS = {torch.float64: 2.0**-500, torch.float32: 2.0**-60}  # more than what underflow can take away
LONGEST = 2.0**-7  # of k u: longer sums are not bounded
SPECTRAL_LIMIT = 1 << 31  # out x in x min(out, in) x frequencies: what a spectral norm may cost
SPECTRAL_ROUNDING = 1e-9  # covers the rounding of singular values in float64
NUMBERS = 1 << 22  # complex numbers in the transforms that are held at once


@dataclass(frozen=True)
class Whole:
    """The same numbers as integers times a unit, exactly; the integers are held in float32."""

    values: Tensor
    unit: float


@dataclass(frozen=True)
class Rounded:
    """Numbers of a batch, with a bound of the error of each example."""

    values: Tensor
    error: Tensor  # (batch,), float64
    whole: Whole | None = None
    is_relative: bool = False  # whether every number by itself is off by the share gamma(4) at most

    def to(self, dtype: torch.dtype) -> Rounded:
        """The same numbers in another precision."""
        if dtype == self.values.dtype:
            return self
        values = self.values.to(dtype)
        if dtype == torch.float64:
            return replace(self, values=values)
        return replace(self, values=values, error=self.error + local(self.lengths(), gamma(1, dtype), dtype))

    def moved(self, function: Callable[[Tensor], Tensor]) -> Rounded:
        """What a function makes that moves numbers and leaves some out."""
        whole = self.whole and replace(self.whole, values=function(self.whole.values))
        return Rounded(function(self.values), self.error, whole)

    def lengths(self) -> Tensor:
        """The Euclidean norm of each example."""
        every = tuple(range(1, self.values.dim()))
        found: Tensor = torch.linalg.vector_norm(self.values, dim=every, dtype=torch.float64)
        return found


def exact(values: Tensor) -> Rounded:
    """Numbers without an error."""
    return Rounded(values, torch.zeros(len(values), dtype=torch.float64))


def gamma(terms: int, dtype: torch.dtype) -> float:
    """The relative error of so many roundings, one on top of the other, and a hundredth more."""
    share = terms * UNITS[dtype]
    return 1.01 * share if share <= LONGEST else math.inf


def local(lengths: Tensor, factor: float, dtype: torch.dtype, offset: float = 0.0) -> Tensor:
    """The error of one operation: factor times the length of its input, plus an offset, plus underflow."""
    return factor * lengths + offset + FLOORS[dtype] * (1 + factor / UNITS[dtype]) * (1 + lengths)


@dataclass(frozen=True)
class Layer:
    """A weight with its bias, and how much its linear map stretches.

    Attributes:
        weight: As decoded.
        bias: As decoded.
        gain: At least the spectral norm of the map.
        size: At least the spectral norm of the map with the absolute values of the weight.
        blocks: Into how many blocks a convolution divides what it sums.
    """

    weight: Tensor
    bias: Tensor | None
    gain: float
    size: float
    blocks: int = 1

    def error(self, x: Rounded, *, terms: int, pixels: int = 1) -> Tensor:
        """The error of what the layer makes of x, every number a sum of so many products."""
        dtype = x.values.dtype
        rounding = gamma(terms + 1, dtype)
        offset = 0.0
        if self.bias is not None:
            offset = rounding * math.sqrt(pixels) * float(self.bias.double().norm())
        return self.gain * x.error + local(x.lengths(), rounding * self.size, dtype, offset)


def matrix_layer(weight: Tensor, bias: Tensor | None) -> Layer:
    """A linear map."""
    wide = weight.double()
    size = float(wide.norm())
    return Layer(weight, bias, _gain(size, wide.shape, 1, lambda: matrix_norm(wide.numpy())), size)


def filter_layer(weight: Tensor, bias: Tensor | None, *, grid: tuple[int, int]) -> Layer:
    """A convolution on an image that has these sides with its padding."""
    wide = weight.double()
    size = wide.shape[2] * float(wide.norm())
    gain = _gain(size, wide.shape[:2], math.prod(grid), lambda: filter_norm(wide.numpy(), grid))
    return Layer(weight, bias, gain, size)


def local_layer(weight: Tensor, bias: Tensor | None) -> Layer:
    """A convolution with filters of its own at every pixel: the largest of them stands for all."""
    size = weight.shape[3] * float(weight.flatten(1).double().norm(dim=1).max())
    return Layer(weight, bias, size, size)


def _gain(size: float, shape: Sequence[int], frequencies: int, norm: Callable[[], float]) -> float:
    """The spectral norm where it is cheap; else the size, which is never smaller."""
    if math.prod(shape) * min(shape) * frequencies > SPECTRAL_LIMIT:
        return size
    try:
        return min(size, norm())
    except np.linalg.LinAlgError:
        return size


def matrix_norm(weight: Doubles) -> float:
    """An upper bound of the spectral norm of a linear map (7.1)."""
    return float(np.linalg.norm(weight, 2)) * (1 + SPECTRAL_ROUNDING)


def filter_norm(weight: Doubles, grid: tuple[int, int]) -> float:
    """An upper bound of the spectral norm of a zero-padded convolution (7.1)."""
    height, width = grid
    # A real filter has the same norm at the frequencies (u, v) and (-u, -v): half of the v suffice.
    taps = np.arange(weight.shape[2])
    frequencies = np.arange(width // 2 + 1)
    at_once = max(1, NUMBERS // (weight.shape[0] * weight.shape[1]))
    largest = 0.0
    for u in range(height):
        rows = np.einsum("oiab,a->oib", weight, np.exp(-2j * np.pi / height * u * taps))
        for start in range(0, frequencies.size, at_once):
            v = frequencies[start : start + at_once]
            symbols = np.moveaxis(rows @ np.exp(-2j * np.pi / width * np.outer(taps, v)), 2, 0)
            largest = max(largest, float(np.linalg.svd(symbols, compute_uv=False)[:, 0].max()))
    return largest * (1 + SPECTRAL_ROUNDING)
