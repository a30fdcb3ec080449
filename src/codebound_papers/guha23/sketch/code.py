"""The code of a tensor by a sketch: docs/format.md, section 4.13.

The code holds the sketch alone. The matrix behind it is found and proven by ``codec.solved``, because
that takes a solver; until then the tensor is known to nobody.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codebound.bits.arithmetic import AbstractCoder
from codebound.bits.numbers import gamma
from codebound.run.errors import FormatError, UsageError
from codebound.run.references import implements
from codebound_networks.codes.modes import check_inner, code_inner, code_seed, integers
from codebound_networks.codes.tensors import AbstractTensorCode, Shape, Witness, Zero, matrix_shape
from codebound_papers.compress.codes import AbstractSizedCode, scale

MAX_SIDE = 1 << 13
MAX_DEGREE = 16
SKETCH_WORK = 1 << 13  # of recovering one element, in multiplications
DRAWING_WORK = 1 << 11  # of one element of A or B


@implements("K-SK", kind="algorithm")
@dataclass(frozen=True, eq=False)
class Sketched(AbstractSizedCode):
    """Mode 13: the integer matrix X of smallest l1 norm with the coded sketch ``A X B^T``."""

    mode = 13
    inner: AbstractTensorCode  # the sketch Y, shape (m1, m2); its step is that of X
    degree: int  # ones in each column of A and B
    seed: int  # seed of A and B
    matrix: NDArray[np.int64] | None = None  # X, (rows, columns), int64; None until it is recovered
    dual: NDArray[np.int64] | None = None  # W, (m1, m2), int64, which proves it; None until it is recovered

    def __post_init__(self) -> None:
        check_inner(self.inner, (None, None))
        if self.matrix is not None and self.matrix.shape != matrix_shape(self.sizes):
            raise UsageError(
                f"a matrix of shape {self.matrix.shape} does not fit a tensor of shape {self.sizes}."
            )

    @classmethod
    def blank(cls, shape: Shape) -> "Sketched":  # noqa: D102
        return cls(shape, Zero((1, 1)), degree=1, seed=0)

    def code(self, coder: AbstractCoder) -> "Sketched":  # noqa: D102
        rows, columns = matrix_shape(self.sizes)
        large = f"a matrix that is sketched has sides of at most {MAX_SIDE:,}. Got {rows:,} x {columns:,}."
        coder.require(max(rows, columns) <= MAX_SIDE, large)
        m1, m2 = (gamma(coder, side) for side in self.inner.shape)
        larger = f"a sketch is not larger than its matrix, {rows} x {columns}. Got {m1} x {m2}."
        coder.require(m1 <= rows and m2 <= columns, larger)
        degree = gamma(coder, self.degree)
        many = f"the columns of a sketch have at most {MAX_DEGREE} ones. Got {degree}."
        coder.require(degree <= MAX_DEGREE, many)
        for m, side in ((m1, rows), (m2, columns)):
            few = f"{side} different columns with {degree} ones among {m} rows do not exist."
            coder.require(math.comb(m, degree) >= side, few)
        coder.charge_work(SKETCH_WORK * rows * columns + DRAWING_WORK * (m1 * rows + m2 * columns))
        seed = code_seed(coder, self.seed)
        inner = code_inner(coder, self.inner, (m1, m2))
        return Sketched(self.sizes, inner, degree=degree, seed=seed, matrix=self.matrix, dual=self.dual)

    def solve(self, witness: Witness | None = None) -> "Sketched":
        """The code with its matrix: that of the witness, or recovered; proven in any case."""
        from codebound_papers.guha23.sketch.codec import check_witness, solved

        return solved(self) if witness is None else check_witness(self, witness)

    def witness(self) -> bytes:
        """The non-zeros of the matrix, and the dual that proves it."""
        if self.matrix is None or self.dual is None:
            raise UsageError("a sketch has no proof before it is solved: solved() finds one.")
        places = np.flatnonzero(self.matrix)
        count, values = np.array([len(places)], "<u4"), self.matrix.flat[places].astype("<i4")
        parts = count, places.astype("<u4"), values, self.dual.astype("<i8")
        return b"".join(part.tobytes() for part in parts)

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        if self.matrix is None:
            raise FormatError("the matrix behind a sketch was not recovered yet: solved() does it.")
        return scale(self.matrix.reshape(self.sizes), integers(self.inner).step)
