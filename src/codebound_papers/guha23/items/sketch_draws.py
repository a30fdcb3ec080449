"""Random sparse matrices, their sketches, and what becomes of them: each count over draws is one cell."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from codebound.coding.stream import Stream
from codebound.rng import numpy_stream
from codebound_papers.guha23.sketch.operators import Bipartite, column_ensemble, row_ensemble, sketch
from codebound_papers.guha23.sketch.peeling import peel
from codebound_papers.guha23.sketch.recovery import Recovery, recover, recover_l1_batch

if TYPE_CHECKING:
    from torch import Tensor

    from codebound_papers.journal import Journal

Line = Literal["column", "row"]

_RECOVERED = 1e-4  # relative error in the Frobenius norm that counts as recovery
_LONGER = 4  # on noisy sums no proof ends the l1 program: it runs until its digits settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The sizes of a sketch, and how the ones of A and B are placed.

    Attributes:
        p: Side of the matrix.
        j: Most non-zeros in a line of it.
        m: Side of the sketch.
        line: Whether every column has that many ones, or every row at most.
        ones: That many.
    """

    p: int
    j: int
    m: int
    line: Line = "column"
    ones: int = 5

    def __str__(self) -> str:
        return f"p={self.p} j={self.j} m={self.m} {self.line}={self.ones}"


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """A matrix and its sketch."""

    x: Tensor
    y: Tensor
    a: Bipartite
    b: Bipartite

    def error(self, value: Tensor) -> float:
        return float((value - self.x).norm() / self.x.norm())


def _by_l1(cases: list[_Case], iterations: int) -> list[Recovery]:
    return recover_l1_batch([(case.y, case.a, case.b) for case in cases], iterations=iterations)


def _by_peeling_first(cases: list[_Case], iterations: int) -> list[Recovery]:
    return [recover(case.y, case.a, case.b, iterations=iterations) for case in cases]


L1, HYBRID = "l1", "peeling, then l1"
_DECODERS = {L1: _by_l1, HYBRID: _by_peeling_first}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """A number of draws of everything random.

    Attributes:
        cells: Where results are kept.
        seed: Of all draws.
        device: Where recovery runs.
        number: Matrices, each with its own A and B.
        iterations: Most steps of the l1 program.
    """

    cells: Journal
    seed: int
    device: str
    number: int
    iterations: int

    def nonzeros(self, p: int, j: int) -> float:
        """Mean number of non-zeros: a little below j p, because permutations overlap."""
        return fmean(np.count_nonzero(self._matrix(p, j, draw)) for draw in range(self.number))

    def count(self, design: Design, decoder: str) -> dict[str, Any]:
        """How many of the draws are recovered, how many are proven to be, and how many proofs are wrong."""

        def counted() -> dict[str, Any]:
            cases = self._cases(design)
            found = _DECODERS[decoder](cases, self.iterations)
            right = [case.error(each.value) < _RECOVERED for case, each in zip(cases, found, strict=True)]
            proven = [each.recovered for each in found]
            wrong = sum(claim and not truth for claim, truth in zip(proven, right, strict=True))
            return {"draws": len(cases), "recovered": sum(right), "proven": sum(proven), "wrong": wrong}

        return dict(self.cells.get(f"{decoder}: {design}", counted))

    def errors(self, design: Design, noise: float) -> dict[str, list[float]]:
        """Relative error of each draw, by l1 and by peeling, with relative Gaussian noise on the sketch."""

        def measured() -> dict[str, list[float]]:
            cases = [self._noisy(case, noise, draw) for draw, case in enumerate(self._cases(design))]
            found = [each.value for each in _by_l1(cases, _LONGER * self.iterations)]
            peeled = [torch.from_numpy(peel(case.y.cpu().numpy(), case.a, case.b).value) for case in cases]
            return {
                "l1": [case.error(value) for case, value in zip(cases, found, strict=True)],
                "peeling": [case.error(value.to(case.x)) for case, value in zip(cases, peeled, strict=True)],
            }

        return dict(self.cells.get(f"noise {noise:g}: {design}", measured))

    def coverage(self, design: Design) -> dict[str, float]:
        """Mean number of ones in a column, share of columns without, share of non-zeros without a trace."""
        cases = self._cases(design)
        degrees = [(case.a.degrees, case.b.degrees) for case in cases]
        columns = np.concatenate([side for pair in degrees for side in pair])
        return {
            "ones_per_column": float(columns.mean()),
            "empty_columns": float((columns == 0).mean()),
            "lost_nonzeros": fmean(
                float((np.outer(a, b)[(case.x != 0).cpu().numpy()] == 0).mean())
                for case, (a, b) in zip(cases, degrees, strict=True)
            ),
        }

    def _matrix(self, p: int, j: int, draw: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The diagonal and j - 1 permutations, with Gaussian values."""
        stream = numpy_stream(self.seed, f"sketch:phase/matrix/{p}/{j}/{draw}")
        x = np.diag(stream.standard_normal(p))
        for _ in range(j - 1):
            x[np.arange(p), stream.permutation(p)] = stream.standard_normal(p)
        return x

    def _cases(self, design: Design) -> list[_Case]:
        ensemble = column_ensemble if design.line == "column" else row_ensemble
        cases = []
        for draw in range(self.number):
            stream = Stream(self.seed, f"sketch:phase/{design}/{draw}")
            a, b = (ensemble(stream, m=design.m, p=design.p, degree=design.ones) for _ in range(2))
            x = torch.from_numpy(self._matrix(design.p, design.j, draw)).to(self.device)
            cases.append(_Case(x, sketch(x, a, b), a, b))
        return cases

    def _noisy(self, case: _Case, noise: float, draw: int) -> _Case:
        stream = numpy_stream(self.seed, f"sketch:phase/noise/{draw}")
        direction = torch.from_numpy(stream.standard_normal(tuple(case.y.shape))).to(case.y)
        return _Case(case.x, case.y + noise * case.y.norm() / direction.norm() * direction, case.a, case.b)
