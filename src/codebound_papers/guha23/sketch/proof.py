r"""Proof that an integer matrix is the only one of smallest l1 norm with its sketch, in integer arithmetic.

Lemma.  Let X be an integer matrix with support S and sketch ``K X = Y``, where ``K X = A X B^T``. Let
    (1)  the columns of K that belong to S be independent,
    (2)  W be a matrix with ``|(K^T W)_e - sign(X_e)| <= eta`` for e in S, ``|(K^T W)_e| <= 1 - slack`` else,
    (3)  ``2 eta |X|_1 < slack``.
Then every other integer matrix with the sketch Y has a larger l1 norm than X.

Proof.  Let X + H be an integer matrix with ``K H = 0`` and ``|X + H|_1 <= |X|_1``. Write H_S for H on S and
H_O for H off it. If H_O = 0 then H = 0 by (1). Otherwise ``|H_O|_1 >= 1``, because H is integer. From
``0 = <W, K H> = <K^T W, H>`` and (2), ``<sign(X), H_S> >= -eta |H_S|_1 - (1 - slack) |H_O|_1``. Hence
``0 >= |X + H|_1 - |X|_1 >= <sign(X), H_S> + |H_O|_1 >= slack |H_O|_1 - eta |H_S|_1``. As
``|H_S|_1 <= |X|_1 + |X + H|_1 <= 2 |X|_1``, the right side is at least ``slack - 2 eta |X|_1 > 0`` by (3).

As X is integer, W need not meet the signs exactly. W is a matrix of integers over 2^48, so (2) and (3) are
comparisons of integers; (1) is decided by ``is_injective``. A decoder that accepts only proven matrices
returns the same X on every machine, whatever solver found it. ``largest_load`` needs no solver, with one
number in all private cells of an entry as the dual: docs/howto/study.md has its lemma.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from codebound.run.references import implements
from codebound_papers.guha23.sketch import operators
from codebound_papers.guha23.sketch.peeling import is_injective

UNIT_BITS = 48  # the dual is an integer matrix in units of 2^-48
_SLACKS = {0.02: 400, 0.0005: 2000}  # distances from 1 that are tried, with the most steps for each
_CHECK_EVERY = 10
_STRICT = 1e-6  # least distance from 1 off the support that is taken for a strict inequality
_RELAXATION = 1.8
_EQUAL = 1e-13  # what is left of the distance to the signs


@dataclass(frozen=True, eq=False)
class Proof:
    """The dual matrix W of the lemma."""

    dual: Tensor  # W in units of 2^-48, (m1, m2), int64


def objection(x: Tensor, y: Tensor, a: operators.Bipartite, b: operators.Bipartite, *, proof: Proof) -> str:
    """Return the objection to the proof that x is the only minimiser; empty if it holds (the lemma).

    All matrices are int64: x is (p1, p2), y and the dual are (m1, m2).
    """
    operators.check_shape("the matrix", x, (a.p, b.p))
    operators.check_shape("the sketch", y, (a.m, b.m))
    operators.check_shape("the dual matrix", proof.dual, (a.m, b.m))
    if {x.dtype, y.dtype, proof.dual.dtype} != {torch.int64}:
        return "the matrices are not of 64-bit integers"
    cells = int(a.degrees.max()) * int(b.degrees.max())
    norm = sum(abs(value) for value in x[x != 0].tolist())  # without overflow
    if max(norm, _largest(y), _largest(proof.dual) * cells) >= 1 << 62:
        return "a number is too large for exact 64-bit sums"
    if not torch.equal(operators.sketch(x, a, b), y):
        return "the sketch of the matrix is another one"
    support = x != 0
    image = operators.adjoint(proof.dual, a, b)
    unit = 1 << UNIT_BITS
    eta = _largest((image - unit * x.sign())[support])
    slack = unit - _largest(image[~support])
    if 2 * eta * norm >= slack:
        return (
            f"the dual misses the signs by up to {eta} and stays {slack} below the unit elsewhere; "
            f"with l1 norm {norm} that proves nothing"
        )
    if not is_injective(np.flatnonzero(support.cpu().numpy()), a, b):
        return "the sketch was not shown to determine the values on the support"
    return ""


def round_dual(dual: Tensor) -> Proof:
    """A proof from a dual matrix in float64."""
    return Proof(torch.round(dual.double() * (1 << UNIT_BITS)).to(torch.int64))


def find_dual(
    x: Tensor,
    a: operators.Bipartite,
    b: operators.Bipartite,
    *,
    coarse: operators.Projector,
    fine: operators.Projector,
    iterations: int,
) -> Tensor | None:
    """A matrix W with ``K^T W = sign(X)`` on the support of X and ``|K^T W| < 1`` off it, if one is found.

    Douglas-Rachford between the row space of K and the box, in float32; the equality is then met by conjugate
    gradients in float64, which disturbs the inequalities little.
    """
    signs = x.sign()[None]
    outside = signs == 0
    entries = (~outside).flatten().nonzero()[:, 0]
    support = operators.Restricted(fine, entries, a, b)
    centre = signs.to(coarse.dtype)
    for slack, most in _SLACKS.items():
        steps = min(iterations, most)
        reach = (1.0 - slack) * outside.to(coarse.dtype)
        low, high = centre - reach, centre + reach
        point, next_try = centre, _CHECK_EVERY
        for step in range(1, steps + 1):
            image = coarse.project(point)
            due = step >= next_try and step % _CHECK_EVERY == 0
            if step == steps or (due and float((image * outside).abs().max()) <= 1.0 - slack):
                dual = fine.whiten(fine.apply(image.to(fine.dtype)))
                dual = support.solve(dual, signs.flatten()[entries], reduction=_EQUAL)[1]
                if float((fine.transpose(dual) * outside).abs().max()) < 1.0 - _STRICT:
                    return dual[0]
                next_try = 2 * step
            boxed = torch.add(-point, image, alpha=2).clamp_(low, high)
            point = torch.add(point, boxed.sub_(image), alpha=_RELAXATION)
    return None


def _largest(values: Tensor) -> int:
    return max(int(values.max()), -int(values.min())) if values.numel() else 0


@implements("G-Thm5.1:certain", kind="numerics")
def largest_load(x: Tensor, a: operators.Bipartite, b: operators.Bipartite) -> float:
    """The largest absolute load: below 1 every real matrix with the signs of x comes back from its sketch.

    A cell of the sketch is private to a non-zero if no other one is added to it; the load of a zero entry is
    the sum of sign / number of private cells over those of its cells that are private to a non-zero. Infinite
    where an entry has no private cell. A square A without null vectors counts as the unit matrix; so does B.

    Differs.    G-Thm5.1 states a probability with open constants; this is certain, and computed in a second.

    >>> from codebound.bits.stream import Stream
    >>> from codebound_papers.guha23.sketch.operators import column_ensemble
    >>> a, b = (column_ensemble(Stream(0, side), m=40, p=64, degree=4) for side in ("left", "right"))
    >>> largest_load(torch.diag(torch.ones(64)) * (torch.arange(64) < 8), a, b) < 1.0
    True
    """
    operators.check_shape("the matrix", x, (a.p, b.p))
    left, right = _without_need(a), _without_need(b)
    entries = np.flatnonzero(x.cpu().numpy())
    cells = operators.cells_of(entries, left, right)
    outside = left.m * right.m
    is_private = (np.bincount(cells.ravel(), minlength=outside + 1)[cells] == 1) & (cells < outside)
    private = is_private.sum(axis=1)
    if not private.all():
        return math.inf
    shares = np.sign(x.cpu().numpy().ravel()[entries]) / private
    dual = np.zeros(outside)
    dual[cells[is_private]] = np.repeat(shares, private)
    loads = operators.adjoint(torch.from_numpy(dual.reshape(left.m, right.m)), left, right)
    return float(loads.masked_fill((x != 0).cpu(), 0.0).abs().max())


def _without_need(graph: operators.Bipartite) -> operators.Bipartite:
    """The graph, or the unit matrix in place of a square one that can be inverted."""
    if graph.m != graph.p or graph.gram_inverse[1] < graph.p:
        return graph
    return operators.Bipartite(graph.p, graph.p, np.arange(graph.p), np.arange(graph.p + 1))
