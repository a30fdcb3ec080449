"""Sketches as codes of tensors: made here, and turned back into matrices here, with a proof each time.

The encoder runs the decoder: a sketch from which the matrix is not recovered, with proof, is never written.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from codebound.bits.stream import Stream
from codebound.certificate.file import MAX_WITNESS
from codebound.run.errors import FormatError, UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound_networks.codes.arithmetic import AbstractCoder
from codebound_networks.codes.choose import best_tensor_code, gamma_bits, mask_bits, signed_bits
from codebound_networks.codes.modes import check_inner, code_inner, code_seed, encode_tensors, integers
from codebound_networks.codes.numbers import gamma
from codebound_networks.codes.tensors import (
    AbstractTensorCode,
    Dense,
    Enumerative,
    Shape,
    Witness,
    Zero,
    matrix_shape,
)
from codebound_papers.compress.codes import AbstractSizedCode, scale
from codebound_papers.guha23.sketch import sparsity as lines
from codebound_papers.guha23.sketch.operators import Bipartite, column_ensemble, sketch
from codebound_papers.guha23.sketch.proof import Proof, objection
from codebound_papers.guha23.sketch.recovery import Recovery, recover_integers

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


GROWTH = (1.0, 1.15, 1.4)  # sides to try, as multiples of the measured law
MAX_ELEMENT, MAX_DUAL = 1 << 30, 1 << 54  # of a matrix, and of the dual that proves it: sums are exact
_DEGREE = 5
_SMALL = 1000  # non-zeros whose independence is decided without peeling
_ITERATIONS = 200  # of the encoder: a proof that is found early is found by other solvers too
_PATIENCE = 500  # of the decoder: bounds what a hostile file can ask for


def sides(m: int, *, rows: int, columns: int) -> tuple[int, int]:
    """m1 and m2: m each; where a side of the matrix is shorter, the other one makes up for it.

    >>> sides(20, rows=100, columns=100), sides(20, rows=10, columns=100), sides(20, rows=10, columns=30)
    ((20, 20), (10, 40), (10, 30))
    """
    if m < 1:
        raise UsageError(f"a sketch has sides of at least 1. Got {m}.")
    m1 = min(rows, max(m, -(-m * m // columns)))
    return m1, min(columns, max(m, -(-m * m // m1)))


def sketch_unsolved(levels: NDArray[Any], *, step: int, m: int, degree: int, seed: int) -> Sketched:
    """The sketch of a tensor of integers as a code, as by ``sketched``, but not yet decoded."""
    rows, columns = matrix_shape(levels.shape)
    if max(rows, columns) > MAX_SIDE:
        raise UsageError(
            f"a matrix that is sketched has sides of at most {MAX_SIDE:,}. Got {rows:,} x {columns:,}."
        )
    if degree > MAX_DEGREE:
        raise UsageError(f"the columns of a sketch have at most {MAX_DEGREE} ones. Got {degree}.")
    m1, m2 = sides(m, rows=rows, columns=columns)
    left, right = _ensembles((rows, columns), (m1, m2), degree=degree, seed=seed)
    matrix = torch.from_numpy(levels.reshape(rows, columns).astype(np.int64))
    inner = best_tensor_code(sketch(matrix, left, right).numpy(), step=step)
    return Sketched(levels.shape, inner, degree=degree, seed=seed)


def sketched(
    levels: NDArray[Any], *, step: int, m: int, degree: int, seed: int = 0, progress: Progress = silent
) -> Sketched | None:
    """The sketch of a tensor of integers as a code, or None if these integers do not come back with proof.

    The side m is that of ``sides``; the degree counts the ones in each column of A and B.

    >>> code = sketched(np.diag(np.arange(1, 17)), step=0, m=12, degree=4)
    >>> code.inner.shape, code.values().diagonal()[:4].tolist()
    ((12, 12), [1.0, 2.0, 3.0, 4.0])
    """
    return _prove(sketch_unsolved(levels, step=step, m=m, degree=degree, seed=seed), levels, progress)


def solved(code: Sketched, *, iterations: int = _PATIENCE, progress: Progress = silent) -> Sketched:
    """The code with its matrix, recovered and proven to be the only one; refused where no proof is found."""
    found = l1_solution(code, iterations=iterations, progress=progress)
    if not found.recovered:
        shape, y = matrix_shape(code.shape), code.inner
        raise FormatError(
            f"no matrix of {shape[0]} x {shape[1]} is proven to be the one behind its {y.shape[0]} x "
            f"{y.shape[1]} sketch ({found.status.value}). A message has only sketches with a proof."
        )
    assert found.proof is not None  # as it was recovered
    return replace(code, matrix=found.value.cpu().numpy(), dual=found.proof.dual.cpu().numpy())


def l1_solution(code: Sketched, *, iterations: int = _ITERATIONS, progress: Progress = silent) -> Recovery:
    """Recover the matrix behind a sketch, proven or not."""
    y = integers(code.inner)
    left, right = _ensembles(matrix_shape(code.shape), y.shape, degree=code.degree, seed=code.seed)
    sums = torch.from_numpy(y.levels.astype(np.int64))
    return recover_integers(sums, left, right, iterations=iterations, progress=progress)


def check_witness(code: Sketched, witness: Witness) -> Sketched:
    """The code with the matrix that a witness has, if the witness proves that it is the only one."""
    shape, y = matrix_shape(code.shape), integers(code.inner)
    (count,) = witness.read("<u4", 1)
    places, values = witness.read("<u4", int(count)), witness.read("<i4", int(count))
    dual = witness.read("<i8", math.prod(y.shape)).reshape(y.shape)
    in_order = bool((np.diff(places, append=math.prod(shape)) > 0).all())
    if not in_order or not values.all() or max(np.abs(values), default=0) > MAX_ELEMENT:
        raise FormatError("a witness lists the non-zeros of a matrix in rising order; this one does not.")
    if np.abs(dual.astype(np.float64)).max() > MAX_DUAL:
        raise FormatError(f"the dual of a witness has numbers within {MAX_DUAL}; this one has larger ones.")
    matrix = np.zeros(shape, np.int64)
    matrix.flat[places] = values
    left, right = _ensembles(shape, y.shape, degree=code.degree, seed=code.seed)
    sums = torch.from_numpy(y.levels.astype(np.int64))
    if reason := objection(torch.from_numpy(matrix), sums, left, right, proof=Proof(torch.from_numpy(dual))):
        raise FormatError(f"the witness does not prove the matrix behind a sketch: {reason}.")
    return replace(code, matrix=matrix, dual=dual)


@dataclass(frozen=True, slots=True)
class PlainBits:
    """Lengths of the two codes that a sketch has to beat, K-NV and K-DN, to within two bits."""

    sparse: int  # which elements are not zero, and the value of each
    dense: int  # the value of every element


def plain_bits(levels: NDArray[Any], *, step: int) -> PlainBits:
    """Return the code lengths of an integer tensor without a sketch.

    >>> plain_bits(np.eye(16, dtype=np.int32), step=0)
    PlainBits(sparse=115, dense=411)
    """
    nonzeros, limit = int(np.count_nonzero(levels)), max(1, int(np.abs(levels).max()))
    grid = signed_bits(step) + gamma_bits(limit)
    sparse = gamma_bits(Enumerative.mode) + mask_bits(levels.size, nonzeros) + nonzeros * math.log2(2 * limit)
    dense = gamma_bits(Dense.mode) + levels.size * math.log2(2 * limit + 1)
    return PlainBits(math.ceil(grid + sparse), math.ceil(grid + dense))


@dataclass(frozen=True, eq=False)
class Attempt:
    """Outcome of the sketch of one tensor."""

    m1: int  # rows of the last sketch that was tried
    m2: int  # columns of it
    code: Sketched | None  # the sketch that decodes to the tensor, or None
    reason: str = ""  # why there is none; empty if there is
    draft: Sketched | None = None  # the last sketch that was tried, before it was decoded


def smallest_sketch(
    levels: NDArray[Any],
    *,
    step: int,
    m: int | None = None,
    degree: int | None = None,
    seed: int = 0,
    most_bits: float = math.inf,
    progress: Progress = silent,
) -> Attempt:
    """The first sketch, among some of growing size, from which a tensor of integers comes back with proof.

    A size at which a row or column has too many non-zeros is not tried. Every size takes a new seed. With m
    only that side is tried, by default that of the measured law and two larger ones. The degree is by default
    5, or less where that could not be proven. A sketch of more than ``most_bits`` is not worth solving.

    >>> smallest_sketch(np.diag(np.arange(1, 33)), step=0).code.inner.shape
    (14, 14)
    """
    rows, columns = matrix_shape(levels.shape)
    sparsity = lines.distributed_sparsity(torch.from_numpy(levels.reshape(rows, columns)))
    if sparsity.nonzeros == 0:
        return Attempt(0, 0, None, "all elements are zero")
    shape = rows, columns
    tries = _sides_to_try(sparsity, shape) if m is None else [m]
    if not tries:
        return Attempt(rows, columns, None, "a sketch would be as large as the matrix")
    attempt, draft = Attempt(0, 0, None), None
    for number, side in enumerate(tries):
        m1, m2 = sides(side, rows=rows, columns=columns)
        reason, code = _find_crowded(sparsity, shape, (m1, m2)), None
        if not reason:
            ones = _degree(sparsity.nonzeros, shape, (m1, m2)) if degree is None else degree
            try:
                draft = sketch_unsolved(levels, step=step, m=side, degree=ones, seed=seed + number)
                bits = encode_tensors([draft]).length
            except UsageError as error:  # the format has no such sketch
                return Attempt(m1, m2, None, str(error))
            if bits > most_bits:
                return Attempt(m1, m2, None, f"its sketch takes {bits:,} bits, more than {most_bits:,.0f}")
            code = _prove(draft, levels, progress)
            reason = "" if code is not None else f"no proof from a sketch of {m1} x {m2}"
        attempt = Attempt(m1, m2, code, reason, draft)
        if code is not None:
            break
    return attempt


def _sides_to_try(sparsity: lines.DistributedSparsity, shape: tuple[int, int]) -> list[int]:
    """Sides that make sketches smaller than the matrix, with three numbers for each non-zero of a line.

    From fewer a line was never recovered. If all sides are that small, the largest one stays.
    """
    rows, columns = shape
    law = lines.sketch_size(sparsity.nonzeros, d1=rows, d2=columns)
    pairs = {m: sides(m, rows=rows, columns=columns) for m in (math.ceil(factor * law) for factor in GROWTH)}
    smaller = {m: pair for m, pair in pairs.items() if math.prod(pair) < rows * columns}
    roomy = [
        m
        for m, (m1, m2) in smaller.items()
        if (m1 == rows or m1 >= 3 * sparsity.j_r) and (m2 == columns or m2 >= 3 * sparsity.j_c)
    ]
    return roomy or list(smaller)[-1:]


def _find_crowded(
    sparsity: lines.DistributedSparsity, shape: tuple[int, int], sketch_shape: tuple[int, int]
) -> str:
    """The line that a sketch cannot recover; a side that is not shortened hides nothing."""
    (rows, columns), (m1, m2) = shape, sketch_shape
    by_row = replace(sparsity, j_r=0).name_crowded(m2) if m2 < columns else ""
    return by_row or (replace(sparsity, j_c=0).name_crowded(m1) if m1 < rows else "")


def _degree(nonzeros: int, shape: tuple[int, int], sketch_shape: tuple[int, int]) -> int:
    """5, or less where a large support could not be peeled or there are too few different columns."""
    m = math.isqrt(math.prod(sketch_shape))
    most = _DEGREE if nonzeros <= _SMALL else lines.column_degree(nonzeros, m=m)
    fitting = (
        degree
        for degree in range(most, 0, -1)
        if all(math.comb(m, degree) >= p for m, p in zip(sketch_shape, shape, strict=True))
    )
    return next(fitting, 1)


def _prove(code: Sketched, levels: NDArray[Any], progress: Progress) -> Sketched | None:
    try:
        found = solved(code, iterations=_ITERATIONS, progress=progress)
    except FormatError:
        return None
    assert found.matrix is not None  # solved has found it
    is_same = np.array_equal(found.matrix.reshape(levels.shape), levels)
    return found if is_same and len(found.witness()) <= MAX_WITNESS else None


def _ensembles(
    shape: tuple[int, int], sketch_shape: tuple[int, ...], *, degree: int, seed: int
) -> tuple[Bipartite, Bipartite]:
    """A and B of docs/format.md, section 8.9."""
    left, right = (
        column_ensemble(Stream(seed, name), m=m, p=side, degree=degree)
        for name, m, side in zip(("sketch/left", "sketch/right"), sketch_shape, shape, strict=True)
    )
    return left, right
