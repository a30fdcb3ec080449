"""Certain recovery, before a solver runs: a lemma about the places and signs of non-zeros.

Notation, statement and proof are in docs/howto/sketch.md. ``proof.py`` searches for the best dual matrix in
place of the one of the lemma, which is the same number in all private cells of an entry; it so accepts many
times as many non-zeros, but it looks at one matrix, when that is known.
"""

import math

import numpy as np
import torch
from torch import Tensor

from codebound.run.references import implements
from codebound_papers.guha23.sketch.operators import Bipartite, adjoint, cells_of, check_shape


@implements("G-Thm5.1:certain", kind="numerics")
def largest_load(x: Tensor, a: Bipartite, b: Bipartite) -> float:
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
    check_shape("the matrix", x, (a.p, b.p))
    left, right = _without_need(a), _without_need(b)
    entries = np.flatnonzero(x.cpu().numpy())
    cells = cells_of(entries, left, right)
    outside = left.m * right.m
    is_private = (np.bincount(cells.ravel(), minlength=outside + 1)[cells] == 1) & (cells < outside)
    private = is_private.sum(axis=1)
    if not private.all():
        return math.inf
    shares = np.sign(x.cpu().numpy().ravel()[entries]) / private
    dual = np.zeros(outside)
    dual[cells[is_private]] = np.repeat(shares, private)
    loads = adjoint(torch.from_numpy(dual.reshape(left.m, right.m)), left, right)
    return float(loads.masked_fill((x != 0).cpu(), 0.0).abs().max())


def _without_need(graph: Bipartite) -> Bipartite:
    """The graph, or the unit matrix in place of a square one that can be inverted."""
    if graph.m != graph.p or graph.gram_inverse[1] < graph.p:
        return graph
    return Bipartite(graph.p, graph.p, np.arange(graph.p), np.arange(graph.p + 1))
