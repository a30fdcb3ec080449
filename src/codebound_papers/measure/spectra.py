r"""Singular values of layers and what follows from them: norms, stable rank, values for tail fits.

A convolution is taken as its matrix view, one row per filter: these are the numbers that other programs
report, but not the spectrum of the map it applies, whose norm is ``spectral.spectral_norm``.

The singular values are roots of the eigenvalues of the Gram matrix, in float64. Those below about
:math:`10^{-6}\|A\|_F` are lost in rounding and reported as 0, which is finer than a decomposition in float32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from codebound.errors import UsageError
from codebound.nets.layers import LinearView
from codebound.refs import implements
from codebound.rng import torch_stream
from codebound_papers.measure.norms import frobenius_norm, stable_rank
from codebound_papers.measure.spectral import gram_eigenvalues, outward_root, scaled

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network

TailValues = Literal["absolute", "positive", "eigenvalues"]


@dataclass(frozen=True, slots=True, eq=False)
class LayerSpectrum:
    """The spectrum of a layer's matrix.

    Attributes:
        name: The layer.
        rows: Units or filters.
        columns: Inputs of each.
        of: "matrix" for a linear layer; "reshaped kernel" for a convolution, which is not the map it applies.
        singular_values: Descending, as many as the smaller side; read-only.
        spectral_norm_upper: Never below the largest singular value.
        frobenius_norm: Root of the sum of squared entries.
    """

    name: str
    rows: int
    columns: int
    of: Literal["matrix", "reshaped kernel"]
    singular_values: NDArray[np.float64] = field(repr=False)
    spectral_norm_upper: float
    frobenius_norm: float

    @property
    def spectral_norm(self) -> float:
        """The largest singular value."""
        return float(self.singular_values[0])

    @property
    def stable_rank(self) -> float:
        """``||A||_F^2 / ||A||_2^2``; 0 for a zero matrix."""
        return (self.frobenius_norm / self.spectral_norm) ** 2 if self.spectral_norm > 0.0 else 0.0

    @property
    def largest_cushion(self) -> float:
        """``1 / sqrt(stable rank)``, which no layer cushion exceeds: ``||A x|| <= ||A||_2 ||x||``."""
        return self.spectral_norm / self.frobenius_norm if self.frobenius_norm > 0.0 else 0.0

    @property
    def eigenvalues(self) -> NDArray[np.float64]:
        """Eigenvalues of ``A^T A`` that are not zero, descending."""
        return self.singular_values[self.singular_values > 0.0] ** 2


@implements("I-31", kind="measure")
def layer_spectra(network: Network) -> tuple[LayerSpectrum, ...]:
    """The spectra of all layers of a wrapped network, in forward order.

    Example:
        >>> from codebound.nets.walk import wrap
        >>> (spectrum,) = layer_spectra(wrap(torch.nn.Sequential(torch.nn.Linear(3, 2))))
        >>> spectrum.of, len(spectrum.singular_values), 1.0 <= spectrum.stable_rank <= 2.0
        ('matrix', 2, True)
    """
    return tuple(layer_spectrum(view) for view in network.layers)


def layer_spectrum(view: AbstractLayerView) -> LayerSpectrum:
    """The spectrum of one layer's matrix."""
    entries, scale = scaled(view.matrix, where=f"layer {view.name}: ")
    eigenvalues, error = gram_eigenvalues(entries)
    resolved = torch.where(eigenvalues > error, eigenvalues, 0.0).flip(0)
    singular_values = scale * resolved.sqrt().cpu().numpy()
    singular_values.flags.writeable = False
    return LayerSpectrum(
        name=view.name,
        rows=view.matrix.shape[0],
        columns=view.matrix.shape[1],
        of="matrix" if isinstance(view, LinearView) else "reshaped kernel",
        singular_values=singular_values,
        spectral_norm_upper=scale * outward_root(float(eigenvalues[-1] + error)),
        frobenius_norm=frobenius_norm(view.matrix),
    )


def tail_values(view: AbstractLayerView, *, of: TailValues = "absolute") -> NDArray[np.float64]:
    """The positive numbers of a layer whose tail is fitted.

    Args:
        view: A layer.
        of: "absolute" values of the weights that are not zero; the "positive" weights alone, which is what
            a fit to signed weights amounts to in the released code of Shin 2021; "eigenvalues" of
            ``A^T A`` that are not zero.

    Example:
        >>> from codebound.nets.layers import view_of
        >>> layer = torch.nn.Linear(3, 1, bias=False)
        >>> layer.weight.data = torch.tensor([[2.0, -1.0, 0.0]])
        >>> [tail_values(view_of("last", layer), of=of).tolist() for of in ("absolute", "positive")]
        [[2.0, 1.0], [2.0]]
    """
    if of == "eigenvalues":
        return layer_spectrum(view).eigenvalues
    entries, scale = scaled(view.matrix, where=f"layer {view.name}: ")
    weights = scale * entries.flatten().cpu().numpy()
    if of == "absolute":
        weights = np.abs(weights)
    elif of != "positive":
        raise UsageError(f"of must be 'absolute', 'positive' or 'eigenvalues'. Got {of!r}.")
    return np.asarray(weights[weights > 0.0])


@implements("S-AppD", kind="published-form")
def power_iteration_norm(matrix: Tensor, *, iterations: int = 1000, seed: int = 0) -> float:
    """Spectral norm by power iteration on ``A^T A`` from a Gaussian start: from below, with no error bound.

    Example:
        >>> round(power_iteration_norm(torch.diag(torch.tensor([3.0, 1.0]))), 6)
        3.0
    """
    if iterations < 1:
        raise UsageError(f"iterations must be at least 1. Got {iterations}.")
    entries, scale = scaled(matrix)
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
    """``||A||_F^2 / ||A||_2^4``, what the released code of Shin 2021 plots as stable rank.

    0 for a zero matrix. It is not invariant to scaling and can be below 1: twice the matrix has a quarter
    of it. Use :func:`codebound_papers.measure.norms.stable_rank`.

    Example:
        >>> [round(released_stable_rank(factor * torch.eye(3)), 9) for factor in (1.0, 2.0)]
        [3.0, 0.75]
    """
    rank, norm = stable_rank(matrix), frobenius_norm(matrix)
    return (rank / norm) ** 2 if norm > 0.0 else 0.0
