"""Certain recovery, before a solver runs: the lemma against a linear program, and its teeth."""

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.optimize import linprog

from codebound.bits.stream import Stream
from codebound.run.errors import UsageError
from codebound_papers.guha23.sketch.operators import Bipartite, column_ensemble, sketch
from codebound_papers.guha23.sketch.proof import largest_load


def drawn(*, p, m, degree, seed):
    sides = (p, p) if isinstance(p, int) else p
    sizes = (m, m) if isinstance(m, int) else m
    stream = Stream(seed, "certainty")
    return tuple(
        column_ensemble(stream, m=small, p=p, degree=degree) for small, p in zip(sizes, sides, strict=True)
    )


def sparse_matrix(p, nonzeros, rng):
    x = np.zeros((p, p))
    x.flat[rng.permutation(p * p)[:nonzeros]] = rng.standard_normal(nonzeros)
    return torch.from_numpy(x)


def by_program(x, a, b):
    """What has the sketch of x and the smallest l1 norm, and no larger norm than x."""
    k = sparse.kron(sparse.csr_matrix(a.dense()), sparse.csr_matrix(b.dense()), format="csc")
    n = k.shape[1]
    y = sketch(x, a, b).numpy().ravel()
    found = linprog(np.ones(2 * n), A_eq=sparse.hstack([k, -k]), b_eq=y, method="highs-ds").x
    return torch.from_numpy((found[:n] - found[n:]).reshape(x.shape))


def by_definition(x, a, b):
    """The largest load, cell by cell."""
    left, right = a.dense(), b.dense()
    owners = {}
    for row, column in zip(*np.nonzero(x.numpy()), strict=True):
        for cell in np.argwhere(np.outer(left[:, row], right[:, column])):
            owners.setdefault(tuple(cell), []).append((row, column))
    private = {cell: found[0] for cell, found in owners.items() if len(found) == 1}
    counts = {
        entry: sum(1 for owner in private.values() if owner == entry)
        for entry in {each for found in owners.values() for each in found}
    }
    if min(counts.values()) == 0:
        return np.inf
    loads = []
    for row, column in np.argwhere(x.numpy() == 0):
        cells = map(tuple, np.argwhere(np.outer(left[:, row], right[:, column])))
        found = [private[cell] for cell in cells if cell in private]
        loads.append(abs(sum(np.sign(float(x[entry])) / counts[entry] for entry in found)))
    return max(loads)


@pytest.mark.parametrize("seed", range(6))
def test_the_load_is_what_the_lemma_says(seed):
    rng = np.random.default_rng(seed)
    a, b = drawn(p=12, m=8, degree=3, seed=seed)
    x = sparse_matrix(12, 1 + seed, rng)
    assert largest_load(x, a, b) == pytest.approx(by_definition(x, a, b))
    assert largest_load(x, a, b) <= largest_load((x != 0).double(), a, b) + 1e-12


def outcomes(load):
    """For draws around the threshold: whether the load is below 1, and whether the program finds x."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        a, b = drawn(p=20, m=12, degree=3, seed=seed)
        x = sparse_matrix(20, 2 + seed % 12, rng)
        found.append((load(x, a, b) < 1.0, bool((by_program(x, a, b) - x).abs().max() < 1e-7)))
    return found


def test_what_is_certain_is_what_the_linear_program_finds():
    found = outcomes(largest_load)
    assert all(is_found for is_certain, is_found in found if is_certain)
    assert sum(is_certain for is_certain, _ in found) >= 5
    assert sum(is_found for _, is_found in found) > sum(is_certain for is_certain, _ in found)  # not tight


def test_the_comparison_has_teeth():
    """Taking every cell as private would call certain what the program does not find."""

    def all_private(x, a, b):
        cells = sketch(x.sign(), a, b) / (a.degrees[0] * b.degrees[0])
        loads = (
            torch.from_numpy(a.dense().T.astype(float)) @ cells @ torch.from_numpy(b.dense().astype(float))
        )
        return float(loads.masked_fill(x != 0, 0.0).abs().max())

    assert any(is_certain and not is_found for is_certain, is_found in outcomes(all_private))


def test_a_mask_that_is_certain_is_so_for_all_values():
    a, b = drawn(p=20, m=14, degree=4, seed=0)
    mask = (sparse_matrix(20, 3, np.random.default_rng(1)) != 0).double()
    assert largest_load(mask, a, b) < 1.0
    for seed in range(5):
        x = mask * torch.from_numpy(np.random.default_rng(seed).standard_normal((20, 20)))
        assert bool((by_program(x, a, b) - x).abs().max() < 1e-7)


def test_a_side_that_is_not_shortened_hides_nothing():
    rng = np.random.default_rng(0)
    x = torch.zeros(6, 40, dtype=torch.float64)
    for row in range(6):
        x[row, rng.permutation(40)[: 1 + row % 2]] = 1.0
    b = column_ensemble(Stream(3, "right"), m=36, p=40, degree=4)
    unit = Bipartite(6, 6, np.arange(6), np.arange(7))
    mixed = next(
        a
        for seed in range(20)
        if (a := column_ensemble(Stream(seed, "left"), m=6, p=6, degree=3)).gram_inverse[1] == 6
    )
    assert largest_load(x, mixed, b) == largest_load(x, unit, b) < 1.0
    assert bool((by_program(x, mixed, b) - x).abs().max() < 1e-7)


def test_two_entries_with_the_same_cells_are_never_certain():
    a, b = drawn(p=20, m=12, degree=3, seed=0)
    assert largest_load(torch.ones(20, 20), a, b) == np.inf
    with pytest.raises(UsageError, match="ensembles need"):
        largest_load(torch.ones(3, 3), a, b)
