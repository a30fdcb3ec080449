"""Recovery of a sparse matrix X from its sketch ``Y = A X B^T``; never a wrong answer without a word.

Douglas-Rachford on ``min |X|_1 subject to A X B^T = Y`` finds the large entries in float32; a few rounds of
least squares on the support in float64 find the small ones; a proof decides. A zero residual is no proof:
a matrix with too many non-zeros, in all or in one line, fits every sketch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import torch
from torch import Tensor

from codebound.run.errors import UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound_networks.train.rng import torch_stream
from codebound_papers.guha23.sketch.operators import Bipartite, Projector, Restricted, check_shape
from codebound_papers.guha23.sketch.peeling import is_injective, peel
from codebound_papers.guha23.sketch.proof import Proof, find_dual, objection, round_dual
from codebound_papers.guha23.sketch.sparsity import distributed_sparsity

_CHECK_EVERY = 20  # iterations between looks at the support
_PROMISING = 3e-2  # relative residual from which a support is worth solving on
_NEXT_ATTEMPT = 1.4  # attempts are this factor of iterations apart
_THRESHOLD = 4.0  # of the mean entry of the smallest solution in the Euclidean norm
_RELAXATION = 1.8
_ROUNDS = 16  # of least squares on a growing support
_DEPENDENT = 1e-8  # relative product with a random orthogonal matrix that counts as zero
_EXACT = 1e-10  # relative residual that counts as zero in float64
_CONVERGED = 1e-5  # relative residual and gap of an l1 solution in float32
_TINY, _TINY32 = 1e-300, 1e-30  # below everything that is measured, in float64 and float32


class Status(Enum):
    """Status of the matrix that a recovery returns."""

    RECOVERED = "recovered (certified unique on its support)"
    L1_OPTIMAL = "l1-optimal"
    NOT_RECOVERED = "not recovered"


@dataclass(frozen=True, eq=False)
class Recovery:
    """A matrix, and what is known about it."""

    value: Tensor  # the matrix, (p1, p2); the last iterate unless it was recovered
    status: Status  # see the function that returned it
    residual: float  # distance of its sketch from Y in the Frobenius norm, relative to Y
    gap: float | None  # relative duality gap of the l1 program; None from recover, which needs no dual
    iterations: int  # steps of Douglas-Rachford
    proof: Proof | None = None  # for integers: the dual that proves uniqueness

    @property
    def recovered(self) -> bool:
        """Return True if the value is proven to be the matrix, as the function that returned it says."""
        return self.status is Status.RECOVERED


@implements("I-14", kind="algorithm")
def recover(
    y: Tensor, a: Bipartite, b: Bipartite, *, iterations: int = 2000, progress: Progress = silent
) -> Recovery:
    """X from its sketch: peeling first, then l1 on what peeling left open.

    ``RECOVERED`` means: the residual is zero; the sketch determines the values on the support, exactly
    checked; the support is at most half of what any sketch could be explained by, in all and in every row and
    column; and the sketch of no single entry outside the support is a combination of those inside. Then, for
    values with a density, this is X with probability one. The sketch y is float64.
    """
    _check_sketch(y, a, b, torch.float64)
    peeled = peel(y.cpu().numpy(), a, b)
    found = torch.from_numpy(peeled.value).to(y.device)
    if peeled.complete and (accepted := _only_explanation(_Problem(y, a, b), found, 0)) is not None:
        return accepted
    problem = _Problem(y, a, b, known=found, zero=torch.from_numpy(~peeled.live).to(y.device)[None])
    result = _solve([problem], judge=_only_explanation, iterations=iterations, progress=progress)[0]
    if result.recovered:
        return result
    return replace(result, status=Status.NOT_RECOVERED, gap=None)  # it is optimal for the rest at most


@implements("G-Sk:l1", kind="algorithm")
def recover_l1(
    y: Tensor, a: Bipartite, b: Bipartite, *, iterations: int = 2000, progress: Progress = silent
) -> Recovery:
    """X as the minimiser of the l1 norm among all matrices with the sketch y.

    ``RECOVERED`` means that the residual is zero, the sketch determines the values on the support, the
    support is as small as for ``recover``, no row or column of X is invisible to the sketch, and the
    duality gap is closed: this is the only minimiser.
    ``L1_OPTIMAL`` is a minimiser to five digits; it may not be the matrix that was sketched.
    """
    return recover_l1_batch([(y, a, b)], iterations=iterations, progress=progress)[0]


def recover_l1_batch(
    sketches: Sequence[tuple[Tensor, Bipartite, Bipartite]],
    *,
    iterations: int = 2000,
    progress: Progress = silent,
) -> list[Recovery]:
    """``recover_l1`` of several sketches (y, a, b) of equal shapes in one go, as small layers want it."""
    for y, a, b in sketches:
        _check_sketch(y, a, b, torch.float64)
    problems = [_Problem(y, a, b) for y, a, b in sketches]
    return _solve(problems, judge=_only_minimiser, iterations=iterations, progress=progress)


@implements("G-E20", kind="algorithm")
def recover_integers(
    y: Tensor, a: Bipartite, b: Bipartite, *, iterations: int = 2000, progress: Progress = silent
) -> Recovery:
    """The integer matrix of smallest l1 norm with the sketch y, with a proof that it is the only one.

    ``RECOVERED`` means that ``proof`` is there, checked in integers (``objection``): the result depends on y,
    a and b alone, not on the machine or the solver. Arguments are those of ``recover``, but y is int64.

    >>> from codebound.bits.stream import Stream
    >>> from codebound_papers.guha23.sketch.operators import column_ensemble, sketch
    >>> a, b = (column_ensemble(Stream(0, side), m=12, p=16, degree=4) for side in ("left", "right"))
    >>> x = torch.diag(torch.arange(1, 17))
    >>> torch.equal(recover_integers(sketch(x, a, b), a, b).value, x)
    True
    """
    _check_sketch(y, a, b, torch.int64)
    if float(y.double().abs().max()) > 2.0**53:
        raise UsageError(
            "an integer sketch has numbers of at most 53 bits: larger ones are not exact in float64."
        )
    problem = _Problem(y, a, b)
    return _solve([problem], judge=_only_integer_minimiser, iterations=iterations, progress=progress)[0]


class _Problem:
    """One sketch, less what is known of its matrix already; some of its entries may be known to be zero."""

    def __init__(
        self,
        y: Tensor,
        a: Bipartite,
        b: Bipartite,
        *,
        known: Tensor | None = None,
        zero: Tensor | None = None,
    ) -> None:
        self.y, self.a, self.b, self.zero = y.double(), a, b, zero
        self.fine = Projector([(a, b)], dtype=torch.float64, device=y.device)
        self.coarse = Projector([(a, b)], dtype=torch.float32, device=y.device)
        self.known = self.y.new_zeros(a.p, b.p) if known is None else known
        self.rest = self.y - self.fine.apply(self.known[None])

    def residual(self, x: Tensor) -> float:
        """Relative distance of the sketch of x from y."""
        return float((self.fine.apply(x[None]) - self.y).norm()) / max(float(self.y.norm()), _TINY)


_Judge = Callable[[_Problem, Tensor, int], "Recovery | None"]


def _unique_on_support(problem: _Problem, x: Tensor, iterations: int) -> Recovery | None:
    """Accepts a sparse matrix with zero residual whose values the sketch determines."""
    residual = problem.residual(x)
    sparsity = distributed_sparsity(x)
    left, right = problem.a.gram_inverse[1], problem.b.gram_inverse[1]
    generic = 2 * sparsity.nonzeros <= left * right and 2 * sparsity.j_c <= right and 2 * sparsity.j_r <= left
    is_seen = min(problem.a.degrees.min(), problem.b.degrees.min()) > 0  # else a line of X leaves no trace
    if residual > _EXACT or not generic or not is_seen:
        return None
    if not is_injective(np.flatnonzero(x.cpu().numpy()), problem.a, problem.b):
        return None
    return Recovery(x, Status.RECOVERED, residual, None, iterations)


def _only_explanation(problem: _Problem, x: Tensor, iterations: int) -> Recovery | None:
    """Accepts what ``recover`` promises."""
    accepted = _unique_on_support(problem, x, iterations)
    return accepted if accepted is not None and _is_closed(problem, x) else None


def _is_closed(problem: _Problem, x: Tensor) -> bool:
    """Return True if no column of K outside the support of x depends on those inside.

    A random matrix is made orthogonal to the columns inside; a column that depends on them is then orthogonal
    to it too, another one almost never. Two draws keep the smallest of many products away from zero.
    """
    outside = x == 0
    restricted = Restricted(problem.fine, (~outside).flatten().nonzero()[:, 0], problem.a, problem.b)
    products = torch.zeros_like(x)
    for draw in range(2):
        stream = torch_stream(draw, "sketch/outside")
        noise = torch.randn(problem.rest.shape, generator=stream, dtype=x.dtype).to(x.device)
        noise = problem.fine.whiten(noise)
        size = float(problem.fine.transpose(noise).square().mean().sqrt())
        inside = restricted.transpose(noise)
        noise = restricted.solve(noise, torch.zeros_like(inside), reduction=1e-12)[1]
        products = torch.maximum(products, problem.fine.transpose(noise)[0].abs() / size)
    return bool((products[outside] > _DEPENDENT).all())


def _only_minimiser(problem: _Problem, x: Tensor, iterations: int) -> Recovery | None:
    """Accepts what ``recover_l1`` promises."""
    accepted = _unique_on_support(problem, x, iterations)
    if accepted is None or (dual := _dual(problem, x, iterations)) is None:
        return None
    norm, feasible = float(x.abs().sum()), max(float(problem.fine.transpose(dual[None]).abs().max()), 1.0)
    gap = abs(norm - float((problem.y * dual).sum()) / feasible) / max(norm, _TINY)
    return replace(accepted, gap=gap) if gap <= _EXACT else None


def _only_integer_minimiser(problem: _Problem, x: Tensor, iterations: int) -> Recovery | None:
    """Accepts what ``recover_integers`` promises."""
    rounded = x.round()
    if problem.residual(rounded) > 0.0 or (dual := _dual(problem, rounded, iterations)) is None:
        return None
    proof, value = round_dual(dual), rounded.long()
    if objection(value, problem.y.long(), problem.a, problem.b, proof=proof):
        return None
    return Recovery(value, Status.RECOVERED, 0.0, 0.0, iterations, proof)


def _dual(problem: _Problem, x: Tensor, iterations: int) -> Tensor | None:
    """A strict dual for the signs of x; searched about as long as x was."""
    steps = max(iterations, 100)
    return find_dual(x, problem.a, problem.b, coarse=problem.coarse, fine=problem.fine, iterations=steps)


def _solve(
    problems: Sequence[_Problem], *, judge: _Judge, iterations: int, progress: Progress
) -> list[Recovery]:
    """Iterates all problems together until each has been judged or the iterations are used up."""
    if iterations < 1:
        raise UsageError(f"iterations are at least 1. Got {iterations}.")
    search = _DouglasRachford(problems)
    results: dict[int, Recovery] = {}
    next_attempt = [0.0] * len(problems)
    while search.iterations < iterations and len(results) < len(problems):
        search.run(_CHECK_EVERY)
        progress(search.iterations, iterations)
        for i, problem in enumerate(problems):
            if i in results:
                continue
            residual, gap = search.residuals[i], search.gaps[i]
            last = max(residual, gap) < _CONVERGED or search.iterations >= iterations
            accepted = None
            if residual < _PROMISING and (last or search.iterations >= next_attempt[i]):
                next_attempt[i] = _NEXT_ATTEMPT * search.iterations
                x = _refine(problem, search.iterate(i))
                accepted = None if x is None else judge(problem, x[0] + problem.known, search.iterations)
            if accepted is not None:
                results[i] = accepted
            elif last:
                x = search.iterate(i)[0] + problem.known
                residual = problem.residual(x)
                status = Status.L1_OPTIMAL if max(residual, gap) <= _CONVERGED else Status.NOT_RECOVERED
                results[i] = Recovery(x, status, residual, gap, search.iterations)
    return [results[i] for i in range(len(problems))]


class _DouglasRachford:
    """Over-relaxed Douglas-Rachford splitting for min |X|_1 subject to K X = Y, batched, in float32."""

    def __init__(self, problems: Sequence[_Problem]) -> None:
        pairs = [(problem.a, problem.b) for problem in problems]
        self._projector = Projector(pairs, dtype=torch.float32, device=problems[0].y.device)
        rest = torch.cat([problem.rest for problem in problems])
        self._scale = rest.abs().amax(dim=(1, 2), keepdim=True).clamp_min(_TINY)  # float32 has a small range
        self._y = (rest / self._scale).float()
        self._z = self._projector.lift(self._y)
        self._unit = _THRESHOLD * self._z.abs().mean(dim=(1, 2), keepdim=True).clamp_min(_TINY32)
        self._threshold = self._unit.expand_as(self._z)
        zero = [problem.zero for problem in problems if problem.zero is not None]
        if len(zero) == len(problems):
            self._threshold = torch.where(torch.cat(zero), math.inf, self._unit)
        self._x = self._z
        self.residuals = self.gaps = [math.inf] * len(problems)  # relative
        self.iterations = 0

    def run(self, steps: int) -> None:
        clipped = reflected = self._z
        for _ in range(steps):
            correction = self._projector.lift(self._y - self._projector.apply(self._z))
            reflected = torch.add(self._z, correction, alpha=2)
            clipped = reflected.clamp(-self._threshold, self._threshold)
            self._z.add_(correction.sub_(clipped), alpha=_RELAXATION)
        self.iterations += steps
        self._x = reflected - clipped
        self._measure(clipped / self._unit)

    def iterate(self, i: int) -> Tensor:
        """The sparse iterate of one problem, (1, p1, p2), float64."""
        return self._x[i : i + 1].double() * self._scale[i]

    def _measure(self, subgradient: Tensor) -> None:
        size = self._y.norm(dim=(1, 2)).clamp_min(_TINY32)
        residual = (self._projector.apply(self._x) - self._y).norm(dim=(1, 2)) / size
        dual = self._projector.whiten(self._projector.apply(subgradient))
        image = self._projector.transpose(dual).abs()
        bounded = torch.where(self._threshold < math.inf, image, 0.0).amax(dim=(1, 2)).clamp_min(1.0)
        primal = self._x.abs().sum(dim=(1, 2))
        gap = (primal - (self._y * dual).sum(dim=(1, 2)) / bounded).abs() / primal.clamp_min(_TINY32)
        self.residuals, self.gaps = residual.tolist(), gap.tolist()


def _refine(problem: _Problem, x: Tensor) -> Tensor | None:
    """The sparse matrix with zero residual near x, if a few rounds of least squares lead to one.

    Douglas-Rachford is slow on small entries; the residual on the support of the large ones points to them.
    """
    projector, y = problem.fine, problem.rest
    size = float(projector.lift(y).norm())
    x = _largest_entries(x, max(4, problem.a.gram_inverse[1] * problem.b.gram_inverse[1] // 4))
    support = x != 0
    previous = math.inf
    for _ in range(_ROUNDS):
        entries = support.flatten().nonzero()[:, 0]
        restricted = Restricted(projector, entries, problem.a, problem.b)
        values = x.flatten()[entries]
        whitened = projector.whiten(y - restricted.apply(values))
        step, whitened = restricted.solve(whitened, torch.zeros_like(values), reduction=1e-3)
        x = torch.zeros_like(x).flatten().index_copy_(0, entries, values + step).view_as(x)
        pull = projector.transpose(whitened).abs_()
        left, top = float(pull.norm()) / max(size, _TINY), float(x.abs().max())
        if left < 1e-12:
            return torch.where(x.abs() > 1e-10 * top, x, 0.0)
        if left > 0.8 * previous:
            return None
        previous = left
        pull.masked_fill_(support if problem.zero is None else support | problem.zero, 0.0)
        x = torch.where(x.abs() > 1e-2 * left * top, x, 0.0)
        wanted = _largest_entries(pull, len(entries) // 20 + 4)
        support = (x != 0) | (wanted > 0.4 * float(pull.max()))
    return None


def _largest_entries(x: Tensor, count: int) -> Tensor:
    """x with all but its ``count`` largest entries set to zero."""
    if int((x != 0).sum()) <= count:
        return x
    smallest = x.abs().flatten().topk(count).values[-1]
    return torch.where(x.abs() >= smallest, x, 0.0)


def _check_sketch(y: Tensor, a: Bipartite, b: Bipartite, dtype: torch.dtype) -> None:
    check_shape("the sketch", y, (a.m, b.m))
    if y.dtype != dtype:
        raise UsageError(
            f"the sketch is {y.dtype}; this recovery needs {dtype}, because it is exact. "
            "Sketch the matrix in float64, or in int64 and use recover_integers."
        )
    largest = float(y.double().abs().max())
    if not (largest == 0.0 or 1e-100 < largest < 1e100):
        raise UsageError(
            f"the largest number of the sketch is {largest}; it is 0 or between 1e-100 and 1e100, because "
            "squares of smaller or larger ones, or of those that are not finite, mean nothing."
        )
