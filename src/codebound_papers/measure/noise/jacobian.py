r"""Frobenius norms of the Jacobians between layers, exactly or by random probes.

Points ``0, 1, 2, ...`` are activations along a network and ``derivatives[k]`` is the derivative of the map
from point k to point k + 1, at given activations. A Jacobian :math:`J^{i,j}` is their product and is never
formed: unit vectors are pulled back from j (rows) or pushed forward from i (columns), whichever are fewer.
The leading axis of cotangents and tangents counts the vectors, the second one the examples.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.train.rng import torch_stream

MAX_ENTRIES = {"cpu": 2**22, "cuda": 2**26}
"""Entries of cotangents held at a time, by type of device: what stays near a cache, or fills a GPU."""

_MANY_ROWS = 64  # from which on a product is dearer than picking the active units of an example for it


class AbstractDerivative(ABC):
    """The derivative of a map between activations, example by example."""

    like: Tensor  # a tensor with the shape, dtype and device of the batch of inputs
    out_shape: tuple[int, ...]  # shape of one output

    @property
    def examples(self) -> int:
        """Number of examples."""
        return len(self.like)

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.like.shape[1:])

    @abstractmethod
    def pull(self, cotangents: Tensor) -> Tensor:
        """``J^T c`` for cotangents of shape ``(vectors, examples, *out_shape)``."""

    @abstractmethod
    def push(self, tangents: Tensor) -> Tensor:
        """``J t`` for tangents of shape ``(vectors, examples, *in_shape)``."""

    def rows(self, start: int, stop: int) -> Tensor:
        """Rows of the Jacobian: the unit vectors from ``start`` to ``stop``, pulled."""
        return self.pull(_units(self.out_shape, start, stop, self.like))


class SegmentDerivative(AbstractDerivative):
    """The derivative of any differentiable map on batches, by automatic differentiation, at a batch x."""

    def __init__(self, function: Callable[[Tensor], Tensor], x: Tensor, out_shape: tuple[int, ...]) -> None:
        self.like, self.out_shape = x, out_shape
        self._function = function

    @cached_property
    def _pullback(self) -> Callable[[Tensor], tuple[Tensor]]:
        # kept: every later pull uses the forward pass that is made here
        pullback: Callable[[Tensor], tuple[Tensor]] = torch.func.vjp(self._function, self.like)[1]
        return pullback

    @cached_property
    def _pushforward(self) -> Callable[[Tensor], Tensor]:
        # a pullback is linear and J is its transpose; forward mode rests on deprecated parts of PyTorch
        zero = self.like.new_zeros(self.examples, *self.out_shape)
        twice: Callable[[Tensor], tuple[Tensor]] = torch.func.vjp(lambda c: self._pullback(c)[0], zero)[1]
        return lambda tangent: twice(tangent)[0]

    def pull(self, cotangents: Tensor) -> Tensor:
        """Reverse mode, all cotangents at once."""
        pulled: Tensor = torch.func.vmap(lambda cotangent: self._pullback(cotangent)[0])(cotangents)
        return pulled

    def push(self, tangents: Tensor) -> Tensor:
        """Tangent by tangent: the second derivative of pooling fails under vmap."""
        return torch.stack([self._pushforward(tangent) for tangent in tangents])


class LayerDerivative(AbstractDerivative):
    """The derivative of ``x -> A phi(x)`` for an elementwise ``phi``: ``A`` times the slopes ``phi'(x)``."""

    def __init__(self, matrix: Tensor, slopes: Tensor) -> None:
        self.like, self.out_shape = slopes, (matrix.shape[0],)
        self.matrix = matrix

    def pull(self, cotangents: Tensor) -> Tensor:
        """One matrix product for all cotangents of all examples."""
        return (cotangents @ self.matrix).mul_(self.like)

    def push(self, tangents: Tensor) -> Tensor:
        """One matrix product for all tangents of all examples."""
        return (tangents * self.like) @ self.matrix.T

    def rows(self, start: int, stop: int) -> Tensor:
        """Rows of ``A`` times the slopes: no product at all."""
        return self.matrix[start:stop].unsqueeze(1) * self.like


def column_squares(
    derivatives: Sequence[AbstractDerivative],
    pairs: Collection[tuple[int, int]],
    *,
    probes: int | None = None,
    seed: int = 0,
) -> dict[tuple[int, int], Tensor]:
    r"""Squared norms of the columns of Jacobians; their sum is :math:`\|J^{i,j}\|_F^2`.

    Exact without probes. Otherwise, for Jacobians with more rows and columns than that, the mean over so many
    standard Gaussian probes ``||J^T v||^2``, whose expectation is the same (Hutchinson). Probes are the same
    for all examples. A tensor of the pair (i, j) has shape ``(examples, *shape of point i)``.

    >>> step = LayerDerivative(torch.tensor([[3.0, 1.0], [4.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    >>> column_squares([step], [(0, 1)])[0, 1]
    tensor([[25.,  0.]])
    """
    if probes is not None and probes < 1:
        raise UsageError(f"a Jacobian norm needs at least 1 probe. Got {probes}.")
    sizes = [math.prod(step.in_shape) for step in derivatives] + [math.prod(derivatives[-1].out_shape)]
    rows, columns, probed = defaultdict(set), defaultdict(set), defaultdict(set)
    for i, j in pairs:
        if is_probed(sizes[j], sizes[i], probes):
            probed[j].add(i)
        elif sizes[j] <= sizes[i]:
            rows[j].add(i)
        else:
            columns[i].add(j)
    found: dict[tuple[int, int], Tensor] = {}
    for j, sources in rows.items():
        last = derivatives[j - 1]
        layers = [step for step in derivatives[min(sources) : j] if isinstance(step, LayerDerivative)]
        are_all = len(layers) == j - min(sources)
        if are_all and sizes[j] >= _MANY_ROWS and last.like.device.type == "cpu":
            found |= _masked_products(layers, j, sources)
            continue
        chunks = _ranges(sizes[j], last.like, max(sizes[min(sources) : j + 1]))
        found |= _swept_back(derivatives, j, sources, (last.rows(*chunk) for chunk in chunks))
    for j, sources in probed.items():
        last, wanted = derivatives[j - 1], probes or 0
        shape = last.examples, *last.out_shape
        chunks = _ranges(wanted, last.like, max(sizes[min(sources) : j + 1]))
        stream = torch_stream(seed, f"Jacobian probes/{j}")
        probe = torch.randn((wanted, 1, *last.out_shape), generator=stream, dtype=last.like.dtype)
        probe = probe.to(last.like.device)
        firsts = (last.pull(probe[start:stop].expand(-1, *shape)) for start, stop in chunks)
        found |= {key: total / wanted for key, total in _swept_back(derivatives, j, sources, firsts).items()}
    for i, targets in columns.items():
        found |= _swept_forward(derivatives, i, targets, sizes)
    return found


def is_probed(rows: int, columns: int, probes: int | None) -> bool:
    """Return True if a Jacobian norm is estimated. With as few rows or columns as probes it is exact."""
    return probes is not None and min(rows, columns) > probes


def _masked_products(
    layers: Sequence[LayerDerivative], j: int, sources: Collection[int]
) -> dict[tuple[int, int], Tensor]:
    """The rows of one example after the other, through the units that are active in it, to point j.

    A ReLU switches about half of the units off, which leaves a quarter of each matrix product.
    """
    first = j - len(layers)
    totals = {(k, j): torch.zeros_like(layers[k - first].like) for k in sources}
    for example in range(layers[0].examples):
        active = rows = None
        for k in range(j - 1, first - 1, -1):
            matrix, slopes = layers[k - first].matrix, layers[k - first].like[example]
            before = slopes.nonzero().squeeze(1)
            step = (matrix if active is None else matrix[active])[:, before] * slopes[before]
            rows = step if rows is None else rows @ step
            active = before
            if k in sources:
                totals[k, j][example, active] = rows.square().sum(dim=0)
    return totals


def _swept_back(
    derivatives: Sequence[AbstractDerivative], j: int, sources: Collection[int], firsts: Iterator[Tensor]
) -> dict[tuple[int, int], Tensor]:
    totals: dict[tuple[int, int], Tensor] = {}
    for first in firsts:  # already at point j - 1
        pulled = first
        for k in range(j - 1, min(sources) - 1, -1):
            if k < j - 1:
                pulled = derivatives[k].pull(pulled)
            if k in sources:
                squares = pulled.square().sum(dim=0)
                totals[k, j] = totals[k, j].add_(squares) if (k, j) in totals else squares
    return totals


def _swept_forward(
    derivatives: Sequence[AbstractDerivative], i: int, targets: Collection[int], sizes: Sequence[int]
) -> dict[tuple[int, int], Tensor]:
    first = derivatives[i]
    squares: dict[tuple[int, int], list[Tensor]] = {(i, j): [] for j in targets}
    for chunk in _ranges(sizes[i], first.like, max(sizes[i : max(targets) + 1])):
        pushed = _units(first.in_shape, *chunk, first.like)
        for k in range(i, max(targets)):
            pushed = derivatives[k].push(pushed)
            if k + 1 in targets:
                squares[i, k + 1].append(torch.linalg.vector_norm(pushed.flatten(2), dim=2).square_())
    return {pair: torch.cat(parts).T.reshape(-1, *first.in_shape) for pair, parts in squares.items()}


def _ranges(count: int, batch: Tensor, entries: int) -> list[tuple[int, int]]:
    """Cuts ``count`` vectors, of so many entries for each example, into ranges that fit into the memory."""
    limit = MAX_ENTRIES.get(batch.device.type, MAX_ENTRIES["cpu"])
    step = max(1, limit // (len(batch) * entries))
    return [(start, min(start + step, count)) for start in range(0, count, step)]


def _units(shape: tuple[int, ...], start: int, stop: int, like: Tensor) -> Tensor:
    """Unit vectors, the same for every example."""
    picked = torch.arange(start, stop, device=like.device)
    units = functional.one_hot(picked, math.prod(shape)).to(like.dtype)
    return units.view(-1, 1, *shape).expand(-1, len(like), *shape)


@implements("I-21:probes", kind="measure")
def probe_interval(probes: int, confidence: float) -> tuple[float, float]:
    r"""Bound a probed squared Frobenius norm by multiples of the true one.

    Statement.  Let ``Q`` be the mean of ``||J^T v||^2`` over k independent standard Gaussian ``v``. With
                probability at least ``confidence``, ``low <= Q / ||J||_F^2 <= high``, where
                ``high - 1 - ln(high) = low - 1 - ln(low) = (2/k) ln(2 / (1 - confidence))``.
    Reason.     ``||J^T v||^2 / ||J||_F^2`` is a sum of squared Gaussians with weights w that add up to 1.
                ``prod (1 - 2 s w) >= 1 - 2 s`` for both signs of s, so its moment generating function is
                nowhere above that of one squared Gaussian, and Chernoff's bound for that applies.
    Needs.      Nothing about J. A Jacobian of large stable rank is estimated far more closely than that.
    Direction.  Conservative; for one example, before it is known which of them is the worst.

    The cushion lies between ``sqrt(low)`` and ``sqrt(high)`` times its estimate.

    >>> tuple(round(end, 3) for end in probe_interval(64, 0.95))
    (0.593, 1.56)
    """
    if probes < 1 or not 0.0 < confidence < 1.0:
        raise UsageError(
            f"an interval needs at least 1 probe and a confidence in (0, 1). Got {probes} and {confidence}."
        )
    rate = 2.0 / probes * math.log(2.0 / (1.0 - confidence))

    def is_inside(ratio: float) -> bool:
        return ratio - 1.0 - math.log(ratio) <= rate

    # the low end is above exp(-1 - rate), the high end below 3 + 2 rate
    low_out, low_in, high_in, high_out = math.exp(-1.0 - rate), 1.0, 1.0, 3.0 + 2.0 * rate
    for _ in range(60):
        low, high = (low_out + low_in) / 2.0, (high_in + high_out) / 2.0
        low_out, low_in = (low_out, low) if is_inside(low) else (low, low_in)
        high_in, high_out = (high, high_out) if is_inside(high) else (high_in, high)
    return low_out, high_out
