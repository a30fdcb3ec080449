"""Linear classifiers with a margin (Arora et al. 2018, section 2.1): sparse vectors and projected vectors.

The rows of a weight matrix are the vectors c of the paper. They are divided by the largest of their norms, so
that ``||c|| <= 1``; the norm goes into the step of the code. A margin gamma is meant for inputs of norm 1.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.quantization import nearest_step, quantize, step_for_levels, step_size
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.arora18.projection import check_numbers, project_layer
from codebound_papers.arora18.projection_plan import gaussian_count
from codebound_papers.compress.compressors import AbstractCompressor, CompressedLayer, weight_of

_MOST_LEVELS = 8193  # -4096 .. 4096: what every code of levels takes
_BLOCK_ENTRIES = 1 << 21  # of the Gaussian vectors, held at a time


@implements("A-E11", kind="algorithm")
def keep_probabilities(vectors: Tensor, *, margin: float, eta: float) -> Tensor:
    """``min(1, 2 c_i^2 / (eta gamma^2))``: with which probability Vector-Compress keeps a coordinate.

    Differs.    The paper does not clip, and 500 is no probability.

    >>> keep_probabilities(torch.tensor([0.5, 0.01]), margin=0.1, eta=0.1)
    tensor([1.0000, 0.2000])
    """
    _check_margin(margin, eta)
    return (2.0 * vectors**2 / (eta * margin**2)).clamp(max=1.0)


@implements("A-Alg2", kind="algorithm")
def compress_vectors(vectors: Tensor, *, margin: float, eta: float, seed: int = 0) -> Tensor:
    """Vector-Compress: keeps a coordinate with probability p and divides it by p; unbiased.

    Of one vector of norm at most 1, or of every row. The margin gamma is the accuracy of an inner product
    with a unit vector, and eta how often it may fail.

    >>> compress_vectors(torch.tensor([0.8, 0.6]), margin=0.5, eta=1.0)  # nothing to drop
    tensor([0.8000, 0.6000], dtype=torch.float64)
    """
    c = vectors.detach().cpu().double()
    p = keep_probabilities(c, margin=margin, eta=eta)
    draws = torch.rand(c.shape, generator=torch_stream(seed, "vector-compress"), dtype=c.dtype)
    return torch.where(draws < p, c / p, 0.0)


@implements("A-Lem4", kind="algorithm")
def nonzeros_bound(*, margin: float, eta: float) -> float:
    """At most ``2 / (eta gamma^2)`` coordinates of a unit vector survive Vector-Compress on average.

    For one fixed unit vector u the inner product moves by more than gamma with probability at most eta / 2:
    its variance is at most ``eta gamma^2 / 2`` (A-E11; the paper has eta).

    >>> round(nonzeros_bound(margin=0.1, eta=0.25))
    800
    """
    _check_margin(margin, eta)
    return 2.0 / (eta * margin**2)


@implements("A-Lem5:threshold", kind="published-form")
def published_threshold(size: int, *, margin: float, eta: float) -> float:
    """Compressed values above ``2 eta gamma sqrt(h)`` come from coordinates that lemma 5 calls small.

    >>> round(published_threshold(10_000, margin=0.1, eta=0.1), 9)
    2.0
    """
    _check_margin(margin, eta)
    return 2.0 * eta * margin * math.sqrt(size)


@implements("A-E12", kind="algorithm")
def threshold(size: int, *, margin: float, eta: float) -> float:
    """The threshold for ``|c_i| = gamma / (4 sqrt(h))``, where p is below 1: a quarter of the published one.

    >>> round(threshold(10_000, margin=0.1, eta=0.1), 9)
    0.5
    """
    return published_threshold(size, margin=margin, eta=eta) / 4.0


@implements("A-Lem5", kind="algorithm")
def discretize_vectors(vectors: Tensor, *, margin: float, eta: float, seed: int = 0) -> Tensor:
    """Vector-Compress at half the margin, between dropping small coordinates and rounding.

    Coordinates below ``gamma / (4 sqrt(h))`` are dropped (gamma/4), the others compressed (gamma/2) and
    rounded to multiples of ``gamma / (2 sqrt(h))`` (gamma/4): with probability ``1 - eta`` an inner product
    with a unit vector moves by at most gamma in all.

    Differs.    The paper drops afterwards, by a threshold on the compressed values, which also takes large
                coordinates that are kept with certainty; dropping first needs no threshold (A-E12).

    >>> discretize_vectors(torch.tensor([0.8, 0.6]), margin=0.4, eta=1.0)
    tensor([0.8485, 0.5657], dtype=torch.float64)
    """
    step = _rounding(vectors.shape[-1], margin)
    return torch.round(_sparse(vectors, margin=margin, eta=eta, seed=seed) / step) * step


@implements("A-Lem5:published", kind="published-form")
def published_discretize_vectors(vectors: Tensor, *, margin: float, eta: float, seed: int = 0) -> Tensor:
    """Lemma 5 as printed: Vector-Compress at half the margin, large values set to zero, the others rounded.

    No guarantee: the threshold is four times too large, and large coordinates may exceed it too (A-E12).

    >>> published_discretize_vectors(torch.tensor([0.9, 0.02]), margin=0.1, eta=0.1)
    tensor([0.0000, 0.0354], dtype=torch.float64)
    """
    compressed = compress_vectors(vectors, margin=margin / 2.0, eta=eta, seed=seed)
    size = vectors.shape[-1]
    is_large = compressed.abs() >= published_threshold(size, margin=margin, eta=eta)
    step = _rounding(size, margin)
    return torch.round(torch.where(is_large, 0.0, compressed) / step) * step


@implements("A-Lem6", kind="published-form")
def sparse_rate(*, margin: float, examples: int) -> float:
    """``(1 / (gamma^2 m))^(1/3)``: the eta of lemma 6 and, up to logarithms, the error it promises.

    >>> round(sparse_rate(margin=0.1, examples=100_000), 9)
    0.1
    """
    return math.pow(margin**2 * examples, -1.0 / 3.0)


@implements("A-Lem8", kind="published-form")
def projected_rate(*, margin: float, examples: int) -> float:
    """``sqrt(1 / (gamma^2 m))``: the error that lemma 8 promises, up to logarithms, with eta = 1/m.

    >>> round(projected_rate(margin=0.1, examples=10_000), 9)
    0.1
    """
    return math.sqrt(1.0 / (margin**2 * examples))


@implements("A-Alg3:count", kind="published-form")
def published_vector_count(*, margin: float, eta: float) -> int:
    """The number of Gaussian vectors that algorithm 3 prints, ``16 log(1/eta) / gamma^2``.

    >>> published_vector_count(margin=1.0, eta=1e-6)
    222
    """
    _check_margin(margin, eta)
    return math.ceil(16.0 * math.log(1.0 / eta) / margin**2)


@implements("A-Lem7", kind="algorithm")
def vector_count(*, margin: float, eta: float) -> int:
    """The number of Gaussian vectors that keeps an inner product within gamma/2; rounding has the other half.

    Differs.    The step to gamma/2 in the paper's proof lacks a cubic term; its lemma stands (A-E13).

    >>> vector_count(margin=1.0, eta=1e-6)
    307
    """
    _check_margin(margin, eta)
    return gaussian_count(margin / 2.0, eta)


@implements("A-Alg3", kind="algorithm")
def project_vectors(vectors: Tensor, *, count: int, rounding: float = 0.0, seed: int = 0) -> Tensor:
    """Vector-Project: ``(1/k) sum_i <v_i, c> v_i`` for ``count`` = k Gaussian vectors; unbiased.

    All rows share the Gaussian vectors, which the seed names; ``vector_count`` says how many. The numbers are
    rounded to multiples of ``rounding``, in the paper ``gamma / (2 sqrt(h k))``.

    >>> project_vectors(torch.zeros(3), count=2)
    tensor([0., 0., 0.], dtype=torch.float64)
    """
    if count < 1 or rounding < 0.0:
        raise UsageError(f"count is at least 1 and rounding not negative. Got {count} and {rounding}.")
    c = vectors.detach().cpu().double()
    generator = torch_stream(seed, "vector-project")
    estimate = torch.zeros_like(c)
    rows = max(1, _BLOCK_ENTRIES // c.shape[-1])
    for start in range(0, count, rows):
        size = (min(rows, count - start), c.shape[-1])
        gaussians = torch.randn(size, generator=generator, dtype=c.dtype)
        numbers = c @ gaussians.T
        if rounding:
            numbers = torch.round(numbers / rounding) * rounding
        estimate += numbers @ gaussians
    return estimate / count


@implements("I-18", kind="algorithm")
@dataclass(frozen=True, kw_only=True)
class VectorCompress(AbstractCompressor):
    """The rows of a layer by lemma 5: sparse multiples of one step, in the shortest code of such integers."""

    margin: float = 0.5  # gamma, for rows whose largest norm is 1 and inputs of norm 1
    eta: float = 0.25  # failure probability for one row and one input

    def __post_init__(self) -> None:
        _check_margin(self.margin, self.eta)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:  # noqa: D102
        weight = weight_of(layer)
        rows = weight.flatten(1).double()
        scale = float(rows.norm(dim=1).max()) or 1.0
        values = (_sparse(rows / scale, margin=self.margin, eta=self.eta, seed=seed) * scale).numpy()
        size = scale * _rounding(rows.shape[1], self.margin)
        step = nearest_step(size)
        step -= step_size(step) > size  # a step above the lemma's would round too coarsely
        step = max(step, step_for_levels(values, _MOST_LEVELS))
        levels = quantize(values, step).reshape(weight.shape)
        return CompressedLayer(layer.name, best_tensor_code(levels, step=step))

    @classmethod
    def grid(cls) -> "tuple[VectorCompress, ...]":  # noqa: D102
        return tuple(cls(margin=margin, eta=eta) for margin in (1.0, 0.5) for eta in (1.0, 0.5, 0.25))


@dataclass(frozen=True, kw_only=True)
class VectorProject(AbstractCompressor):
    """The rows of a layer by algorithm 3, with coded Gaussians; a layer of short rows is rounded itself."""

    count: int = 64  # numbers per row, k
    margin: float | None = None  # accuracy that gives k by vector_count, in place of count
    eta: float = 0.05  # failure probability that goes with margin
    levels: int = 31  # values that a number can take: odd, at least 3
    is_seed_coded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self.numbers, self.levels)

    @property
    def numbers(self) -> int:
        """k, whichever way it was given."""
        return self.count if self.margin is None else vector_count(margin=self.margin, eta=self.eta)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:  # noqa: D102
        return project_layer(layer, numbers=self.numbers, levels=self.levels, by_rows=True, seed=seed)

    @classmethod
    def grid(cls) -> "tuple[VectorProject, ...]":  # noqa: D102
        return tuple(cls(count=count, levels=levels) for count in (4, 8, 16, 32) for levels in (7, 15))


def _sparse(vectors: Tensor, *, margin: float, eta: float, seed: int) -> Tensor:
    """Vector-Compress at half the margin, without the coordinates below ``gamma / (4 sqrt(h))``."""
    c = vectors.detach().cpu().double()
    large = torch.where(c.abs() < margin / (4.0 * math.sqrt(c.shape[-1])), 0.0, c)
    return compress_vectors(large, margin=margin / 2.0, eta=eta, seed=seed)


def _rounding(size: int, margin: float) -> float:
    return margin / (2.0 * math.sqrt(size))


def _check_margin(margin: float, eta: float) -> None:
    if not (0.0 < margin <= 1.0 and 0.0 < eta <= 1.0):
        raise UsageError(f"a margin is in (0, 1] and eta in (0, 1]. Got {margin} and {eta}.")
