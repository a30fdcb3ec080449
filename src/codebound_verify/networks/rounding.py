"""Bounds on the rounding errors of computed numbers (docs/format.md, section 6).

Every result of a chain carries a bound of its error: of the Euclidean distance, for each example, between
what was computed and what real numbers would give. The bound holds for sums in any order, with fused
operations or without.

Float32 is bounded by the same lines; and more sharply where the leading digits of a weight and those of what
it sees are multiplied by themselves: there are so few of them that their products and sums are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from ..weights import Floats
    from .tensors import Doubles

UNITS = {torch.float64: 2.0**-53, torch.float32: 2.0**-24}
FLOORS = {torch.float64: 2.0**-500, torch.float32: 2.0**-60}  # more than what underflow can take away
LONGEST = 2.0**-7  # of k u: longer sums are not bounded
SPECTRAL_LIMIT = 1 << 31  # out x in x min(out, in) x frequencies: what a spectral norm may cost
SPECTRAL_ROUNDING = 1e-9  # covers the rounding of singular values in float64
EXACT = 1 << 24  # integers up to it are exact in float32
HEAD = 1 << 14  # the absolute values of the leading digits of the weights of one sum, at most, in their unit
LEAST = 2.0**-60  # unit of leading digits: products of two are no subnormal numbers
NUMBERS = 1 << 22  # complex numbers in the transforms that are held at once
NO_NORM = (np.linalg.LinAlgError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
PART = 1 << 20  # numbers of a weight that are held in another form at once


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
        return replace(
            self, values=values, error=self.error + local(lengths(self.values), gamma(1, dtype), dtype)
        )

    def move(self, function: Callable[[Tensor], Tensor]) -> Rounded:
        """Apply a function that moves numbers and leaves some out."""
        whole = self.whole and replace(self.whole, values=function(self.whole.values))
        return Rounded(function(self.values), self.error, whole)

    def part(self, which: Tensor) -> Rounded:
        """Some of the examples."""
        whole = self.whole and replace(self.whole, values=self.whole.values[which])
        return replace(self, values=self.values[which], error=self.error[which], whole=whole)


def rows(values: Tensor) -> Tensor:
    """The numbers of each example side by side, in the order in which they are stored."""
    is_last = values.dim() == 4 and values.is_contiguous(memory_format=torch.channels_last)
    return (values.permute(0, 2, 3, 1) if is_last else values).flatten(1)


def unroll(flat: Tensor, values: Tensor) -> Tensor:
    """Numbers in the order of ``rows(values)``, in the shape of the values."""
    is_last = values.dim() == 4 and values.is_contiguous(memory_format=torch.channels_last)
    if not is_last:
        return flat.reshape(values.shape)
    return flat.reshape(values.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)


def lengths(values: Tensor) -> Tensor:
    """At least the Euclidean norm of each example; float32 is rounded up, by its error and by underflow."""
    flat = rows(values)
    rounding = gamma(flat.shape[1] + 2, values.dtype)
    if values.dtype == torch.float64 or math.isinf(rounding):
        found: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=torch.float64)
        return found
    found = torch.linalg.vector_norm(flat, dim=1).double()
    return found * (1 + rounding) + math.sqrt(flat.shape[1]) * 2.0**-62


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
class Lead:
    """A weight as multiples of a unit for each output, the heads, and what they leave, the rests.

    Attributes:
        unit: Powers of two, one for each output.
        reach: So many units may a number have whose sums with the heads are to be exact.
        rest: As the size of a layer, of the rests.
    """

    unit: Tensor
    reach: float
    rest: float

    def weights(self, weight: Tensor, unit: Tensor) -> Tensor:
        """The heads of some outputs, then the rests; both are numbers of float32, so nothing is rounded."""
        heads = (weight / unit).round_().mul_(unit)
        found = torch.cat([heads, weight - heads])
        return found.contiguous(memory_format=torch.channels_last) if weight.dim() == 4 else found

    def divide(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Heads and rests of numbers; the unit of each example is as small as its largest number allows."""
        flat = rows(x)
        largest = torch.maximum(flat.amax(1), -flat.amin(1)).double().reshape(-1, *(1,) * (x.dim() - 1))
        # What is added lies between 2^23 and 2^24 units, where float32 has no digits behind the unit.
        far = (1.5 * 2**23 * _power_above(largest / (self.reach - 1))).to(x.dtype)
        head = (x + far).sub_(far)
        return head, x - head


def _power_above(x: Tensor) -> Tensor:
    """A power of two that is above x, but at least LEAST."""
    x = x.clamp(min=LEAST)
    return x / torch.frexp(x).mantissa


@dataclass(frozen=True)
class Layer:
    """A weight with its bias, and how much its linear map stretches.

    Attributes:
        weight: As decoded.
        bias: As decoded.
        gain: At least the spectral norm of the map.
        size: At least the spectral norm of the map with the absolute values of the weight.
        least_size: The same, and never larger: what float32 counts with.
        lead: Its leading digits, if float32 is to sum them exactly.
    """

    weight: Tensor
    bias: Tensor | None
    gain: float
    size: float
    least_size: float
    lead: Lead | None = None

    def sums(
        self, x: Rounded, summed: Callable[[Tensor, Tensor], Tensor], *, terms: int, pixels: int = 1
    ) -> Rounded:
        """Outputs of the layer for x.

        Args:
            x: What it sees.
            summed: The sums of products with a weight.
            terms: How many products are in a sum.
            pixels: How many pixels the result has.
        """
        dtype = x.values.dtype
        if self.lead is None or dtype == torch.float64:
            values = _join(lambda part: summed(x.values, part.to(dtype)), self.weight)
            error = self.error(x, terms=terms, pixels=pixels)
        else:
            values, error = self._exact_sums(self.lead, x, summed, terms)
            error += gamma(2, dtype) * self._bias_length(pixels)
        if self.bias is not None:
            values += self.bias.to(dtype).reshape(-1, *(1,) * (values.dim() - 2))
        return Rounded(values, error)

    def _exact_sums(
        self, lead: Lead, x: Rounded, summed: Callable[[Tensor, Tensor], Tensor], terms: int
    ) -> tuple[Tensor, Tensor]:
        """Sums without the bias: heads times heads are exact, whatever has a rest is small."""
        dtype = x.values.dtype
        head, rest = lead.divide(x.values)

        def of(weight: Tensor, unit: Tensor) -> Tensor:
            heads, rests = summed(head, lead.weights(weight, unit)).tensor_split(2, dim=1)
            return summed(rest, weight).add_(rests).add_(heads)

        values = _join(of, self.weight, lead.unit)
        whole, short, rounding = lengths(x.values), lengths(rest), gamma(terms + 4, dtype)
        error = local(whole + short, rounding * lead.rest, dtype)
        error += local(short, rounding * self.least_size, dtype)
        return values, self.gain * x.error + error + local(whole, gamma(3, dtype) * self.gain, dtype)

    def _bias_length(self, pixels: int) -> float:
        return 0.0 if self.bias is None else math.sqrt(pixels) * float(self.bias.double().norm())

    def error(self, x: Rounded, *, terms: int, pixels: int = 1) -> Tensor:
        """The error of what the layer makes of x, every number a sum of so many products."""
        dtype = x.values.dtype
        rounding = gamma(terms + 1, dtype)
        offset = rounding * self._bias_length(pixels)
        size = self.size if dtype == torch.float64 else self.least_size
        return self.gain * x.error + local(lengths(x.values), rounding * size, dtype, offset)


def _parts(weight: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """A weight, and what goes with it, for so many outputs at a time that a copy of a part is small."""
    outputs = max(1, PART // max(1, weight[0].numel()))
    return zip(*(torch.split(each, outputs) for each in (weight, *others)), strict=True)


def _join(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Results of a function for the parts of a weight, joined along the outputs of each example."""
    found = [function(*part) for part in _parts(*tensors)]
    return found[0] if len(found) == 1 else torch.cat(found, 1)


def _norm(weight: Tensor) -> float:
    """The Euclidean norm of all numbers, in float64."""
    return math.hypot(*(float(part.double().norm()) for (part,) in _parts(weight)))


def with_lead(layer: Layer) -> Layer:
    """The layer with its leading digits; filters that every pixel has of its own have none."""
    if layer.weight.dim() == 5:
        return layer
    others = tuple(range(1, layer.weight.dim()))
    units, lengths, most = [], [], 2.0**8
    for (part,) in _parts(layer.weight):
        wide = part.double()
        unit = _power_above(wide.abs().sum(others, keepdim=True) / HEAD)
        heads = (wide / unit).round()
        most = max(most, float(heads.abs().sum(others).max()))
        lengths.append(float((wide - heads * unit).norm()))
        units.append(unit.to(part.dtype))
    kernel = layer.weight.shape[2] if len(others) == 3 else 1
    return replace(layer, lead=Lead(torch.cat(units), EXACT / most, kernel * math.hypot(*lengths)))


def add_mirrored(layer: Layer, order: Sequence[int]) -> Layer:
    """A convolution without a bias, and behind its outputs those of its filters read from the right.

    Of the latter, the filters of input ``order[i]`` are those of input i. Each half by itself stretches as
    much as the layer does: what is said of the layer is said of each half.
    """
    lead, place = layer.lead, torch.tensor(order).argsort()

    def both(weight: Tensor) -> Tensor:
        found = torch.cat([weight, weight[:, place].flip(3)])
        return found.contiguous(memory_format=torch.channels_last)

    if lead is not None:
        lead = replace(lead, unit=lead.unit.repeat(2, 1, 1, 1))
    return replace(layer, weight=both(layer.weight), lead=lead)


def matrix_layer(weight: Tensor, bias: Tensor | None) -> Layer:
    """A linear map."""
    size = _norm(weight)
    return Layer(weight, bias, _gain(size, weight.shape, 1, lambda: matrix_norm(weight.numpy())), size, size)


def filter_layer(weight: Tensor, bias: Tensor | None, *, grid: tuple[int, int]) -> Layer:
    """A convolution on an image that has these sides with its padding."""
    size = weight.shape[2] * _norm(weight)
    gain = _gain(size, weight.shape[:2], math.prod(grid), lambda: filter_norm(weight.double().numpy(), grid))
    sums = torch.cat([part.double().abs().sum((2, 3)) for (part,) in _parts(weight)])
    return Layer(weight, bias, gain, size, _gain(size, sums.shape, 1, lambda: matrix_norm(sums.numpy())))


def local_layer(weight: Tensor, bias: Tensor | None) -> Layer:
    """A convolution with filters of its own at every pixel: the largest of them stands for all."""
    largest = max(float(part.flatten(1).double().norm(dim=1).max()) for (part,) in _parts(weight))
    size = weight.shape[3] * largest
    return Layer(weight, bias, size, size, size)


def _gain(size: float, shape: Sequence[int], frequencies: int, norm: Callable[[], float]) -> float:
    """The spectral norm where it is cheap; else the size, which is never smaller."""
    if math.prod(shape) * min(shape) * frequencies > SPECTRAL_LIMIT:
        return size
    try:
        return min(size, norm())
    except NO_NORM:
        return size


def matrix_norm(weight: Floats | Doubles) -> float:
    """An upper bound of the spectral norm of a linear map (7.1).

    It is the root of that of W^T W, a matrix of the shorter side, which is summed over parts of W. The sums
    of a part have PART products in each row of it, so what they are off is a share of PART 2^-53: 2^-33.
    """
    long = torch.from_numpy(weight if weight.shape[0] >= weight.shape[1] else weight.T)
    width = long.shape[1]
    gram = torch.zeros(width, width, dtype=torch.float64)
    for part in torch.split(long, max(1, PART // width)):
        gram.addmm_(part.T.double(), part.double())
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh(gram)[-1]))) * (1 + SPECTRAL_ROUNDING)


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
