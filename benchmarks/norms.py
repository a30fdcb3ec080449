"""Times certified spectral norms beside the usual shortcuts: python benchmarks/norms.py

`torch` is torch.linalg.matrix_norm of the reshaped kernel, which is another number for a convolution;
`power` is 50 power iterations on the true map, which is a lower bound. Ratios are to the certified upper end.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

import torch
from ratios import beside
from torch import nn

from codebound_networks.views.layers import view_of
from codebound_papers.measure.spectral import spectral_norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from codebound_networks.views.layers import AbstractLayerView, LinearOperator

CASES: tuple[tuple[nn.Module, tuple[int, ...]], ...] = (
    (nn.Linear(784, 784), (784,)),
    (nn.Linear(3072, 2000), (3072,)),
    (nn.Conv2d(3, 64, 3, padding=1), (3, 32, 32)),
    (nn.Conv2d(64, 64, 3, padding=1), (64, 32, 32)),
    (nn.Conv2d(64, 128, 3, stride=2, padding=1), (64, 32, 32)),
    (nn.Conv2d(512, 512, 3, padding=1), (512, 4, 4)),
    (nn.Conv2d(512, 512, 3, padding=1), (512, 2, 2)),
)


def power_iteration(operator: LinearOperator, iterations: int = 50) -> float:
    """The usual estimate."""
    v = torch.randn(1, *operator.in_shape, generator=torch.Generator().manual_seed(0))
    for _ in range(iterations):
        v = operator.adjoint(operator.apply(v))
        v = v / v.norm()
    return float(operator.apply(v).norm())


def timed(function: Callable[[], float]) -> tuple[float, float]:
    """A result and the median seconds of three calls after a first one that warms the libraries up."""
    result = float(function())
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def upper_end(view: AbstractLayerView, shape: tuple[int, ...]) -> float:
    """The certified upper end."""
    return spectral_norm(view, shape).upper


def main() -> None:
    """Prints one row per layer."""
    print(f"{'layer':26} {'input':>8} {'upper':>8} {'s':>6}   torch/upper      s   power/upper      s")
    for module, shape in CASES:
        view = view_of("layer", module)
        upper, seconds = timed(partial(upper_end, view, shape))
        matrix, matrix_seconds = timed(partial(torch.linalg.matrix_norm, view.matrix, ord=2))
        power, power_seconds = timed(partial(power_iteration, view.operator(shape)))
        name = "x".join(map(str, view.weight.shape)) + stride_of(module)
        peer = "50 power iterations, a lower bound"
        beside(f"certified norm of a layer {name}", ours=seconds, theirs=power_seconds, peer=peer)
        print(
            f"{name:26} {'x'.join(map(str, shape)):>8} "
            f"{upper:8.4f} {seconds:6.2f} {matrix / upper:13.4f} {matrix_seconds:6.2f} "
            f"{power / upper:13.4f} {power_seconds:6.2f}"
        )


def stride_of(module: nn.Module) -> str:
    """The stride, where it is not 1."""
    stride = getattr(module, "stride", (1,))[0]
    return f" stride {stride}" if stride > 1 else ""


if __name__ == "__main__":
    main()
