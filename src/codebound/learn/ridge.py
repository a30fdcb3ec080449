"""Kernel ridge regression on vectors of integers, which grows by batches (docs/format.md, 10.5).

The kernel's values are the same on every machine. What is solved is not: ``bound_rounding`` says by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from codebound.learn.spread import Spread

_ROWS = 1024  # vectors at a time, and
_COLUMNS = 2048  # numbers of each, so that a core has them at hand
_EXACT = 1 << 24  # float32 counts exactly up to here
_PART = 128  # supports that are summed at a time
_PIECE = 1024  # supports that the factor grows by at a time
KEPT = 1 << 32
"""Bytes of kernels that are kept as they are; others are kept in half of them."""
_MADE = 1 << 10  # columns of a kernel that are made again at a time
_SLACK = 1.001  # for the rounding of the kernel's values


def kernel(a: Tensor, b: Tensor, *, gamma: float, unit: float) -> Tensor:
    """1 / (1 + gamma |a - b|^2 / (4 unit))^4 for all rows of a and b, the same floats everywhere.

    Example:
        >>> kernel(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), gamma=4.0, unit=2.0)
        tensor([[1.0000, 0.0625]], dtype=torch.float64)
    """
    found = (a @ b.T).double().mul_(-2.0)
    left, right = (each.double().square_().sum(1) for each in (a, b))
    found.add_(left[:, None]).add_(right[None])
    return _kernel_of_distances(found, gamma=gamma, unit=unit)


def _kernel_of_distances(found: Tensor, *, gamma: float, unit: float) -> Tensor:
    """The kernel of squared distances, which are overwritten."""
    return found.div_(unit).mul_(gamma / 4.0).add_(1.0).square_().square_().reciprocal_()


def fold(own: Tensor, image: Tensor) -> Tensor:
    """Vectors together with their mirror images, as four blocks: half the numbers of each say it all.

    With s = x + x' and d = x - x' over the half of the numbers that the image exchanges with the others,
    x y = (s s + d d) / 2 and x y' = (s s - d d) / 2. Both are cut in two so that float32 counts exactly.
    """
    both = own + image, own - image
    return torch.cat([part[:, at::2] for part in both for at in (0, 1)], dim=1)


@dataclass(frozen=True, slots=True)
class Width:
    """Width of a kernel, and the scale of its vectors.

    Attributes:
        gamma: Width of the kernel, inverted.
        unit: Length that differences are measured in, squared.
        is_joined: Whether an example and its mirror image are one support, of the sum of their kernels; then
            vectors are ``fold``.
    """

    gamma: float
    unit: float
    is_joined: bool

    def between(self, left: Tensor, right: Tensor) -> Tensor:
        """The kernel of vectors with others."""
        longest = max(float(self.of_blocks(each).max()) for each in (left, right))
        found = torch.empty(len(left), len(right), dtype=torch.float64, device=left.device)
        given, lengths = left.to(exact_dtype(longest)), self.lengths(left)
        self.fill(found, given, lengths, right, self.lengths(right), right.shape[1])
        return found

    def fill(
        self, found: Tensor, left: Tensor, lengths: Tensor, right: Tensor, squared: Tensor, step: int
    ) -> None:
        """Writes the kernel of vectors with others, or squared distances where these are what is kept."""
        apart = lengths[:, None] + squared
        products = self._products(left, right, step)
        if self.is_joined:
            even, odd = products[0].add_(products[1]), products[2].add_(products[3])
            found[:] = self.values(apart - (even + odd)).add_(self.values(apart.sub_(even.sub_(odd))))
        else:
            apart.sub_(products[0].mul_(2.0))
            found[:] = apart if found.dtype == torch.int32 else self.values(apart)

    def values(self, apart: Tensor) -> Tensor:
        """The kernel of squared distances, which are overwritten."""
        return _kernel_of_distances(apart, gamma=self.gamma, unit=self.unit)

    def of_blocks(self, vectors: Tensor) -> Tensor:
        """Squares of the lengths of the blocks of vectors."""
        return vectors.double().square_().view(len(vectors), 4 if self.is_joined else 1, -1).sum(2)

    def lengths(self, vectors: Tensor) -> Tensor:
        """Squares of the lengths of vectors."""
        return self.of_blocks(vectors).sum(1) / (2.0 if self.is_joined else 1.0)

    def _products(self, left: Tensor, right: Tensor, step: int) -> Tensor:
        """Scalar products of the blocks of vectors, shape (blocks, left, right)."""
        blocks = 4 if self.is_joined else 1
        width = left.shape[1] // blocks
        found = left.new_zeros(blocks, len(left), len(right))
        for at, total in enumerate(found):
            for start in range(at * width, (at + 1) * width, step):
                columns = slice(start, min(start + step, (at + 1) * width))
                total.addmm_(left[:, columns], right[:, columns].to(left.dtype).T)
        return found.double()


def exact_dtype(longest: float) -> torch.dtype:
    """Return the type in which products of vectors are exact.

    No partial sum of a product is above the product of the lengths.
    """
    return torch.float32 if longest <= _EXACT else torch.float64


class SupportKernel:
    """The kernel of supports with examples: one block for each batch that was added.

    Args:
        vectors: Features of the examples, one a row, in 16 bits.
        width: Of the kernel.
    """

    def __init__(self, vectors: Tensor, width: Width) -> None:
        self._vectors, self._width = vectors, width
        on_cpu = vectors.device.type == "cpu"
        self._at_once = (_ROWS, _COLUMNS) if on_cpu else (16 * _ROWS, vectors.shape[1])
        parts = [width.of_blocks(vectors[at : at + _ROWS]) for at in range(0, len(vectors), _ROWS)]
        self._squares, self._longest = torch.cat([part.sum(1) for part in parts]), max(map(torch.max, parts))
        self._squares /= 2.0 if width.is_joined else 1.0
        # kernel of the supports of each batch, one a row, with all examples, or squared distances
        self._blocks: list[Tensor] = []
        self._ends = [0]

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._vectors.shape[1]

    def vectors_at(self, rows: Tensor) -> Tensor:
        """The features of some examples."""
        return self._vectors[rows]

    def add(self, added: Tensor) -> None:
        """Adds supports of these vectors."""
        n = len(self._vectors)
        # values while there is room for them, then integers, which take half of it
        is_short = not self._width.is_joined and 8 * (self._ends[-1] + len(added)) * n > KEPT
        kept = torch.int32 if is_short else torch.float64
        found = torch.empty(len(added), n, dtype=kept, device=self._vectors.device)
        longest = max(float(self._longest), float(self._width.of_blocks(added).max()))
        left, lengths = added.to(exact_dtype(longest)), self._width.lengths(added)
        for start in range(0, n, self._at_once[0]):
            rows = slice(start, start + self._at_once[0])
            right, squared = self._vectors[rows], self._squares[rows]
            self._width.fill(found[:, rows], left, lengths, right, squared, self._at_once[1])
        self._blocks.append(found)
        self._ends.append(self._ends[-1] + len(found))

    def last_at(self, low: int, high: int, rows: Tensor) -> Tensor:
        """The kernel of some supports of the last batch with some examples."""
        start = self._ends[-2]
        return self._values(_columns(self._blocks[-1][low - start : high - start], rows))

    def parts_at(self, rows: Tensor) -> Iterator[Tensor]:
        """The kernel of all supports with some examples, a few supports at a time."""
        for part, _, _ in self._parts():
            yield self._values(_columns(part, rows))

    def outputs(self, coefficients: Tensor) -> Tensor:
        """Sums of the kernel times coefficients, for every example."""
        n = len(self._vectors)
        total = torch.zeros(coefficients.shape[1], n, dtype=torch.float64, device=coefficients.device)
        for part, low, high in self._parts():
            weights, step = coefficients[low:high].T, n if part.dtype == torch.float64 else _MADE
            for some in (slice(start, start + step) for start in range(0, n, step)):
                total[:, some] += weights @ self._values(part[:, some])
        return total.T.contiguous()

    def _parts(self) -> Iterator[tuple[Tensor, int, int]]:
        """Yield the kernel, a few supports at a time. Short sums are safe."""
        for block, start in zip(self._blocks, self._ends, strict=False):
            for low, high in _pieces(start, start + len(block), _PART):
                yield block[low - start : high - start], low, high

    def _values(self, kept: Tensor) -> Tensor:
        """The kernel from what is kept of it."""
        return self._width.values(kept.double()) if kept.dtype == torch.int32 else kept


def _columns(matrix: Tensor, columns: Tensor) -> Tensor:
    """Some columns of a matrix, five times as fast as ``matrix[:, columns]`` takes them."""
    return matrix.gather(1, columns.expand(len(matrix), -1))


def _pieces(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    return ((low, min(stop, low + size)) for low in range(start, stop, size))


class KernelRidge:
    """Kernel ridge regression on supports, which are copies of picks.

    Targets are +1 for their class and -1 for the others.

    Args:
        vectors: Features of all examples of the sample, one a row, in 16 bits, ``fold`` if they are joined;
            or what has them elsewhere.
        labels: Their classes.
        classes: Number of classes.
        width: Of the kernel.
        ridge: What is added to the diagonal.
        capacity: Most supports that there will be.
    """

    def __init__(
        self,
        vectors: Tensor | Spread,
        labels: Tensor,
        *,
        classes: int,
        width: Width,
        ridge: float,
        capacity: int,
    ) -> None:
        self._supports: list[Tensor] = []  # their vectors, where they are no examples at hand
        self._labels, self._classes, self._ridge = labels, classes, ridge
        self._width = width
        self._examples: SupportKernel | Spread = (
            SupportKernel(vectors, self._width)
            if isinstance(vectors, torch.Tensor)
            else vectors.reopen(self._width)
        )
        self._rows: list[Tensor] = []  # which examples were added
        self._ends = [0]
        self._factor: list[Tensor] = []  # rows of the Cholesky factor, up to the diagonal
        self._inner: Tensor | None = None  # kernel of supports, where they are no examples at hand
        self._capacity = capacity
        self._solved: list[Tensor] = []  # the targets, half solved
        self._targets: list[Tensor] = []

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._examples.dimension

    def add(self, rows: Tensor, copies: Sequence[Tensor] = ()) -> None:
        """Adds examples of the sample, and the features of their copies but for the first, their own."""
        own = self._examples.vectors_at(rows)
        added = torch.cat([own, *(copy.to(torch.int16) for copy in copies)])
        self._examples.add(added)
        old, new = self._ends[-1], self._ends[-1] + len(added)
        targets = torch.full((len(rows), self._classes), -1.0, dtype=torch.float64, device=rows.device)
        targets[torch.arange(len(rows)), self._labels[rows]] = 1.0
        targets = targets.repeat(1 + len(copies), 1)
        if copies or not isinstance(self._examples, SupportKernel):
            self._add_among(added, old, new)
        self._rows.append(rows)
        self._ends.append(new)
        self._targets.append(targets)
        for low, high in _pieces(old, new, _PIECE):
            self._extend(self._among(low, high), targets[low - old : high - old])

    def _add_among(self, added: Tensor, old: int, new: int) -> None:
        """Computes the kernel of new supports with those before, and with each other."""
        if self._inner is None:
            self._inner = added.new_empty(self._capacity, self._capacity, dtype=torch.float64)
        self._supports.append(added)
        among = torch.cat([self._width.between(part, added) for part in self._supports])
        self._inner[:new, old:new], self._inner[old:new, :old] = among, among[:old].T

    def _among(self, low: int, high: int) -> Tensor:
        """The kernel of some supports of the last batch with all up to them."""
        if self._inner is not None:
            return self._inner[:high, low:high]
        assert isinstance(self._examples, SupportKernel)
        return self._examples.last_at(low, high, torch.cat(self._rows)[:high]).T

    def _inner_parts(self) -> Iterator[tuple[Tensor, int, int]]:
        """The kernel of all supports with a few of them at a time."""
        pairs = zip(self._ends, self._ends[1:], strict=False)
        spans = [piece for start, stop in pairs for piece in _pieces(start, stop, _PART)]
        if isinstance(self._examples, SupportKernel) and self._inner is None:
            rows = torch.cat(self._rows)
            for part, (low, high) in zip(self._examples.parts_at(rows), spans, strict=True):
                yield part.T, low, high
            return
        assert self._inner is not None
        yield from ((self._inner[: self._ends[-1], low:high], low, high) for low, high in spans)

    def _extend(self, among: Tensor, targets: Tensor) -> None:
        """Appends rows to the Cholesky factor and to the half-solved targets."""
        old = len(among) - len(targets)
        below, corner = self._half_solve(among[:old]).T, among[old:].clone()
        corner.diagonal().add_(self._ridge)
        if self._solved:
            corner, targets = corner - below @ below.T, targets - below @ torch.cat(self._solved)
        corner = torch.linalg.cholesky(corner)
        self._factor.append(torch.cat([below, corner], dim=1))
        self._solved.append(torch.linalg.solve_triangular(corner, targets, upper=False))

    def _half_solve(self, right: Tensor) -> Tensor:
        """The factor's inverse times a matrix."""
        found = right.clone()
        for row in self._factor:
            high, low = row.shape[1], row.shape[1] - len(row)
            found[low:high] -= row[:, :low] @ found[:low]
            found[low:high] = torch.linalg.solve_triangular(row[:, low:], found[low:high], upper=False)
        return found

    def coefficients(self) -> Tensor:
        """The solution from all supports."""
        found = torch.cat(self._solved)
        for row in reversed(self._factor):
            high, low = row.shape[1], row.shape[1] - len(row)
            found[low:high] = torch.linalg.solve_triangular(row[:, low:].T, found[low:high], upper=True)
            found[:low] -= row[:, :low].T @ found[low:high]
        return found

    def outputs(self, coefficients: Tensor) -> Tensor:
        """Return the network's outputs for every example of the sample."""
        return self._examples.outputs(coefficients)

    def bound_rounding(self, coefficients: Tensor) -> float:
        """By how much outputs of exact arithmetic can differ from those computed with these coefficients."""
        both = torch.cat([coefficients, coefficients.abs()], dim=1)
        products, parts = torch.zeros_like(both), 0
        for inner, low, high in self._inner_parts():
            products += inner @ both[low:high]
            parts += 1
        products, magnitudes = products.chunk(2, dim=1)
        residual = torch.cat(self._targets) - self._ridge * coefficients - products
        magnitudes = magnitudes + self._ridge * coefficients.abs()
        unit, kappa = 2.0**-52 * (_PART + parts + 4), 2.0 if self._width.is_joined else 1.0
        norms = residual.norm(dim=0) + unit * magnitudes.norm(dim=0)
        per_class = _SLACK * norms * math.sqrt(kappa) / (2.0 * math.sqrt(self._ridge))
        return float((per_class + unit * kappa * coefficients.abs().sum(0)).max())
