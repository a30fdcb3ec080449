r"""When a sketch is certain to be read back, before any solver runs: a lemma about places and signs.

Notation.  A and B have t ones in every column; entry e = (k, l) of X is added to t^2 cells of Y, those in the
rows of column k of A and the columns of column l of B. S is the support. A cell of e in S is *private* if no
other entry of S has it; u(e) is the number of these. The load of an entry outside S is the sum of
sign(X_e) / u(e) over those of its cells that are private to some e.

Lemma.  If every u(e) is at least 1 and every load is strictly between -1 and 1, then every real matrix with
the signs of X is the only one of smallest l1 norm with its sketch. If that is so with all signs taken as 1,
then every real matrix with no entry outside S is.

Proof.  Let K X = A X B^T, K H = 0, H not 0; H_S is H on S, H_O off it. In a private cell of e, H_e is minus
the sum of H_o over the entries off S with that cell. Average that over the private cells of e, take sign(X_e)
times it, and add over S: <sign(X), H_S> = -sum_o load(o) H_o. So
|X + H|_1 - |X|_1 >= <sign(X), H_S> + |H_O|_1 >= (1 - max |load|) |H_O|_1, positive unless H_O = 0; but then H_S = 0 too. With all signs 1 the same averages
give |H_S|_1 <= sum_o load(o) |H_o| < |H_O|_1 unless H_O = 0, and |X + H|_1 - |X|_1 >= |H_O|_1 - |H_S|_1 for
every X in question.

Caps.   An entry shares cells with others of its row, of its column, and by chance: with at most j_c non-zeros
in a row, j_r in a column and N in all, a share of about (j_c / m2 + j_r / m1) t + N t^2 / (m1 m2) of them.
The lemma needs each part to be small: caps against m / t, and N against m^2 / t^2.

``proof.py`` searches for the best W in place of this one, and so accepts many times as many non-zeros; but it
looks at one X, when that is known.
"""

import math

import numpy as np
import torch
from torch import Tensor

from codebound.run.references import implements
from codebound_papers.guha23.sketch.operators import Bipartite, adjoint, cells_of, check_shape


@implements("G-Thm5.1:certain", kind="numerics")
def largest_load(x: Tensor, a: Bipartite, b: Bipartite) -> float:
    """The largest absolute load (the lemma): below 1 what has the signs of x comes back from its sketch.

    For a mask of zeros and ones it holds for all values there. Infinite where an entry has no private cell.
    A square A without null vectors hides nothing, whatever its ones: it counts as the unit matrix; so does B.

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
