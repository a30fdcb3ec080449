"""The kernel of vectors of integers, and its sums over supports (docs/format.md, 7.7 and 7.8).

Its values are the same floats on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from codebound.learn.features import chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from codebound.learn.features import FeatureMap
    from codebound.learn.rule import Rule

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

    @classmethod
    def of(cls, rule: Rule, features: FeatureMap) -> Kernel:
        """The kernel of a rule."""
        return cls(rule.gamma, features.unit, rule.is_mirrored)

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
    """The kernel of supports with rows of a sample, kept: outputs are found again after every batch.

    Args:
        vectors: Features of the rows, in 16 bits.
        kernel: The kernel.
    """

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
    """Outputs for some rows of a sample, which are computed once, with nothing kept.

    Args:
        vectors: Features of all rows, in 16 bits.
        kernel: The kernel.
        wanted: Rows whose outputs are asked for; those of the others are zero.
    """

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
