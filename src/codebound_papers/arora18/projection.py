"""Random projection of a weight matrix (Arora et al. 2018, algorithm 1): k numbers stand for the matrix.

Matrix-Project keeps ``<A, M_i>`` for k random sign matrices and decodes ``(1/k) sum_i <A, M_i> M_i``. The
sign matrices come from a seed, in blocks: never more than a few megabytes of them exist at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from codebound.coding.arithmetic import MAX_WORK
from codebound.coding.stream import Stream
from codebound.errors import UnsupportedLayerError, UsageError
from codebound.refs import implements
from codebound_papers.arora18.projection_plan import sign_count
from codebound_papers.compress.codes import GAUSSIAN_WORK, MAX_PROJECTIONS, Projected
from codebound_papers.compress.compressors import AbstractCompressor, CompressedLayer
from codebound_papers.compress.random_matrices import project_onto
from codebound_papers.compress.rounding import rounded, weight_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.nets.layers import AbstractLayerView

_BLOCK_ENTRIES = 1 << 21  # of the sign matrices, held at a time


@implements("A-Alg1", kind="algorithm")
def project_matrix(matrix: Tensor, *, count: int, seed: int = 0) -> Tensor:
    """Matrix-Project: ``(1/k) sum_i <A, M_i> M_i`` for ``count`` = k sign matrices, in float64.

    Unbiased, and far from A as a whole: the mean of its squared Frobenius norm is
    ``1 + (N - 1)/k`` times that of A, for N entries (A-E14). Only fixed directions come out right.

    Args:
        matrix: A; any shape.
        count: k, for instance ``sign_count(epsilon, eta)``.
        seed: Names the sign matrices; those of the code with the same seed.

    Example:
        >>> project_matrix(torch.tensor([[2.0]]), count=3)  # one entry: every sign gives it back
        tensor([[2.]], dtype=torch.float64)
    """
    if count < 1:
        raise UsageError(f"a projection has at least one number. Got {count}.")
    entries = matrix.detach().cpu().double().flatten().numpy()
    estimate = np.zeros_like(entries)
    for signs in _sign_blocks(count, len(entries), seed):
        estimate += (signs @ entries) @ signs
    return torch.from_numpy(estimate / count).reshape(matrix.shape)


@implements("I-20", kind="algorithm")
@dataclass(frozen=True, kw_only=True)
class MatrixProject(AbstractCompressor):
    """Matrix-Project with rounded numbers; a layer with no more weights than numbers is rounded itself.

    Attributes:
        count: Numbers per layer, k.
        epsilon: Accuracy that gives k by ``sign_count``, in place of ``count``.
        eta: Failure probability that goes with ``epsilon``.
        levels: Values that a number can take: odd, at least 3.
    """

    count: int = 1024
    epsilon: float | None = None
    eta: float = 0.05
    levels: int = 31
    is_seed_coded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self.numbers, self.levels)

    @property
    def numbers(self) -> int:
        """k, whichever way it was given."""
        return self.count if self.epsilon is None else sign_count(self.epsilon, self.eta)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:  # noqa: D102
        weight, k = weight_of(layer), self.numbers
        if k >= weight.numel():
            return CompressedLayer(layer.name, rounded(weight, self.levels).code)
        check_work(layer, k, vectors=1, gaussian=False)
        vector = weight.double().reshape(1, -1).numpy()
        products = project_onto(vector, count=k, seed=seed, gaussian=False)
        inner = rounded(torch.from_numpy(products / k), self.levels).code
        code = Projected(tuple(weight.shape), inner, by_rows=False, gaussian=False, seed=seed)
        return CompressedLayer(layer.name, code, predicted_by=_fixed_directions(k))

    @classmethod
    def grid(cls) -> tuple[MatrixProject, ...]:  # noqa: D102
        return tuple(cls(count=count, levels=15) for count in (64, 256, 1024))


def check_numbers(count: int, levels: int) -> None:
    """Refuses options that suit no layer."""
    if count < 1 or levels < 3 or levels % 2 == 0:
        raise UsageError(f"count is at least 1, and levels odd and at least 3. Got {count} and {levels}.")


def check_work(layer: AbstractLayerView, count: int, *, vectors: int, gaussian: bool) -> None:
    """Refuses ``count`` numbers for each of the vectors of a layer where no message may contain them."""
    weights = layer.weight.numel()
    work = count * (weights + weights // vectors * GAUSSIAN_WORK * gaussian)
    if count > MAX_PROJECTIONS or work > MAX_WORK:
        raise UnsupportedLayerError(
            f"layer {layer.name}: {count:,} numbers for {weights:,} weights are too much for a message, "
            f"which allows {MAX_PROJECTIONS:,} numbers and {MAX_WORK:,} products. Choose fewer numbers."
        )


def _fixed_directions(count: int) -> str:
    return (
        f"algorithm 1 of Arora et al. 2018 with k = {count} promises something for fixed directions, and a "
        "spectral norm is the largest change over all of them"
    )


def _sign_blocks(count: int, size: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """The rows of the helper of docs/format.md, 4.8, a block at a time."""
    stream, padded = Stream(seed, "project"), 64 * -(-size // 64)
    rows = max(1, _BLOCK_ENTRIES // padded)
    for start in range(0, count, rows):
        block = min(rows, count - start)
        yield stream.signs(block * padded).reshape(block, padded)[:, :size].astype(np.float64)
