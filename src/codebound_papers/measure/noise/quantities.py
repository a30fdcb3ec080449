r"""The quantities of noise stability as functions of norms: one equation each.

``x^i`` is the output of layer i before its activation, ``phi(x^i)`` the input of the layer after it, and
``J^{i,j}`` the Jacobian of the map from ``x^i`` to ``x^j``. Norms are per example. Where the definition
divides by zero the value is NaN: such an example is an outlier (A-E24).

Interlayer smoothness is how nearly linear the later layers are on the noise that compression makes. The proof
of A-Lem3 uses it for two noises at each layer i: with layer i itself replaced, and not (A-E8). Both count.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import stream_seed, torch_stream
from codebound_networks.views.layers import AbstractConvView, AbstractLayerView
from codebound_networks.views.rebuild import copy_with, tensors_of
from codebound_papers.measure.noise.jacobian import AbstractDerivative
from codebound_papers.measure.norms import frobenius_norm

_ROUNDING = 32.0  # units in the last place below which a remainder is no more than rounding

Perturb = Callable[[Tensor, int], Tensor]
"""A compressor: the matrix of a layer and a seed give the matrix that takes its place."""


def norms(batch: Tensor) -> Tensor:
    """The l2 norm of every example."""
    size: Tensor = torch.linalg.vector_norm(batch.flatten(1), dim=1)
    return size


@implements("A-Def3", kind="measure")
def noise_sensitivity(
    function: Callable[[Tensor], Tensor], x: Tensor, *, draws: int, seed: int = 0
) -> tuple[Tensor, Tensor]:
    r"""Noise sensitivity of any map by simulation: the mean over at least 2 draws, and its standard error.

    Statement.  ``psi(M, x) = E ||M(x + eta ||x||) - M(x)||^2 / ||M(x)||^2`` with standard Gaussian ``eta``.
    Reference.  A, Definition 3. For a linear map :func:`linear_noise_sensitivity` is exact.

    >>> mean, error = noise_sensitivity(lambda x: 2 * x, torch.tensor([[3.0, 4.0]]), draws=1000)
    >>> bool(abs(mean - 2) < 4 * error)
    True
    """
    if draws < 2:
        raise UsageError(f"noise sensitivity needs at least 2 draws for its standard error. Got {draws}.")
    generator = torch_stream(seed, "noise sensitivity")
    clean, scale = function(x), norms(x).view(-1, *[1] * (x.dim() - 1))
    size = norms(clean)
    ratios = []
    for _ in range(draws):
        noise = torch.randn(x.shape[1:], generator=generator, dtype=x.dtype).to(x.device)
        ratios.append((norms(function(x + noise * scale) - clean) / size) ** 2)
    sample = torch.stack(ratios)
    return sample.mean(dim=0), sample.std(dim=0) / math.sqrt(draws)


@implements("A-Prop3.1", kind="measure")
def linear_noise_sensitivity(input_norm: Tensor, output_norm: Tensor, *, frobenius: float) -> Tensor:
    r"""Noise sensitivity of a linear map, exactly: ``psi = ||M||_F^2 ||x||^2 / ||M x||^2``.

    Never below the stable rank of the map, as ``||M x|| <= ||M||_2 ||x||``. The Frobenius norm is that of the
    map itself; for a convolution :func:`map_frobenius_norm`.
    """
    return (frobenius * input_norm / output_norm) ** 2


def map_frobenius_norm(view: AbstractLayerView, input_shape: tuple[int, ...]) -> float:
    """Frobenius norm of the linear map that a layer applies, not of its kernel.

    Where padding reads an input more than once in a patch, the map is written out.

    >>> from codebound_networks.views.layers import view_of
    >>> layer = torch.nn.Conv1d(1, 1, 3, padding=1, bias=False)
    >>> _ = torch.nn.init.ones_(layer.weight)
    >>> round(map_frobenius_norm(view_of("blur", layer), (1, 4)) ** 2, 6)  # 2 + 3 + 3 + 2
    10.0
    """
    exact = replace(view, weight=view.weight.double())
    if isinstance(view, AbstractConvView) and view.padding_mode != "zeros":
        return frobenius_norm(exact.operator(input_shape).dense())
    squares = replace(exact, weight=exact.weight.square()).operator(input_shape)
    return math.sqrt(float(squares.apply(squares.like.new_ones((1, *input_shape))).sum()))


@implements("A-Def4", "A-Imp-i", kind="measure")
def layer_cushion(input_norm: Tensor, output_norm: Tensor, *, frobenius: float) -> Tensor:
    """``mu_i(x) = ||A phi(x^{i-1})|| / (||A||_F ||phi(x^{i-1})||)``; over a sample the smallest counts.

    At most ``1 / sqrt(srank A)`` for a linear layer; a convolution divides by the norm of its kernel, and may
    exceed 1. A-Imp-i divides by ``||A - A_0||_F``. ``output_norm`` is without the bias.

    >>> layer_cushion(torch.tensor([5.0]), torch.tensor([3.0]), frobenius=2.0)
    tensor([0.3000])
    """
    return output_norm / (frobenius * input_norm)


@implements("A-Def5", "A-Def8", kind="measure")
def interlayer_cushion(
    input_norm: Tensor, image_norm: Tensor, *, jacobian_norm: Tensor, positions: int = 1
) -> Tensor:
    """``mu_{i,j}(x) = sqrt(n1 n2) ||J x^i|| / (||J||_F ||x^i||)`` for the Jacobian of the map from i to j.

    ``image_norm`` is ``||J x^i||``, which is ``||x^j||`` where the map is homogeneous; positions are the
    pixels ``n1 n2`` of layer i, 1 for a linear layer.
    """
    return math.sqrt(positions) * image_norm / (jacobian_norm * input_norm)


@implements("A-Def6", "A-E24", kind="measure")
def activation_contraction(before: Tensor, after: Tensor) -> Tensor:
    """``c(x) = ||x^i|| / ||phi(x^i)||``; over a sample the largest counts. NaN where phi is 0 (A-E24).

    ``phi`` is all that happens before the next layer, pooling included.

    >>> activation_contraction(torch.tensor([5.0, 1.0]), torch.tensor([4.0, 0.0]))
    tensor([1.2500,    nan])
    """
    return torch.where(after > 0, before / after, torch.nan)


@implements("A-Def9", kind="measure")
def jacobian_spread(pixel_squares: Tensor, mean_square: Tensor) -> Tensor:
    """The smallest ``beta`` with ``||J[:, pixel]||_F <= beta ||J||_F / sqrt(n1 n2)`` for the given pixels.

    1 when all pixels matter alike, ``sqrt(n1 n2)`` when one does alone. ``pixel_squares``, ``(n, pixels)``,
    are squared norms of the columns of some pixels; the mean square is ``||J||_F^2 / (n1 n2)``.
    """
    return (pixel_squares.amax(dim=1) / mean_square).sqrt()


@implements("A-Def10", kind="measure")
def tensor_spread(tensor: Tensor) -> float:
    """:func:`jacobian_spread` of a tensor ``U`` of shape ``(channels, n1, n2, outputs)``.

    >>> tensor_spread(torch.ones(3, 4, 4, 2))
    1.0
    """
    if tensor.dim() != 4:
        raise UsageError(
            f"the spread of a tensor needs shape (channels, n1, n2, outputs). Got {tuple(tensor.shape)}."
        )
    pixels = tensor.detach().double().square().sum(dim=(0, 3)).view(1, -1)
    return float(jacobian_spread(pixels, pixels.mean(dim=1)))


@dataclass(frozen=True, slots=True)
class Smoothness:
    """Settings for measuring interlayer smoothness."""

    # a compressor, called on the CPU; or the size of Gaussian noise relative to the activation
    noise: Perturb | float
    draws: int = 20  # number of noise draws. The networks that a compressor makes are kept, one per draw
    delta: float = 0.05  # fraction of the draws that may violate the inequality
    seed: int = 0  # seed of the noise

    def __post_init__(self) -> None:
        if not callable(self.noise) and not (0.0 < self.noise < math.inf):
            raise UsageError(f"the relative size of noise must be positive and finite. Got {self.noise}.")
        if self.draws < 1 or not 0.0 <= self.delta < 1.0:
            raise UsageError(
                f"smoothness needs at least 1 draw and delta in [0, 1). Got {self.draws} and {self.delta}."
            )


@dataclass(frozen=True, slots=True)
class StabilitySettings:
    """Settings for measuring noise stability."""

    layers: Sequence[str] | None = None  # names of the layers to report; all when None
    # whose Jacobians are measured: none, those of layers to the output, or to all later ones
    interlayer: Literal["none", "output", "all"] = "output"
    # "augmented" treats [W b; 0 1] as the matrix of a layer and [x; 1] as its input, for which the theory
    # holds (A-E20); "separate" keeps to the published definitions, which leave biases out
    biases: Literal["augmented", "separate"] = "augmented"
    # exact Jacobian norms when None; otherwise that many Gaussian probes for each norm, which suits large
    # convolutional networks and all pairs of layers
    probes: int | None = None
    # sampled pixels over which the spread is taken; all when None. With probes it errs upwards
    pixels: int | None = None
    smoothness: Smoothness | None = None  # how to measure interlayer smoothness; not at all when None
    outliers: float = 0.0  # fraction of the sample that may be left out (zeta)
    seed: int = 0  # seed of probes and sampled pixels

    def __post_init__(self) -> None:
        if self.interlayer not in ("none", "output", "all"):
            raise UsageError(f"interlayer is none, output or all. Got {self.interlayer!r}.")
        if self.biases not in ("augmented", "separate"):
            raise UsageError(f"biases are augmented or separate. Got {self.biases!r}.")
        if self.layers is not None and (isinstance(self.layers, str) or not self.layers):
            raise UsageError(
                f"layers are a tuple of at least one name, or None for all. Got {self.layers!r}."
            )
        for name, count in (("probes", self.probes), ("pixels", self.pixels)):
            if count is not None and count < 1:
                raise UsageError(f"{name} must be at least 1, or None for exact values. Got {count}.")
        if not 0.0 <= self.outliers < 1.0:
            raise UsageError(f"the fraction of outliers lies in [0, 1). Got {self.outliers}.")


@implements("A-Def7", "A-E8", kind="measure")
def smoothness_quantile(draw_minima: Sequence[float], delta: float) -> float:
    """The largest ``rho`` that at most a fraction ``delta`` of the noise draws violates.

    Statement.  ``rho_delta`` is the largest number with ``||M(x^i + eta) - J (x^i + eta)|| <=
                ||eta|| ||x^j|| / (rho ||x^i||)`` for all i < j and all x, with probability 1 - delta.
    Reference.  A, Definition 7 and Condition B.1, which say "smallest": the inequality gets weaker as
                ``rho`` falls, so it is the largest that is meant (A-E8).
    Needs.      ``draw_minima`` holds, per draw, the smallest ``||eta|| ||x^j|| / (||x^i|| ||M - J||)`` over
                pairs and examples. An empirical quantile of few draws is an estimate, not a bound.

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

    >>> adversarial_smoothness(cushion=0.25, stable_rank=4.0, contraction=2.0)
    0.25
    """
    return cushion * math.sqrt(stable_rank) / contraction


@implements("A-E9:gaussian", kind="measure")
def gaussian_smoothness(*, cushion: float, width: int, contraction: float) -> float:
    """Smoothness of one layer of ``width`` inputs under Gaussian noise is about ``sqrt(h) mu / c``.

    >>> gaussian_smoothness(cushion=0.25, width=16, contraction=2.0)
    0.5
    """
    return math.sqrt(width) * cushion / contraction


def perturb(network: Network, noise: Perturb, *, seed: int) -> nn.Module:
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
        new = view.from_matrix(matrix.detach().to(view.weight))
        replaced[id(weight)] = torch.nn.Parameter(new, requires_grad=False)
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

    The remainder ``M(x + eta) - M(x) - J eta`` equals ``M(x + eta) - J (x + eta)`` where ``M(x) = J x``.
    Where it is no more than rounding, the value is infinite. ``points`` are ``x^i`` and everything after it,
    with the maps from each to the next; ``noises`` has shape ``(noises, examples, *shape of x^i)``.
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
    size: Tensor = torch.linalg.vector_norm(vectors.flatten(2), dim=2)
    return size


@implements("A-E20", kind="algorithm")
def augmented_matrix(view: AbstractLayerView, *, last: bool) -> Tensor:
    r"""The layer's matrix with its bias, acting on ``[x; 1]``.

    Statement.  A hidden layer becomes ``[W b; 0 1]``, the last one ``[W b]``. ReLU keeps the constant
                coordinate at 1, so the network computes ``f(x)`` from ``[x; 1]`` without biases, and
                ``M(x) = J x`` holds for the augmented vectors.
    Reference.  A, section 2.1, which says that biases have no effect; they have one on ``M(x) = J x``.
    Needs.      Batch norms folded first. For a convolution the matrix acts on one input patch.

    >>> from codebound_networks.views.layers import view_of
    >>> augmented_matrix(view_of("fc", nn.Linear(3, 2)), last=False)[-1]
    tensor([0., 0., 0., 1.])
    """
    matrix = view.matrix
    bias = matrix.new_zeros(len(matrix)) if view.bias is None else view.bias
    augmented = torch.cat([matrix, bias.unsqueeze(1)], dim=1)
    if last:
        return augmented
    constant = augmented.new_zeros(1, augmented.shape[1])
    constant[0, -1] = 1.0
    return torch.cat([augmented, constant])
