"""Random projection of a weight matrix (Arora et al. 2018, algorithm 1): k numbers stand for the matrix.

Matrix-Project keeps ``<A, M_i>`` for k random sign matrices and decodes ``(1/k) sum_i <A, M_i> M_i``.
``induction`` checks on a sample what lemma 3 claims when layers are replaced one after the other.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from codebound.bits.stream import Stream
from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound.run.references import implements
from codebound_networks.codes.arithmetic import MAX_WORK
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.arora18.projection_plan import sign_count
from codebound_papers.compress import compressors
from codebound_papers.compress.codes import GAUSSIAN_WORK, MAX_PROJECTIONS, Projected
from codebound_papers.compress.random_matrices import project_onto
from codebound_papers.measure.steps import LayerActivation, activations

_BLOCK_ENTRIES = 1 << 21  # of the sign matrices, held at a time


@implements("A-Alg1", kind="algorithm")
def project_matrix(matrix: Tensor, *, count: int, seed: int = 0) -> Tensor:
    """Matrix-Project: ``(1/k) sum_i <A, M_i> M_i`` for ``count`` = k sign matrices, in float64.

    Unbiased, and far from A as a whole: the mean of its squared Frobenius norm is ``1 + (N - 1)/k`` times
    that of A, for N entries (A-E14). Only fixed directions come out right. The signs are those of the code.

    >>> project_matrix(torch.tensor([[2.0]]), count=3)  # one entry: every sign gives it back
    tensor([[2.]], dtype=torch.float64)
    """
    if count < 1:
        raise UsageError(f"a projection has at least one number. Got {count}.")
    entries = matrix.detach().cpu().double().flatten().numpy()
    estimate = np.zeros_like(entries)
    # the rows of the helper of docs/format.md, 4.8, a block at a time
    stream, padded = Stream(seed, "project"), 64 * -(-len(entries) // 64)
    rows = max(1, _BLOCK_ENTRIES // padded)
    for start in range(0, count, rows):
        block = stream.signs(min(rows, count - start) * padded).reshape(-1, padded)
        signs = block[:, : len(entries)].astype(np.float64)
        estimate += (signs @ entries) @ signs
    return torch.from_numpy(estimate / count).reshape(matrix.shape)


@implements("I-20", kind="algorithm")
@dataclass(frozen=True, kw_only=True)
class MatrixProject(compressors.AbstractCompressor):
    """Matrix-Project with rounded numbers; a layer with no more weights than numbers is rounded itself."""

    count: int = 1024  # numbers per layer, k
    epsilon: float | None = None  # accuracy that gives k by sign_count, in place of count
    eta: float = 0.05  # failure probability that goes with epsilon
    levels: int = 31  # values that a number can take: odd, at least 3
    is_seed_coded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self.numbers, self.levels)

    @property
    def numbers(self) -> int:
        """k, whichever way it was given."""
        return self.count if self.epsilon is None else sign_count(self.epsilon, self.eta)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> compressors.CompressedLayer:  # noqa: D102
        k, levels = self.numbers, self.levels
        promise = (
            f"algorithm 1 of Arora et al. 2018 with k = {k} promises something for fixed directions, and a "
            "spectral norm is the largest change over all of them"
        )
        return project_layer(layer, numbers=k, levels=levels, by_rows=False, seed=seed, predicted_by=promise)

    @classmethod
    def grid(cls) -> "tuple[MatrixProject, ...]":  # noqa: D102
        return tuple(cls(count=count, levels=15) for count in (64, 256, 1024))


def check_numbers(count: int, levels: int) -> None:
    """Refuses options that suit no layer."""
    if count < 1 or levels < 3 or levels % 2 == 0:
        raise UsageError(f"count is at least 1, and levels odd and at least 3. Got {count} and {levels}.")


def project_layer(
    layer: AbstractLayerView, *, numbers: int, levels: int, by_rows: bool, seed: int, predicted_by: str = ""
) -> compressors.CompressedLayer:
    """A layer as rounded inner products: of each row with coded Gaussians, or of all weights with signs.

    Where the vectors are no longer than the numbers that stand for them, the layer is rounded itself.
    """
    weight = compressors.weight_of(layer)
    vectors = weight.double().reshape(len(weight) if by_rows else 1, -1).numpy()
    length = vectors.shape[1]
    if numbers >= length:
        return compressors.CompressedLayer(layer.name, compressors.round_weight(weight, levels).code)
    work = numbers * (weight.numel() + length * GAUSSIAN_WORK * by_rows)
    if numbers > MAX_PROJECTIONS or work > MAX_WORK:
        raise UnsupportedLayerError(
            f"layer {layer.name}: {numbers:,} numbers for {weight.numel():,} weights are too much for a "
            f"message, which allows {MAX_PROJECTIONS:,} numbers and {MAX_WORK:,} products. Choose fewer "
            "numbers."
        )
    products = project_onto(vectors, count=numbers, seed=seed, gaussian=by_rows)
    # a coded Gaussian is a quarter of an integer, on either side of the product
    variance = 16.0 if by_rows else 1.0
    inner = compressors.round_weight(torch.from_numpy(products / (variance * numbers)), levels).code
    code = Projected(tuple(weight.shape), inner, by_rows=by_rows, gaussian=by_rows, seed=seed)
    return compressors.CompressedLayer(layer.name, code, predicted_by=predicted_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionStep:
    """Change of the sample when the layers up to one are replaced."""

    name: str  # the last replaced layer, i
    deviation: float  # largest ||xhat^j - x^j|| / ||x^j|| over the sample and over all j >= i
    worst: str  # the layer j where that is
    allowed: float  # (i/d) eps

    @property
    def holds(self) -> bool:
        """Return True if the induction hypothesis holds after this layer."""
        return self.deviation <= self.allowed


@implements("A-Lem3:induction", "S-Lem2.2", kind="measure")
@torch.no_grad()
def induction(
    compressed: compressors.CompressedNetwork,
    inputs: Tensor,
    *,
    epsilon: float,
    batch: int = 256,
) -> tuple[InductionStep, ...]:
    """Replaces the layers one after the other and measures the induction of lemma 3 on a sample.

    ``epsilon`` is the relative accuracy that the outputs should have in the end. Layers that were carried
    change nothing; a pre-activation that is zero and is moved counts as infinitely far off.
    """
    network = compressed.network
    names = [view.name for view in network.layers]
    replaced = {layer.name: layer for layer in compressed.layers}
    steps = []
    for i, name in enumerate(names):
        so_far = tuple(replaced[each] for each in names[: i + 1] if each in replaced)
        partial = network.with_model(replace(compressed, layers=so_far).module())
        worst: dict[str, float] = {}
        for part in torch.split(inputs, batch):
            pairs = zip(activations(network, part), activations(partial, part), strict=True)
            for before, after in list(pairs)[network.calls.index(name) :]:
                worst[before.name] = max(worst.get(before.name, 0.0), _deviation(before, after))
        where = max(worst, key=lambda layer: worst[layer])
        allowed = (i + 1) / len(names) * epsilon
        steps.append(InductionStep(name=name, deviation=worst[where], worst=where, allowed=allowed))
    return tuple(steps)


def _deviation(before: LayerActivation, after: LayerActivation) -> float:
    x = before.output.flatten(1).double()
    moved = (after.output.flatten(1).double() - x).norm(dim=1)
    return float(torch.where(moved > 0.0, moved / x.norm(dim=1), 0.0).max())
