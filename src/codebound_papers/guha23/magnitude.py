"""Randomised magnitude-based pruning (Guha, Dubey, Huo 2023), its statistics and its code.

An entry a is pruned with probability exp(-a^2 / (d Psi)), d the strength and Psi the variance. The closed
forms assume Gaussian entries; the code, and what is measured on it, assume nothing. Beside it stands the
naive compressor, which keeps the largest entries, and the count behind its bound (G, appendix D). The number
of entries that G-Alg1 prunes from a Gaussian matrix Guha et al. bound in two steps; it is binomial.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from codebound.bounds.numerics import log2_choose, log_binomial_tail
from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.compress.compressors import AbstractCompressor, CompressedLayer, round_weight, weight_of
from codebound_papers.guha23.pruning import check_strength, expected_change_norm, kept_share, strength_for


@implements("G-Alg1", "I-08", kind="algorithm")
def prune_randomly(
    matrix: Tensor, *, strength: float, variance: float, generator: Generator, keep_diagonal: bool = True
) -> Tensor:
    """G-Alg1 on one matrix: each entry a becomes 0 with probability ``exp(-a^2 / (strength variance))``.

    The matrix is on the CPU. A strength d of 0 prunes nothing; Psi, the variance, is that of this layer (as
    released) or of all layers (as assumed). The diagonal is kept as published; released code prunes it.

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
    """G-Alg1 with rounding, as a code."""

    strength: float = 1.0  # d; see strength_for for the one that keeps a given share
    levels: int = 31  # values a weight can take, odd
    # Psi for all layers; "common" takes that of the whole network, and by default each layer has its own
    variance: float | Literal["common"] | None = None
    keep_diagonal: bool = True  # whether the diagonal is never pruned
    constant: float = 1.0  # C of G-Lem4.2, in the prediction
    words: ClassVar[Mapping[str, str]] = {"variance": "common"}

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:
        """The pruned and rounded layer; the draws cost nothing, because no decoder needs them."""
        matrix = weight_of(layer).flatten(1)
        if self.variance == "common":
            raise UsageError("one layer has no variance in common with the others: give the whole network.")
        variance = _variance(matrix) if self.variance is None else self.variance
        stream, strength = torch_stream(seed, "mbp"), self.strength
        pruned = prune_randomly(
            matrix, strength=strength, variance=variance, generator=stream, keep_diagonal=self.keep_diagonal
        )
        grid = round_weight(pruned.view(layer.weight.shape), self.levels)
        rows, columns = matrix.shape
        told = {"strength": strength, "variance": variance, "constant": self.constant}
        change = expected_change_norm(rows, columns, **told)
        by = (
            "lemma 4.2 of Guha et al. 2023 bounds its mean for Gaussian weights, with a constant that is "
            f"unknown and taken as C = {self.constant:g}; half a step times the root of the non-zeros is "
            "added for rounding"
        )
        return CompressedLayer(layer.name, grid.code, predicted_error=change + grid.error, predicted_by=by)

    @classmethod
    def grid(cls) -> "tuple[MagnitudePruning, ...]":  # noqa: D102
        shares = (0.5, 0.25, 0.1, 0.05, 0.02)
        return tuple(cls(strength=strength_for(kept), levels=levels) for kept in shares for levels in (7, 15))

    def adapt_to(self, network: Network) -> "MagnitudePruning":  # noqa: D102
        return replace(self, variance=common_variance(network)) if self.variance == "common" else self


def _variance(weights: Tensor) -> float:
    return float(weights.detach().double().var(correction=0))


def mean_kept_share(matrix: Tensor, *, strength: float) -> float:
    """Share of the entries that G-Alg1 keeps on average, the diagonal aside; see ``kept_share``."""
    weights = matrix.detach().double()
    return float(-torch.expm1(-weights.square() / weights.var(correction=0) / strength).mean())


@implements("G-E13", "I-13", kind="numerics")
def count_bits(entries: int, *, nonzeros: int, levels: int) -> float:
    """Bits that name one matrix with ``nonzeros`` of ``entries`` non-zero values: K-NV without its step.

    The number of non-zeros is part of the name, so the sum of ``2^-bits`` over all matrices is 1.

    >>> round(count_bits(4, nonzeros=1, levels=3), 6) == round(math.log2(5 * 4 * 2), 6)
    True
    """
    if not 0 <= nonzeros <= entries:
        raise UsageError(f"{nonzeros} of {entries} entries cannot be non-zero.")
    return math.log2(entries + 1) + log2_choose(entries, nonzeros) + nonzeros * math.log2(levels - 1)


@implements("G-LemD.2:share", kind="numerics")
def prunable_share(strength: float, *, probability: float) -> float:
    """p1: how likely a Gaussian entry is one that G-Alg1 prunes with at least the given probability, kappa.

    >>> round(prunable_share(1.0, probability=0.5), 12)
    0.594904033567
    """
    if not 0.0 < probability <= 1.0:
        raise UsageError(f"a probability lies in (0, 1]. Got {probability}.")
    return math.erf(math.sqrt(-strength * math.log(probability) / 2.0))


@implements("G-LemD.2", kind="published-form")
def published_prunable_probability(
    entries: int, *, prunable: int, strength: float, probability: float
) -> float:
    """``1 - I_{1-p1}(N - tau, 1 + tau)``: that at least ``prunable`` entries have that probability or more.

    It is the probability of *more* than ``prunable`` of them, hence smaller than the true one (G-E14).
    """
    share = prunable_share(strength, probability=probability)
    return binomial_tail(prunable + 1, trials=entries, probability=share)


@implements("G-LemD.3", kind="published-form")
def published_pruned_probability(*, pruned: int, prunable: int, probability: float) -> float:
    """``1 - I_{1-kappa}(tau - alpha, alpha + 1)``: that alpha or more of tau prunable entries go (G-E14)."""
    return binomial_tail(pruned + 1, trials=prunable, probability=probability)


@implements("G-E14", "S-Prop1.2:exact", kind="numerics")
def binomial_tail(count: int, *, trials: int, probability: float) -> float:
    """``P(Bin(trials, probability) >= count)``, exactly: ``1 - I_{1-p}(N - count + 1, count)``.

    >>> round(binomial_tail(17, trials=50, probability=0.3), 8)
    0.31612138
    """
    if not 0.0 <= probability <= 1.0 or trials < 0:
        raise UsageError(f"a binomial needs trials >= 0 and a probability. Got {trials} and {probability}.")
    return math.exp(log_binomial_tail(count, trials, probability))


@implements("G-LemD.3:exact", kind="numerics")
def most_nonzeros(rows: int, columns: int, *, strength: float, failure: float) -> int:
    """Number of non-zeros that G-Alg1 exceeds on a Gaussian matrix with probability at most ``failure``.

    Differs.    G-LemD.2 and D.3 in one step: kept off-diagonal entries are binomial, and the diagonal stays.

    >>> most_nonzeros(784, 784, strength=8.5263157895, failure=0.01)
    62719
    """
    if not 0.0 < failure < 1.0:
        raise UsageError(f"a failure probability lies in (0, 1). Got {failure}.")
    diagonal = min(rows, columns)
    trials, share = rows * columns - diagonal, kept_share(strength)
    low, high = -1, trials  # more than `high` are kept with probability at most `failure`
    while high - low > 1:
        middle = (low + high) // 2
        is_rare = binomial_tail(middle + 1, trials=trials, probability=share) <= failure
        low, high = (low, middle) if is_rare else (middle, high)
    return high + diagonal


def keep_largest(weight: Tensor, count: int) -> Tensor:
    """The ``count`` entries of largest magnitude, zeros elsewhere; of equals, the first ones.

    >>> keep_largest(torch.tensor([[3.0, -1.0], [1.0, -2.0]]), 3)
    tensor([[ 3., -1.],
            [ 0., -2.]])
    """
    return torch.where(largest_mask(weight.abs(), count), weight, 0.0)


def largest_mask(scores: Tensor, count: int) -> Tensor:
    """True at exactly the ``count`` largest scores; of equals, at the first ones."""
    if not 0 <= count <= scores.numel():
        raise UsageError(f"{count:,} of {scores.numel():,} entries cannot be kept.")
    if count == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    flat = scores.flatten()
    threshold = flat.kthvalue(len(flat) - count + 1).values
    mask = flat > threshold
    equals = (flat == threshold).nonzero().flatten()
    mask[equals[: count - int(mask.sum())]] = True
    return mask.view(scores.shape)


def kept_count(entries: int, density: float) -> int:
    """Entries that a density stands for: at least one, so that no layer cuts the network."""
    if not 0.0 < density <= 1.0:
        raise UsageError(f"the density, a share of weights to keep, lies in (0, 1]. Got {density}.")
    return max(1, round(density * entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestWeights(AbstractCompressor):
    """Keeps the largest weights of a layer and rounds them: the compressor of the naive bound G-LemD.1."""

    density: float = 0.1  # share of the weights of a layer to keep
    levels: int = 31  # values a weight can take, odd

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:
        """The largest weights on a grid; nothing is random."""
        weight = weight_of(layer)
        kept = keep_largest(weight, kept_count(weight.numel(), self.density))
        return CompressedLayer(layer.name, round_weight(kept, self.levels).code)

    @classmethod
    def grid(cls) -> "tuple[LargestWeights, ...]":  # noqa: D102
        densities = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01)
        return tuple(cls(density=density, levels=levels) for density in densities for levels in (3, 7, 15))

    @classmethod
    def near(cls) -> "tuple[LargestWeights, ...]":  # noqa: D102
        return tuple(cls(density=1.0, levels=levels) for levels in (255, 1023, 4095))
