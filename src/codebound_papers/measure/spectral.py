r"""Largest singular values with certified upper ends, for matrices and for convolutions as they are applied.

``spectral_norm`` is :math:`\sigma_{\max}` of the linear map a layer applies at a given input size, with its
padding, stride, dilation and groups; that of the reshaped kernel is :func:`matrix_spectral_norm`.

Rounding.  Every ``upper`` holds for the real numbers that the stored weights are. Inner products of length n
are off by at most :math:`n\,\epsilon` times the product of the norms, in whatever order they are summed, and
LAPACK's symmetric eigenvalues by a modest multiple of :math:`m\,\epsilon\,\|G\|_2`, for which LAPACK states
no number. For an ``m x n`` matrix :math:`16 (m + n)\,\epsilon\,\|A\|_F^2` is added to the largest eigenvalue
of the Gram matrix before the root is taken. That the eigenvalue solver stays within this margin is an
assumption; :func:`gram_power_bound` does without it. The other bounds carry their own term.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from codebound.run.errors import ModelError, UnsupportedLayerError, UsageError
from codebound.run.references import implements
from codebound_networks.views.layers import AbstractConvView, AbstractLayerView, LinearOperator, LinearView

EXACT_SIDE = 3000  # smaller side of a matrix whose spectrum is computed outright
_DENSE_ENTRIES = 2**24  # of an operator that is written out as a matrix: 128 MiB
_CHUNK_ENTRIES = 2**23  # of the symbol of a convolution, held at a time
_EPS = torch.finfo(torch.float64).eps
GRAM = "spectrum of the Gram matrix"
"""Method for the norm of a matrix with a side of at most ``EXACT_SIDE``."""


@dataclass(frozen=True, slots=True)
class SpectralNorm:
    """A largest singular value and how it was found."""

    value: float  # the norm up to rounding when exact; otherwise an estimate, from below
    upper: float  # never below the norm; rounded outwards
    method: str  # how value and upper were computed
    exact: bool  # whether value and upper differ by rounding alone


@implements("I-09", kind="measure")
def spectral_norm(view: AbstractLayerView, input_shape: tuple[int, ...]) -> SpectralNorm:
    """Spectral norm of the linear map that a layer applies to inputs of a given shape, without the batch.

    It is exact for small maps and for circular convolutions whose stride divides the input. For larger ones
    ``value`` is a Lanczos estimate from below and ``upper`` the smallest of the bounds by
    :func:`embedding_bound`, Schur's test and the Frobenius norm of the map.

    >>> from codebound_networks.views.layers import view_of
    >>> layer = torch.nn.Conv2d(1, 1, 3, padding=1, bias=False)
    >>> _ = torch.nn.init.ones_(layer.weight)
    >>> round(spectral_norm(view_of("blur", layer), (1, 2, 2)).value, 9)  # every pixel sees all four
    4.0
    """
    entries, scale = scale_matrix(view.matrix, where=f"layer {view.name}: ")
    view = replace(view, weight=view.from_matrix(entries))
    operator = view.operator(input_shape)
    if isinstance(view, LinearView):
        return _rescale(matrix_spectral_norm(entries), scale)  # on (..., in) the map is block diagonal
    rows, columns = math.prod(operator.out_shape), math.prod(operator.in_shape)
    if min(rows, columns) <= EXACT_SIDE and rows * columns <= _DENSE_ENTRIES:
        norm = matrix_spectral_norm(operator.dense())
        return _rescale(replace(norm, method="written out as a matrix"), scale)
    if not isinstance(view, AbstractConvView):
        raise UnsupportedLayerError(
            f"layer {view.name}: no certified bound is known for a {rows} x {columns} map of "
            f"type {type(view).__name__}, and it is too large to be written out."
        )
    if _is_circulant(view, operator):
        value, upper = _symbol_norm(view, torus=operator.in_shape[1:], stride=view.stride)
        return _rescale(SpectralNorm(value, upper, "symbol of the circular convolution", exact=True), scale)
    uppers = {
        "circular embedding": embedding_bound(view, input_shape),
        "Schur test": _schur_bound(view, input_shape),
        "Frobenius norm": _frobenius_bound(view, operator),
    }
    best = min(uppers, key=lambda name: uppers[name])
    value = _estimate_from_below(operator)
    method = f"Lanczos estimate from below; upper bound by {best}"
    return _rescale(SpectralNorm(value, uppers[best], method, exact=False), scale)


def matrix_spectral_norm(matrix: Tensor) -> SpectralNorm:
    """Spectral norm of a matrix; for a convolution's reshaped kernel this is *not* the norm of the layer.

    Exact up to ``EXACT_SIDE`` rows or columns; above, an estimate from below with :func:`gram_power_bound`.

    >>> round(matrix_spectral_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]])).value, 9)
    4.0
    """
    entries, scale = scale_matrix(matrix)
    if min(matrix.shape) <= EXACT_SIDE:
        value, upper = _largest_singular_value(entries)
        return _rescale(SpectralNorm(value, upper, GRAM, exact=True), scale)
    operator = LinearOperator(
        in_shape=(matrix.shape[1],),
        out_shape=(matrix.shape[0],),
        function=lambda x: x @ entries.T,
        like=entries,
    )
    method = "Lanczos estimate from below; upper bound by powers of the Gram matrix"
    norm = SpectralNorm(_estimate_from_below(operator), gram_power_bound(entries), method, exact=False)
    return _rescale(norm, scale)


def gram_power_bound(matrix: Tensor, squarings: int = 5) -> float:
    r"""Upper bound :math:`\|(A^T A)^k\|_F^{1/(2k)}` on the spectral norm, with ``k = 2 ** squarings``.

    At most a factor :math:`r^{1/(4k)}` above the norm for rank r, by products only. Where :math:`H + E` is
    the exact power, scaled, its square differs from the computed :math:`H^2` by at most
    :math:`2\|H\|\|E\| + \|E\|^2 + m\,\epsilon\,\|H\|^2`.

    >>> 1.0 <= gram_power_bound(torch.eye(2)) < 1.006
    True
    """
    if squarings < 0:
        raise UsageError(f"squarings must be at least 0. Got {squarings}.")
    entries, scale = scale_matrix(matrix)
    size, length = sorted(matrix.shape)
    power = entries @ entries.T if matrix.shape[0] <= matrix.shape[1] else entries.T @ entries
    error = (length + 4) * _EPS * float(torch.linalg.matrix_norm(entries)) ** 2
    log_scale = 0.0  # of the current power of the Gram matrix
    for _ in range(squarings):
        norm = float(torch.linalg.matrix_norm(power))
        if norm == 0.0:
            break
        power, error = power / norm, error / norm + 4 * _EPS
        log_scale = 2.0 * (log_scale + math.log(norm))
        error = 2.0 * error + error**2 + (size + 4) * _EPS
        power = power @ power
    largest = float(torch.linalg.matrix_norm(power)) * (1.0 + size * _EPS) + error
    if largest == 0.0:
        return 0.0
    log_bound = (math.log(largest) + log_scale) / 2 ** (squarings + 1)
    return scale * math.exp(log_bound) * (1.0 + 64 * _EPS)


def embedding_bound(view: AbstractConvView, input_shape: tuple[int, ...]) -> float:
    r"""Upper bound on the norm of a convolution by a circular one that contains it.

    Statement.  Let a zero-padded convolution read n inputs along an axis, with stride s and at most p zeros
                on either side. For every multiple N of s with ``N >= n + p`` and ``N > s (outputs - 1)`` its
                norm is at most that of the circular convolution with stride s on a torus of side N. That is
                the root of the largest eigenvalue of :math:`\frac1s \sum_a \hat K(a) \hat K(a)^*` over the
                frequencies w of the torus of side N / s, where a runs over the s frequencies of the torus
                of side N that alias to w.
    Proof.      Put the input on the torus and zeros elsewhere: an isometry Q. Reads below 0 wrap around to
                ``N - p >= n`` or above, reads beyond n stop before ``N``; both meet zeros, so each output is
                the value of the circular convolution C at its place. The places of different outputs
                differ and are congruent mod s. So A = R S C Q with a row selection R and the s-fold
                subsampling S, and :math:`\|A\| \le \|S C\|`. Finally :math:`S C C^* S^*` is circulant, and
                subsampling a sequence averages its spectrum over aliases.
    Differs.    Sedghi, Gupta and Long 2019 take the norm of C, at stride 1 and N = n, for the layer's own.

    Other paddings copy inputs: A = V P without padding in V, :math:`\|P\|^2` the most copies of an input.
    """
    sizes = input_shape[1:]
    copies = 1.0
    if view.padding_mode != "zeros":
        padded = list(zip(sizes, view.padding, strict=True))
        copies = math.prod(_most_copies(view.padding_mode, n, ends) for n, ends in padded)
        sizes = tuple(n + sum(ends) for n, ends in padded)
        view = replace(view, padding=((0, 0),) * len(sizes), padding_mode="zeros")
    outputs = view.operator((input_shape[0], *sizes)).out_shape[1:]
    torus = [
        s * -(-max(n + max(ends), s * (out - 1) + 1) // s)
        for n, ends, s, out in zip(sizes, view.padding, view.stride, outputs, strict=True)
    ]
    _, upper = _symbol_norm(view, torus=torus, stride=view.stride)
    return upper * math.sqrt(copies) * (1.0 + 4 * _EPS)


def scale_matrix(matrix: Tensor, *, where: str = "") -> tuple[Tensor, float]:
    """The matrix in float64 with largest entry in [1, 2), and the power of two that was divided out."""
    if matrix.dim() != 2 or matrix.numel() == 0:
        raise UsageError(f"{where}a matrix of shape (out, in) is needed. Got shape {tuple(matrix.shape)}.")
    low, high = (float(end) for end in matrix.detach().aminmax())
    largest = max(-low, high)
    if not math.isfinite(largest):
        raise ModelError(f"{where}the weights contain NaN or infinity, so they have no norm.")
    scale = math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0.0 else 1.0
    if scale == 1.0:  # large copies take longer than what is computed from them
        return matrix.detach().double(), scale
    return matrix.detach().to(torch.float64, copy=True).div_(scale), scale


def _rescale(norm: SpectralNorm, scale: float) -> SpectralNorm:
    return replace(norm, value=norm.value * scale, upper=norm.upper * scale)


def gram_eigenvalues(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of the smaller Gram matrix, ascending, and how far each can be off.

    Over a batch ``(..., m, n)``, real or complex, on the scale that :func:`scale_matrix` leaves.
    """
    rows, columns = matrices.shape[-2:]
    gram = matrices @ matrices.mH if rows <= columns else matrices.mH @ matrices
    if gram.device.type == "cpu":  # numpy's LAPACK is up to twice as fast as torch's
        eigenvalues = torch.from_numpy(np.linalg.eigvalsh(gram.numpy()))
    else:
        eigenvalues = torch.linalg.eigvalsh(gram)
    mass = torch.linalg.matrix_norm(matrices) ** 2
    return eigenvalues.clamp_min(0.0), 16 * (rows + columns) * _EPS * mass


def _largest_singular_value(matrices: Tensor) -> tuple[float, float]:
    """Over a batch ``(..., m, n)``, real or complex: the largest singular value and its upper end."""
    eigenvalues, errors = gram_eigenvalues(matrices)
    tops = eigenvalues[..., -1]
    return math.sqrt(float(tops.max())), outward_root(float((tops + errors).max()))


def outward_root(square: float) -> float:
    """Square root, rounded up."""
    return math.sqrt(square) * (1.0 + 4 * _EPS)


def _symbol_norm(
    view: AbstractConvView, *, torus: Sequence[int], stride: Sequence[int]
) -> tuple[float, float]:
    """Norm of the circular convolution on a torus whose sides are multiples of the stride, and its upper end.

    The symbol is summed tap by tap: with angles reduced mod 1 in integers an entry is off by at most
    ``(taps + 48) eps`` times the l1 norm of its taps.
    """
    weight, axes = view.weight.double(), len(torus)
    taps = math.prod(view.kernel)
    kernels = weight.reshape(view.groups, -1, weight.shape[1], taps)
    coarse = [side // s for side, s in zip(torus, stride, strict=True)]
    half = [coarse[0] // 2 + 1, *coarse[1:]]  # the symbol at -w is the conjugate of the one at w
    aliases = _grid(stride, weight) * torch.tensor(coarse, device=weight.device)
    frequencies = _grid(half, weight).unsqueeze(1) + aliases
    places = _grid(view.kernel, weight) * torch.tensor(view.dilation, device=weight.device)
    sides = torch.tensor(torus, device=weight.device)
    value = upper = 0.0
    step = max(1, _CHUNK_ENTRIES // (weight.numel() // taps * len(aliases)))
    for chunk in torch.split(frequencies, step):
        turns = (chunk.unsqueeze(2) * places % sides).double() / sides  # (frequencies, aliases, taps, axes)
        angles = 2.0 * math.pi * turns.sum(dim=-1)
        parts = [torch.einsum("goct,fst->fgosc", kernels, wave) for wave in (angles.cos(), angles.sin())]
        symbol = torch.complex(*parts).flatten(-2) / math.sqrt(len(aliases))
        top, top_upper = _largest_singular_value(symbol)
        value, upper = max(value, top), max(upper, top_upper)
    slack = 2 * (taps + 16 * (axes + 1)) * _EPS * math.sqrt(taps) * float(torch.linalg.vector_norm(weight))
    return value, upper + slack


def _grid(sizes: Sequence[int], like: Tensor) -> Tensor:
    """All index tuples below ``sizes``, one per row."""
    axes = [torch.arange(size, device=like.device) for size in sizes]
    return torch.cartesian_prod(*axes).view(-1, len(axes))


def _is_circulant(view: AbstractConvView, operator: LinearOperator) -> bool:
    """Return True if the map is a circular convolution with one output per stride around the torus."""
    whole = zip(operator.in_shape[1:], operator.out_shape[1:], view.stride, strict=True)
    return view.padding_mode == "circular" and all(n == out * s for n, out, s in whole)


def _most_copies(mode: str, size: int, ends: tuple[int, int]) -> int:
    """Return the most copies of an entry of an axis after padding, itself included."""
    entries = torch.arange(size, dtype=torch.float64).view(1, 1, -1)
    return int(functional.pad(entries, ends, mode=mode).flatten().long().bincount().max())


def _schur_bound(view: AbstractConvView, input_shape: tuple[int, ...]) -> float:
    """Root of the largest row sum times the largest column sum of absolute values."""
    operator = replace(view, weight=view.weight.abs()).operator(input_shape)
    row = float(operator.apply(torch.ones((1, *operator.in_shape)).to(view.weight)).max())
    column = float(operator.adjoint(torch.ones((1, *operator.out_shape)).to(view.weight)).max())
    return math.sqrt(row * column) * (1.0 + view.weight.numel() * _EPS)


def _frobenius_bound(view: AbstractConvView, operator: LinearOperator) -> float:
    """Frobenius norm of a zero-padded convolution: each tap as often as it meets an input."""
    if view.padding_mode != "zeros":
        return math.inf
    meets = torch.ones((), dtype=torch.float64, device=view.weight.device)
    sizes = zip(operator.in_shape[1:], operator.out_shape[1:], view.kernel, strict=True)
    for axis, (size, outputs, kernel) in enumerate(sizes):
        starts = torch.arange(outputs, device=meets.device) * view.stride[axis] - view.padding[axis][0]
        reads = starts.unsqueeze(1) + torch.arange(kernel, device=meets.device) * view.dilation[axis]
        counts = ((reads >= 0) & (reads < size)).sum(dim=0).double()
        meets = meets.unsqueeze(-1) * counts
    total = float((view.weight.double() ** 2 * meets).sum())
    return math.sqrt(total) * (1.0 + view.weight.numel() * _EPS)


def _estimate_from_below(operator: LinearOperator, steps: int = 32) -> float:
    """Largest singular value on a Krylov space of the map: never above the norm but for rounding."""
    like = operator.like
    generator = torch.Generator(device=like.device).manual_seed(0)
    size = math.prod(operator.in_shape)
    direction = torch.randn(size, generator=generator, dtype=like.dtype, device=like.device)
    room = like.new_empty((min(steps, size), size))
    images: list[Tensor] = []
    for found in range(len(room)):
        before, basis = float(direction.norm()), room[:found]
        for _ in range(2):  # twice is enough to stay orthogonal
            direction = direction - (basis @ direction) @ basis
        length = float(direction.norm())
        if length <= 1e-8 * before:  # the space is exhausted and what remains is rounding
            break
        direction = room[found] = direction / length
        image = operator.apply(direction.view(1, *operator.in_shape))
        images.append(image.flatten())
        direction = operator.adjoint(image).flatten()
    return float(torch.linalg.matrix_norm(torch.stack(images), ord=2))
