"""The codes of the papers' compressors, modes 8 to 12: docs/format.md, sections 4.8 to 4.12.

A few coded integers and a seed stand for many numbers. Each code holds inner tensors of integers, which have
codes of their own, and decodes by sums of integers: the same bits on every machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codebound.bits.plain_code import Bits
from codebound.bits.stream import Stream
from codebound.run.references import implements
from codebound_networks.codes.arithmetic import AbstractCoder
from codebound_networks.codes.modes import check_inner, code_inner, code_seed, integers
from codebound_networks.codes.numbers import bit, gamma, signed, uniform
from codebound_networks.codes.quantization import MAX_STEP, step_size
from codebound_networks.codes.tensors import AbstractTensorCode, Shape, Zero, matrix_shape
from codebound_papers.compress.random_matrices import RandomMatrix, combine

MAX_PROJECTIONS = 1 << 16
MAX_RANK = 1 << 12
MAX_MEAN = 1 << 20
MAX_MIXED = 1 << 12
GAUSSIAN_WORK = 16  # of drawing one coded Gaussian, in multiplications
_EXACT = 1 << 53
_GROUP = 1 << 20  # numbers of a group of locations that are mixed at a time


@dataclass(frozen=True, eq=False)
class AbstractStreamCode(AbstractTensorCode):
    """A code around inner tensors of integers, which are the fields named in ``parts``, in message order."""

    parts: ClassVar[tuple[str, ...]] = ("inner",)

    def __post_init__(self) -> None:
        for part in self.parts:
            integers(getattr(self, part))

    @property
    def shape(self) -> Shape:  # noqa: D102
        shape: Shape = getattr(self, self.parts[0]).shape
        return shape

    def blocks(self) -> list[Bits]:  # noqa: D102
        return [block for part in self.parts for block in getattr(self, part).blocks()]

    def with_blocks(self, bits: Bits, start: int) -> tuple[AbstractTensorCode, int]:  # noqa: D102
        complete = {}
        for part in self.parts:
            complete[part], start = getattr(self, part).with_blocks(bits, start)
        return replace(self, **complete), start


@dataclass(frozen=True, eq=False)
class AbstractSizedCode(AbstractStreamCode):
    """One whose tensor has a shape of its own, not that of an inner one."""

    sizes: Shape  # shape of the tensor

    @property
    def shape(self) -> Shape:  # noqa: D102
        return self.sizes


def scale(levels: NDArray[np.integer[Any]] | NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Integers times the step, multiplied in float64."""
    return np.multiply(levels, step_size(step), dtype=np.float64)


@implements("K-MP", "K-MP0", "K-V3", kind="algorithm")
@dataclass(frozen=True, eq=False)
class Projected(AbstractSizedCode):
    """Mode 8: sums of random vectors, weighted with coded integers."""

    mode = 8
    inner: AbstractTensorCode  # the weights z of the random vectors, shape (V, k)
    by_rows: bool  # whether the V rows of the tensor are vectors, or the whole tensor is one, V = 1
    gaussian: bool  # whether the random vectors are coded Gaussians, times 4, or signs
    seed: int  # seed of the random vectors

    def __post_init__(self) -> None:
        vectors, _ = self._vectors(self.by_rows)
        check_inner(self.inner, (vectors, None))

    @classmethod
    def blank(cls, shape: Shape) -> "Projected":  # noqa: D102
        return cls(shape, Zero((1, 1)), by_rows=False, gaussian=False, seed=0)

    def code(self, coder: AbstractCoder) -> "Projected":  # noqa: D102
        by_rows, gaussian = bool(bit(coder, self.by_rows)), bool(bit(coder, self.gaussian))
        count, most = gamma(coder, self.inner.shape[1]), MAX_PROJECTIONS
        coder.require(count <= most, f"a tensor has at most {most:,} projections. Got {count:,}.")
        seed = code_seed(coder, self.seed)
        vectors, length = self._vectors(by_rows)
        coder.charge_work(count * length * (vectors + GAUSSIAN_WORK * gaussian))
        inner = code_inner(coder, self.inner, (vectors, count))
        return Projected(self.sizes, inner, by_rows=by_rows, gaussian=gaussian, seed=seed)

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        z = integers(self.inner)
        _, length = self._vectors(self.by_rows)
        sums = combine(z.levels.astype(np.int64), length, seed=self.seed, gaussian=self.gaussian)
        return scale(sums.reshape(self.sizes), z.step)

    def _vectors(self, by_rows: bool) -> tuple[int, int]:
        return matrix_shape(self.sizes) if by_rows else (1, math.prod(self.sizes))


@implements("K-LR", kind="algorithm")
@dataclass(frozen=True, eq=False)
class LowRank(AbstractSizedCode):
    """Mode 9: the product of two coded factors."""

    mode = 9
    parts = ("left", "right")
    left: AbstractTensorCode  # the factor U, shape (rows, r)
    right: AbstractTensorCode  # the factor V, shape (r, columns)

    def __post_init__(self) -> None:
        rows, columns = matrix_shape(self.sizes)
        check_inner(self.left, (rows, None))
        check_inner(self.right, (self.left.shape[1], columns))

    @classmethod
    def blank(cls, shape: Shape) -> "LowRank":  # noqa: D102
        rows, columns = matrix_shape(shape)
        return cls(shape, Zero((rows, 1)), Zero((1, columns)))

    def code(self, coder: AbstractCoder) -> "LowRank":  # noqa: D102
        rows, columns = matrix_shape(self.sizes)
        rank, most = gamma(coder, self.left.shape[1]), min(rows, columns, MAX_RANK)
        coder.require(rank <= most, f"the rank of a {rows} x {columns} matrix is at most {most}. Got {rank}.")
        coder.charge_work(rank * rows * columns)
        left = code_inner(coder, self.left, (rows, rank))
        right = code_inner(coder, self.right, (rank, columns))
        step, most = left.step + right.step, MAX_STEP
        coder.require(abs(step) <= most, f"the steps of two factors add up to at most {most}. Got {step}.")
        return LowRank(self.sizes, left, right)

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        left, right = integers(self.left), integers(self.right)
        # Exact: the sums are at most 2^12 products of levels up to 2^20.
        product = left.levels.astype(np.float64) @ right.levels.astype(np.float64)
        return scale(product.reshape(self.sizes), left.step + right.step)


@dataclass(frozen=True, slots=True)
class Filling:
    """Coded Gaussians for elements that are zero, ``(16 g + mean)`` times the step."""

    everywhere: bool  # whether all elements are filled, or only those whose level is zero
    step: int  # index of the step; the Gaussians have a standard deviation of 64 steps
    mean: int  # mean, in steps
    seed: int  # seed of the Gaussians


@implements("K-HT", kind="algorithm")
@dataclass(frozen=True, eq=False)
class Filled(AbstractStreamCode):
    """Mode 10: coded integers; the rest, or everything, is filled with coded Gaussians."""

    mode = 10
    inner: AbstractTensorCode  # the integers q, in the shape of the tensor
    filling: Filling | None  # the Gaussians, or None for no filling

    @classmethod
    def blank(cls, shape: Shape) -> "Filled":  # noqa: D102
        return cls(Zero(shape), None)

    def code(self, coder: AbstractCoder) -> "Filled":  # noqa: D102
        coder.charge_work(math.prod(self.shape))
        inner = code_inner(coder, self.inner, self.shape)
        if not bit(coder, self.filling is not None):
            return Filled(inner, None)
        given = self.filling or Filling(everywhere=False, step=0, mean=0, seed=0)
        everywhere = bool(bit(coder, given.everywhere))
        step, mean = signed(coder, given.step), signed(coder, given.mean)
        coder.require(abs(step) <= MAX_STEP, f"a step lies between -{MAX_STEP} and {MAX_STEP}. Got {step}.")
        off = f"the mean of a filling is within {MAX_MEAN:,} steps of zero. Got {mean:,}."
        coder.require(abs(mean) <= MAX_MEAN, off)
        seed = code_seed(coder, given.seed)
        return Filled(inner, Filling(everywhere=everywhere, step=step, mean=mean, seed=seed))

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        q, fill = integers(self.inner), self.filling
        values = scale(q.levels, q.step)
        if fill is None:
            return values
        quarters = Stream(fill.seed, "fill").gaussian_quarters(values.size).reshape(q.shape)
        filling = scale(16 * quarters.astype(np.int32) + fill.mean, fill.step)
        return values + (filling if fill.everywhere else np.where(q.levels == 0, filling, 0.0))


@implements("K-LT", kind="algorithm")
@dataclass(frozen=True, eq=False)
class Ticket(AbstractStreamCode):
    """Mode 11: coded integers times a random tensor; integers 0 and 1 choose a subset of it."""

    mode = 11
    inner: AbstractTensorCode  # the integers q, in the shape of the tensor
    kind: int  # the random numbers: 0 signs, 1 coded Gaussians times 4, 2 odd integers from -65535 to 65535
    seed: int  # seed of the random numbers

    @classmethod
    def blank(cls, shape: Shape) -> "Ticket":  # noqa: D102
        return cls(Zero(shape), kind=0, seed=0)

    def code(self, coder: AbstractCoder) -> "Ticket":  # noqa: D102
        coder.charge_work(math.prod(self.shape))
        kind, seed = uniform(coder, self.kind, len(_TICKETS)), code_seed(coder, self.seed)
        return Ticket(code_inner(coder, self.inner, self.shape), kind=kind, seed=seed)

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        q = integers(self.inner)
        drawn = _TICKETS[self.kind](Stream(self.seed, "ticket"), q.levels.size)
        products = np.multiply(q.levels, drawn.reshape(q.shape), dtype=np.int64)
        return scale(products, q.step)


Draw = Callable[[Stream, int], NDArray[np.integer[Any]]]
_TICKETS: tuple[Draw, ...] = (Stream.signs, Stream.gaussian_quarters, Stream.odd_integers)


@implements("K-MPC", kind="algorithm")
@dataclass(frozen=True, eq=False)
class Mixed(AbstractSizedCode):
    """Mode 12: filters of many locations, the first size, each a random mixture of the same integers."""

    mode = 12
    inner: AbstractTensorCode  # the integers z, shape (b,)
    mixes: int  # number k of random rows of which a location makes its mixture
    seed: int  # seed of the basis and of the mixtures

    def __post_init__(self) -> None:
        check_inner(self.inner, (None,))

    @classmethod
    def blank(cls, shape: Shape) -> "Mixed":  # noqa: D102
        return cls(shape, Zero((1,)), mixes=1, seed=0)

    def code(self, coder: AbstractCoder) -> "Mixed":  # noqa: D102
        sizes = self.sizes
        coder.require(len(sizes) > 1, f"a mixed tensor has locations and filters. Got shape {sizes}.")
        basis, mixes = gamma(coder, self.inner.shape[0]), gamma(coder, self.mixes)
        many = f"a mixed tensor has at most {MAX_MIXED} vectors and mixtures. Got {basis} and {mixes}."
        coder.require(max(basis, mixes) <= MAX_MIXED, many)
        seed = code_seed(coder, self.seed)
        coder.charge_work(basis * math.prod(self.sizes) + GAUSSIAN_WORK * mixes * basis * self.sizes[0])
        inner = code_inner(coder, self.inner, (basis,))
        inexact = f"{mixes} mixtures of {basis} levels up to {inner.limit:,} have sums beyond 2^53."
        coder.require(mixes * basis**2 * inner.limit << 10 <= _EXACT, inexact)
        return Mixed(self.sizes, inner, mixes=mixes, seed=seed)

    def values(self) -> NDArray[np.float64]:  # noqa: D102
        z = integers(self.inner)
        locations, length = matrix_shape(self.sizes)
        basis = RandomMatrix(z.levels.size, length, "basis", self.seed)
        values = np.empty((locations, length))
        stream, group = Stream(self.seed, "mix"), max(_GROUP // (self.mixes * z.levels.size), 1)
        for start in range(0, locations, group):
            part = values[start : start + group]
            part[:] = basis.combine(self._mixtures(stream, len(part), z.levels.astype(np.float64)))
        return scale(values.reshape(self.sizes), z.step)

    def _mixtures(self, stream: Stream, count: int, z: NDArray[np.float64]) -> NDArray[np.int64]:
        """The weights ``C^T C z`` of the next locations; exact, for they are below 2^53."""
        drawn = stream.gaussian_quarters(count * self.mixes * z.size).astype(np.float64)
        rows = drawn.reshape(count, self.mixes, z.size)
        return ((rows @ z)[:, None, :] @ rows)[:, 0].astype(np.int64)
