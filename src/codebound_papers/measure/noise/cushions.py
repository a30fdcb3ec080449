r"""The quantities of noise stability as functions of norms: one equation each.

``x^i`` is the output of layer i before its activation, ``phi(x^i)`` the input of the layer after it, and
``J^{i,j}`` the Jacobian of the map from ``x^i`` to ``x^j``. Norms are per example. Where the definition
divides by zero the value is NaN: such an example is an outlier (A-E24) and never an infinity that hides
the others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from codebound.errors import UsageError
from codebound.nets.layers import AbstractConvView
from codebound.refs import implements
from codebound.rng import torch_stream
from codebound_papers.measure.norms import frobenius_norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from codebound.nets.layers import AbstractLayerView


def norms(batch: Tensor) -> Tensor:
    """The l2 norm of every example."""
    size: Tensor = torch.linalg.vector_norm(batch.flatten(1), dim=1)
    return size


@implements("A-Def3", kind="measure")
def noise_sensitivity(
    function: Callable[[Tensor], Tensor], x: Tensor, *, draws: int, seed: int = 0
) -> tuple[Tensor, Tensor]:
    r"""Noise sensitivity of any map under Gaussian noise, by simulation.

    Statement.  ``psi(M, x) = E ||M(x + eta ||x||) - M(x)||^2 / ||M(x)||^2`` with standard Gaussian ``eta``.
    Reference.  A, Definition 3. For a linear map :func:`linear_noise_sensitivity` is exact.

    Args:
        function: The map, on batches.
        x: A batch of inputs.
        draws: Number of noise vectors, at least 2; each is used for the whole batch.
        seed: Seed of the noise.

    Returns:
        Per example, the mean over the draws and its standard error.

    Example:
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

    Never below the stable rank of the map, as ``||M x|| <= ||M||_2 ||x||``.

    Args:
        input_norm: ``||x||`` per example.
        output_norm: ``||M x||``.
        frobenius: Frobenius norm of the map itself; for a convolution :func:`map_frobenius_norm`.
    """
    return (frobenius * input_norm / output_norm) ** 2


def map_frobenius_norm(view: AbstractLayerView, input_shape: tuple[int, ...]) -> float:
    """Frobenius norm of the linear map that a layer applies, not of its kernel.

    A tap of a zero-padded convolution counts once for every input it meets. Other ways of padding read an
    input more than once in a patch, so the map is written out.

    Example:
        >>> from codebound.nets.layers import view_of
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

    At most ``1 / sqrt(srank A)`` for a linear layer. A convolution divides by the norm of its kernel, so
    its cushion may exceed 1. With the initial weights in the helper string the divisor is the distance
    ``||A - A_0||_F`` from them (A-Imp-i).

    Args:
        input_norm: ``||phi(x^{i-1})||`` per example.
        output_norm: ``||A phi(x^{i-1})||``, without the bias.
        frobenius: ``||A||_F`` or ``||A - A_0||_F``.

    Example:
        >>> layer_cushion(torch.tensor([5.0]), torch.tensor([3.0]), frobenius=2.0)
        tensor([0.3000])
    """
    return output_norm / (frobenius * input_norm)


@implements("A-Def5", "A-Def8", kind="measure")
def interlayer_cushion(
    input_norm: Tensor, image_norm: Tensor, *, jacobian_norm: Tensor, positions: int = 1
) -> Tensor:
    """``mu_{i,j}(x) = sqrt(n1 n2) ||J x^i|| / (||J||_F ||x^i||)`` for the Jacobian of the map from i to j.

    Args:
        input_norm: ``||x^i||`` per example.
        image_norm: ``||J x^i||``, which is ``||x^j||`` where the map is homogeneous.
        jacobian_norm: ``||J||_F``.
        positions: Pixels ``n1 n2`` of layer i; 1 for a linear layer.
    """
    return math.sqrt(positions) * image_norm / (jacobian_norm * input_norm)


@implements("A-Def6", "A-E24", kind="measure")
def activation_contraction(before: Tensor, after: Tensor) -> Tensor:
    """``c(x) = ||x^i|| / ||phi(x^i)||``; over a sample the largest counts.

    ``phi`` is all that happens before the next layer, pooling included, because the next layer is applied
    to its result. Layers 1 to d - 1 have one. NaN where ``phi(x^i) = 0`` (A-E24).

    Example:
        >>> activation_contraction(torch.tensor([5.0, 1.0]), torch.tensor([4.0, 0.0]))
        tensor([1.2500,    nan])
    """
    return torch.where(after > 0, before / after, torch.nan)


@implements("A-Def9", kind="measure")
def jacobian_spread(pixel_squares: Tensor, mean_square: Tensor) -> Tensor:
    """The smallest ``beta`` with ``||J[:, pixel]||_F <= beta ||J||_F / sqrt(n1 n2)`` for the given pixels.

    1 when all pixels matter alike, ``sqrt(n1 n2)`` when one does alone.

    Args:
        pixel_squares: ``(n, pixels)``: squared Frobenius norm of the columns that belong to each pixel, for
            all pixels or some.
        mean_square: ``(n,)``: ``||J||_F^2 / (n1 n2)``, the mean over all pixels.
    """
    return (pixel_squares.amax(dim=1) / mean_square).sqrt()


@implements("A-Def10", kind="measure")
def tensor_spread(tensor: Tensor) -> float:
    """:func:`jacobian_spread` of a tensor ``U`` of shape ``(channels, n1, n2, outputs)``.

    Example:
        >>> tensor_spread(torch.ones(3, 4, 4, 2))
        1.0
    """
    if tensor.dim() != 4:
        raise UsageError(
            f"the spread of a tensor needs shape (channels, n1, n2, outputs). Got {tuple(tensor.shape)}."
        )
    pixels = tensor.detach().double().square().sum(dim=(0, 3)).view(1, -1)
    return float(jacobian_spread(pixels, pixels.mean(dim=1)))
