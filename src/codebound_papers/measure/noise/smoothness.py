r"""Interlayer smoothness: how nearly linear the later layers are on the noise that compression makes.

The noise is that of a compressor, given as a function, or Gaussian. The proof of A-Lem3 uses the inequality
for two noises at each layer i: layers before i are replaced, and layer i itself is replaced too (A-E8).
Both count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from codebound.errors import UsageError
from codebound.nets.rebuild import copy_with
from codebound.nets.tensors import tensors_of
from codebound.refs import implements
from codebound.rng import stream_seed, torch_stream
from codebound_papers.measure.noise.cushions import norms

if TYPE_CHECKING:
    from torch import nn

    from codebound.nets.walk import Network
    from codebound_papers.measure.noise.jacobian import AbstractDerivative

_ROUNDING = 32.0  # units in the last place below which a remainder is no more than rounding

Perturb = Callable[[Tensor, int], Tensor]
"""A compressor: the matrix of a layer and a seed give the matrix that takes its place."""


@dataclass(frozen=True, slots=True)
class Smoothness:
    """How interlayer smoothness is measured.

    Attributes:
        noise: A compressor, called on the CPU once per layer and draw; or the size of Gaussian noise
            relative to the activation it is added to.
        draws: Number of noise draws. The networks that a compressor makes are kept, one per draw.
        delta: Fraction of the draws that may violate the inequality.
        seed: Seed of the noise.
    """

    noise: Perturb | float
    draws: int = 20
    delta: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.noise) and not (0.0 < self.noise < math.inf):
            raise UsageError(f"the relative size of noise must be positive and finite. Got {self.noise}.")
        if self.draws < 1 or not 0.0 <= self.delta < 1.0:
            raise UsageError(
                f"smoothness needs at least 1 draw and delta in [0, 1). Got {self.draws} and {self.delta}."
            )


@implements("A-Def7", "A-E8", kind="measure")
def smoothness_quantile(draw_minima: Sequence[float], delta: float) -> float:
    """The largest ``rho`` that at most a fraction ``delta`` of the noise draws violates.

    Statement.  ``rho_delta`` is the largest number with ``||M(x^i + eta) - J (x^i + eta)|| <=
                ||eta|| ||x^j|| / (rho ||x^i||)`` for all i < j and all x, with probability 1 - delta.
    Reference.  A, Definition 7 and Condition B.1, which say "smallest": the inequality gets weaker as
                ``rho`` falls, so it is the largest that is meant (A-E8).
    Needs.      ``draw_minima`` holds, per draw, the smallest ``||eta|| ||x^j|| / (||x^i|| ||M - J||)`` over
                pairs and examples. An empirical quantile of few draws is an estimate, not a bound.

    Example:
        >>> smoothness_quantile([5.0, 3.0, 4.0, 6.0], delta=0.25)
        4.0
    """
    allowed = math.floor(round(delta * len(draw_minima), 9))
    return float(sorted(draw_minima)[allowed])


@implements("A-E9", kind="measure")
def adversarial_smoothness(*, cushion: float, stable_rank: float, contraction: float) -> float:
    """Smoothness of one layer under any noise is at least ``mu sqrt(r) / c``.

    ``cushion`` and ``stable_rank`` belong to the layer after the activation. The paper prints ``mu r / c``;
    since ``||A|| / ||A||_F = 1 / sqrt(r)``, the root is what follows.

    Example:
        >>> adversarial_smoothness(cushion=0.25, stable_rank=4.0, contraction=2.0)
        0.25
    """
    return cushion * math.sqrt(stable_rank) / contraction


@implements("A-E9:gaussian", kind="measure")
def gaussian_smoothness(*, cushion: float, width: int, contraction: float) -> float:
    """Smoothness of one layer of ``width`` inputs under Gaussian noise is about ``sqrt(h) mu / c``.

    Example:
        >>> gaussian_smoothness(cushion=0.25, width=16, contraction=2.0)
        0.5
    """
    return math.sqrt(width) * cushion / contraction


def perturbed(network: Network, noise: Perturb, *, seed: int) -> nn.Module:
    """The predictor with every layer's matrix replaced by what the compressor makes of it."""
    replaced = {id(held.tensor): held.tensor for held in tensors_of(network.predictor)}
    for view in network.layers:
        matrix = noise(view.matrix.cpu().clone(), stream_seed(seed, view.name))
        if not isinstance(matrix, Tensor) or matrix.shape != view.matrix.shape:
            found = tuple(matrix.shape) if isinstance(matrix, Tensor) else type(matrix).__name__
            raise UsageError(
                f"layer {view.name}: the noise must return a matrix of shape {tuple(view.matrix.shape)}. "
                f"Got {found}."
            )
        if not torch.isfinite(matrix).all():
            raise UsageError(f"layer {view.name}: the noise made entries that are NaN or infinite.")
        weight = network.predictor.get_submodule(view.name).weight
        replaced[id(weight)] = torch.nn.Parameter(
            view.from_matrix(matrix.detach().to(view.weight)), requires_grad=False
        )
    return copy_with(network.predictor, replaced)


def gaussian_noise(x: Tensor, size: float, *, seed: int) -> Tensor:
    """Noise in one Gaussian direction, the same for all examples, ``size`` times as long as each of them."""
    direction = torch.randn(x.shape[1:], generator=torch_stream(seed, "direction"), dtype=x.dtype)
    direction *= size / torch.linalg.vector_norm(direction)
    return norms(x).view(-1, *[1] * (x.dim() - 1)) * direction.to(x.device)


def smoothness_ratios(
    points: Sequence[Tensor],
    functions: Sequence[Callable[[Tensor], Tensor]],
    derivatives: Sequence[AbstractDerivative],
    noises: Tensor,
    *,
    point_norms: Sequence[Tensor],
) -> Tensor:
    """``min_j ||eta|| ||x^j|| / (||x^i|| ||M(x + eta) - M(x) - J eta||)`` per example, over several noises.

    The remainder ``M(x + eta) - M(x) - J eta`` equals ``M(x + eta) - J (x + eta)`` where ``M(x) = J x``, and
    is its augmented form where layers have biases. Where it is no more than rounding, the map is linear on
    that noise and the value infinite.

    Args:
        points: ``x^i`` and everything after it.
        functions: The maps from each point to the next.
        derivatives: Their derivatives at the points.
        noises: ``(noises, examples, *shape of x^i)``; where a noise is zero it says nothing.
        point_norms: Norms of the points.
    """
    count, examples = noises.shape[:2]
    moved = (points[0] + noises).flatten(0, 1)
    tangents = noises
    smallest = points[0].new_full((count, examples), math.inf)
    scale = _lengths(noises) / point_norms[0]
    for k, (function, derivative) in enumerate(zip(functions, derivatives, strict=True), start=1):
        moved, tangents = function(moved), derivative.push(tangents)
        remainder = _lengths(moved.view_as(tangents) - points[k] - tangents)
        rounding = _ROUNDING * torch.finfo(moved.dtype).eps * (norms(points[k]) + _lengths(tangents))
        ratio = scale * point_norms[k] / remainder
        smallest = torch.where(remainder > rounding, torch.minimum(smallest, ratio), smallest)
    return smallest.amin(dim=0)


def _lengths(vectors: Tensor) -> Tensor:
    """Norms of vectors per noise and example."""
    size: Tensor = torch.linalg.vector_norm(vectors.flatten(2), dim=2)
    return size
