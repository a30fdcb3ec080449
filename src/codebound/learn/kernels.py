"""The kernel of vectors of integers, and its sums over supports (docs/format.md, 7.7 and 7.8).

Its values are the same floats on every machine.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from codebound.learn.features import RoomError, chunks
from codebound.run.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


PART = 128
"""Supports that are summed at a time: short sums are safe."""
KEPT = 1 << 32
"""Bytes of kernels that are kept as they are; others are kept in half of them."""
_ROWS = 1024  # of a matrix at a time
_EXACT = 1 << 24  # float32 counts exactly up to here


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel 1 / (1 + gamma |a - b|^2 / (4 unit))^4, the same floats everywhere.

    Attributes:
        gamma: Width of the kernel, inverted.
        unit: Length that differences are measured in, squared.
        is_joined: Whether a row and its mirror image are one support, of the sum of their kernels; then
            vectors are ``fold``.

    Example:
        >>> a = torch.tensor([[1, 0], [0, 1]], dtype=torch.int16)
        >>> Kernel(4.0, 2.0)(a[:1], a)
        tensor([[1.0000, 0.0625]], dtype=torch.float64)
    """

    gamma: float
    unit: float
    is_joined: bool = False

    def __call__(self, left: Tensor, right: Tensor) -> Tensor:
        """The kernel of all vectors with all others."""
        return self.values(self.distances(left, right))

    def distances(self, left: Tensor, right: Tensor) -> list[Tensor]:
        """Squares of distances: with the vectors, and where rows are joined with the mirror images."""
        blocks, given = 4 if self.is_joined else 1, [left.float(), right.float()]
        squares = [each.square().view(-1, blocks, each.shape[1] // blocks).sum(2) for each in given]
        # vectors of one block are too short for sums that float32 cannot count
        is_fixed = not self.is_joined or torch.compiler.is_compiling()
        if not is_fixed and max(float(each.max()) for each in squares) >= _EXACT:
            given = [each.double() for each in given]
            squares = [each.square().view(-1, blocks, each.shape[1] // blocks).sum(2) for each in given]
        pairs = zip(*(each.chunk(blocks, 1) for each in given), strict=True)
        products = [(one @ other.T).double() for one, other in pairs]
        own, others = (each.double().sum(1) for each in squares)
        apart = own[:, None] + others
        if not self.is_joined:
            return [apart.sub_(products[0].mul_(2.0))]
        even, odd = products[0].add_(products[1]), products[2].add_(products[3])
        apart /= 2.0
        return [apart - (even + odd), apart - (even - odd)]

    def values(self, apart: list[Tensor]) -> Tensor:
        """The kernel of squared distances, which are overwritten."""
        found = [
            each.div_(self.unit).mul_(self.gamma / 4.0).add_(1.0).square_().square_().reciprocal_()
            for each in apart
        ]
        return found[0] if len(found) == 1 else found[0].add_(found[1])

    def sums(self, supports: Tensor, coefficients: Tensor, vectors: Tensor) -> Tensor:
        """Sums of the kernel of supports times coefficients, for each vector."""
        found = []
        for some in chunks(vectors, _ROWS):
            total = coefficients.new_zeros(coefficients.shape[1], some.shape[0])
            for low, high in pieces(0, len(supports), _ROWS):
                part = self(supports[low:high], some)
                for start, stop in pieces(low, high, PART):
                    total = total + coefficients[start:stop].T @ part[start - low : stop - low]
            found.append(total.T)
        return torch.cat(found)


def pieces(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Cuts a range into parts of a size."""
    return ((low, min(stop, low + size)) for low in range(start, stop, size))


class KeptRows:
    """The kernel of supports with rows of a sample, kept: outputs are found again after every batch."""

    def __init__(self, vectors: Tensor, kernel: Kernel) -> None:
        self._vectors, self._kernel = vectors, kernel
        # kernel of the supports of each batch, one a row, with all rows, or squared distances
        self._blocks: list[Tensor] = []
        self._count = 0

    def add(self, added: Tensor) -> Tensor | None:
        """Adds supports of these vectors, and returns their kernel with all rows, if it is kept as it is."""
        n = len(self._vectors)
        # values while there is room for them, then integers, which take half of it
        is_short = not self._kernel.is_joined and 8 * (self._count + len(added)) * n > KEPT
        dtype = torch.int32 if is_short else torch.float64
        found = torch.empty(len(added), n, dtype=dtype, device=self._vectors.device)
        for low, high in pieces(0, n, _ROWS):
            for start, stop in pieces(0, len(added), _ROWS):
                apart = self._kernel.distances(added[start:stop], self._vectors[low:high])
                found[start:stop, low:high] = apart[0] if is_short else self._kernel.values(apart)
        self._blocks.append(found)
        self._count += len(found)
        return None if is_short else found

    def outputs(self, coefficients: Tensor) -> Tensor:
        """Sums of the kernel times coefficients, for every row."""
        n, start = len(self._vectors), 0
        total = torch.zeros(coefficients.shape[1], n, dtype=torch.float64, device=coefficients.device)
        for block in self._blocks:
            is_short = block.dtype == torch.int32
            for low, high in pieces(0, len(block), PART):
                weights = coefficients[start + low : start + high].T
                for left, right in pieces(0, n, _ROWS if is_short else n):
                    kept = block[low:high, left:right]
                    total[:, left:right] += weights @ (
                        self._kernel.values([kept.double()]) if is_short else kept
                    )
            start += len(block)
        return total.T.contiguous()


class StreamedRows:
    """Outputs for the wanted rows of a sample, computed once and with nothing kept; others are zero."""

    def __init__(self, vectors: Tensor, kernel: Kernel, wanted: Tensor) -> None:
        self._vectors, self._kernel, self._wanted = vectors, kernel, wanted
        self._supports: list[Tensor] = []

    def add(self, added: Tensor) -> Tensor | None:
        """Adds supports of these vectors."""
        self._supports.append(added)
        return None

    def outputs(self, coefficients: Tensor) -> Tensor:
        """Sums of the kernel times coefficients, for every row."""
        found, supports = coefficients.new_zeros(len(self._vectors), coefficients.shape[1]), self._supports
        for some in chunks(self._wanted, _ROWS):
            found[some] = self._kernel.sums(torch.cat(supports), coefficients, self._vectors[some])
        return found


_REFINED = 3  # times, what a factor in float32 solves
_MEMORY = 13e9  # bytes of kernel, vectors and what is made on the way
_OF_ALL = 0.6  # of the memory of a machine, which may be less
_ON_THE_WAY = 0.6e9
_SLACK = 1.001  # for the rounding of the kernel's values


class KernelRidge:
    """Kernel ridge regression on supports, of which there will be no more than the capacity.

    With kernel and factor in float32, what they solve is refined, and where rounding is larger than the
    ridge, more is added.
    """

    def __init__(
        self,
        kernel: Kernel,
        ridge: float,
        *,
        capacity: int,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
        progress: Progress = silent,
    ) -> None:
        self.ridge, self._kernel, self._progress = ridge, kernel, progress
        # the kernel above the diagonal; its Cholesky factor on and below it, as far as it is known
        self._matrix = torch.empty(capacity, capacity, dtype=dtype, device=device)
        self._diagonal = torch.empty(capacity, dtype=torch.float64, device=device)
        self._count = self._factored = self._parts = 0
        self._vectors = torch.zeros(0, 0, dtype=torch.int16, device=device)
        self._targets: list[Tensor] = []

    def add(self, vectors: Tensor, targets: Tensor, among: Tensor | None = None) -> None:
        """Adds supports.

        Args:
            vectors: Their vectors, in 16 bits.
            targets: Their targets, a row each.
            among: The kernel of all supports with these, where it is known already.
        """
        old, new = self._count, self._count + len(vectors)
        self._vectors = torch.cat([self._vectors, vectors]) if len(self._vectors) else vectors
        self._targets.append(targets)
        self._parts += -(-len(vectors) // PART)  # that are added one by one
        supports, self._count = self._vectors, new
        for low, high in pieces(old, new, _ROWS):
            self._progress(low, 2 * new, f"the kernel of {new} supports")
            for start, stop in pieces(0, high, _ROWS):
                if among is None:
                    found = self._kernel(supports[start:stop], supports[low:high])
                else:
                    found = among[start:stop, low - old : high - old]
                self._matrix[start:stop, low:high] = found
            self._diagonal[low:high] = self._matrix[low:high, low:high].diagonal()

    def coefficients(self) -> Tensor:
        """The solution from all supports.

        Raises:
            RoomError: Rounding is larger than the ridge.
        """
        targets, is_exact = torch.cat(self._targets), self._matrix.dtype == torch.float64
        while True:
            try:
                self._factorise()
                break
            except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
                if is_exact:
                    raise RoomError("the ridge is smaller than rounding: take a larger one.") from error
                self.ridge, self._factored = 4.0 * self.ridge, 0
        found = self._solve(targets)
        for _ in range(0 if is_exact else _REFINED - 1):
            found += self._solve(targets - self.ridge * found - self._multiply(found))
        return found

    def bound_rounding(self, coefficients: Tensor) -> float:
        """By how much outputs of exact arithmetic can differ from those computed with these coefficients."""
        magnitudes = coefficients.abs()
        products, absolute = self._multiply(torch.cat([coefficients, magnitudes], dim=1)).chunk(2, dim=1)
        residual = torch.cat(self._targets) - self.ridge * coefficients - products
        unit, kappa = 2.0**-52 * (PART + 4 + self._parts), 2.0 if self._kernel.is_joined else 1.0
        norms = residual.norm(dim=0) + unit * (self.ridge * magnitudes + absolute).norm(dim=0)
        per_class = _SLACK * norms * math.sqrt(kappa) / (2.0 * math.sqrt(self.ridge))
        return float((per_class + unit * kappa * magnitudes.sum(0)).max())

    def _factorise(self) -> None:
        """Extends the Cholesky factor to all supports, block by block."""
        matrix = self._matrix
        for low, high in pieces(self._factored, self._count, _ROWS):
            self._progress(self._count + low, 2 * self._count, f"solving for {self._count} supports")
            own, below = matrix[low:high, low:high], self._half_solve(matrix[:low, low:high])
            upper = own.triu(1)
            corner = upper + upper.T - below.T @ below
            corner.diagonal().add_((self._diagonal[low:high] + self.ridge).to(corner.dtype))
            own.copy_(torch.linalg.cholesky(corner).tril_().add_(upper))
            matrix[low:high, :low] = below.T
            self._factored = high

    def _half_solve(self, right: Tensor) -> Tensor:
        """The factor's inverse times a matrix, which may have fewer rows."""
        found = right.to(self._matrix.dtype, copy=True)
        for low, high in pieces(0, len(found), _ROWS):
            found[low:high] -= self._matrix[low:high, :low] @ found[:low]
            corner = self._matrix[low:high, low:high].tril()
            found[low:high] = torch.linalg.solve_triangular(corner, found[low:high], upper=False)
        return found

    def _solve(self, right: Tensor) -> Tensor:
        """The solution by the factor."""
        found, count = self._half_solve(right), self._count
        for low, high in reversed(list(pieces(0, count, _ROWS))):
            found[low:high] -= self._matrix[high:count, low:high].T @ found[high:]
            corner = self._matrix[low:high, low:high].tril()
            found[low:high] = torch.linalg.solve_triangular(corner.T, found[low:high], upper=True)
        return found.double()

    def _multiply(self, right: Tensor) -> Tensor:
        """The kernel matrix times another, in float64: a block of supports after the other is added."""
        found, count = torch.zeros_like(right), self._count
        for low, high in pieces(0, count, PART):
            some = right[low:high]
            corner = self._matrix[low:high, low:high].double().triu(1)
            corner = corner + corner.T + self._diagonal[low:high].diag()
            found[:low] += self._matrix[:low, low:high].double() @ some
            found[low:high] += corner @ some
            found[high:] += self._matrix[low:high, high:count].double().T @ some
        return found


def memory_of(n: int, dimension: int, supports: int, *, is_joined: bool, keeps_rows: bool) -> float:
    """Bytes that a learner of so many supports takes, which keeps its kernel with all rows or does not."""
    kept = 8.0 * n * supports if keeps_rows else 0.0
    kept /= 2.0 if kept > KEPT and not is_joined else 1.0
    return 2.0 * (n + supports) * dimension + kept + 8.0 * supports**2


def most_supports(dimension: int) -> int:
    """Most vectors that a learner in float32 has memory for: 4 m^2 bytes, and 2 m D for the vectors.

    Example:
        >>> most_supports(64) > most_supports(8192) > 1000
        True
    """
    memory = _MEMORY
    with suppress(AttributeError, ValueError, OSError):  # on some machines nobody says
        memory = min(memory, _OF_ALL * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    room = max(0.0, memory - _ON_THE_WAY)
    return max(1, int((math.sqrt(dimension * dimension + 4.0 * room) - dimension) / 4.0))
