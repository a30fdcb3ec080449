"""Randomised magnitude-based pruning (Guha, Dubey, Huo 2023), its statistics and its code.

An entry a is pruned with probability exp(-a^2 / (d Psi)): small entries nearly always, large ones hardly
ever. d is the strength, Psi the variance of the entries. The closed forms assume Gaussian entries; the code,
and what is measured on it, assume nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from codebound.errors import UsageError
from codebound.refs import implements
from codebound.rng import torch_stream
from codebound_papers.compress.compressors import AbstractCompressor, CompressedLayer
from codebound_papers.compress.rounding import rounded, weight_of
from codebound_papers.guha23.pruning_law import check_strength, expected_change_norm, strength_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network


@implements("G-Alg1", "I-08", kind="algorithm")
def prune_randomly(
    matrix: Tensor,
    *,
    strength: float,
    variance: float,
    generator: torch.Generator,
    keep_diagonal: bool = True,
) -> Tensor:
    """G-Alg1 on one matrix: each entry a becomes 0 with probability ``exp(-a^2 / (strength variance))``.

    Args:
        matrix: ``(rows, columns)`` on the CPU.
        strength: d >= 0; larger prunes more, 0 prunes nothing.
        variance: Psi, of the entries of this layer (as released) or of all layers (as assumed).
        generator: Source of the draws.
        keep_diagonal: Whether entries (i, i) are never pruned (as published; released code prunes them).

    Example:
        >>> from codebound_papers.guha23.pruning_law import kept_share
        >>> entries = torch.randn(500, 400, generator=torch_stream(0, "example"))
        >>> pruned = prune_randomly(entries, strength=1.0, variance=1.0, generator=torch_stream(1, "example"))
        >>> round(float(pruned.count_nonzero()) / 200_000, 2), round(kept_share(1.0), 2)
        (0.42, 0.42)
    """
    check_strength(strength)
    if not 0.0 <= variance < math.inf:
        raise UsageError(f"the variance of the entries is a finite number >= 0. Got {variance}.")
    scale = strength * variance
    if scale == 0.0:
        return matrix.clone()
    draws = torch.rand(matrix.shape, generator=generator, dtype=matrix.dtype)
    is_pruned = draws < matrix.square().mul_(-1.0 / scale).exp_()
    if keep_diagonal:
        is_pruned.fill_diagonal_(False)
    return matrix.masked_fill(is_pruned, 0.0)


def common_variance(network: Network) -> float:
    """Variance of the weights of all layers together: the one Psi that G-Asm3.1 assumes."""
    return _variance(torch.cat([layer.weight.flatten() for layer in network.layers]))


@dataclass(frozen=True, slots=True, kw_only=True)
class MagnitudePruning(AbstractCompressor):
    """G-Alg1 with rounding, as a code.

    Attributes:
        strength: d; see ``strength_for`` for the one that keeps a given share.
        levels: Values a weight can take, odd.
        variance: Psi for all layers; "common" takes ``common_variance`` of the network, and by default each
            layer has its own.
        keep_diagonal: Whether the diagonal is never pruned.
        constant: C of G-Lem4.2, in the prediction.
    """

    strength: float = 1.0
    levels: int = 31
    variance: float | Literal["common"] | None = None
    keep_diagonal: bool = True
    constant: float = 1.0
    words: ClassVar[Mapping[str, str]] = {"variance": "common"}

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:
        """The pruned and rounded layer; the draws cost nothing, because no decoder needs them."""
        matrix = weight_of(layer).flatten(1)
        if self.variance == "common":
            raise UsageError("one layer has no variance in common with the others: give the whole network.")
        variance = _variance(matrix) if self.variance is None else self.variance
        pruned = prune_randomly(
            matrix,
            strength=self.strength,
            variance=variance,
            generator=torch_stream(seed, "mbp"),
            keep_diagonal=self.keep_diagonal,
        )
        grid = rounded(pruned.view(layer.weight.shape), self.levels)
        rows, columns = matrix.shape
        change = expected_change_norm(
            rows, columns, strength=self.strength, variance=variance, constant=self.constant
        )
        return CompressedLayer(
            layer.name,
            grid.code,
            predicted_error=change + grid.error,
            predicted_by=(
                "lemma 4.2 of Guha et al. 2023 bounds its mean for Gaussian weights, with a constant that is "
                f"unknown and taken as C = {self.constant:g}; half a step times the root of the non-zeros is "
                "added for rounding"
            ),
        )

    @classmethod
    def grid(cls) -> tuple[MagnitudePruning, ...]:  # noqa: D102
        shares = (0.5, 0.25, 0.1, 0.05, 0.02)
        return tuple(cls(strength=strength_for(kept), levels=levels) for kept in shares for levels in (7, 15))

    def adapted_to(self, network: Network) -> MagnitudePruning:  # noqa: D102
        return replace(self, variance=common_variance(network)) if self.variance == "common" else self


def _variance(weights: Tensor) -> float:
    return float(weights.detach().double().var(correction=0))
