"""Bound on the float64 rounding error of a chain. It goes through the chain with the numbers.

docs/format.md, 8.10, has the lines of the bound and the theorem that follows. Here they are applied to the
modules that a chain is built of, in evaluation order. The numbers themselves may be in float32: the bound
needs their lengths alone.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from codebound.learn.images import EPSILON, DictionaryFeatures, filter_tables
from codebound_networks.chains.modules import FoldedBlock, LocalConv2d
from codebound_networks.chains.operations import OPERATIONS, Conv
from codebound_networks.chains.shifts import MeanOverShifts, StackedShifts, measure_slant

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from codebound.sample.dataset import Scaling

UNIT, TINY = 2.0**-53, 2.0**-500
"""The unit of rounding, and more than what underflow can take away."""
_SPECTRAL_COST = 1 << 31
_STRETCH = 1.0 + 1e-9  # singular values are rounded too


class Carried(NamedTuple):
    """Numbers of a batch, and for each example a bound of the Euclidean norm of their errors."""

    values: Tensor
    error: Tensor


class _Gain(NamedTuple):
    """Gains of a layer, for the error it reads and for rounding."""

    spectral: float
    size: float
    bias: float


class RoundingBound:
    """Evaluates one chain, in whatever precision, and bounds the error that float64 makes in its logits."""

    def __init__(self) -> None:
        self._gains: dict[str, _Gain] = {}
        self.is_relative = False  # whether inputs are off by a share each

    @staticmethod
    def knows(network: nn.Module) -> bool:
        """Return True if the network is made of what chains are made of."""
        return isinstance(network, nn.Sequential) and all(map(_is_known, network))

    def logits(self, network: nn.Module, x: Tensor, scaling: Scaling) -> Carried:
        """The logits of scaled inputs, with a bound of the error of each, over the whole batch."""
        shape = (-1, *(1 for _ in x.shape[2:]))
        mean, std = (torch.tensor(values).to(x).reshape(shape) for values in (scaling.mean, scaling.std))
        self.is_relative = not mean.any()
        # without a mean the length is that of the inputs themselves, bit for bit
        sizes = x if self.is_relative else x.abs() + 2.0 * mean.abs() / std
        carried = Carried(x, _gamma(4) * _length(sizes))
        for name, step in network.named_children():
            carried = _RULES[type(step)](self, name, step, carried)
        return carried

    def gain(self, name: str, compute: Callable[[], _Gain]) -> _Gain:
        """Return the factors of a layer. They are computed once: weights do not change between batches."""
        if name not in self._gains:
            self._gains[name] = compute()
        return self._gains[name]


def _is_known(step: nn.Module) -> bool:
    if isinstance(step, nn.GroupNorm):
        return (step.num_groups, step.affine, step.eps) == (1, False, EPSILON)
    if type(step) in (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d):  # with options
        return any(operation.of_module(step) is not None for operation in OPERATIONS.values())
    return type(step) in _RULES


def _length(values: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1, dtype=torch.float64)
    return found


def _gamma(count: int) -> float:
    return 1.01 * count * UNIT


def _own(factor: float, length: Tensor) -> Tensor:
    """The rounding of one operation: a share of the length of what it reads, and underflow."""
    return factor * length + TINY * (1.0 + factor / UNIT) * (1.0 + length)


def _gain(layer: nn.Linear | nn.Conv2d | LocalConv2d, shape: tuple[int, ...]) -> _Gain:
    weight = layer.weight.detach().double().cpu()
    bias = 0.0 if layer.bias is None else float(layer.bias.detach().double().norm())
    if isinstance(layer, LocalConv2d):
        size = layer.operation.kernel * float(weight.flatten(1).norm(dim=1).max())
        return _Gain(size, size, bias)
    size, cost = float(weight.norm()), weight.shape[0] * weight.shape[1] * min(weight.shape[:2])
    if isinstance(layer, nn.Linear):
        spectral = float(torch.linalg.matrix_norm(weight, ord=2)) if cost <= _SPECTRAL_COST else math.inf
        return _Gain(min(size, _STRETCH * spectral), size, bias)
    return _filter_gain(weight, shape, padding=int(layer.padding[0]), bias=bias)


def _filter_gain(weight: Tensor, shape: tuple[int, ...], *, padding: int, bias: float = 0.0) -> _Gain:
    out, channels, kernel, _ = weight.shape
    size = kernel * float(weight.norm())
    grid = math.prod(side + 2 * padding for side in shape[1:])
    if out * channels * min(out, channels) * grid > _SPECTRAL_COST:
        return _Gain(size, size, bias)
    spectral = Conv(out, kernel, 1, padding, bias=False).norm(weight, shape)
    return _Gain(min(size, _STRETCH * spectral), size, bias)


def _after(gain: _Gain, x: Carried, *, products: int, pixels: int = 1) -> Tensor:
    """The error behind a layer whose results are sums of so many products."""
    factor = _gamma(products + 1)
    offset = factor * math.sqrt(pixels) * gain.bias
    return gain.spectral * x.error + _own(factor * gain.size, _length(x.values)) + offset


def _layer(bound: RoundingBound, name: str, step: Any, x: Carried) -> Carried:
    values, gain = step(x.values), bound.gain(name, lambda: _gain(step, tuple(x.values.shape[1:])))
    products = step.weight[0, 0].numel() if isinstance(step, LocalConv2d) else step.weight[0].numel()
    return Carried(values, _after(gain, x, products=products, pixels=values[0, 0].numel()))


def _pass_on(bound: RoundingBound, name: str, step: Any, x: Carried) -> Carried:
    return Carried(step(x.values), x.error)


def _mean(bound: RoundingBound, name: str, step: Any, x: Carried) -> Carried:
    values = step(x.values)
    window = x.values[0, 0].numel() if isinstance(step, nn.AdaptiveAvgPool2d) else int(step.kernel_size) ** 2
    error = (x.error + _own(_gamma(window + 1), _length(x.values))) / math.sqrt(window)
    return Carried(values, error)


def _residual(bound: RoundingBound, name: str, step: Any, x: Carried) -> Carried:
    inner = _layer(bound, f"{name}.a", step.a, x)
    outer = _layer(bound, f"{name}.b", step.b, Carried(inner.values.relu(), inner.error))
    values = outer.values + step.shortcut(x.values)
    error = outer.error + x.error + _own(_gamma(2), _length(values))
    return Carried(values.relu(), error)


def _normalise(bound: RoundingBound, name: str, step: Any, x: Carried) -> Carried:
    return Carried(step(x.values), _error_of_normalised(x))


def _error_of_normalised(x: Carried) -> Tensor:
    numbers = x.values[0].numel()
    root, factor = math.sqrt(numbers), _gamma(4) + _gamma(numbers + 4)
    variance, mean = torch.var_mean(x.values.flatten(1).double(), dim=1, correction=0)
    before = x.error + _own(factor, root * (mean.square() + variance).sqrt())
    least = ((1.0 - 1e-5) * variance.sqrt() - before / root).clamp(min=0.0)
    return before / (least.square() + EPSILON).sqrt() + _own(factor, torch.full_like(before, root))


def _features(bound: RoundingBound, name: str, step: Any, x: Carried) -> Carried:
    planes, error = step.planes(x.values), x.error
    if x.values.shape[1] == 3:
        error = math.sqrt(2.0) * error + _own(2.0 * _gamma(4), _length(x.values))
    read, window = Carried(planes, error), step.pool**2
    squares = (error + _own(_gamma(window + 1), _length(planes))).square()
    for number, table in enumerate(filter_tables(step.table)):
        filters, sides = torch.from_numpy(table).unsqueeze(1), tuple(planes.shape[2:])
        gain = bound.gain(
            f"{name}.{number}", partial(_filter_gain, filters, (1, *sides), padding=table.shape[1] // 2)
        )
        behind = _after(gain, read, products=table.shape[1] ** 2 + window + 8)
        squares = squares + 4.0 * behind.square()
    features = Carried(step.compute(planes), squares.sqrt() / step.pool)
    return Carried(step.normalise(features.values), _error_of_normalised(features))


def _shift(bound: RoundingBound, name: str, step: Any, x: Carried) -> Carried:
    error = _error_of_straightened(x, bound.is_relative) if step.kind in (3, 4) else x.error
    return Carried(step(x.values), error.repeat(step.count))


def _error_of_straightened(x: Carried, is_relative: bool) -> Tensor:
    """The images move by the error of their lean. Reading them rounds a little."""
    images, (height, width) = x.values.double(), x.values.shape[2:]
    numbers = images[0].numel()
    share, length = _gamma(numbers + 16), _length(images)
    off = torch.zeros_like(length) if is_relative else math.sqrt(numbers) * x.error
    mass = images.abs().sum(1)
    up, right, slant = measure_slant(mass)
    total = mass.sum((1, 2)) + 1e-6
    squares, columns = (mass * up.square()).sum((1, 2)), (mass * right.square()).sum((1, 2))
    rows = squares + 1e-3
    slant = slant.flatten().abs()
    off_up, off_right = (2.0 * side * (off / total + share) for side in (height, width))
    off_product = share * (squares * columns).sqrt() + height * width * off
    off_product += 1e-6 * (width * off_up + height * off_right) + (total + off) * off_up * off_right
    off_rows = share * rows + height**2 * off + 2e-6 * height * off_up + (total + off) * off_up.square()
    off_slant = 2.0 * (off_product + slant * off_rows) / rows
    moved = height * off_slant + slant * off_up + _gamma(8) * (width + slant * height)
    moved = torch.where(off_rows <= rows / 2.0, moved, torch.inf)
    return x.error + 2.0 * moved * length + _own(_gamma(8), length)


def _average(bound: RoundingBound, name: str, step: Any, x: Carried) -> Carried:
    error = x.error.reshape(step.count, -1).mean(0)
    largest = x.values.double().abs().amax(1).reshape(step.count, -1).mean(0)
    return Carried(step(x.values), error + _gamma(step.count + 1) * largest)


_RULES: dict[type[nn.Module], Callable[[RoundingBound, str, Any, Carried], Carried]] = {
    nn.Linear: _layer,
    nn.Conv2d: _layer,
    LocalConv2d: _layer,
    FoldedBlock: _residual,
    nn.GroupNorm: _normalise,
    nn.Flatten: _pass_on,
    nn.ReLU: _pass_on,
    nn.MaxPool2d: _pass_on,
    nn.AvgPool2d: _mean,
    nn.AdaptiveAvgPool2d: _mean,
    DictionaryFeatures: _features,
    StackedShifts: _shift,
    MeanOverShifts: _average,
}
