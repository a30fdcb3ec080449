r"""Norms of weight matrices, each under one convention, and their singular values.

A layer computes ``A x`` with ``A`` of shape ``(out, in)``: a **row** of ``A`` holds the incoming weights of
one unit. A group norm ``(p, q)`` takes the l_p norm *inside* each row and the l_q norm *over* the rows,

    ||A||_{p,q} = ( sum_rows ( sum_entries |a|^p )^{q/p} )^{1/q} .

Readings of the papers under that rule:

* ``||A||_{1,inf}`` (BM02, A-Fig2M) is :func:`l1_inf_norm`.
* ``||A^T||_{2,1}`` (Bartlett et al. 2017, who group by columns and therefore transpose) is
  :func:`l2_1_norm`; so is ``||A||_{1,2}``, undefined in A-Fig2M, where the bar stands for Bartlett's bound.

Everything is computed in float64 after scaling by a power of two, so nothing overflows on the way. Singular
values are roots of the eigenvalues of the Gram matrix: those below about :math:`10^{-6}\|A\|_F` are reported
as 0. A convolution is taken as its matrix view; the norm of its map is ``spectral.spectral_norm``.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.layers import AbstractLayerView, LinearView
from codebound_papers.measure import spectral


def group_norm(matrix: Tensor, *, inner: float, outer: float) -> float:
    """``||A||_{inner, outer}``: l_inner inside each row, l_outer over the rows.

    >>> group_norm(torch.tensor([[3.0, -4.0], [0.0, 1.0]]), inner=2, outer=1)
    6.0
    """
    entries, scale = spectral.scale_matrix(matrix)
    rows = torch.linalg.vector_norm(entries, ord=inner, dim=1)
    return scale * float(torch.linalg.vector_norm(rows, ord=outer))


def frobenius_norm(matrix: Tensor) -> float:
    """Square root of the sum of all squared entries."""
    return group_norm(matrix, inner=2, outer=2)


def l1_inf_norm(matrix: Tensor) -> float:
    """Largest row l1 norm.

    >>> l1_inf_norm(torch.tensor([[3.0, -4.0], [0.0, 1.0]]))
    7.0
    """
    return group_norm(matrix, inner=1, outer=math.inf)


def l2_1_norm(matrix: Tensor) -> float:
    """Sum of the row l2 norms: Bartlett's ``||A^T||_{2,1}``, and our reading of "l_{1,2}" in A-Fig2M.

    >>> l2_1_norm(torch.tensor([[3.0, -4.0], [0.0, 1.0]]))
    6.0
    """
    return group_norm(matrix, inner=2, outer=1)


def stable_rank(matrix: Tensor) -> float:
    """``||A||_F^2 / ||A||_2^2``, between 1 and the rank; 0 for a zero matrix.

    >>> round(stable_rank(torch.eye(3)), 9)
    3.0
    """
    top = spectral.matrix_spectral_norm(matrix).value
    return (frobenius_norm(matrix) / top) ** 2 if top > 0.0 else 0.0


TailValues = Literal["absolute", "positive", "eigenvalues"]


@dataclass(frozen=True, slots=True, eq=False)
class LayerSpectrum:
    """The spectrum of a layer's matrix."""

    name: str  # the layer
    rows: int  # units or filters
    columns: int  # inputs of each
    # "matrix" for a linear layer; "reshaped kernel" for a convolution, which is not the map it applies
    of: Literal["matrix", "reshaped kernel"]
    # descending, as many as the smaller side; read-only
    singular_values: NDArray[np.float64] = field(repr=False)
    spectral_norm_upper: float  # never below the largest singular value
    frobenius_norm: float  # root of the sum of squared entries

    @property
    def spectral_norm(self) -> float:
        """The largest singular value."""
        return float(self.singular_values[0])

    @property
    def map_norm(self) -> spectral.SpectralNorm:
        """The norm of the map ``x -> A x``, which ``matrix_spectral_norm`` would compute once more."""
        return spectral.SpectralNorm(self.spectral_norm, self.spectral_norm_upper, spectral.GRAM, exact=True)

    @property
    def stable_rank(self) -> float:
        """``||A||_F^2 / ||A||_2^2``; 0 for a zero matrix."""
        return (self.frobenius_norm / self.spectral_norm) ** 2 if self.spectral_norm > 0.0 else 0.0

    @property
    def eigenvalues(self) -> NDArray[np.float64]:
        """Eigenvalues of ``A^T A`` that are not zero, descending."""
        return self.singular_values[self.singular_values > 0.0] ** 2


@implements("I-31", kind="measure")
def layer_spectra(network: Network) -> tuple[LayerSpectrum, ...]:
    """The spectra of all layers of a wrapped network, in forward order.

    >>> from codebound_networks.reading.walk import wrap
    >>> (spectrum,) = layer_spectra(wrap(torch.nn.Sequential(torch.nn.Linear(3, 2))))
    >>> spectrum.of, len(spectrum.singular_values), 1.0 <= spectrum.stable_rank <= 2.0
    ('matrix', 2, True)
    """
    return tuple(layer_spectrum(view) for view in network.layers)


def layer_spectrum(view: AbstractLayerView) -> LayerSpectrum:
    """The spectrum of one layer's matrix."""
    entries, scale = spectral.scale_matrix(view.matrix, where=f"layer {view.name}: ")
    eigenvalues, error = spectral.gram_eigenvalues(entries)
    resolved = torch.where(eigenvalues > error, eigenvalues, 0.0).flip(0)
    singular_values = scale * resolved.sqrt().cpu().numpy()
    singular_values.flags.writeable = False
    return LayerSpectrum(
        name=view.name,
        rows=view.matrix.shape[0],
        columns=view.matrix.shape[1],
        of="matrix" if isinstance(view, LinearView) else "reshaped kernel",
        singular_values=singular_values,
        spectral_norm_upper=scale * spectral.outward_root(float(eigenvalues[-1] + error)),
        frobenius_norm=scale * frobenius_norm(entries),
    )


def tail_values(view: AbstractLayerView, *, of: TailValues = "absolute") -> NDArray[np.float64]:
    """The positive numbers of a layer whose tail is fitted.

    They are ``absolute`` weights, ``positive`` ones alone, as in released code, or ``eigenvalues``.

    >>> from codebound_networks.views.layers import view_of
    >>> layer = torch.nn.Linear(3, 1, bias=False)
    >>> layer.weight.data = torch.tensor([[2.0, -1.0, 0.0]])
    >>> [tail_values(view_of("last", layer), of=of).tolist() for of in ("absolute", "positive")]
    [[2.0, 1.0], [2.0]]
    """
    if of == "eigenvalues":
        return layer_spectrum(view).eigenvalues
    entries, scale = spectral.scale_matrix(view.matrix, where=f"layer {view.name}: ")
    weights = scale * entries.flatten().cpu().numpy()
    if of == "absolute":
        weights = np.abs(weights)
    elif of != "positive":
        raise UsageError(f"of must be 'absolute', 'positive' or 'eigenvalues'. Got {of!r}.")
    return np.asarray(weights[weights > 0.0])


@implements("S-AppD", kind="published-form")
def power_iteration_norm(matrix: Tensor, *, iterations: int = 1000, seed: int = 0) -> float:
    """Spectral norm by power iteration on ``A^T A`` from a Gaussian start: from below, with no error bound.

    >>> round(power_iteration_norm(torch.diag(torch.tensor([3.0, 1.0]))), 6)
    3.0
    """
    if iterations < 1:
        raise UsageError(f"iterations must be at least 1. Got {iterations}.")
    entries, scale = spectral.scale_matrix(matrix)
    start = torch.randn(matrix.shape[1], generator=torch_stream(seed, "power iteration"), dtype=torch.float64)
    direction = start.to(entries.device)
    for _ in range(iterations):
        image = entries.T @ (entries @ direction)
        length = torch.linalg.vector_norm(image)
        if length == 0.0:
            return 0.0
        direction = image / length
    return scale * float(torch.linalg.vector_norm(entries @ direction))


@implements("S-E25", kind="published-form")
def released_stable_rank(matrix: Tensor) -> float:
    """``||A||_F^2 / ||A||_2^4``, what the released code of Shin 2021 plots as stable rank; 0 for zeros.

    It is not invariant to scaling and can be below 1: twice the matrix has a quarter of it.

    >>> [round(released_stable_rank(factor * torch.eye(3)), 9) for factor in (1.0, 2.0)]
    [3.0, 0.75]
    """
    rank, norm = stable_rank(matrix), frobenius_norm(matrix)
    return (rank / norm) ** 2 if norm > 0.0 else 0.0
